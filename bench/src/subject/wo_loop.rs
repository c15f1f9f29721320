//! `wo`'s event loop by itself: callbacks instead of fibers (tier A).
//!
//! What it adds to the bare ring is the plane's price; what `wo` adds to it is the fiber's.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use wo_runtime::plane::backend::uring::UringBackend;
use wo_runtime::plane::{EventLoop, LoopConfig, ops};

use crate::bench::{Bench, positive};
use crate::failure::Failure;
use crate::meter::Meter;
use crate::nop;
use crate::stats::Sample;

use super::{Round, Subject};

/// `wo`'s event loop.
#[derive(Debug)]
pub struct WoLoop;

fn nops(case: &str, budget: Duration) -> Result<Vec<Sample>, Failure> {
    let batch = positive(case)?;
    let refused = |error| Failure::new("run wo's loop", error);
    let mut event_loop = EventLoop::<UringBackend>::new(&LoopConfig::default()).map_err(refused)?;
    let laps = if batch == 1 { 100 } else { 1 };
    let answered = Rc::new(Cell::new(0));
    let mut handed_in = 0;
    let mut meter = Meter::start(budget);
    loop {
        for _ in 0..laps {
            for _ in 0..batch {
                let answered = Rc::clone(&answered);
                let tell = move |_: &mut EventLoop<UringBackend>, result: Result<(), _>| {
                    assert!(std::hint::black_box(result).is_ok(), "a NOP cannot fail");
                    answered.set(answered.get() + 1);
                };
                event_loop.submit(std::hint::black_box(ops::Nop), tell).map_err(refused)?;
            }
            handed_in += batch;
            while answered.get() < handed_in {
                event_loop.run_once(Duration::MAX).map_err(refused)?;
            }
        }
        if meter.lap((laps * batch) as u64) {
            return Ok(nop::samples(meter.nanoseconds_each()));
        }
    }
}

impl Subject for WoLoop {
    fn name(&self) -> &'static str {
        "wo-loop"
    }

    fn about(&self) -> &'static str {
        "wo's event loop with callbacks, no fibers (tier A)"
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        match bench {
            Bench::Nop => Some(nops),
            _ => None,
        }
    }
}
