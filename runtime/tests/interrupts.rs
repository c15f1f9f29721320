//! Fibers that are asked to stop by who has their handle.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use wo_runtime::error::{IoError, errno};
use wo_runtime::fiber::{self, JoinError, JoinHandle, Scope, oneshot};
use wo_runtime::plane::backend::Selection;
use wo_runtime::shard::{Builder, Topology, spawn_anywhere};

/// Miri has no kernel but the simulated one.
const EVERY_KERNEL: &[Selection] =
    if cfg!(miri) { &[Selection::Sim] } else { &[Selection::Uring, Selection::Epoll, Selection::Sim] };

fn on_every_kernel(test: impl Fn(Builder)) {
    for &selection in EVERY_KERNEL {
        eprintln!("on {selection}");
        test(Builder::new().io(selection));
    }
}

async fn forever() -> Option<i32> {
    fiber::sleep(Duration::MAX).await.err().map(|error| error.errno())
}

#[test]
fn what_a_fiber_waits_for_is_cancelled_and_so_is_all_after_it() {
    on_every_kernel(|builder| {
        let told = builder.run(|| async {
            let sleeper = fiber::spawn(|| async {
                let why = fiber::sleep(Duration::MAX).await.unwrap_err().to_string();
                (why, fiber::yield_now().await.is_err(), forever().await, fiber::checkpoint().is_err())
            });
            let other = fiber::spawn(|| async { fiber::sleep(Duration::from_millis(5)).await.is_ok() });
            fiber::yield_now().await.unwrap();
            sleeper.interrupt();
            sleeper.interrupt();
            let told = sleeper.join().await.unwrap();
            assert!(fiber::checkpoint().is_ok(), "who asks goes on");
            assert!(other.join().await.unwrap(), "and so does everybody else");
            told
        });
        let (why, yielded, slept, checked) = told.unwrap();
        assert!(why.contains("cancelled"), "{why}");
        assert_eq!((yielded, slept, checked), (true, Some(errno::ECANCELED), true));
    });
}

#[test]
fn cancel_waits_until_the_fiber_has_cleaned_up_and_gives_what_it_returned() {
    on_every_kernel(|builder| {
        let cleaned = builder.run(|| async {
            let cleaned = Rc::new(Cell::new(false));
            let cleans = Rc::clone(&cleaned);
            let fiber = fiber::spawn(move || async move {
                assert!(fiber::sleep(Duration::MAX).await.is_err());
                fiber::protect(async || fiber::sleep(Duration::from_millis(2)).await).await.unwrap();
                cleans.set(true);
                "as it likes"
            });
            fiber::yield_now().await.unwrap();
            assert_eq!(fiber.cancel().await.unwrap(), "as it likes");
            cleaned.get()
        });
        assert!(cleaned.unwrap());
    });
}

#[test]
fn a_fiber_that_has_not_begun_never_does() {
    on_every_kernel(|builder| {
        builder
            .run(|| async {
                let (held, began) = (Rc::new(()), Rc::new(Cell::new(false)));
                let (holds, begins) = (Rc::clone(&held), Rc::clone(&began));
                let fiber = fiber::spawn(move || async move {
                    begins.set(true);
                    drop(holds);
                });
                assert!(matches!(fiber.cancel().await, Err(JoinError::Cancelled)));
                assert_eq!((Rc::strong_count(&held), began.get()), (1, false));
            })
            .unwrap();
    });
}

#[test]
fn after_its_end_a_fiber_has_its_value_all_the_same() {
    on_every_kernel(|builder| {
        let value = builder.run(|| async {
            let fiber = fiber::spawn(|| async { 7 });
            while !fiber.is_finished() {
                fiber::yield_now().await.unwrap();
            }
            fiber.interrupt();
            fiber.cancel().await.unwrap()
        });
        assert_eq!(value.unwrap(), 7);
    });
}

#[test]
fn the_scopes_a_fiber_has_opened_are_cancelled_but_no_protected_section() {
    on_every_kernel(|builder| {
        let (mut children, sheltered) = builder
            .run(|| async {
                let sheltered = Rc::new(Cell::new(false));
                let shelter = Rc::clone(&sheltered);
                let fiber = fiber::spawn(move || async move {
                    let children = Rc::new(RefCell::new(Vec::new()));
                    let told = Rc::clone(&children);
                    let outcome = fiber::scope(async move |s: Scope<IoError>| {
                        for child in 0..3 {
                            let told = Rc::clone(&told);
                            s.spawn(move || async move {
                                let slept = fiber::sleep(Duration::MAX).await;
                                told.borrow_mut().push((child, slept.is_err()));
                                slept
                            });
                        }
                        fiber::protect(async || {
                            fiber::sleep(Duration::from_millis(2)).await.unwrap();
                            shelter.set(true);
                        })
                        .await;
                        Ok(())
                    })
                    .await;
                    outcome.expect("a cancel is no failure");
                    children.take()
                });
                fiber::yield_now().await.unwrap();
                fiber::yield_now().await.unwrap();
                (fiber.cancel().await.unwrap(), sheltered.get())
            })
            .unwrap();
        children.sort_unstable();
        assert_eq!(children, [(0, true), (1, true), (2, true)]);
        assert!(sheltered);
    });
}

#[test]
fn children_hear_of_it_also_when_their_scopes_body_has_returned() {
    on_every_kernel(|builder| {
        let slept = builder.run(|| async {
            let fiber = fiber::spawn(|| async {
                let (sender, receiver) = oneshot::oneshot();
                fiber::scope(async move |s: Scope<IoError>| {
                    s.spawn(move || async move {
                        let _ = sender.send(forever().await);
                        Ok(())
                    });
                })
                .await
                .expect("a cancel is no failure");
                fiber::protect(async || receiver.recv().await).await.unwrap()
            });
            for _ in 0..4 {
                fiber::yield_now().await.unwrap();
            }
            fiber.cancel().await.unwrap()
        });
        assert_eq!(slept.unwrap(), Some(errno::ECANCELED));
    });
}

#[test]
fn a_fiber_may_interrupt_itself() {
    on_every_kernel(|builder| {
        let slept = builder.run(|| async {
            let own: Rc<RefCell<Option<JoinHandle<()>>>> = Rc::default();
            let (mine, (tell, told)) = (Rc::clone(&own), oneshot::oneshot());
            let fiber = fiber::spawn(move || async move {
                mine.borrow().as_ref().expect("it was put here").interrupt();
                let _ = tell.send(forever().await);
            });
            *own.borrow_mut() = Some(fiber);
            told.recv().await.unwrap()
        });
        assert_eq!(slept.unwrap(), Some(errno::ECANCELED));
    });
}

#[test]
fn a_panic_of_an_interrupted_fiber_leaves_nobody_else_cancelled() {
    on_every_kernel(|builder| {
        builder
            .run(|| async {
                let fiber = fiber::spawn(|| async {
                    assert!(fiber::sleep(Duration::MAX).await.is_ok(), "it was interrupted");
                });
                fiber::yield_now().await.unwrap();
                assert!(fiber.cancel().await.unwrap_err().is_panic());
                fiber::checkpoint().unwrap();
                fiber::spawn(|| async { fiber::yield_now().await }).join().await.unwrap().unwrap();
            })
            .unwrap();
    });
}

#[test]
fn fibers_stop_in_the_order_they_were_asked() {
    on_every_kernel(|builder| {
        let order = builder.run(|| async {
            let order = Rc::new(RefCell::new(Vec::new()));
            let fibers: Vec<_> = (0..5)
                .map(|number| {
                    let order = Rc::clone(&order);
                    fiber::spawn(move || async move {
                        let _ = fiber::sleep(Duration::MAX).await;
                        order.borrow_mut().push(number);
                    })
                })
                .collect();
            fiber::yield_now().await.unwrap();
            for number in [3, 0, 4, 1, 2] {
                fibers[number].interrupt();
            }
            for fiber in fibers {
                fiber.join().await.unwrap();
            }
            order.take()
        });
        assert_eq!(order.unwrap(), [3, 0, 4, 1, 2]);
    });
}

#[test]
#[cfg_attr(miri, ignore = "a real kernel")]
fn a_fiber_is_interrupted_from_a_thread_that_is_no_shard() {
    for selection in [Selection::Uring, Selection::Epoll] {
        let told = Builder::new().io(selection).run(|| async {
            let (sender, receiver) = oneshot::oneshot();
            let fiber = fiber::spawn(move || async move {
                let _ = sender.send(());
                forever().await
            });
            receiver.recv().await.unwrap();
            let asks = thread::spawn(move || {
                fiber.interrupt();
                fiber
            });
            // The thread may be done before this shard sleeps, or while it does.
            let fiber = fiber::spawn(move || async move {
                while !asks.is_finished() {
                    fiber::sleep(Duration::from_micros(100)).await.unwrap();
                }
                asks.join().expect("it does not panic").join().await.unwrap()
            });
            fiber.join().await.unwrap()
        });
        assert_eq!(told.unwrap(), Some(errno::ECANCELED), "on {selection}");
    }
}

#[test]
fn a_fiber_of_another_shard_is_interrupted() {
    on_every_kernel(|builder| {
        let told = builder.shards(2).run(|| async {
            let mut told = Vec::new();
            for _ in 0..4 {
                let (sender, receiver) = oneshot::oneshot();
                let fiber = spawn_anywhere(move || async move {
                    let _ = sender.send(());
                    forever().await
                });
                receiver.recv().await.unwrap();
                told.push(fiber.cancel().await.unwrap());
            }
            told
        });
        assert_eq!(told.unwrap(), [Some(errno::ECANCELED); 4]);
    });
}

#[test]
fn a_fiber_on_its_way_to_another_shard_hears_of_it_too() {
    on_every_kernel(|builder| {
        builder
            .shards(2)
            .run(|| async {
                for _ in 0..100 {
                    // Whether it begins is a race; that it ends is none.
                    match spawn_anywhere(forever_on).cancel().await {
                        Ok(told) => assert_eq!(told, Some(errno::ECANCELED)),
                        Err(error) => assert!(matches!(error, JoinError::Cancelled), "{error}"),
                    }
                }
            })
            .unwrap();
    });
}

async fn forever_on() -> Option<i32> {
    forever().await
}

#[test]
fn a_fiber_left_to_whoever_comes_first_is_interrupted_wherever_it_is() {
    on_every_kernel(|builder| {
        builder
            .shards(2)
            .topology(Topology::WorkStealing)
            .run(|| async {
                for _ in 0..100 {
                    match fiber::spawn_stealable(forever_on).cancel().await {
                        Ok(told) => assert_eq!(told, Some(errno::ECANCELED)),
                        Err(error) => assert!(matches!(error, JoinError::Cancelled), "{error}"),
                    }
                }
            })
            .unwrap();
    });
}

/// Says where it was dropped, and is never ready.
struct Silent(Arc<Mutex<Option<ThreadId>>>);

impl Future for Silent {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = Some(thread::current().id());
    }
}

#[test]
fn a_foreign_future_is_waited_for_until_the_deadline_and_then_dropped_at_home() {
    on_every_kernel(|builder| {
        builder
            .shards(2)
            .run(|| async {
                for _ in 0..4 {
                    let waits = spawn_anywhere(|| async {
                        let (dropped, told) = (Arc::default(), Rc::<Cell<_>>::default());
                        let (silent, tells) = (Silent(Arc::clone(&dropped)), Rc::clone(&told));
                        let outcome = fiber::with_deadline(Duration::from_millis(2), async move || {
                            tells.set(fiber::wait_unless_cancelled(silent).await.err());
                            assert_eq!(dropped.lock().unwrap().take(), Some(thread::current().id()));
                            Ok::<_, IoError>(())
                        });
                        assert!(outcome.await.unwrap_err().is_timeout());
                        told.take().expect("it was refused")
                    });
                    let refused = waits.join().await.unwrap();
                    assert_eq!(refused.errno(), errno::ECANCELED);
                    assert!(refused.to_string().contains("out of time"), "{refused}");
                }
            })
            .unwrap();
    });
}

#[test]
fn a_foreign_future_that_loses_a_race_is_dropped() {
    on_every_kernel(|builder| {
        builder
            .run(|| async {
                let dropped = Arc::default();
                let silent = Silent(Arc::clone(&dropped));
                let won = fiber::race((
                    async move || fiber::wait_unless_cancelled(silent).await.map(|()| 1),
                    async || fiber::sleep(Duration::from_millis(1)).await.map(|()| 2),
                ));
                won.await.unwrap();
                assert!(dropped.lock().unwrap().is_some());
            })
            .unwrap();
    });
}

#[test]
fn what_a_foreign_future_has_ready_at_the_cancel_is_not_lost() {
    on_every_kernel(|builder| {
        builder
            .run(|| async {
                let ready: Rc<RefCell<(Option<u8>, Option<Waker>)>> = Rc::default();
                let looks = Rc::clone(&ready);
                let waits = fiber::spawn(move || async move {
                    let foreign = poll_fn(|cx| {
                        let mut looks = looks.borrow_mut();
                        looks.1 = Some(cx.waker().clone());
                        looks.0.take().map_or(Poll::Pending, Poll::Ready)
                    });
                    let first = fiber::wait_unless_cancelled(foreign).await;
                    // This fiber is cancelled by now: what is ready is taken, and nothing is waited for.
                    let second = fiber::wait_unless_cancelled(std::future::ready(8)).await;
                    let third = fiber::wait_unless_cancelled(std::future::pending::<()>()).await;
                    (first, second, third.map_err(|error| error.errno()))
                });
                fiber::yield_now().await.unwrap();
                // The wake and the cancel come in one turn.
                ready.borrow_mut().0 = Some(7);
                let waker = ready.borrow_mut().1.take().expect("it was polled");
                waits.interrupt();
                waker.wake();
                assert_eq!(waits.join().await.unwrap(), (Ok(7), Ok(8), Err(errno::ECANCELED)));
            })
            .unwrap();
    });
}

#[test]
#[cfg_attr(miri, ignore = "a real kernel")]
fn a_foreign_future_is_woken_from_a_thread_that_is_no_shard() {
    for selection in [Selection::Uring, Selection::Epoll] {
        let told = Builder::new().io(selection).run(|| async {
            let (sender, receiver) = oneshot::oneshot();
            let sends = thread::spawn(move || sender.send("hello"));
            let told = fiber::wait_unless_cancelled(receiver.recv()).await.unwrap().unwrap();
            sends.join().expect("it does not panic").unwrap();
            told
        });
        assert_eq!(told.unwrap(), "hello", "on {selection}");
    }
}
