//! Fibers on one shard, as a user sees them, on every kernel.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use wo_runtime::actor;
use wo_runtime::error::{IoError, errno};
use wo_runtime::fiber::{self, JoinError, Notify, oneshot};
use wo_runtime::os::io;
use wo_runtime::plane::backend::Selection;
use wo_runtime::shard::{self, Builder, RunError};

/// Miri has no kernel but the simulated one.
const EVERY_KERNEL: &[Selection] =
    if cfg!(miri) { &[Selection::Sim] } else { &[Selection::Uring, Selection::Epoll, Selection::Sim] };

fn on_every_kernel(test: impl Fn(Builder)) {
    for &selection in EVERY_KERNEL {
        eprintln!("on {selection}");
        test(Builder::new().io(selection));
    }
}

#[test]
fn main_returns_its_value() {
    on_every_kernel(|builder| assert_eq!(builder.run(|| async { 7 }).unwrap(), 7));
}

#[test]
fn joining_gives_the_fibers_value() {
    on_every_kernel(|builder| {
        let sum = builder.run(|| async {
            let handles: Vec<_> = (0..100).map(|n| fiber::spawn(move || async move { n })).collect();
            let mut sum = 0;
            for handle in handles {
                sum += handle.join().await.unwrap();
            }
            sum
        });
        assert_eq!(sum.unwrap(), 4950);
    });
}

#[test]
fn a_budget_of_one_is_exact_round_robin() {
    on_every_kernel(|builder| {
        let log = builder.reductions(1).run(|| async {
            let log = Rc::new(RefCell::new(Vec::new()));
            let handles: Vec<_> = (0..3)
                .map(|fiber| {
                    let log = Rc::clone(&log);
                    fiber::spawn(move || async move {
                        for turn in 0..4 {
                            if fiber::spend() {
                                fiber::yield_turn().await;
                            }
                            log.borrow_mut().push((turn, fiber));
                        }
                    })
                })
                .collect();
            for handle in handles {
                handle.join().await.unwrap();
            }
            log.take()
        });
        let expected: Vec<(i32, i32)> = (0..4).flat_map(|turn| (0..3).map(move |fiber| (turn, fiber))).collect();
        assert_eq!(log.unwrap(), expected);
    });
}

#[test]
fn a_panic_ends_its_fiber_alone_and_reaches_the_joiner() {
    on_every_kernel(|builder| {
        let outcome = builder.run(|| async {
            let doomed = fiber::spawn_named("doomed", || async { panic!("as planned") });
            let sibling = fiber::spawn(|| async { 1 });
            (doomed.join().await.map(|(): ()| ()), sibling.join().await.unwrap())
        });
        let (doomed, sibling) = outcome.unwrap();
        assert!(matches!(&doomed, Err(JoinError::Panicked(_))), "{doomed:?}");
        assert_eq!(*doomed.unwrap_err().into_panic().unwrap().downcast::<&str>().unwrap(), "as planned");
        assert_eq!(sibling, 1);
    });
}

#[test]
fn when_main_returns_every_other_fiber_is_unwound() {
    struct Witness(Rc<Cell<u32>>);
    impl Drop for Witness {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    on_every_kernel(|builder| {
        let dropped = Rc::new(Cell::new(0));
        let witness = Rc::clone(&dropped);
        builder
            .run(move || async move {
                let parked = Witness(Rc::clone(&witness));
                let _ = fiber::spawn(move || async move {
                    let _parked = parked;
                    fiber::sleep(Duration::MAX).await
                });
                let busy = Witness(Rc::clone(&witness));
                let _ = fiber::spawn(move || async move {
                    let _busy = busy;
                    loop {
                        fiber::yield_turn().await;
                    }
                });
                for _ in 0..3 {
                    fiber::yield_now().await.unwrap();
                }
                let new = Witness(Rc::clone(&witness));
                let _ = fiber::spawn(move || async move { drop(new) });
            })
            .unwrap();
        assert_eq!(dropped.get(), 3);
    });
}

#[test]
fn a_panicking_destructor_at_the_end_does_not_stop_the_others() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in a destructor");
        }
    }
    struct Witness(Rc<Cell<bool>>);
    impl Drop for Witness {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    on_every_kernel(|builder| {
        let dropped = Rc::new(Cell::new(false));
        let witness = Witness(Rc::clone(&dropped));
        let value = builder.run(move || async move {
            let _ = fiber::spawn(|| async {
                let _bomb = Bomb;
                fiber::sleep(Duration::MAX).await
            });
            let _ = fiber::spawn(move || async move {
                let _witness = witness;
                fiber::sleep(Duration::MAX).await
            });
            fiber::yield_now().await.unwrap();
            3
        });
        assert_eq!(value.unwrap(), 3);
        assert!(dropped.get());
    });
}

#[test]
fn sleepers_wake_in_the_order_of_their_deadlines() {
    on_every_kernel(|builder| {
        let order = builder.run(|| async {
            let order = Rc::new(RefCell::new(Vec::new()));
            let start = fiber::now();
            let handles: Vec<_> = [3u64, 1, 2, 1]
                .into_iter()
                .enumerate()
                .map(|(place, millis)| {
                    let order = Rc::clone(&order);
                    fiber::spawn(move || async move {
                        fiber::sleep_until(start + Duration::from_millis(millis * 5)).await.unwrap();
                        order.borrow_mut().push(place);
                    })
                })
                .collect();
            for handle in handles {
                handle.join().await.unwrap();
            }
            assert!(fiber::now() - start >= Duration::from_millis(15));
            order.take()
        });
        assert_eq!(order.unwrap(), [1, 3, 2, 0]);
    });
}

#[test]
#[cfg_attr(miri, ignore = "a real kernel")]
fn a_oneshot_brings_its_value_from_another_thread() {
    for selection in [Selection::Uring, Selection::Epoll] {
        let value = Builder::new().io(selection).run(|| async {
            let (sender, receiver) = oneshot::oneshot();
            let thread = std::thread::spawn(move || sender.send(5).unwrap());
            let value = receiver.recv().await;
            thread.join().unwrap();
            value
        });
        assert_eq!(value.unwrap().unwrap(), 5);
    }
}

#[test]
fn a_oneshot_without_sender_or_receiver_says_so() {
    on_every_kernel(|builder| {
        builder
            .run(|| async {
                let (sender, receiver) = oneshot::oneshot::<u8>();
                drop(sender);
                assert_eq!(receiver.recv().await.unwrap_err().errno(), errno::EPIPE);
                let (sender, receiver) = oneshot::oneshot();
                drop(receiver);
                assert_eq!(sender.send(1), Err(1));
            })
            .unwrap();
    });
}

#[test]
fn a_notification_that_met_a_fiber_which_left_goes_to_the_next() {
    on_every_kernel(|builder| {
        builder
            .run(|| async {
                let notify = Rc::new(Notify::new());
                let mut first = Box::pin(notify.notified());
                let poll = std::future::poll_fn(|cx| std::task::Poll::Ready(first.as_mut().poll(cx)));
                assert!(poll.await.is_pending());
                let second = Rc::clone(&notify);
                let second = fiber::spawn(move || async move { second.notified().await });
                fiber::yield_now().await.unwrap();
                notify.notify_one();
                drop(first);
                second.join().await.unwrap().unwrap();
            })
            .unwrap();
    });
}

#[test]
fn stop_makes_every_verb_answer_cancelled_and_main_may_still_return() {
    on_every_kernel(|builder| {
        let (child, own) = builder
            .run(|| async {
                let child = fiber::spawn(|| async { fiber::sleep(Duration::MAX).await });
                fiber::yield_now().await.unwrap();
                wo_runtime::shard::stop();
                let own: Result<(), IoError> = fiber::sleep(Duration::MAX).await;
                fiber::yield_turn().await;
                (child.is_finished(), own)
            })
            .unwrap();
        assert!(own.unwrap_err().is_cancelled());
        assert!(child);
    });
}

#[test]
#[cfg_attr(miri, ignore = "ten thousand ticks of a busy loop")]
fn a_main_that_heeds_no_stop_is_dropped_after_the_grace() {
    on_every_kernel(|builder| {
        let ended = builder.grace(Duration::from_millis(20)).run(|| async {
            wo_runtime::shard::stop();
            loop {
                let _ = fiber::sleep(Duration::from_secs(1)).await;
                fiber::yield_turn().await;
            }
        });
        assert!(matches!(ended, Err::<(), _>(RunError::Stopped { signal: None })), "{ended:?}");
    });
}

#[test]
fn a_shard_inside_a_shard_is_refused() {
    on_every_kernel(|builder| {
        let inner = builder.run(|| async { Builder::new().run(|| async {}) }).unwrap();
        assert!(matches!(&inner, Err(RunError::Setup(error)) if error.errno() == errno::EBUSY), "{inner:?}");
    });
}

#[test]
fn verbs_outside_a_shard_answer_an_error() {
    let mut sleep = Box::pin(fiber::sleep(Duration::from_secs(1)));
    let polled = sleep.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(matches!(polled, std::task::Poll::Ready(Err(error)) if error.errno() == errno::ENXIO));
}

/// The words of its panic, and the line of this file that they are said to be about.
fn said_by(mistake: impl FnOnce()) -> (String, u32) {
    thread_local! {
        static LINE: Cell<Option<u32>> = const { Cell::new(None) };
    }
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            LINE.set(panic.location().filter(|at| at.file().ends_with("fibers.rs")).map(std::panic::Location::line));
            before(panic);
        }));
    });
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(mistake));
    let payload = ended.expect_err("it is a mistake");
    let words = payload.downcast_ref::<&str>().map(ToString::to_string);
    let words = words.or_else(|| payload.downcast_ref::<String>().cloned());
    (words.expect("it has words"), LINE.get().expect("it names a line of this file"))
}

/// One that went unnoticed would be waited for in vain, or never missed. The panic names the line that is wrong.
#[test]
fn what_is_spawned_outside_a_program_says_so_where_it_was() {
    struct Sink;
    impl actor::Actor for Sink {
        type Message = u32;
        async fn receive(&mut self, _: u32) {}
    }
    let options = actor::Options::new;
    let mistakes: [(u32, Box<dyn FnOnce()>); 9] = [
        (line!(), Box::new(|| drop(fiber::spawn(|| async {})))),
        (line!(), Box::new(|| drop(fiber::spawn_named("name", || async {})))),
        (line!(), Box::new(|| drop(fiber::spawn_pinned(|| async {})))),
        (line!(), Box::new(|| drop(fiber::spawn_stealable(|| async {})))),
        (line!(), Box::new(|| drop(shard::spawn_anywhere(|| async {})))),
        (line!(), Box::new(|| drop(actor::spawn(|| async {})))),
        (line!(), Box::new(|| assert!(actor::spawn(Sink) != actor::spawn(Sink)))),
        (line!(), Box::new(|| assert!(actor::spawn_with(|| Sink) != actor::spawn_with(|| Sink)))),
        (line!(), Box::new(move || assert!(options().spawn(Sink) != options().spawn(Sink)))),
    ];
    for (line, mistake) in mistakes {
        let (words, at) = said_by(mistake);
        assert!(words.contains("inside a program") && words.contains("#[wo::main]"), "line {line}: {words:?}");
        assert_eq!(at, line, "{words}");
    }
}

/// A destructor that runs while another panic unwinds must not end the process with a second.
#[test]
fn a_spawn_outside_a_program_while_a_panic_unwinds_is_dropped() {
    struct Spawns;
    impl Drop for Spawns {
        fn drop(&mut self) {
            assert!(fiber::spawn(|| async {}).is_finished());
        }
    }
    let (words, _) = said_by(|| {
        let _spawns = Spawns;
        panic!("the first");
    });
    assert_eq!(words, "the first");
}

#[test]
fn a_verb_that_finds_every_slot_taken_says_so() {
    on_every_kernel(|builder| {
        builder
            .op_slots_max(2)
            .run(|| async {
                let pipes: Vec<_> = (0..3).map(|_| io::pipe().unwrap()).collect();
                let read = |place: usize| {
                    let reader = pipes[place].0.clone();
                    fiber::spawn(move || async move { reader.read(vec![0; 1]).await.0 })
                };
                let (first, second) = (read(0), read(1));
                fiber::yield_now().await.unwrap();
                assert_eq!(read(2).join().await.unwrap().unwrap_err().errno(), errno::ENOBUFS);
                assert!(!first.is_finished() && !second.is_finished(), "those that have one wait on");
                fiber::sleep(Duration::from_millis(1)).await.expect("a timer takes none");
                first.interrupt();
                assert!(first.join().await.unwrap().unwrap_err().is_cancelled());
                let (written, _) = pipes[1].1.write(b"x".to_vec()).await;
                assert_eq!(written.expect("there is one again"), 1);
                assert_eq!(second.join().await.unwrap().unwrap(), 1);
            })
            .unwrap();
    });
}

#[test]
fn a_fiber_that_nothing_will_ever_wake_lives_to_the_end_of_the_program() {
    on_every_kernel(|builder| {
        let dropped = Rc::new(Cell::new(0));
        let held = Rc::clone(&dropped);
        builder
            .run(|| async move {
                for _ in 0..3 {
                    let counted = CountsDrop(Rc::clone(&held));
                    drop(fiber::spawn(|| async move {
                        let _counted = counted;
                        std::future::pending::<()>().await;
                    }));
                }
                fiber::sleep(Duration::from_millis(1)).await.unwrap();
                assert_eq!(held.get(), 0, "they wait, they have not ended");
            })
            .unwrap();
        assert_eq!(dropped.get(), 3, "each is unwound with the program");
    });
}

struct CountsDrop(Rc<Cell<u32>>);

impl Drop for CountsDrop {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}
