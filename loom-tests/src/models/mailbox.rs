//! A mailbox: messages from elsewhere reach an actor that falls asleep meanwhile, in the life they were meant for;
//! room and orders are never missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use loom::thread::{self, JoinHandle};

use crate::actor::life::DEAD_LETTERS;
use crate::actor::mailbox::{AnyMailbox, Mailbox, Order, Parcel, Refused, Room};
use crate::fiber::home::{Home, Mail};
use crate::fiber::local::local;
use crate::models;
use crate::plane::{Doorbell, ShardLoop};
use crate::weakened::{accepted, rejected};

type Messages = &'static Mailbox<u8>;

/// Two lives, one after the other where there are two.
const LIFE: u64 = 1;
const NEXT_LIFE: u64 = 2;

fn push(mailbox: Messages, life: u64, message: u8) -> Result<(), Refused> {
    mailbox.push(life, &mut Some(Parcel::new(message)), || None)
}

/// The actor's fiber was woken. That happens at home only, so nothing here synchronises.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The home shard of an actor, with the actor's own fiber.
struct Shard {
    event_loop: ShardLoop,
    home: &'static Home,
    woken: Arc<Woken>,
}

impl Shard {
    fn open() -> Shard {
        let event_loop = ShardLoop::new(Doorbell::Completion);
        let home = Home::take(event_loop.waker());
        local(|local| local.open(home, 100));
        Shard { event_loop, home, woken: Arc::new(Woken(AtomicBool::new(false))) }
    }

    /// The next message, or the order to end: as `NextMessage::poll` in `actor/life.rs` looks for it.
    fn next(&mut self, mailbox: Messages) -> Result<u8, Order> {
        let waker = Waker::from(Arc::clone(&self.woken));
        loop {
            let mut drains = false;
            if mailbox.head().has_attention() {
                match mailbox.current_order() {
                    Order::Live => {}
                    Order::Drain => drains = true,
                    Order::Kill => return Err(Order::Kill),
                }
            }
            let found = if drains { mailbox.has_last_message(&waker) } else { mailbox.has_message(&waker) };
            let next = if found { mailbox.pop() } else { None };
            match next {
                Some(envelope) => return Ok(envelope.message.open()),
                None if drains => return Err(Order::Drain),
                None => self.sleep(),
            }
        }
    }

    /// Whether a call was among the mail.
    fn take_mail(&mut self) -> bool {
        let mut called = false;
        while let Some(mail) = self.home.pop() {
            match mail {
                Mail::Ring(mailbox, life) => mailbox.rung(life),
                Mail::Call(call) => {
                    call();
                    called = true;
                }
                _ => unreachable!("no fiber is made"),
            }
        }
        self.home.run_errands();
        called
    }

    /// Until the fiber is woken, or a call was made, the shard takes its mail and sleeps, as `Driver::run` does.
    fn sleep(&mut self) {
        loop {
            let called = self.take_mail();
            if self.woken.0.swap(false, Ordering::Relaxed) | called {
                return;
            }
            if self.home.announce_sleep() {
                self.event_loop.enter(None).expect("the model's kernel takes everything");
                self.home.awake();
                self.event_loop.dispatch();
            }
        }
    }
}

/// Runs the home shard on a thread of its own: an actor's thread leaves its cells to others when it ends.
fn at_home(model: fn(&mut Shard)) {
    let shard = thread::spawn(move || model(&mut Shard::open()));
    shard.join().expect("what fails has failed the model already");
}

/// A sender on a thread of its own: whether the message was taken.
fn sender(mailbox: Messages, life: u64, message: u8) -> JoinHandle<bool> {
    thread::spawn(move || push(mailbox, life, message).is_ok())
}

fn message_from_elsewhere(shard: &mut Shard) {
    let mailbox = Mailbox::begin(shard.home, LIFE, None);
    let sends = sender(mailbox, LIFE, 7);
    assert_eq!(shard.next(mailbox), Ok(7));
    assert!(sends.join().expect("it only sends"));
}

fn messages_from_two(shard: &mut Shard) {
    let mailbox = Mailbox::begin(shard.home, LIFE, None);
    let senders = [1, 2].map(|message| sender(mailbox, LIFE, message));
    let mut got = [shard.next(mailbox), shard.next(mailbox)].map(|message| message.expect("nobody orders"));
    got.sort_unstable();
    assert_eq!(got, [1, 2]);
    assert!(senders.into_iter().all(|sends| sends.join().expect("it only sends")));
}

fn messages_from_both_sides(shard: &mut Shard) {
    let mailbox = Mailbox::begin(shard.home, LIFE, None);
    let sends = sender(mailbox, LIFE, 1);
    assert!(push(mailbox, LIFE, 2).is_ok());
    let mut got = [shard.next(mailbox), shard.next(mailbox)].map(|message| message.expect("nobody orders"));
    got.sort_unstable();
    assert_eq!(got, [1, 2]);
    assert!(sends.join().expect("it only sends"));
}

/// A cause comes before its effect: a message that was sent elsewhere, and then one at home.
fn cause_and_effect(shard: &mut Shard) {
    let mailbox = Mailbox::begin(shard.home, LIFE, None);
    let sent = Arc::new(loom::sync::atomic::AtomicBool::new(false));
    let says = Arc::clone(&sent);
    let sends = thread::spawn(move || {
        assert!(push(mailbox, LIFE, 1).is_ok());
        says.store(true, loom::sync::atomic::Ordering::Release);
    });
    let caused = sent.load(loom::sync::atomic::Ordering::Acquire);
    assert!(push(mailbox, LIFE, 2).is_ok());
    let first = shard.next(mailbox);
    assert!(!caused || first == Ok(1), "the effect came first");
    sends.join().expect("it only sends");
}

/// The same, while one more sends from a third thread.
fn cause_and_effect_of_two(shard: &mut Shard) {
    let mailbox = Mailbox::begin(shard.home, LIFE, None);
    let other = sender(mailbox, LIFE, 3);
    let sent = Arc::new(loom::sync::atomic::AtomicBool::new(false));
    let says = Arc::clone(&sent);
    let sends = thread::spawn(move || {
        assert!(push(mailbox, LIFE, 1).is_ok());
        says.store(true, loom::sync::atomic::Ordering::Release);
    });
    let caused = sent.load(loom::sync::atomic::Ordering::Acquire);
    assert!(push(mailbox, LIFE, 2).is_ok());
    let got = [(); 3].map(|()| shard.next(mailbox).expect("nobody orders"));
    let place = |message| got.iter().position(|one| *one == message);
    assert!(!caused || place(1) < place(2), "the effect came first");
    sends.join().expect("it only sends");
    assert!(other.join().expect("it only sends"));
}

/// One life ends and another begins in the same cell, while somebody still sends to the first.
fn lives(shard: &mut Shard) {
    let first = Mailbox::begin(shard.home, LIFE, None);
    let late = sender(first, LIFE, 1);
    let left = first.end(LIFE).messages.len();
    let mailbox = Mailbox::begin(shard.home, NEXT_LIFE, None);
    assert!(std::ptr::eq(first, mailbox), "the cell is used again");
    let sends = sender(mailbox, NEXT_LIFE, 2);
    assert_eq!(shard.next(mailbox), Ok(2));
    let taken = late.join().expect("it only sends");
    assert!(sends.join().expect("it only sends"));
    while shard.take_mail() {}
    shard.take_mail();
    let ended = left + DEAD_LETTERS.swap(0, Ordering::Relaxed);
    assert_eq!(usize::from(taken), ended, "a message was lost, or was handled as well");
}

/// A life ends at an order, with what was sent before the order.
fn order_behind_a_message(shard: &mut Shard) {
    let mailbox = Mailbox::begin(shard.home, LIFE, None);
    let sends = thread::spawn(move || {
        assert!(push(mailbox, LIFE, 1).is_ok());
        mailbox.order(LIFE, Order::Drain);
        assert_eq!(push(mailbox, LIFE, 2), Err(Refused::Closed));
    });
    assert_eq!(shard.next(mailbox), Ok(1));
    assert_eq!(shard.next(mailbox), Err(Order::Drain));
    sends.join().expect("it sends and orders");
}

/// More messages than the post has slots: their order stays.
fn many_messages(shard: &mut Shard) {
    let mailbox = Mailbox::begin(shard.home, LIFE, None);
    let sends = thread::spawn(move || (1..=4).for_each(|message| assert!(push(mailbox, LIFE, message).is_ok())));
    (1..=4).for_each(|message| assert_eq!(shard.next(mailbox), Ok(message)));
    sends.join().expect("it only sends");
}

/// The same while somebody orders the first to stop.
fn lives_with_an_order(shard: &mut Shard) {
    let first = Mailbox::<u8>::begin(shard.home, LIFE, None);
    let orders = thread::spawn(move || first.order(LIFE, Order::Drain));
    assert!(first.end(LIFE).messages.is_empty());
    let mailbox = Mailbox::begin(shard.home, NEXT_LIFE, None);
    let sends = sender(mailbox, NEXT_LIFE, 2);
    assert_eq!(shard.next(mailbox), Ok(2));
    orders.join().expect("it only orders");
    assert!(sends.join().expect("it only sends"));
}

/// The next life of a cell is on another shard, while a message or a ring for the first may still be on its way. Loom
/// sees when two shards are at what belongs to the home alone.
fn lives_on_two_shards(shard: &mut Shard, late: fn(Messages) -> bool) {
    let first = Mailbox::begin(shard.home, LIFE, None);
    let late = thread::spawn(move || late(first));
    let (says, hears) = loom::sync::mpsc::channel();
    let other = thread::spawn(move || {
        let mut shard = Shard::open();
        says.send(shard.home).expect("the other shard listens");
        shard.sleep();
    });
    first.end(LIFE);
    let home: &'static Home = hears.recv().expect("the other shard speaks");
    let mailbox = Mailbox::begin(home, NEXT_LIFE, None);
    assert!(std::ptr::eq(first, mailbox), "the cell is used again");
    home.push(Mail::Call(Box::new(move || {
        assert!(push(mailbox, NEXT_LIFE, 2).is_ok());
        assert!(mailbox.has_message(Waker::noop()));
        assert!(mailbox.pop().is_some_and(|envelope| envelope.message.open() == 2));
    })));
    late.join().expect("it sends or orders");
    shard.take_mail();
    other.join().expect("it takes one call");
}

fn late_message(shard: &mut Shard) {
    lives_on_two_shards(shard, |first| push(first, LIFE, 1).is_ok());
}

fn late_order(shard: &mut Shard) {
    lives_on_two_shards(shard, |first| first.order(LIFE, Order::Drain));
}

fn order_from_elsewhere(shard: &mut Shard) {
    let mailbox = Mailbox::begin(shard.home, LIFE, None);
    let orders = thread::spawn(move || mailbox.order(LIFE, Order::Drain));
    assert_eq!(shard.next(mailbox), Err(Order::Drain));
    assert!(orders.join().expect("it only orders"));
}

/// Sends for as long as there is no room, as `Sending::poll` in `actor/sending.rs` does.
fn send_when_there_is_room(mailbox: Messages, message: u8) -> bool {
    let (waker, mut number) = (models::waker(), None);
    let mut message = Some(Parcel::new(message));
    let mut pushed = mailbox.push(LIFE, &mut message, || None);
    loop {
        match pushed {
            Ok(()) => return true,
            Err(Refused::Closed) => return false,
            Err(Refused::Full) => {}
        }
        let given = loop {
            match mailbox.wait_for_room(LIFE, number, &waker, None) {
                Room::Waits(waits) => {
                    number = Some(waits);
                    thread::park();
                }
                Room::Given => break true,
                Room::Look => break false,
                Room::Never => unreachable!("no actor waits"),
            }
        };
        number = None;
        let message = &mut message;
        pushed = if given { mailbox.push_given(LIFE, message, || None) } else { mailbox.push(LIFE, message, || None) };
    }
}

fn room(shard: &mut Shard) {
    let mailbox = Mailbox::begin(shard.home, LIFE, Some(1));
    assert!(push(mailbox, LIFE, 1).is_ok());
    let sends = thread::spawn(move || send_when_there_is_room(mailbox, 2));
    assert_eq!(shard.next(mailbox), Ok(1));
    assert_eq!(shard.next(mailbox), Ok(2));
    assert!(sends.join().expect("it only sends"));
}

fn no_room_any_more(shard: &mut Shard) {
    let mailbox = Mailbox::begin(shard.home, LIFE, Some(1));
    assert!(push(mailbox, LIFE, 1).is_ok());
    let sends = thread::spawn(move || send_when_there_is_room(mailbox, 2));
    let left = mailbox.end(LIFE).messages.len();
    assert_eq!(left, 1);
    assert!(!sends.join().expect("it only sends"));
}

accepted!(a_message_from_elsewhere_is_handled, || at_home(message_from_elsewhere));

accepted!(messages_from_two_are_handled, || at_home(messages_from_two));

accepted!(messages_from_both_sides_are_handled, || at_home(messages_from_both_sides));

accepted!(a_cause_comes_before_its_effect, || at_home(cause_and_effect));

accepted!(a_cause_of_two_comes_before_its_effect, || at_home(cause_and_effect_of_two));

accepted!(a_message_reaches_the_life_it_was_meant_for, || at_home(lives));

accepted!(an_order_reaches_the_life_it_was_meant_for, || at_home(lives_with_an_order));

accepted!(a_message_for_an_earlier_life_comes_too_late, || at_home(late_message));

accepted!(a_ring_for_an_earlier_life_comes_too_late, || at_home(late_order));

accepted!(an_order_is_heard, || at_home(order_from_elsewhere));

accepted!(room_is_heard_of, || at_home(room));

accepted!(the_end_is_heard_by_who_waits_for_room, || at_home(no_room_any_more));

accepted!(a_message_before_an_order_is_handled, || at_home(order_behind_a_message));

accepted!(many_messages_keep_their_order, || at_home(many_messages));

rejected!(a_delivery_must_look_at_the_life, "a message is delivered to whatever life there is", || at_home(lives));

rejected!(who_ends_must_look_for_what_came_before, "an actor ends before what was sent before", || {
    at_home(order_behind_a_message)
});

rejected!(a_home_must_see_the_end_of_the_life_before, "a life begins without a word of the one before", || {
    at_home(late_message)
});

rejected!(
    who_comes_after_a_half_written_one_must_say_so,
    "who comes after a slot that is being written is silent about it",
    || at_home(cause_and_effect_of_two)
);

rejected!(an_order_must_look_at_the_life, "an order does not look at the life", || at_home(lives_with_an_order));

rejected!(a_send_at_home_must_look_for_causes, "a send at home passes what came before it", || {
    at_home(cause_and_effect)
});

rejected!(an_order_must_ring, "an order rings nobody", || at_home(order_from_elsewhere));

rejected!(an_order_must_be_given_before_the_ring, "an order calls for attention without saying so first", || {
    at_home(order_from_elsewhere)
});

rejected!(who_waits_for_room_must_look_again, "a sender does not look for room again", || at_home(room));

rejected!(who_waits_for_room_must_say_so_before, "a sender waits for room without saying so", || at_home(room));

rejected!(who_waits_for_room_must_look_for_the_end, "a sender does not look for the end", || {
    at_home(no_room_any_more)
});

rejected!(who_waits_for_room_must_change_the_count, "a sender only reads the count of messages", || at_home(room));

rejected!(who_gives_room_must_acquire, "room is given relaxed", || at_home(room));

rejected!(a_ring_must_look_at_the_life, "a ring does not look at the life", || at_home(late_order));
