//! The law of conservation, on random runs: every message ends exactly once. What was sent was handled, returned,
//! dead-lettered, has expired, or still waits; the counters say so, and so do the messages themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use wo::actor::{Addr, AskError, Options, Reply, SendError, Supervisor, TrySendError, counters};

use super::everywhere;

const MS: Duration = Duration::from_millis(1);

/// How many messages were made, and how many have been dropped.
#[derive(Clone, Default)]
struct Tally(Arc<[AtomicU64; 2]>);

impl Tally {
    fn make(&self) -> Token {
        self.0[0].fetch_add(1, Ordering::SeqCst);
        Token(self.clone())
    }

    fn all(&self) -> [u64; 2] {
        [0, 1].map(|which| self.0[which].load(Ordering::SeqCst))
    }
}

/// Travels in a message.
struct Token(Tally);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.0[1].fetch_add(1, Ordering::SeqCst);
    }
}

struct Message {
    _token: Token,
    act: Act,
    reply: Option<Reply<u32>>,
}

#[derive(Clone, Copy)]
enum Act {
    Nothing,
    Sleep,
    Panic,
    Fail,
    Forget,
    Stop,
}

#[derive(Default)]
struct Node {
    kept: Vec<Reply<u32>>,
}

#[wo::actor]
impl Node {
    fn receive(&mut self, message: Message) -> Result<(), &'static str> {
        match message.act {
            Act::Nothing => {}
            Act::Sleep => {
                let _ = wo::sleep(2 * MS);
            }
            Act::Panic => panic!("at random"),
            Act::Fail => return Err("at random"),
            Act::Forget => self.kept.extend(message.reply),
            Act::Stop => {
                wo::actor::this::<Message>().expect("inside the actor").stop();
            }
        }
        Ok(())
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn act(&mut self) -> Act {
        match self.below(40) {
            0 => Act::Panic,
            1 => Act::Fail,
            2 => Act::Stop,
            3..6 => Act::Forget,
            6..10 => Act::Sleep,
            _ => Act::Nothing,
        }
    }
}

/// Sends in every way there is, to whoever there is.
async fn sender(seed: u64, tally: Tally, nodes: Vec<Addr<Message>>) -> u64 {
    let mut random = Random(seed * 2 + 1);
    let mut returned = 0;
    for _ in 0..300 {
        let to = nodes[random.below(nodes.len() as u64) as usize];
        let act = random.act();
        let message = Message { _token: tally.make(), act, reply: None };
        match random.below(12) {
            0..4 => match to.send(message).await {
                Ok(()) => {}
                Err(SendError::Full(_) | SendError::Cancelled(_)) => returned += 1,
                Err(error) => panic!("{error}"),
            },
            4..7 => match to.try_send(message) {
                Ok(()) => {}
                Err(TrySendError::Full(_) | TrySendError::Closed(_)) => returned += 1,
            },
            7 => {
                // Begun, and given up.
                let mut sending = Box::pin(to.send(message));
                std::future::poll_fn(|cx| {
                    let _ = sending.as_mut().poll(cx);
                    std::task::Poll::Ready(())
                })
                .await;
            }
            8..10 => {
                let asked = to.ask_by(|reply| Message { reply: Some(reply), ..message }, 3 * MS).await;
                assert!(!matches!(asked, Err(AskError::Deadlock | AskError::Cancelled)), "{asked:?}");
            }
            10 => {
                let made = to.send_after(MS, message);
                if random.below(2) == 0 {
                    made.detach();
                } else {
                    drop(made);
                }
            }
            _ => {
                drop(message);
                if random.below(20) == 0 {
                    to.kill();
                }
                wo::yield_now().await.expect("yield");
            }
        }
    }
    returned
}

#[test]
fn every_message_ends_exactly_once() {
    for seed in 1..=5 {
        everywhere(move || async move {
            let tally = Tally::default();
            let mut supervisor = Supervisor::one_for_one().limit(20, Duration::from_secs(3600));
            let mut nodes: Vec<Addr<Message>> = Vec::new();
            for place in 0..12 {
                let options = Options::new().shard(place);
                let options = if place % 2 == 0 { options.bound(1 + place) } else { options };
                nodes.push(match place % 3 {
                    0 => supervisor.child_with(options, Node::default),
                    _ => options.spawn(Node::default()),
                });
            }
            let supervisor = supervisor.start();
            let senders: Vec<_> = (0..6)
                .map(|number| {
                    let (tally, nodes) = (tally.clone(), nodes.clone());
                    wo::spawn(move || sender(seed * 100 + number, tally, nodes))
                })
                .collect();
            let mut returned = 0;
            for sender in senders {
                returned += sender.join().await.expect("join");
            }
            wo::sleep(10 * MS).await.expect("sleep");
            for node in &nodes {
                node.stop();
            }
            supervisor.stop();
            for node in &nodes {
                node.ended().await.expect("ended");
            }
            let counters = counters();
            assert_eq!(counters.queued(), 0, "{counters:?}");
            assert_eq!(counters.returned, returned, "{counters:?}");
            assert!(counters.handled > 0 && counters.dead_lettered > 0, "{counters:?}");
            let ended = counters.handled + counters.returned + counters.dead_lettered + counters.expired;
            assert_eq!(counters.sent, ended, "{counters:?}");
            // What sleeping fibers still hold ends with them.
            while tally.all()[1] < tally.all()[0] {
                wo::yield_now().await.expect("yield");
            }
            let [made, dropped] = tally.all();
            assert_eq!(made, dropped, "{counters:?}");
        });
    }
}
