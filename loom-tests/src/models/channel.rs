//! The channel between shards: every item comes out once, in order, and nobody waits beside something it could have.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};

use loom::thread;

use crate::error::errno;
use crate::fiber::channel::Channel;
use crate::models::{block_on, waker};
use crate::weakened::{accepted, rejected};

fn in_order() {
    let channel = Channel::shared(1);
    let source = channel.clone();
    let puts = thread::spawn(move || {
        for number in 1..=2 {
            block_on(source.put(number)).expect("the channel is open");
        }
        source.close();
    });
    assert_eq!(block_on(channel.take()).expect("there is one"), 1);
    assert_eq!(block_on(channel.take()).expect("there is another"), 2);
    assert_eq!(block_on(channel.take()).expect_err("there is no third").errno(), errno::EPIPE);
    puts.join().expect("it only puts");
}

/// One taker looks once and goes away, called or not; the other must be served.
fn one_goes() {
    let channel = Channel::shared(1);
    let (once, patient) = (channel.clone(), channel.clone());
    let goes = thread::spawn(move || {
        let mut take = pin!(once.take());
        let waker = waker();
        matches!(take.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(Ok(_)))
    });
    let stays = thread::spawn(move || block_on(patient.take()).expect("there is one"));
    channel.try_put(1).expect("there is room");
    if goes.join().expect("it only looks") {
        channel.try_put(2).expect("there is room again");
    }
    assert!(stays.join().expect("it only takes") > 0);
}

fn closed() {
    let channel = Channel::<u8, _>::shared(1);
    let source = channel.clone();
    let takes = thread::spawn(move || block_on(channel.take()).is_err());
    source.close();
    assert!(takes.join().expect("it only takes"));
}

accepted!(items_come_in_order_and_then_the_end, in_order);

accepted!(a_call_is_passed_on, one_goes);

accepted!(takers_hear_of_the_close, closed);

rejected!(who_goes_passes_the_call_on, "who was called and goes does not pass the call on", one_goes);

rejected!(who_closes_calls, "who closes does not call those who wait", closed);

rejected!(who_takes_calls_for_the_room, "who takes does not call for the room", in_order);
