//! Crowds of messages: one actor that has a million waiting does not keep its neighbours from theirs.

use std::time::Duration;

use wo::actor::{Options, Reply};

use super::{everywhere, on_shards};

const MS: Duration = Duration::from_millis(1);

enum Count {
    One,
    All(Reply<u64>),
}

#[derive(Default)]
struct Counter(u64);

#[wo::actor]
impl Counter {
    fn receive(&mut self, message: Count) {
        match message {
            Count::One => self.0 += 1,
            Count::All(reply) => _ = reply.send(self.0),
        }
    }
}

/// The turns a neighbour got while so many messages were handled one after the other.
#[test]
fn a_million_queued_messages_starve_nobody() {
    const MESSAGES: u64 = 1_000_000;
    everywhere(|| async {
        let counter = Options::new().shard(0).spawn(Counter::default());
        for _ in 0..MESSAGES {
            counter.try_send(Count::One).expect("unbounded");
        }
        let counted = wo::spawn(move || counter.ask(Count::All));
        let mut turns = 0;
        while !counted.is_finished() {
            wo::yield_now().await.expect("yield");
            turns += 1;
        }
        assert_eq!(counted.join().await.expect("join"), Ok(MESSAGES));
        // A turn is at most 4000 reductions, and a message is at least one.
        assert!(turns >= MESSAGES / 4000, "{turns} turns");
    });
}

/// A ticker beside a crowd keeps its pace, in the world where time is exact: a turn takes none.
#[test]
fn a_ticker_ticks_beside_a_crowd() {
    on_shards(1, || async {
        let counter = Options::new().spawn(Counter::default());
        let ticks = wo::spawn(|| async {
            let mut ticker = wo::Ticker::new(MS);
            let mut told = 0;
            for _ in 0..20 {
                ticker.tick().await.expect("tick");
                told += 1;
            }
            told
        });
        let mut sent = 0;
        while !ticks.is_finished() {
            // More than it handles, all the time.
            for _ in 0..10_000 {
                counter.send(Count::One).await.expect("send");
                sent += 1;
            }
        }
        assert_eq!(ticks.join().await.expect("join"), 20);
        assert_eq!(counter.ask(Count::All).await, Ok(sent));
    });
}

/// Ten million messages wait for an actor that is busy elsewhere: others go on, and all are handled in the end.
#[test]
fn ten_million_wait_and_others_go_on() {
    const MESSAGES: u64 = 10_000_000;
    struct Slow(Counter);
    enum Do {
        Hold(wo::oneshot::Receiver<()>),
        Count(Count),
    }
    #[wo::actor]
    impl Slow {
        fn receive(&mut self, message: Do) {
            match message {
                Do::Hold(until) => drop(until.recv()),
                Do::Count(Count::One) => self.0.0 += 1,
                Do::Count(Count::All(reply)) => _ = reply.send(self.0.0),
            }
        }
    }
    on_shards(1, || async {
        let slow = wo::spawn(Slow(Counter::default()));
        let (release, until) = wo::oneshot();
        slow.send(Do::Hold(until)).await.expect("send");
        let neighbour = wo::spawn(Counter::default());
        let mut asked = 0;
        for sent in 0..MESSAGES {
            slow.send(Do::Count(Count::One)).await.expect("send");
            if sent % 1_000_000 == 0 {
                neighbour.send(Count::One).await.expect("send");
                asked += 1;
                assert_eq!(neighbour.ask(Count::All).await, Ok(asked));
            }
        }
        release.send(()).expect("it waits");
        let all = wo::spawn(move || slow.ask(|reply| Do::Count(Count::All(reply))));
        while !all.is_finished() {
            assert_eq!(neighbour.ask(Count::All).await, Ok(asked));
        }
        assert_eq!(all.join().await.expect("join"), Ok(MESSAGES));
    });
}
