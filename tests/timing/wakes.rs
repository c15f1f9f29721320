//! A wake from another shard arrives soon, whatever moment it comes in.

use std::fs;
use std::time::{Duration, Instant};

use wo_runtime::actor::Options;

use crate::alone;
use crate::backends::{REAL, run, those_of};
use crate::jitter::Jitter;

/// Later is too late: a wake was lost, and something else came to the rescue.
const LATE: Duration = Duration::from_millis(5);
const ROUNDS: u32 = 100_000;
/// Rounds between two looks at what the system says.
const ROUNDS_PER_LOOK: u32 = 500;

struct Echo(Jitter);

#[wo::actor]
impl Echo {
    #[message]
    fn echo(&mut self, number: u32) -> u32 {
        self.0.wait();
        number
    }
}

/// How long threads of this process were ready and had no processor, because the system gave it to others.
fn waited_for_a_processor() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").expect("/proc/self/task");
    let nanos = tasks.filter_map(|task| {
        let line = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum()) + stolen()
}

/// The step of the system's count of what its host took: less than one may be gone before it shows.
const STOLEN_STEP: Duration = Duration::from_millis(10);

/// How long the machine itself had none, where it is a guest.
fn stolen() -> Duration {
    let stat = fs::read_to_string("/proc/stat").expect("/proc/stat");
    let steps = stat.lines().next().and_then(|all| all.split_whitespace().nth(8)?.parse::<u32>().ok());
    STOLEN_STEP * steps.unwrap_or(0)
}

async fn no_round_is_late() {
    let echo = Options::new().shard(1).spawn(Echo(Jitter(7)));
    let mut jitter = Jitter(1);
    let mut number = 0;
    while number < ROUNDS {
        let before = waited_for_a_processor();
        let mut latest = Duration::ZERO;
        for _ in 0..ROUNDS_PER_LOOK {
            let asked = Instant::now();
            assert_eq!(echo.echo(number).await, Ok(number));
            latest = latest.max(asked.elapsed());
            jitter.wait();
            number += 1;
        }
        // A round is not late when its shard was awake and had to wait for its processor.
        let unseen = if stolen().is_zero() { Duration::ZERO } else { STOLEN_STEP };
        let excused = waited_for_a_processor() - before + unseen;
        assert!(latest < LATE + excused, "before round {number}: {latest:?}, of which {excused:?} without a processor");
    }
}

#[test]
fn r29_no_round_is_late() {
    let _alone = alone();
    for backend in those_of(REAL) {
        run(backend, |builder| builder.shards(2), no_round_is_late);
    }
}
