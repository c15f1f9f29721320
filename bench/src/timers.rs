//! `timers`: many sleeping tasks, created and then cancelled.
//!
//! Each of `n` tasks sleeps for a time of its own, between one minute and one hour. `create` is the time from the
//! first spawn until the last task sleeps, `cancel` from the first cancel until the last task and its timer are gone;
//! both in nanoseconds per task. `bytes` is what a sleeping task holds in memory, timer included, by the sizes the
//! runtime asked the allocator for.

use std::time::{Duration, Instant};

use crate::alloc::live_bytes;
use crate::bench::positive;
use crate::crowd::{Counter, full};
use crate::executor::Timers;
use crate::failure::Failure;
use crate::stats::{Sample, Unit};

/// Tasks that sleep.
pub const CASES: &[&str] = &["100000"];

thread_local! {
    static ASLEEP: Counter = const { Counter::new() };
    static GONE: Counter = const { Counter::new() };
}

/// One round on executor `E`: one crowd, whatever the budget says.
pub fn round<E: Timers>(case: &str, _budget: Duration) -> Result<Vec<Sample>, Failure> {
    let tasks = positive(case)?;
    E::run(move || async move {
        let start = Instant::now();
        let (sleepers, bytes) = create::<E>(tasks).await;
        let created = Instant::now();
        cancel::<E>(sleepers).await;
        let cancelled = Instant::now();
        let each = |time: Duration| time.as_nanos() as f64 / tasks as f64;
        vec![
            Sample::new("create", each(created - start), Unit::Nanoseconds),
            Sample::new("cancel", each(cancelled - created), Unit::Nanoseconds),
            Sample::new("bytes", bytes, Unit::Bytes),
        ]
    })
}

/// Starts `tasks` sleepers and waits until all sleep; also the bytes each of them holds.
pub async fn create<E: Timers>(tasks: usize) -> (Vec<E::Sleeper>, f64) {
    let mut sleepers = Vec::with_capacity(tasks);
    let before = live_bytes();
    ASLEEP.with(|asleep| asleep.expect(tasks));
    GONE.with(|gone| gone.expect(tasks));
    for time in spread(tasks) {
        sleepers.push(E::spawn_sleeper(async move {
            let _leaving = Leaving;
            ASLEEP.with(Counter::arrive);
            E::sleep(time).await;
        }));
    }
    full(&ASLEEP).await;
    let bytes = (live_bytes() - before) as f64 / tasks as f64;
    (sleepers, bytes)
}

/// Cancels the sleepers and waits until all are gone.
pub async fn cancel<E: Timers>(sleepers: Vec<E::Sleeper>) {
    E::cancel_all(sleepers).await;
    full(&GONE).await;
}

/// Tells [`GONE`] when its task ends, however it ends.
struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        GONE.with(Counter::arrive);
    }
}

/// Times in no order: a timer queue that only likes them sorted shall not look good here.
fn spread(tasks: usize) -> impl Iterator<Item = Duration> {
    const SHORTEST_MS: u64 = 60_000;
    const LONGEST_MS: u64 = 3_600_000;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    (0..tasks).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis(SHORTEST_MS + (state >> 33) % (LONGEST_MS - SHORTEST_MS))
    })
}
