//! Messages: one at a time, in order, in mailboxes with and without a bound, moved and never copied.

use std::collections::HashSet;
use std::time::Duration;

use wo::IoError;
use wo::actor::{Addr, Options, Reply, SendError, TrySendError};
use wo_runtime::fiber;
use wo_runtime::scope::Outcome;

use super::{everywhere, everywhere_on};

#[derive(Default)]
struct Counter {
    value: u64,
    active: bool,
}

#[wo::actor]
impl Counter {
    #[message(send)]
    fn inc(&mut self) {
        assert!(!self.active, "a handler is entered while one is active");
        self.active = true;
        self.value += 1;
        if self.value.is_multiple_of(1000) {
            wo::yield_now().expect("yield");
        }
        self.active = false;
    }

    #[message]
    fn value(&mut self) -> u64 {
        self.value
    }
}

struct Sender;

#[wo::actor]
impl Sender {
    #[message]
    fn send_incs(&mut self, to: Addr<CounterMessage>, count: u64) {
        for _ in 0..count {
            to.inc().expect("inc");
        }
    }
}

#[test]
fn a1_spawn_counter() {
    everywhere_on(&[1, 4], || async {
        let counter = wo::spawn(Counter::default());
        let mut sent = Vec::new();
        for shard in 0..4 {
            let sender = Options::new().shard(shard).spawn(Sender);
            sent.push(wo::spawn(move || async move { sender.send_incs(counter, 10_000).await }));
        }
        for sent in sent {
            sent.join().await.expect("join").expect("answer");
        }
        assert_eq!(counter.value().await, Ok(40_000));
    });
}

struct Recorder(Vec<(u32, u32)>);

#[wo::actor]
impl Recorder {
    fn receive(&mut self, message: (u32, u32)) {
        self.0.push(message);
    }

    #[message]
    fn recorded(&mut self) -> Vec<(u32, u32)> {
        self.0.clone()
    }
}

struct Counting(u32);

#[wo::actor]
impl Counting {
    #[message]
    fn count(&mut self, to: Addr<RecorderMessage>, up_to: u32) {
        for n in 1..=up_to {
            to.send((self.0, n).into()).expect("send");
        }
    }
}

#[test]
fn a2_order_per_sender() {
    everywhere(|| async {
        for shard in 0..3 {
            let recorder = Options::new().shard(shard).spawn(Recorder(Vec::new()));
            for n in 1..=1000 {
                recorder.send((0, n).into()).await.expect("send");
            }
            let both = [1, 2].map(|number| {
                let counting = Options::new().shard(number as usize).spawn(Counting(number));
                wo::spawn(move || async move { counting.count(recorder, 1000).await })
            });
            for one in both {
                one.join().await.expect("join").expect("count");
            }
            let recorded = recorder.recorded().await.expect("recorded");
            for number in 0..3 {
                let of_one: Vec<u32> = recorded.iter().filter(|(of, _)| *of == number).map(|(_, n)| *n).collect();
                assert_eq!(of_one, (1..=1000).collect::<Vec<_>>(), "of sender {number}");
            }
        }
    });
}

/// An effect never comes before its cause: a message sent elsewhere first, and told about at home, is there first.
#[test]
fn causes_come_before_effects() {
    struct Relay;
    #[wo::actor]
    impl Relay {
        #[message]
        fn relay(&mut self, to: Addr<RecorderMessage>, number: u32) {
            to.send((1, number).into()).expect("send");
        }
    }
    everywhere(|| async {
        let recorder = Options::new().shard(0).spawn(Recorder(Vec::new()));
        let relay = Options::new().shard(1).spawn(Relay);
        for number in 0..500 {
            relay.relay(recorder, number).await.expect("relay");
            recorder.send((2, number).into()).await.expect("send");
        }
        let recorded = recorder.recorded().await.expect("recorded");
        let expected: Vec<(u32, u32)> = (0..500).flat_map(|number| [(1, number), (2, number)]).collect();
        assert_eq!(recorded, expected);
    });
}

enum At {
    Hold(wo::oneshot::Sender<()>, wo::oneshot::Receiver<()>),
    Take(u32),
    Taken(Reply<Vec<u32>>),
}

#[derive(Default)]
struct Gate(Vec<u32>);

#[wo::actor]
impl Gate {
    fn receive(&mut self, message: At) {
        match message {
            At::Hold(held, release) => {
                let _ = held.send(());
                let _ = release.recv();
            }
            At::Take(number) => self.0.push(number),
            At::Taken(reply) => drop(reply.send(self.0.clone())),
        }
    }
}

/// A gate whose handler is parked; what lets it go.
#[wo::fiber]
fn held_gate(bound: usize, shard: usize) -> (Addr<At>, wo::oneshot::Sender<()>) {
    let gate = Options::new().shard(shard).bound(bound).spawn(Gate::default());
    let (held, is_held) = wo::oneshot();
    let (release, released) = wo::oneshot();
    gate.send(At::Hold(held, released)).expect("room");
    is_held.recv().expect("held");
    (gate, release)
}

#[test]
fn a3_capacity() {
    everywhere(|| async {
        for shard in 0..3 {
            let (gate, release) = held_gate(8, shard).await;
            for number in 0..8 {
                gate.send(At::Take(number)).await.expect("room");
            }
            let [ninth, tenth] = [8, 9].map(|number| wo::spawn(move || gate.send(At::Take(number))));
            for _ in 0..10 {
                wo::yield_now().await.expect("yield");
            }
            assert!(!ninth.is_finished() && !tenth.is_finished());
            assert!(matches!(gate.try_send(At::Take(77)), Err(TrySendError::Full(At::Take(77)))));
            release.send(()).expect("the handler waits");
            ninth.join().await.expect("join").expect("room");
            tenth.join().await.expect("join").expect("room");
            let mut taken = gate.ask(At::Taken).await.expect("taken");
            assert_eq!(taken[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
            taken.sort_unstable();
            assert_eq!(taken[8..], [8, 9]);
        }
    });
}

/// Room for one lets in one, who waited longest.
#[test]
fn a3_taking_one_makes_room_for_one() {
    everywhere(|| async {
        for shard in 0..3 {
            let (gate, release) = held_gate(8, shard).await;
            // Whoever is taken holds the gate in turn.
            let hold = || {
                let ((held, is_held), (release, released)) = (wo::oneshot(), wo::oneshot());
                (At::Hold(held, released), is_held, release)
            };
            let (first, first_is_held, release_first) = hold();
            gate.send(first).await.expect("room");
            for number in 1..8 {
                gate.send(At::Take(number)).await.expect("room");
            }
            let [ninth, tenth] = [8, 9].map(|number| wo::spawn(move || gate.send(At::Take(number))));
            wo::yield_now().await.expect("yield");
            assert!(!ninth.is_finished() && !tenth.is_finished());
            release.send(()).expect("the handler waits");
            first_is_held.recv().await.expect("held");
            ninth.join().await.expect("join").expect("room");
            for _ in 0..10 {
                wo::yield_now().await.expect("yield");
            }
            assert!(!tenth.is_finished(), "one was taken, two were let in");
            assert!(matches!(gate.try_send(At::Take(77)), Err(TrySendError::Full(At::Take(77)))));
            release_first.send(()).expect("the handler waits");
            tenth.join().await.expect("join").expect("room");
            assert_eq!(gate.ask(At::Taken).await, Ok((1..10).collect()));
        }
    });
}

/// One who waits for room and goes away passes it on.
#[test]
fn room_that_nobody_takes_goes_to_the_next() {
    everywhere(|| async {
        for shard in 0..3 {
            let (gate, release) = held_gate(1, shard).await;
            gate.send(At::Take(0)).await.expect("room");
            let mut gone: Vec<_> = (1..4).map(|number| Box::pin(gate.send(At::Take(number)))).collect();
            for waiting in &mut gone {
                std::future::poll_fn(|cx| {
                    assert!(waiting.as_mut().poll(cx).is_pending());
                    std::task::Poll::Ready(())
                })
                .await;
            }
            let last = wo::spawn(move || gate.send(At::Take(4)));
            wo::yield_now().await.expect("yield");
            drop(gone.remove(0));
            release.send(()).expect("the handler waits");
            // The room is called for in the order of waiting: by some that never take it.
            for _ in 0..10 {
                wo::yield_now().await.expect("yield");
            }
            drop(gone);
            last.join().await.expect("join").expect("room");
            assert_eq!(gate.ask(At::Taken).await, Ok(vec![0, 4]));
        }
    });
}

#[test]
fn a14_a_message_is_moved() {
    struct Keeper(Vec<u8>);
    #[wo::actor]
    impl Keeper {
        #[message(send)]
        fn keep(&mut self, buffer: Vec<u8>) {
            self.0 = buffer;
        }

        #[message]
        fn place(&mut self) -> usize {
            self.0.as_ptr() as usize
        }

        #[message]
        fn give_back(&mut self) -> Vec<u8> {
            std::mem::take(&mut self.0)
        }
    }
    everywhere(|| async {
        for shard in 0..3 {
            let keeper = Options::new().shard(shard).spawn(Keeper(Vec::new()));
            let buffer = vec![7_u8; 1024 * 1024];
            let place = buffer.as_ptr() as usize;
            keeper.keep(buffer).await.expect("keep");
            assert_eq!(keeper.place().await, Ok(place));
            let back = keeper.give_back().await.expect("answer");
            assert_eq!((back.as_ptr() as usize, back.len()), (place, 1024 * 1024));
        }
    });
}

/// An address is a word: copied, compared, hashed, sent about. It reaches one life, and no later one in its place.
#[test]
fn a_stale_address_reaches_nobody() {
    everywhere(|| async {
        assert!(size_of::<Addr<CounterMessage>>() <= 16);
        let mut seen = HashSet::new();
        let mut stale: Vec<Addr<CounterMessage>> = Vec::new();
        for round in 0..200 {
            let counter = wo::spawn(Counter::default());
            assert!(seen.insert(counter), "an address was given twice");
            for old in &stale {
                assert_ne!(*old, counter);
                assert!(!old.is_open() && !old.stop() && !old.kill());
                old.inc().await.expect("to nobody, quietly");
                assert!(matches!(old.try_send(CounterMessage::inc()), Err(TrySendError::Closed(_))));
            }
            counter.inc().await.expect("inc");
            assert_eq!(counter.value().await, Ok(1), "in round {round}");
            counter.stop();
            counter.ended().await.expect("ended");
            stale.truncate(20);
            stale.insert(0, counter);
        }
    });
}

#[test]
fn a_send_that_is_cancelled_gives_the_message_back() {
    everywhere(|| async {
        for shard in 0..3 {
            let (gate, _release) = held_gate(1, shard).await;
            gate.send(At::Take(0)).await.expect("room");
            let (told, is_told) = wo::oneshot();
            let limited: Outcome<(), IoError> = fiber::with_deadline(Duration::from_millis(5), || async move {
                let sent = gate.send(At::Take(1)).await;
                told.send(matches!(sent, Err(SendError::Cancelled(At::Take(1))))).expect("the test waits");
                Ok(())
            })
            .await;
            assert!(limited.is_err());
            assert_eq!(is_told.recv().await, Ok(true));
            gate.kill();
        }
    });
}
