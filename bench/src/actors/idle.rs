//! Idle actors, for `memory`: what an actor costs that waits for its next message.
//!
//! `bytes` counts what the library asked the allocator for per actor that has started and was sent nothing yet,
//! `bytes_told` after each has handled one message; `resident` is what the process grew by then. All on one thread,
//! whose allocations are counted. `create` is the time to start one, from the first until the last has begun.

use std::time::{Duration, Instant};

use super::{Library, Role, expect};
use crate::alloc::live_bytes;
use crate::bench::positive;
use crate::failure::Failure;
use crate::stats::{Sample, Unit};
use crate::sys::resident_bytes;

const ACTORS: &str = "-actors";

/// The number of actors, if `case` is about actors.
pub fn actors(case: &str) -> Option<Result<usize, Failure>> {
    case.strip_suffix(ACTORS).map(positive)
}

/// One round on library `L`.
pub fn round<L: Library>(case: &str, _budget: Duration) -> Result<Vec<Sample>, Failure> {
    let number = actors(case)
        .unwrap_or_else(|| Err(Failure::new(format!("case `{case}`"), "this subject has actors and nothing else")))?;
    L::host(1, move || run::<L>(number))?
}

struct Idler {
    told: u64,
}

struct Nudge;
struct HowOften;

impl<L: Library> Role<L> for Idler {
    type Message = Nudge;
    type Question = HowOften;
    type Answer = u64;

    async fn receive(&mut self, Nudge: Nudge) {
        self.told += 1;
    }

    fn answer(&mut self, HowOften: HowOften) -> u64 {
        self.told
    }
}

async fn run<L: Library>(number: usize) -> Result<Vec<Sample>, Failure> {
    let mut idlers: Vec<L::Address<Idler>> = Vec::with_capacity(number);
    let (resident, live) = (resident_bytes()?, live_bytes());
    let each = |total: f64| total / number as f64;

    let start = Instant::now();
    for place in 0..number {
        idlers.push(L::start(Idler { told: 0 }, place).await);
    }
    // It is behind all others in the queue: when it answers, they have begun.
    let last = L::start(Idler { told: 0 }, number).await;
    expect("what the last was told", L::ask::<Idler>(&last, HowOften).await, 0)?;
    let created = each(start.elapsed().as_nanos() as f64);
    let bytes = each((live_bytes() - live) as f64);

    for idler in &idlers {
        L::tell::<Idler>(idler, Nudge).await;
    }
    L::tell::<Idler>(&last, Nudge).await;
    expect("what the last was told", L::ask::<Idler>(&last, HowOften).await, 1)?;
    let told = each((live_bytes() - live) as f64);
    let resident = each(resident_bytes()? as f64 - resident as f64);
    for idler in &idlers {
        expect("what each was told", L::ask::<Idler>(idler, HowOften).await, 1)?;
    }
    Ok(vec![
        Sample::new("create", created, Unit::Nanoseconds),
        Sample::new("bytes", bytes, Unit::Bytes),
        Sample::new("bytes_told", told, Unit::Bytes),
        Sample::new("resident", resident, Unit::Bytes),
    ])
}
