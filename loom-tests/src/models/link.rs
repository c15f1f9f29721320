//! The line between a child on another shard and its place at home: every order reaches it, and its end reaches home.

use std::sync::Arc;

use loom::thread;

use crate::models::waker;
use crate::shard::link::Link;
use crate::weakened::{accepted, rejected};

/// The child, which ends when it is told to; answers the reason.
fn child(line: &Link<u8, u8>) {
    let waker = waker();
    loop {
        let order = line.order_so_far();
        if let Some(reason) = order.stop {
            return line.tell(reason);
        }
        if order.give_up {
            return line.tell(0);
        }
        if line.waits(&order, &waker) {
            thread::park();
        }
    }
}

fn home(line: &Link<u8, u8>) -> u8 {
    let waker = waker();
    loop {
        if let Some(end) = line.ended(&waker) {
            return end;
        }
        thread::park();
    }
}

fn stopped() {
    let line = Arc::new(Link::new());
    let there = Arc::clone(&line);
    let runs = thread::spawn(move || child(&there));
    line.stop(7);
    line.stop(8);
    assert_eq!(home(&line), 7, "the first reason stays");
    runs.join().expect("it ends");
}

fn given_up() {
    let line = Arc::new(Link::new());
    let there = Arc::clone(&line);
    let runs = thread::spawn(move || child(&there));
    line.give_up();
    assert_eq!(home(&line), 0);
    runs.join().expect("it ends");
}

accepted!(a_reason_arrives_and_the_end_comes_back, stopped);

accepted!(giving_up_arrives, given_up);

rejected!(a_child_looks_once_more, "a child sleeps without another look at its orders", stopped);

rejected!(the_end_wakes_home, "a child's end wakes nobody", given_up);
