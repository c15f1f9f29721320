//! The oneshot: the receiver gets the value or hears that none will come, and a value is never in two hands, or none.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use crate::error::errno;
use crate::fiber::oneshot::oneshot;
use crate::models::block_on;
use crate::weakened::{accepted, rejected};

fn sent() {
    let (sender, receiver) = oneshot();
    let receives = thread::spawn(move || block_on(receiver.recv()));
    assert_eq!(sender.send(7), Ok(()));
    assert_eq!(receives.join().expect("it only receives").expect("it was sent"), 7);
}

fn never_sent() {
    let (sender, receiver) = oneshot::<u8>();
    let receives = thread::spawn(move || block_on(receiver.recv()));
    drop(sender);
    assert_eq!(receives.join().expect("it only receives").expect_err("nothing was sent").errno(), errno::EPIPE);
}

/// The receiver looks and goes away meanwhile. Loom's counted pointer tells when a value is left over.
fn to_nobody() {
    let (sender, mut receiver) = oneshot();
    let value = loom::sync::Arc::new(());
    let gone = Arc::new(AtomicBool::new(false));
    let goes = Arc::clone(&gone);
    let leaves = thread::spawn(move || {
        let received = receiver.try_recv().is_some();
        drop(receiver);
        goes.store(true, Ordering::Release);
        received
    });
    let had_gone = gone.load(Ordering::Acquire);
    let sent = sender.send(loom::sync::Arc::clone(&value)).is_ok();
    let received = leaves.join().expect("it only looks");
    assert!(!received || sent, "a value that came back was received as well");
    assert!(!had_gone || !sent, "a value was sent to nobody");
    assert_eq!(loom::sync::Arc::strong_count(&value), 1, "a value was left over");
}

accepted!(a_value_arrives, sent);

accepted!(the_end_of_the_sender_is_heard, never_sent);

accepted!(a_value_is_in_one_hand, to_nobody);

rejected!(a_receiver_must_look_and_register_at_once, "a receiver looks, then registers", sent);

rejected!(a_sender_must_close_and_take_the_waker_at_once, "a sender takes the waker, then closes", never_sent);

rejected!(a_sender_must_look_whether_the_receiver_has_gone, "a sender does not look for the receiver", to_nobody);
