//! Asks: deadlines that reach into the handler, replies that come later, and askers that always hear something.

use std::time::Duration;

use wo::actor::{AskError, Options, Reply};

use super::{everywhere, simulated};

const MS: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Sleeper {
    begun: u32,
    cancels: u32,
    cancelled_at: Vec<Duration>,
    kept: Vec<Reply<u32>>,
}

#[wo::actor]
impl Sleeper {
    #[message]
    fn sleep(&mut self, span: Duration) -> bool {
        self.begun += 1;
        let start = wo::now();
        let slept = wo::sleep(span).is_ok();
        if !slept {
            self.cancelled_at.push(wo::now() - start);
        }
        slept
    }

    #[message]
    fn cancels(&mut self) -> (u32, Vec<Duration>) {
        (self.cancels, self.cancelled_at.clone())
    }

    #[message]
    fn begun(&mut self) -> u32 {
        self.begun
    }

    #[message]
    fn later(&mut self, reply: Reply<u32>) {
        self.kept.push(reply);
    }

    #[message]
    fn forget(&mut self, reply: Reply<u32>) {
        drop(reply);
    }

    #[message(send)]
    fn release(&mut self, answer: u32) {
        for reply in self.kept.drain(..) {
            let _ = reply.send(answer);
        }
    }

    /// Moves the reply it keeps to a fiber of its own, which gives it later; whether there was one.
    #[message]
    fn delegate(&mut self, until: wo::oneshot::Receiver<()>) -> bool {
        let Some(reply) = self.kept.pop() else { return false };
        wo::spawn(move || {
            until.recv().expect("told when");
            reply.send(9).expect("the asker waits");
        });
        true
    }

    fn on_cancel(&mut self) {
        self.cancels += 1;
    }
}

#[test]
fn a5_ask_deadline_cancels_the_handler() {
    simulated(|| async {
        let sleeper = wo::spawn(Sleeper::default());
        let start = wo::now();
        assert_eq!(sleeper.sleep_by(Duration::from_secs(1), 50 * MS).await, Err(AskError::Deadline));
        assert_eq!(wo::now() - start, 50 * MS);
        assert_eq!(sleeper.cancels().await, Ok((1, vec![50 * MS])));
        assert_eq!(wo::now() - start, 50 * MS, "the next message is taken at once");
    });
    everywhere(|| async {
        for shard in 0..3 {
            let sleeper = Options::new().shard(shard).spawn(Sleeper::default());
            // On a busy machine the time may run out before the handler begins; then it never does.
            while sleeper.begun().await == Ok(0) {
                assert_eq!(sleeper.sleep_by(Duration::from_secs(3600), 20 * MS).await, Err(AskError::Deadline));
            }
            let (cancels, spans) = sleeper.cancels().await.expect("the next message is handled");
            assert_eq!((cancels, spans.len()), (1, 1));
            assert!(spans[0] < Duration::from_secs(1800));
        }
    });
}

/// A request whose time runs out before its turn is answered without any of the actor's code.
#[test]
fn an_expired_request_is_not_handled() {
    everywhere(|| async {
        for shard in 0..3 {
            let before = wo::actor::counters();
            let sleeper = Options::new().shard(shard).spawn(Sleeper::default());
            let busy = wo::spawn(move || sleeper.sleep(200 * MS));
            wo::yield_now().await.expect("yield");
            assert_eq!(sleeper.sleep_by(Duration::from_secs(3600), 10 * MS).await, Err(AskError::Deadline));
            assert_eq!(busy.join().await.expect("join"), Ok(true));
            assert_eq!(sleeper.cancels().await, Ok((0, vec![])));
            let after = wo::actor::counters();
            assert_eq!(after.expired - before.expired, 1);
        }
    });
}

#[test]
fn a16_reply_later() {
    everywhere(|| async {
        for shard in 0..3 {
            let sleeper = Options::new().shard(shard).spawn(Sleeper::default());
            let waits = wo::spawn(move || sleeper.later());
            while sleeper.cancels().await.is_ok() && !waits.is_finished() {
                // Meanwhile the actor handles other messages; then it answers.
                sleeper.release(5).await.expect("release");
            }
            assert_eq!(waits.join().await.expect("join"), Ok(5));
            // Moved to a fiber the actor spawns, which answers later; meanwhile the actor handles other messages.
            let waits = wo::spawn(move || sleeper.later());
            let tell = loop {
                let (tell, until) = wo::oneshot();
                if sleeper.delegate(until).await.expect("an answer") {
                    break tell;
                }
                wo::yield_now().await.expect("yield");
            };
            for _ in 0..10 {
                assert_eq!(sleeper.cancels().await, Ok((0, vec![])));
            }
            assert!(!waits.is_finished());
            tell.send(()).expect("the fiber waits");
            assert_eq!(waits.join().await.expect("join"), Ok(9));
        }
    });
}

#[test]
fn a_request_without_an_answer_is_told_so() {
    everywhere(|| async {
        let sleeper = wo::spawn(Sleeper::default());
        assert_eq!(sleeper.forget().await, Err(AskError::NoReply));
        let waits = [0, 1].map(|_| wo::spawn(move || sleeper.later()));
        assert_eq!(sleeper.cancels().await, Ok((0, vec![])));
        sleeper.stop();
        for waits in waits {
            // Kept in the state, dropped with it; or not handled any more.
            let told = waits.join().await.expect("join");
            assert!(matches!(told, Err(AskError::Stopped | AskError::Closed)), "{told:?}");
        }
        assert_eq!(sleeper.cancels().await, Err(AskError::Closed));
    });
}

/// An answer that comes too late comes back to who gives it.
#[test]
fn an_answer_to_nobody_comes_back() {
    struct Late;
    #[wo::actor]
    impl Late {
        #[message]
        fn late(&mut self, back: wo::oneshot::Sender<Result<(), String>>, reply: Reply<String>) {
            assert!(wo::sleep(Duration::from_secs(3600)).is_err(), "the deadline cancels it");
            assert!(reply.is_closed());
            back.send(reply.send("too late".to_owned())).expect("the test waits");
        }
    }
    everywhere(|| async {
        let late = wo::spawn(Late);
        let mut deadline = 5 * MS;
        loop {
            let (back, came_back) = wo::oneshot();
            assert_eq!(late.late_by(back, deadline).await, Err(AskError::Deadline));
            // A deadline that passes before the message is taken ends it unhandled.
            let Ok(told) = came_back.recv().await else {
                deadline *= 2;
                continue;
            };
            break assert_eq!(told, Err("too late".to_owned()));
        }
    });
}
