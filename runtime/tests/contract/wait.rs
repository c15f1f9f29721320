//! Waiting, and the waker that ends it.

use std::time::Duration;

use wo_runtime::plane::backend::Backend;
use wo_runtime::plane::op::RawOp;

use super::rig::{PATIENCE, Rig, Subject};

/// Waits, and says for how long; reaps what the wait was ended by, which may be nothing to see.
fn wait<B: Backend>(rig: &mut Rig<B>, timeout: Option<Duration>) -> Duration {
    let start = rig.backend().now();
    rig.backend().wait(timeout).unwrap();
    rig.reap();
    rig.backend().now() - start
}

pub fn a_wait_takes_its_time<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    for millis in [1, 20, 5] {
        let span = Duration::from_millis(millis);
        let start = rig.backend().now();
        // It may end early; waiting on adds up to the span, and a clock of whole nanoseconds does not fall short.
        while rig.backend().now() - start < span {
            let left = span - (rig.backend().now() - start);
            wait(&mut rig, Some(left));
        }
    }
}

pub fn a_wait_of_nothing_is_none<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let nop = rig.start(RawOp::Nop);
    wait(&mut rig, Some(Duration::ZERO));
    assert!(rig.is_done(nop), "a wait of no length still submits, and reaps what is ready");
    assert_eq!(rig.finish(nop), 0);
    wait(&mut rig, Some(Duration::ZERO));
}

pub fn a_completion_ends_the_wait<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    for timeout in [None, Some(Duration::MAX), Some(PATIENCE)] {
        let nop = rig.start(RawOp::Nop);
        while !rig.is_done(nop) {
            assert!(wait(&mut rig, timeout) < PATIENCE);
        }
        assert_eq!(rig.finish(nop), 0);
    }
}

/// A completion that is there already is not waited for, and not lost to the wait.
pub fn a_ready_completion_ends_the_wait<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let nop = rig.start(RawOp::Nop);
    rig.backend().flush().unwrap();
    assert!(wait(&mut rig, None) < PATIENCE);
    assert!(rig.is_done(nop));
}

pub fn rings_before_the_wait_end_it<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let waker = rig.backend().waker();
    for _ in 0..10 {
        waker.wake();
        assert!(wait(&mut rig, None) < PATIENCE);
    }
    rig.expect_silence();
}

/// A thousand rings are far fewer ends of waits, and then the loop sleeps again.
pub fn rings_coalesce<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let waker = rig.backend().waker();
    for _ in 0..1000 {
        waker.clone().wake();
    }
    let span = Duration::from_millis(30);
    let ends = (0..).take_while(|_| wait(&mut rig, Some(span)) < span).count();
    assert!((1..10).contains(&ends), "{ends} waits ended early");
}

/// The doorbell outlives the loop, and rings nobody.
pub fn rings_after_the_end_are_nothing<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let waker = rig.backend().waker();
    drop(rig);
    waker.wake();
    waker.wake();
}
