//! Actors that wait for each other in a circle are told so; none hangs.

use std::time::Duration;

use wo::actor::{Addr, AskError, Exit, Options, SendError, TrySendError, this};

use super::everywhere;

#[derive(Default)]
struct Asker {
    next: Option<Addr<AskerMessage>>,
}

#[wo::actor]
impl Asker {
    #[message(send)]
    fn before(&mut self, next: Addr<AskerMessage>) {
        self.next = Some(next);
    }

    /// Asks the next one, who asks the next one, and so on.
    #[message]
    fn around(&mut self, left: u32) -> Result<u32, AskError> {
        match self.next {
            Some(next) if left > 0 => next.around(left - 1)?.map(|passed| passed + 1),
            _ => Ok(0),
        }
    }

    /// The same, with a deadline.
    #[message]
    fn around_in_time(&mut self, left: u32, span: Duration) -> Result<u32, AskError> {
        match self.next {
            Some(next) if left > 0 => next.around_in_time_by(left - 1, span, span)?.map(|passed| passed + 1),
            _ => Ok(0),
        }
    }

    #[message]
    fn ask_yourself(&mut self) -> Result<u32, AskError> {
        let own = this::<AskerMessage>().expect("inside the actor");
        own.around(0)?
    }
}

/// A ring of so many actors, each on another shard than the one before.
async fn ring(length: usize) -> Vec<Addr<AskerMessage>> {
    let ring: Vec<Addr<AskerMessage>> =
        (0..length).map(|place| Options::new().shard(place).spawn(Asker::default())).collect();
    for (place, asker) in ring.iter().enumerate() {
        asker.before(ring[(place + 1) % length]).await.expect("send");
    }
    ring
}

#[test]
fn a11_asks_in_a_circle() {
    everywhere(|| async {
        for length in [2, 3, 7] {
            let ring = ring(length).await;
            let steps = length as u32;
            // Not quite around is no circle.
            assert_eq!(ring[0].around(steps - 1).await, Ok(Ok(steps - 1)));
            // Around, the one that closes the circle is told, and all answer.
            assert_eq!(ring[0].around(steps + 5).await, Ok(Err(AskError::Deadlock)));
            // All live on.
            for asker in &ring {
                assert_eq!(asker.around(0).await, Ok(Ok(0)));
            }
        }
    });
}

#[test]
fn a11_an_actor_asks_itself() {
    everywhere(|| async {
        let asker = wo::spawn(Asker::default());
        assert_eq!(asker.ask_yourself().await, Ok(Err(AskError::Deadlock)));
        assert_eq!(asker.around(0).await, Ok(Ok(0)));
    });
}

/// Both close the circle at the same time, on two shards, over and over: at least one of them is told.
#[test]
fn a11_a_race_to_close_the_circle() {
    everywhere(|| async {
        let ring = ring(2).await;
        for _ in 0..2000 {
            let both = [ring[0], ring[1]].map(|asker| wo::spawn(move || async move { asker.around(1).await }));
            for one in both {
                let told = one.join().await.expect("join").expect("an answer");
                assert!(matches!(told, Ok(1) | Err(AskError::Deadlock)), "{told:?}");
            }
        }
    });
}

/// Asks with a deadline end by themselves: they are not reported.
#[test]
fn a11_a_circle_with_deadlines_runs_out_of_time() {
    everywhere(|| async {
        let ring = ring(2).await;
        let told = ring[0].around_in_time(5, Duration::from_millis(20)).await.expect("an answer");
        assert_eq!(told, Err(AskError::Deadline));
        assert_eq!(ring[1].around(1).await, Ok(Ok(1)));
    });
}

/// One that has answered is not waited for, whom it asks afterwards may ask it back.
#[test]
fn an_answered_ask_closes_no_circle() {
    struct Eager;
    #[wo::actor]
    impl Eager {
        #[message]
        fn start(&mut self, other: Addr<EagerMessage>) -> Result<u32, AskError> {
            let own = this::<EagerMessage>().expect("inside the actor");
            other.answer_then_ask(own)
        }

        /// Answers, and asks whoever asked it.
        #[message]
        fn answer_then_ask(&mut self, from: Addr<EagerMessage>, reply: wo::actor::Reply<u32>) {
            reply.send(5).expect("the asker waits");
            assert_eq!(from.plain(), Ok(6));
        }

        #[message]
        fn plain(&mut self) -> u32 {
            6
        }
    }
    everywhere(|| async {
        for _ in 0..200 {
            let [a, b] = [0, 1].map(|shard| Options::new().shard(shard).spawn(Eager));
            assert_eq!(a.start(b).await, Ok(Ok(5)));
            assert_eq!(b.plain().await, Ok(6));
            a.stop();
            b.stop();
        }
    });
}

/// A reply that was kept is waited for, but not its keeper's handler.
#[test]
fn a_kept_reply_closes_no_circle() {
    #[derive(Default)]
    struct Keeper(Option<wo::actor::Reply<u32>>);
    #[wo::actor]
    impl Keeper {
        #[message]
        fn start(&mut self, other: Addr<KeeperMessage>) -> Result<u32, AskError> {
            other.keep()
        }

        #[message]
        fn keep(&mut self, reply: wo::actor::Reply<u32>) {
            self.0 = Some(reply);
        }

        /// Its handler asks the one that waits for the kept reply; a fiber gives that meanwhile.
        #[message]
        fn give(&mut self, to: Addr<KeeperMessage>) -> Result<u32, AskError> {
            let Some(reply) = self.0.take() else { return Ok(0) };
            wo::spawn(move || {
                wo::sleep(Duration::from_millis(2)).expect("sleep");
                reply.send(1).expect("the asker waits");
            });
            to.plain()
        }

        #[message]
        fn plain(&mut self) -> u32 {
            6
        }
    }
    everywhere(|| async {
        let [a, b] = [0, 1].map(|shard| Options::new().shard(shard).spawn(Keeper::default()));
        let started = wo::spawn(move || async move { a.start(b).await });
        let given = loop {
            match b.give(a).await.expect("an answer") {
                Ok(0) => wo::yield_now().await.expect("yield"),
                given => break given,
            }
        };
        assert_eq!(given, Ok(6));
        assert_eq!(started.join().await.expect("join"), Ok(Ok(1)));
    });
}

#[derive(Default)]
struct Pusher {
    next: Option<Addr<Push>>,
    full: u32,
    handled: u32,
}

enum Push {
    Before(Addr<Push>),
    /// Sends that many to the next one.
    Many(u32),
    /// Sends that many to itself, and answers how many were refused.
    Yourself(u32, wo::actor::Reply<u32>),
    One,
    Told(wo::actor::Reply<(u32, u32)>),
}

#[wo::actor]
impl Pusher {
    fn receive(&mut self, message: Push) {
        // Questions do not count.
        self.handled += u32::from(!matches!(message, Push::Told(_)));
        match message {
            Push::Before(next) => self.next = Some(next),
            Push::Many(count) => {
                let next = self.next.expect("it was told who is next");
                for _ in 0..count {
                    match next.send(Push::One) {
                        Ok(()) => {}
                        Err(SendError::Full(_)) => self.full += 1,
                        Err(error) => panic!("{error:?}"),
                    }
                }
            }
            Push::Yourself(count, reply) => {
                let own = this::<Push>().expect("inside the actor");
                let mut refused = 0;
                for _ in 0..count {
                    if let Err(error) = own.send(Push::One) {
                        assert!(error.is_full());
                        refused += 1;
                    }
                }
                let _ = reply.send(refused);
            }
            Push::One => {}
            Push::Told(reply) => _ = reply.send((self.handled, self.full)),
        }
    }
}

async fn pushers(length: usize) -> Vec<Addr<Push>> {
    let ring: Vec<Addr<Push>> =
        (0..length).map(|place| Options::new().shard(place).bound(1).spawn(Pusher::default())).collect();
    for (place, pusher) in ring.iter().enumerate() {
        pusher.send(Push::Before(ring[(place + 1) % length])).await.expect("send");
    }
    ring
}

#[test]
fn r56_mailbox_mutual_full() {
    everywhere(|| async {
        for length in [2, 3, 6] {
            let ring = pushers(length).await;
            for _ in 0..50 {
                for pusher in &ring {
                    pusher.send(Push::Many(20)).await.expect("send");
                }
            }
            // What was refused came back, and everything else is handled in the end: who is next, fifty that had twenty
            // sent, and those twenty.
            let all = length as u32 * (1 + 50 + 50 * 20);
            loop {
                let mut sum = 0;
                for pusher in &ring {
                    let (handled, full) = pusher.ask(Push::Told).await.expect("told");
                    sum += handled + full;
                }
                assert!(sum <= all, "{sum} handled or refused of {all}");
                if sum == all {
                    break;
                }
                wo::yield_now().await.expect("yield");
            }
            for pusher in &ring {
                pusher.stop();
                pusher.ended().await.expect("ended");
            }
        }
        assert_eq!(wo::actor::counters().queued(), 0);
    });
}

/// A bounded actor that sends to itself is told when it is full.
#[test]
fn r56_a_full_actor_sends_to_itself() {
    everywhere(|| async {
        for shard in 0..3 {
            let pusher = Options::new().shard(shard).bound(3).spawn(Pusher::default());
            assert_eq!(pusher.ask(|reply| Push::Yourself(10, reply)).await, Ok(7));
            assert_eq!(pusher.ask(Push::Told).await, Ok((4, 0)), "three were taken and handled");
        }
    });
}

/// A chain is no circle: whoever waits in it goes on when the last one does.
#[test]
fn a_chain_of_full_mailboxes_makes_progress() {
    everywhere(|| async {
        let chain = pushers(4).await;
        let last = Options::new().bound(1).spawn(Pusher::default());
        chain[3].send(Push::Before(last)).await.expect("send");
        let pushed: Vec<_> = chain
            .iter()
            .map(|pusher| {
                let pusher = *pusher;
                wo::spawn(move || async move {
                    for _ in 0..20 {
                        pusher.send(Push::Many(10)).await.expect("send");
                    }
                })
            })
            .collect();
        for pushed in pushed {
            pushed.join().await.expect("join");
        }
        let mut full = 0;
        for pusher in &chain {
            full += pusher.ask(Push::Told).await.expect("told").1;
        }
        assert_eq!(full, 0, "nobody waited in a circle");
        assert_eq!(last.ask(Push::Told).await, Ok((200, 0)));
    });
}

#[test]
fn r56_a_killed_receiver_wakes_its_senders() {
    struct Busy;
    #[wo::actor]
    impl Busy {
        fn receive(&mut self, _number: u32) {
            let _ = wo::sleep(Duration::from_secs(3600));
        }
    }
    everywhere(|| async {
        for shard in 0..3 {
            let busy = Options::new().shard(shard).bound(1).spawn(Busy);
            let senders: Vec<_> = (0..20).map(|number| wo::spawn(move || busy.send(number))).collect();
            while !matches!(busy.try_send(20), Err(TrySendError::Full(_))) {
                wo::yield_now().await.expect("yield");
            }
            assert!(busy.kill());
            for sender in senders {
                sender.join().await.expect("join").expect("dropped quietly");
            }
            assert!(matches!(busy.ended().await, Ok(Exit::Killed | Exit::Gone)));
        }
        assert_eq!(wo::actor::counters().queued(), 0);
    });
}
