//! Circles of actors that wait for each other: one of those that close it sees it, and nobody sees one that is not.

use loom::thread;

use crate::actor::mailbox::Head;
use crate::actor::waits::Wait;
use crate::weakened::{accepted, rejected};

fn head() -> &'static Head {
    Box::leak(Box::new(Head::new()))
}

/// Draws the wait and looks for the circle, as `Ask::begin` in `actor/ask.rs` does.
fn waits(waiter: &'static Head, target: &'static Head) -> bool {
    Wait::draw(waiter, target).expect("it waits for nobody yet");
    Wait::closes_circle(waiter, target)
}

/// Two actors begin to wait for each other at once.
fn both() {
    let (one, other) = (head(), head());
    let elsewhere = thread::spawn(move || waits(other, one));
    let here = waits(one, other);
    assert!(here | elsewhere.join().expect("it only waits"), "nobody sees the circle");
}

/// An actor waits for one, then for another; whoever looks sees whom it waits for in which wait.
fn one_after_the_other() {
    let (waiter, first, second) = (head(), head(), head());
    let looks = thread::spawn(move || {
        if let Some((target, number)) = waiter.waits_for() {
            let wanted = if number == 1 { first } else { second };
            assert!(std::ptr::eq(target, wanted), "wait {number} is for the other one");
        }
    });
    Wait::draw(waiter, first).expect("it waits for nobody yet").end();
    Wait::draw(waiter, second).expect("the first wait has ended");
    looks.join().expect("it only looks");
}

accepted!(a_circle_is_seen, both);

accepted!(a_wait_is_for_one, one_after_the_other);

rejected!(a_wait_must_be_drawn_before_the_look, "a wait is drawn without a fence", both);

rejected!(a_wait_must_be_looked_at_again, "a wait is not looked at again", one_after_the_other);

rejected!(a_target_must_be_acquired, "a wait's target is read relaxed", one_after_the_other);

rejected!(a_target_must_be_released, "a wait's target is written relaxed", one_after_the_other);
