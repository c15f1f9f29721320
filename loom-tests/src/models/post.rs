//! The post of a home: errands are done in the order of each who hands them over, once, also past the ring's brim and
//! while the shard falls asleep.

use std::sync::Arc;
use std::sync::Mutex;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use crate::fiber::home::Home;
use crate::plane::post::{Errand, Post};
use crate::plane::{Doorbell, ShardLoop};
use crate::weakened::{accepted, rejected};

/// What was done. Errands are done on one thread, so nothing here synchronises.
type Done = Arc<Mutex<Vec<(u8, u8)>>>;

/// Notes who it is of, and which one. Loom watches its memory.
struct Note(u8, u8, Done);

impl Errand for Note {
    fn run(self) {
        self.2.lock().unwrap().push((self.0, self.1));
    }

    fn give_up(self) {
        unreachable!("each is done");
    }
}

/// Each of the threads hands so many errands over.
fn threads(each: &[u8], push: impl Fn(Note) + Clone + Send + 'static, done: &Done) -> Vec<thread::JoinHandle<()>> {
    let thread = |(number, count): (usize, &u8)| {
        let (push, count, done) = (push.clone(), *count, Arc::clone(done));
        thread::spawn(move || (0..count).for_each(|errand| push(Note(number as u8, errand, Arc::clone(&done)))))
    };
    each.iter().enumerate().map(thread).collect()
}

/// The shard sleeps when there is nothing to do.
fn while_it_falls_asleep(each: &[u8]) {
    let mut event_loop = ShardLoop::new(Doorbell::Completion);
    let home = Home::take(event_loop.waker());
    let done = Done::default();
    let threads = threads(each, |note| home.send(|| note), &done);
    let all = each.iter().map(|count| usize::from(*count)).sum::<usize>();
    loop {
        home.run_errands();
        if done.lock().unwrap().len() == all {
            break;
        }
        if home.announce_sleep() {
            event_loop.enter(None).expect("the model's kernel takes everything");
            home.awake();
            event_loop.dispatch();
        }
    }
    threads.into_iter().for_each(|thread| thread.join().expect("it only sends"));
    check(&done, each);
}

/// The shard looks now and then, and once everybody has gone.
fn looked_at(each: &[u8]) {
    let post = Arc::new(Post::new());
    let done = Done::default();
    let pushes = Arc::clone(&post);
    let threads = threads(
        each,
        move |note| {
            let _asleep = pushes.push(|| note);
        },
        &done,
    );
    for _ in 0..2 {
        post.run_all();
        thread::yield_now();
    }
    threads.into_iter().for_each(|thread| thread.join().expect("it only sends"));
    // What is in the ring, then what is in the list.
    post.run_all();
    assert!(post.is_empty());
    check(&done, each);
}

/// Two come while the shard empties a ring that is full: what one has seen of the room is good for the other as well.
fn when_the_ring_was_full() {
    let post = Arc::new(Post::new());
    let done = Done::default();
    (0..2).for_each(|errand| assert!(!post.push(|| Note(2, errand, Arc::clone(&done)))));
    let pushes = Arc::clone(&post);
    let push = move |note| {
        let _asleep = pushes.push(|| note);
    };
    let threads = threads(&[1, 1], push, &done);
    post.run_all();
    threads.into_iter().for_each(|thread| thread.join().expect("it only sends"));
    post.run_all();
    assert!(post.is_empty());
    check(&done, &[1, 1, 2]);
}

/// Whoever is told that the shard sleeps also sees what it did before it said so; so many errands are there already.
fn told_of_the_sleep(there: u8) {
    let post = Arc::new(Post::new());
    let done = Done::default();
    (0..there).for_each(|errand| assert!(!post.push(|| Note(1, errand, Arc::clone(&done)))));
    let lies_down = Arc::new(AtomicBool::new(false));
    let (pushes, lay_down) = (Arc::clone(&post), Arc::clone(&lies_down));
    let push = move |note| {
        let asleep = pushes.push(|| note);
        assert!(!asleep || lay_down.load(Ordering::Relaxed), "told of a sleep before it began");
    };
    let threads = threads(&[1], push, &done);
    lies_down.store(true, Ordering::Relaxed);
    let slept = post.announce_sleep();
    assert!(!slept || there == 0, "asleep although there is something to do");
    post.awake();
    threads.into_iter().for_each(|thread| thread.join().expect("it only sends"));
    post.run_all();
    check(&done, &[1, there]);
}

fn check(done: &Done, each: &[u8]) {
    let done = std::mem::take(&mut *done.lock().unwrap());
    for (number, count) in each.iter().enumerate() {
        let of_one = done.iter().filter(|(of, _)| usize::from(*of) == number).map(|(_, errand)| *errand);
        assert!(of_one.eq(0..*count), "out of order, or not once: {done:?}");
    }
}

accepted!(errands_of_one_are_done, || while_it_falls_asleep(&[3]));

accepted!(errands_of_two_are_done, || while_it_falls_asleep(&[1, 1]));

accepted!(errands_past_the_brim_are_done, || looked_at(&[4]));

accepted!(errands_to_a_full_ring_are_done, when_the_ring_was_full);

accepted!(who_finds_the_mark_sees_the_sleep, || told_of_the_sleep(0));

accepted!(who_finds_the_mark_past_the_brim_sees_the_sleep, || told_of_the_sleep(2));

rejected!(the_mark_must_be_acquired, "the mark of sleep is found relaxed", || told_of_the_sleep(0));

rejected!(the_mark_must_be_acquired_past_the_brim, "the mark of sleep is found relaxed by the list", || {
    told_of_the_sleep(2)
});

rejected!(the_mark_must_be_published, "the mark of sleep is made relaxed", || told_of_the_sleep(0));

rejected!(a_sleeper_must_be_woken, "who hands an errand over does not look for the sleep", || {
    while_it_falls_asleep(&[1])
});

rejected!(a_shard_must_look_for_errands, "a shard falls asleep without looking for errands", || {
    while_it_falls_asleep(&[1])
});

rejected!(an_errand_must_be_published, "an errand is not published", || looked_at(&[1]));

rejected!(an_errand_must_be_acquired, "an errand is read too early", || looked_at(&[1]));

rejected!(a_slot_must_be_given_back, "a slot is given back relaxed", || looked_at(&[4]));

rejected!(a_slot_must_be_taken_back, "a slot is taken back relaxed", || looked_at(&[4]));

rejected!(a_limit_must_be_published, "the limit is said relaxed", when_the_ring_was_full);

rejected!(a_limit_must_be_acquired, "the limit is heard relaxed", when_the_ring_was_full);

rejected!(the_list_must_be_joined, "a slot is taken past the list", || looked_at(&[4]));

rejected!(the_mark_must_go_with_the_list, "the list is left, then said to be empty", || looked_at(&[4]));

rejected!(the_list_must_be_told_of, "what is in the list is not told of", || looked_at(&[3]));

rejected!(what_is_hidden_must_be_heard_of, "hidden errands are looked for, then said to be none", || looked_at(&[4]));
