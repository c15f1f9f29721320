//! The doorbell: what was said before a ring is seen after the wake, also when the ring found the bell rung already.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use crate::plane::Doorbell;
use crate::plane::ShardLoop;
use crate::weakened::{accepted, rejected};

/// Two threads say something, plainly, and ring; the loop goes on until it has seen both.
fn two_ring(doorbell: Doorbell) {
    let mut event_loop = ShardLoop::new(doorbell);
    let said = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let ringers = [0, 1].map(|ringer| {
        let (said, waker) = (Arc::clone(&said), event_loop.waker());
        thread::spawn(move || {
            said[ringer].store(true, Ordering::Relaxed);
            waker.wake();
        })
    });
    while !said.iter().all(|said| said.load(Ordering::Relaxed)) {
        event_loop.enter(None).expect("the model's kernel takes everything");
        event_loop.dispatch();
    }
    ringers.into_iter().for_each(|ringer| ringer.join().expect("it only rings"));
}

accepted!(what_was_said_is_seen_by_completions, || two_ring(Doorbell::Completion));

accepted!(what_was_said_is_seen_by_the_flag, || two_ring(Doorbell::Flag));

rejected!(an_acknowledgement_must_read_the_flag, "the flag is cleared without being read", || two_ring(
    Doorbell::Completion
));

rejected!(a_ring_must_release, "a ring is relaxed", || two_ring(Doorbell::Completion));

rejected!(an_acknowledgement_must_acquire, "an acknowledgement is relaxed", || two_ring(Doorbell::Completion));
