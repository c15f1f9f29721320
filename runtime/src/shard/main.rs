//! What `#[wo::main]` expands to: a process from its environment to its exit status.

use std::process::{ExitCode, Termination};

use crate::error::say;
use crate::fiber::IntoFiber;
use crate::os::cpus;
use crate::plane::backend::Selection;
use crate::shard::builder::{Builder, RunError};
use crate::shard::topology::Topology;

/// The attribute's arguments; what it does not name is none.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MainOptions {
    /// `shards = n`
    pub shards: Option<usize>,
    /// `reductions = n`
    pub reductions: Option<u32>,
    /// `io = "..."`
    pub io: Option<Selection>,
    /// `seed = n`
    pub seed: Option<u64>,
    /// `topology = "..."`
    pub topology: Option<Topology>,
}

/// Runs a program's main fiber and gives the process's exit status: main's own if it returned; 128 and the signal
/// when a signal stopped it and the grace passed; 101 when it panicked; 1, with the reason on stderr, when the runtime
/// could not be set up or gave out.
#[doc(hidden)]
pub fn run_main<B: IntoFiber>(options: MainOptions, body: B) -> ExitCode
where
    B::Output: Termination,
{
    let shards = options.shards.unwrap_or_else(cpus::cores);
    let mut builder = Builder::new().stop_signals(true).shards(shards).pin_several();
    if let Some(reductions) = options.reductions {
        builder = builder.reductions(reductions);
    }
    if let Some(io) = options.io {
        builder = builder.io(io);
    }
    if let Some(seed) = options.seed {
        builder = builder.seed(seed);
    }
    if let Some(topology) = options.topology {
        builder = builder.topology(topology);
    }
    let builder = match builder.env() {
        Ok(builder) => builder,
        Err(error) => {
            say(format_args!("{error}"));
            return ExitCode::FAILURE;
        }
    };
    match builder.run(body) {
        Ok(value) => value.report(),
        Err(error) => {
            say(format_args!("{error}"));
            match error {
                RunError::Stopped { signal: Some(signal) } => ExitCode::from(128_u8.wrapping_add(signal as u8)),
                RunError::Panicked(_) => ExitCode::from(101),
                _ => ExitCode::FAILURE,
            }
        }
    }
}
