//! The loop by itself, with callbacks and without a fiber: what a host relies on that embeds it. Every test on every
//! kernel.

#![cfg(target_os = "linux")]

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use wo_runtime::error::{Stage, errno};
use wo_runtime::plane::backend::poll::PollBackend;
use wo_runtime::plane::backend::sim::SimBackend;
use wo_runtime::plane::backend::uring::UringBackend;
use wo_runtime::plane::backend::{Backend, BackendConfig, BackendKind, SocketKind};
use wo_runtime::plane::{EventLoop, Instant, LoopConfig, RunStatus, ops};

/// Nothing here takes this long; it catches a hang.
const PATIENCE: Duration = Duration::from_secs(20);

macro_rules! on_every_kernel {
    ($($test:ident)+) => {
        mod uring {
            $(#[test]
            fn $test() {
                super::$test::<super::UringBackend>();
            })+
        }
        mod epoll {
            $(#[test]
            fn $test() {
                super::$test::<super::PollBackend>();
            })+
        }
        mod sim {
            $(#[test]
            fn $test() {
                super::$test::<super::SimBackend>();
            })+
        }
    };
}

on_every_kernel! {
    what_is_submitted_is_told_later_and_then_the_loop_is_drained
    a_callback_submits_more_and_is_never_called_within_another
    a_callback_that_runs_the_loop_is_refused
    a_callback_that_panics_keeps_nothing_from_the_others
    a_million_timers_are_none_of_the_kernels_business
    timers_fire_in_order_and_what_was_taken_back_does_not
    a_timer_that_never_comes_is_waited_for
    an_iteration_says_what_ended_it
    a_wake_is_no_work
    a_stop_ends_the_run_whether_it_comes_before_or_during
    what_is_cancelled_gives_its_buffer_back
    a_stale_token_names_nobody
    a_detached_op_tells_nobody_and_lets_go_at_its_end
    slots_are_bounded_when_they_are_told_to_be
    a_full_queue_is_flushed_without_being_asked
}

fn open<B: Backend>() -> EventLoop<B> {
    EventLoop::new(&LoopConfig::default()).expect("the kernel is here")
}

/// Counts how often it was called.
#[derive(Clone, Default)]
struct Count(Rc<Cell<u32>>);

impl Count {
    fn up(&self) {
        self.0.set(self.0.get() + 1);
    }

    fn get(&self) -> u32 {
        self.0.get()
    }

    /// Who holds it, this one among them.
    fn holders(&self) -> usize {
        Rc::strong_count(&self.0)
    }
}

/// Iterates until `done`.
fn until<B: Backend>(event_loop: &mut EventLoop<B>, done: impl Fn() -> bool) {
    let begun = event_loop.backend().now();
    while !done() {
        event_loop.run_once(Duration::from_secs(1)).expect("run_once");
        assert!(event_loop.backend().now() - begun < PATIENCE, "it hangs");
    }
}

fn what_is_submitted_is_told_later_and_then_the_loop_is_drained<B: Backend>() {
    let mut event_loop = open::<B>();
    assert_eq!(event_loop.run_once(PATIENCE).expect("run_once"), RunStatus::Drained);
    let told = Count::default();
    for _ in 0..3 {
        let told = told.clone();
        event_loop.submit(ops::Nop, move |_, result| result.map(|()| told.up()).expect("nop")).expect("submit");
    }
    assert_eq!((told.get(), event_loop.in_flight(), event_loop.is_drained()), (0, 3, false));
    assert_eq!(event_loop.run().expect("run"), RunStatus::Drained);
    assert_eq!((told.get(), event_loop.in_flight(), event_loop.is_drained()), (3, 0, true));
    assert_eq!(told.holders(), 1, "callbacks are dropped once they were called");
    assert_eq!(event_loop.stale_completions(), 0);
    assert!(event_loop.close().is_ok());
}

fn a_callback_submits_more_and_is_never_called_within_another<B: Backend>() {
    fn link<B: Backend>(event_loop: &mut EventLoop<B>, left: u32, within: &Rc<Cell<bool>>, told: &Count) {
        assert!(!within.replace(true), "called within another");
        told.up();
        if left > 0 {
            let again = (Rc::clone(within), told.clone());
            event_loop.submit(ops::Nop, move |event_loop, _| link(event_loop, left - 1, &again.0, &again.1)).unwrap();
            let timer = (Rc::clone(within), told.clone());
            event_loop.submit_after(Duration::ZERO, move |_| {
                assert!(!timer.0.get(), "called within another");
                timer.1.up();
            });
        }
        within.set(false);
    }
    let mut event_loop = open::<B>();
    let (within, told) = (Rc::new(Cell::new(false)), Count::default());
    link(&mut event_loop, 100, &within, &told);
    assert_eq!(told.get(), 1);
    assert_eq!(event_loop.run().expect("run"), RunStatus::Drained);
    assert_eq!(told.get(), 201);
}

fn a_callback_that_runs_the_loop_is_refused<B: Backend>() {
    let mut event_loop = open::<B>();
    event_loop.submit(ops::Nop, |event_loop, _| drop(event_loop.run_once(Duration::ZERO))).expect("submit");
    let refused = catch_unwind(AssertUnwindSafe(|| event_loop.run())).expect_err("it must not run within itself");
    let words = refused.downcast_ref::<&str>().expect("it has words");
    assert!(words.contains("callback may submit"), "{words}");
    assert_eq!(event_loop.run().expect("run"), RunStatus::Drained, "it goes on afterwards");
}

fn a_callback_that_panics_keeps_nothing_from_the_others<B: Backend>() {
    let mut event_loop = open::<B>();
    let told = Count::default();
    for number in 0..10 {
        let told = told.clone();
        event_loop
            .submit(ops::Nop, move |_, _| {
                assert_ne!(number, 3, "as planned");
                told.up();
            })
            .expect("submit");
    }
    assert!(catch_unwind(AssertUnwindSafe(|| event_loop.run())).is_err());
    assert_eq!(event_loop.run().expect("run"), RunStatus::Drained);
    assert_eq!((told.get(), told.holders()), (9, 1));
}

fn a_million_timers_are_none_of_the_kernels_business<B: Backend>() {
    const TIMERS: u64 = 1_000_000;
    let mut event_loop = open::<B>();
    let space = event_loop.sq_space();
    let (fired, last) = (Count::default(), Rc::new(Cell::new(0)));
    let start = event_loop.now();
    for number in 0..TIMERS {
        // Each has a deadline of its own, and they are made in no order.
        let nanos = number * 7919 % TIMERS;
        let (fired, last) = (fired.clone(), Rc::clone(&last));
        event_loop.submit_at(start + Duration::from_nanos(nanos), move |_| {
            assert!(last.replace(nanos) <= nanos, "out of order");
            fired.up();
        });
    }
    assert_eq!((event_loop.timers(), event_loop.in_flight()), (TIMERS as usize, 0));
    assert_eq!(event_loop.sq_space(), space, "nothing is queued for the kernel");
    assert_eq!(event_loop.run().expect("run"), RunStatus::Drained);
    assert_eq!(u64::from(fired.get()), TIMERS);
}

fn timers_fire_in_order_and_what_was_taken_back_does_not<B: Backend>() {
    let mut event_loop = open::<B>();
    let order = Rc::new(RefCell::new(Vec::new()));
    let start = event_loop.now();
    let mut tokens = Vec::new();
    for (name, millis) in [(0, 20), (1, 5), (2, 10), (3, 5), (4, 1), (5, 15)] {
        let order = Rc::clone(&order);
        tokens.push(event_loop.submit_at(start + Duration::from_millis(millis), move |event_loop| {
            assert!(event_loop.now() >= start + Duration::from_millis(millis), "too early");
            order.borrow_mut().push(name);
        }));
    }
    let held = Rc::strong_count(&order);
    event_loop.cancel(tokens[2]);
    event_loop.detach(tokens[5]);
    assert_eq!(Rc::strong_count(&order), held - 2, "the callbacks of both are dropped");
    assert_eq!(event_loop.run().expect("run"), RunStatus::Drained);
    assert_eq!(*order.borrow(), [4, 1, 3, 0]);
    // They are over: their tokens name nobody, and no timer that has their place.
    let order_of_late = Rc::clone(&order);
    event_loop.submit_after(Duration::from_millis(1), move |_| order_of_late.borrow_mut().push(9));
    tokens.into_iter().for_each(|token| event_loop.cancel(token));
    assert_eq!(event_loop.run().expect("run"), RunStatus::Drained);
    assert_eq!(order.borrow().last(), Some(&9));
}

fn a_timer_that_never_comes_is_waited_for<B: Backend>() {
    let mut event_loop = open::<B>();
    let never = event_loop.submit_after(Duration::MAX, |_| panic!("never"));
    event_loop.submit_at(Instant::NEVER, |_| panic!("never"));
    assert_eq!(event_loop.run_once(Duration::from_millis(2)).expect("run_once"), RunStatus::TimedOut);
    assert_eq!((event_loop.timers(), event_loop.is_drained()), (2, false));
    event_loop.cancel(never);
    assert_eq!(event_loop.timers(), 1);
}

fn an_iteration_says_what_ended_it<B: Backend>() {
    let mut event_loop = open::<B>();
    let span = Duration::from_millis(5);
    let (reader, writer) = event_loop.backend().socket_pair(SocketKind::Stream).expect("socket_pair");
    let told = Count::default();
    let counter = told.clone();
    event_loop
        .submit(ops::Recv::new(&reader, Vec::with_capacity(8)), move |_, (count, buf)| {
            assert_eq!((count.expect("recv"), buf.as_slice()), (5, b"bytes".as_slice()));
            counter.up();
        })
        .expect("submit");
    let before = event_loop.backend().now();
    assert_eq!(event_loop.tick(span).expect("tick"), RunStatus::TimedOut);
    let after = event_loop.backend().now();
    assert!(after - before >= span, "{:?} is less than {span:?}", after - before);
    event_loop.waker().wake();
    assert_eq!(event_loop.tick(PATIENCE).expect("tick"), RunStatus::Woken);
    assert_eq!(event_loop.tick(Duration::ZERO).expect("tick"), RunStatus::TimedOut, "one wake is one end of a wait");
    event_loop
        .submit(ops::Send::new(&writer, b"bytes".to_vec()), |_, (sent, _)| assert_eq!(sent.expect("send"), 5))
        .unwrap();
    while told.get() == 0 {
        assert_eq!(event_loop.tick(PATIENCE).expect("tick"), RunStatus::Dispatched);
    }
    assert_eq!(event_loop.run().expect("run"), RunStatus::Drained);
}

fn a_wake_is_no_work<B: Backend>() {
    let mut event_loop = open::<B>();
    let waker = event_loop.waker();
    assert!(event_loop.is_drained());
    assert_eq!(event_loop.run().expect("run"), RunStatus::Drained, "a loop with nothing but its waker");
    for _ in 0..1000 {
        waker.wake();
    }
    assert_eq!((event_loop.in_flight(), event_loop.is_drained()), (0, true));
    assert_eq!(event_loop.run().expect("run"), RunStatus::Drained);
}

fn a_stop_ends_the_run_whether_it_comes_before_or_during<B: Backend>() {
    let mut event_loop = open::<B>();
    event_loop.submit_after(Duration::MAX, |_| {});
    event_loop.stop();
    assert_eq!(event_loop.run().expect("run"), RunStatus::Stopped);
    event_loop.submit(ops::Nop, |event_loop, _| event_loop.stop()).expect("submit");
    assert_eq!(event_loop.run().expect("run"), RunStatus::Stopped);
    assert_eq!(event_loop.run_once(Duration::ZERO).expect("run_once"), RunStatus::TimedOut, "it is answered once");
    if event_loop.caps().backend == BackendKind::Sim {
        // A simulated kernel never sleeps, so no thread has to wake it.
        event_loop.stopper().stop();
        assert_eq!(event_loop.run().expect("run"), RunStatus::Stopped);
        return;
    }
    for _ in 0..100 {
        let stopper = event_loop.stopper();
        let stopping = std::thread::spawn(move || stopper.stop());
        assert_eq!(event_loop.run().expect("run"), RunStatus::Stopped);
        stopping.join().expect("stopping");
    }
}

fn what_is_cancelled_gives_its_buffer_back<B: Backend>() {
    let mut event_loop = open::<B>();
    let (reader, _writer) = event_loop.backend().socket_pair(SocketKind::Stream).expect("socket_pair");
    let back = Rc::new(RefCell::new(None));
    let into = Rc::clone(&back);
    let buf = Vec::with_capacity(100);
    let place = buf.as_ptr();
    let token = event_loop
        .submit(ops::Recv::new(&reader, buf), move |_, answer| *into.borrow_mut() = Some(answer))
        .expect("submit");
    assert_eq!(event_loop.run_once(Duration::from_millis(1)).expect("run_once"), RunStatus::TimedOut);
    event_loop.cancel(token);
    event_loop.cancel(token);
    assert!(back.borrow().is_none(), "its last word comes like any other");
    assert_eq!(event_loop.run().expect("run"), RunStatus::Drained);
    let (result, buf) = back.take().expect("an answer");
    assert!(result.expect_err("nothing came").is_cancelled());
    assert_eq!((buf.as_ptr(), buf.capacity() >= 100), (place, true), "the very same buffer");
}

fn a_stale_token_names_nobody<B: Backend>() {
    let mut event_loop = open::<B>();
    let (reader, writer) = event_loop.backend().socket_pair(SocketKind::Stream).expect("socket_pair");
    let over = event_loop.submit(ops::Nop, |_, _| {}).expect("submit");
    assert_eq!(event_loop.run().expect("run"), RunStatus::Drained);
    let told = Count::default();
    let counter = told.clone();
    let living = event_loop
        .submit(ops::Recv::new(&reader, vec![0; 8]), move |_, (count, _)| {
            assert_eq!(count.expect("it was not meant"), 2);
            counter.up();
        })
        .expect("submit");
    assert_eq!((living.index(), living == over), (over.index(), false), "the same slot in another life");
    event_loop.cancel(over);
    event_loop.detach(over);
    event_loop.submit(ops::Send::new(&writer, b"hi".to_vec()), |_, _| {}).expect("submit");
    assert_eq!(event_loop.run().expect("run"), RunStatus::Drained);
    assert_eq!(told.get(), 1);
}

fn a_detached_op_tells_nobody_and_lets_go_at_its_end<B: Backend>() {
    let mut event_loop = open::<B>();
    let (reader, writer) = event_loop.backend().socket_pair(SocketKind::Stream).expect("socket_pair");
    let told = Count::default();
    let counter = told.clone();
    let token = event_loop.submit(ops::Recv::new(&reader, vec![0; 8]), move |_, _| counter.up()).expect("submit");
    event_loop.detach(token);
    assert_eq!((event_loop.in_flight(), told.holders()), (1, 2), "the kernel still has it");
    event_loop.submit(ops::Send::new(&writer, b"kept".to_vec()), |_, _| {}).expect("submit");
    assert_eq!(event_loop.run().expect("run"), RunStatus::Drained);
    assert_eq!((told.get(), told.holders()), (0, 1), "with its last word everything is let go");
}

fn slots_are_bounded_when_they_are_told_to_be<B: Backend>() {
    let config = LoopConfig { op_slots_max: Some(2), ..LoopConfig::default() };
    let mut event_loop = EventLoop::<B>::new(&config).expect("the kernel is here");
    let told = Count::default();
    let submit = |event_loop: &mut EventLoop<B>| {
        let told = told.clone();
        event_loop.submit(ops::Nop, move |_, result| result.map(|()| told.up()).expect("nop"))
    };
    for round in 1..=3 {
        assert!(submit(&mut event_loop).is_ok() && submit(&mut event_loop).is_ok());
        let refused = submit(&mut event_loop).expect_err("both slots are taken");
        assert_eq!((refused.errno(), refused.stage()), (errno::ENOBUFS, Stage::Submit));
        assert!(refused.to_string().contains("op_slots_max"), "{refused}");
        // Timers take no slot of an op.
        event_loop.submit_after(Duration::ZERO, |_| {});
        assert_eq!(event_loop.run().expect("run"), RunStatus::Drained);
        assert_eq!((told.get(), told.holders()), (2 * round, 1), "what was refused is dropped");
    }
}

fn a_full_queue_is_flushed_without_being_asked<B: Backend>() {
    let backend = BackendConfig { submission_entries: 8, completion_entries: 16, ..BackendConfig::default() };
    let mut event_loop = EventLoop::<B>::new(&LoopConfig { backend, op_slots_max: None }).expect("the kernel is here");
    let told = Count::default();
    for _ in 0..1000 {
        let told = told.clone();
        event_loop.submit(ops::Nop, move |_, result| result.map(|()| told.up()).expect("nop")).expect("room is made");
    }
    until(&mut event_loop, || told.get() == 1000);
    assert_eq!(event_loop.in_flight(), 0);
}
