//! What idle shards cost.

use std::fs;
use std::time::Duration;

use wo_runtime::fiber::{self, oneshot};
use wo_runtime::shard::{self, Builder};

use super::REAL;

/// How long nothing happens.
const QUIET: Duration = Duration::from_secs(2);

/// Sleeps a shard may go through meanwhile: one that ends what came before. A tick, even one a second, would be more.
const SLEEPS_MAX: u64 = 1;

fn status(thread: i32, what: &str) -> String {
    let status = fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.trim().to_owned()
}

/// How often the thread gave the processor up.
fn sleeps(thread: i32) -> u64 {
    status(thread, "voluntary_ctxt_switches:").parse().unwrap()
}

#[test]
fn idle_shards_never_wake() {
    for io in REAL {
        Builder::new()
            .io(io)
            .shards(4)
            .run(|| async {
                let mut threads = Vec::new();
                for index in 1..shard::shards() {
                    let (sender, receiver) = oneshot::oneshot();
                    shard::post_to(index, move || {
                        sender.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                    });
                    threads.push(receiver.recv().await.unwrap());
                }
                for thread in &threads {
                    while !status(*thread, "State:").starts_with('S') {
                        fiber::yield_now().await.unwrap();
                    }
                }
                let before: Vec<u64> = threads.iter().map(|thread| sleeps(*thread)).collect();
                fiber::sleep(QUIET).await.unwrap();
                for (thread, before) in threads.iter().zip(before) {
                    let woken = sleeps(*thread) - before;
                    assert!(woken <= SLEEPS_MAX, "an idle shard woke {woken} times in {QUIET:?}");
                }
            })
            .unwrap();
    }
}
