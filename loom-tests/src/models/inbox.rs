//! The inbox of a home, and the announcement of sleep: mail is taken, whoever pushes while the shard falls asleep.

use loom::thread;

use crate::fiber::home::{Home, Mail};
use crate::plane::{Doorbell, ShardLoop};
use crate::weakened::{accepted, rejected};

/// The shard takes the mail of so many senders, sleeping when there is none, as `Driver::run` does.
fn senders(count: usize, doorbell: Doorbell) {
    let mut event_loop = ShardLoop::new(doorbell);
    let home = Home::take(event_loop.waker());
    let senders: Vec<_> = (0..count).map(|_| thread::spawn(move || home.push(Mail::Call(Box::new(|| ()))))).collect();
    let mut taken = 0;
    loop {
        while let Some(mail) = home.pop() {
            drop(mail);
            taken += 1;
        }
        if taken == count {
            break;
        }
        if home.announce_sleep() {
            event_loop.enter(None).expect("the model's kernel takes everything");
            home.awake();
            event_loop.dispatch();
        }
    }
    senders.into_iter().for_each(|sender| sender.join().expect("it only pushes"));
}

accepted!(mail_is_taken, || senders(1, Doorbell::Completion));

accepted!(mail_of_two_is_taken_by_completions, || senders(2, Doorbell::Completion));

accepted!(mail_of_two_is_taken_by_the_flag, || senders(2, Doorbell::Flag));

rejected!(a_sender_must_fence, "a sender does not fence", || senders(1, Doorbell::Completion));

rejected!(an_announcement_must_fence, "a shard announces its sleep without a fence", || senders(
    1,
    Doorbell::Completion
));

rejected!(a_shard_must_look_again, "a shard does not look again", || senders(1, Doorbell::Completion));
