//! Wakes across shards: none is lost, whatever moment they come in. A lost one would be for ever, since no timer runs
//! here that could come to the rescue; the watch over each run would end the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wo::actor::{Addr, Options};
use wo_runtime::shard;

use super::on_shards;
use crate::jitter::Jitter;

struct Echo {
    jitter: Jitter,
}

#[wo::actor]
impl Echo {
    #[message]
    fn echo(&mut self, number: u32) -> u32 {
        self.jitter.wait();
        number
    }
}

#[test]
fn r29_wake_vs_park() {
    on_shards(2, || async {
        let echo = Options::new().shard(1).spawn(Echo { jitter: Jitter(7) });
        let mut jitter = Jitter(1);
        for number in 0..100_000 {
            assert_eq!(echo.echo(number).await, Ok(number));
            jitter.wait();
        }
    });
}

/// Sends that cross each other, so that each shard is woken while it goes to sleep.
#[test]
fn r29_both_sides_wake_each_other() {
    #[derive(Default)]
    struct Side {
        got: u32,
    }
    #[wo::actor]
    impl Side {
        #[message(send)]
        fn ball(&mut self, back_to: Addr<SideMessage>, left: u32, done: Option<wo::oneshot::Sender<u32>>) {
            self.got += 1;
            let own = wo::actor::this::<SideMessage>().expect("inside the actor");
            match (left, done) {
                (0, Some(done)) => done.send(self.got).expect("the test waits"),
                (0, None) => panic!("the done went astray"),
                (left, done) => back_to.ball(own, left - 1, done).expect("send"),
            }
        }
    }
    on_shards(2, || async {
        let sides: Vec<Addr<SideMessage>> =
            (0..2).map(|shard| Options::new().shard(shard).spawn(Side::default())).collect();
        let mut all = Vec::new();
        for ball in 0..8 {
            let (done, is_done) = wo::oneshot();
            sides[ball % 2].ball(sides[(ball + 1) % 2], 10_000, Some(done)).await.expect("send");
            all.push(is_done);
        }
        for is_done in all {
            assert!(is_done.recv().await.expect("done") >= 5_000);
        }
    });
}

/// A fiber's answer, which counts itself when it is dropped.
struct Counted(usize, Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn r31_join_cross_core() {
    on_shards(2, || async {
        const ROUNDS: usize = 10_000;
        let mut jitter = Jitter(3);
        let dropped = Arc::new(AtomicUsize::new(0));
        for round in 0..ROUNDS {
            let (send, handle) = wo::oneshot();
            let number = Counted(round, Arc::clone(&dropped));
            assert!(shard::post_to(1, move || {
                let fiber = wo::spawn(move || async move {
                    if round % 3 == 0 {
                        wo::yield_now().await.expect("yield");
                    }
                    number
                });
                assert!(send.send(fiber).is_ok());
            }));
            let handle = handle.recv().await.expect("a handle");
            jitter.wait();
            if round % 4 == 0 {
                drop(handle);
            } else {
                assert_eq!(handle.join().await.expect("join").0, round);
            }
        }
        // An answer nobody takes is dropped by whichever side lets go last.
        while dropped.load(Ordering::SeqCst) < ROUNDS {
            wo::yield_now().await.expect("yield");
        }
        assert_eq!(dropped.load(Ordering::SeqCst), ROUNDS);
    });
}
