//! The end of a program, and the request for it: a shard hears of either, however it falls asleep meanwhile.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use loom::thread;

use crate::fiber::home::Mail;
use crate::fiber::tick::Driver;
use crate::fiber::{StopRequest, join, local};
use crate::plane::{Doorbell, ShardLoop};
use crate::shard::program::{Door, Program};
use crate::weakened::{accepted, rejected};

/// A shard on this thread, and its program.
fn shard(doorbell: Doorbell) -> (Driver, Arc<Program>) {
    let event_loop = ShardLoop::new(doorbell);
    let (stop, waker) = (Arc::new(StopRequest::default()), event_loop.waker());
    let driver = Driver::open(event_loop, 100, Duration::ZERO, Arc::clone(&stop));
    let doors = vec![Door { home: driver.home(), waker }];
    (driver, Arc::new(Program::new(doors, stop, Arc::default())))
}

fn close(mut driver: Driver) {
    driver.unwind();
    driver.drain().expect("no op is in flight");
}

/// Another shard says that the end has come, as `end` in `shard/builder.rs` does; this one runs until then, as `run` in
/// `shard/threads.rs` does.
fn end(doorbell: Doorbell) {
    let (mut driver, program) = shard(doorbell);
    let first = Arc::clone(&program);
    let ends = thread::spawn(move || first.end());
    driver.run(|| program.is_ending()).expect("nobody asked to stop");
    close(driver);
    ends.join().expect("it only says so");
}

/// The same while mail arrives, whose ring may be the one the shard wakes by.
fn end_amid_mail(doorbell: Doorbell) {
    let (mut driver, program) = shard(doorbell);
    let (first, home) = (Arc::clone(&program), driver.home());
    let ends = thread::spawn(move || first.end());
    let sends = thread::spawn(move || home.push(Mail::Call(Box::new(|| ()))));
    driver.run(|| program.is_ending()).expect("nobody asked to stop");
    close(driver);
    ends.join().expect("it only says so");
    sends.join().expect("it only pushes");
}

/// A thread asks the program to stop; a parked fiber hears of it and ends.
fn stop(doorbell: Doorbell) {
    let (mut driver, program) = shard(doorbell);
    let fiber = join::spawn(|| poll_fn(|_| if local::is_cancelled() { Poll::Ready(()) } else { Poll::Pending }));
    let asker = Arc::clone(&program);
    let asks = thread::spawn(move || asker.ask_to_stop());
    driver.run(|| fiber.is_finished()).expect("it ends before the grace");
    close(driver);
    asks.join().expect("it only asks");
}

accepted!(the_end_is_heard_by_completions, || end(Doorbell::Completion));

accepted!(the_end_is_heard_by_the_flag, || end(Doorbell::Flag));

accepted!(the_end_is_heard_amid_mail_by_completions, || end_amid_mail(Doorbell::Completion));

accepted!(the_end_is_heard_amid_mail_by_the_flag, || end_amid_mail(Doorbell::Flag));

accepted!(a_stop_is_heard, || stop(Doorbell::Completion));

rejected!(
    a_shard_must_look_for_the_end_before_it_sleeps,
    "a shard does not look for the end before it sleeps",
    || end(Doorbell::Completion)
);

rejected!(a_shard_must_look_for_a_stop_before_it_sleeps, "a shard does not look for a stop before it sleeps", || stop(
    Doorbell::Completion
));

rejected!(the_end_must_be_said_before_the_ring, "the end is said after the ring", || end(Doorbell::Completion));

rejected!(a_stop_must_be_said_before_the_ring, "a stop is asked for after the ring", || stop(Doorbell::Completion));
