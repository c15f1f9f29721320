//! What `#[wo::main]` expands to: a process from its environment to its exit status.

use std::cell::RefCell;
use std::process::{ExitCode, Termination};

use crate::error::{IoError, OpKind, Stage, errno, say};
use crate::fiber::IntoFiber;
use crate::os::cpus;
use crate::plane::backend::Selection;
use crate::plane::backend::sim::SimHost;
use crate::shard::builder::{Builder, RunError};
use crate::shard::simulated::{Outcome, Scheduler};
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

/// What starts a program in a world: its number there, and where its exit status will be.
type Start = Box<dyn FnOnce(&mut Scheduler) -> Result<(u64, Outcome<ExitCode>), RunError>>;

/// Whether a `main` that is called on this thread runs by itself, or is to begin in a world.
#[derive(Default)]
enum Way {
    #[default]
    Alone,
    /// On this host.
    Into(SimHost),
    /// It has begun, as far as it can before its world has a turn.
    Begun(Start),
}

thread_local! {
    static WAY: RefCell<Way> = RefCell::default();
}

/// Has a program begin on a simulated host, by its `main` function.
pub(crate) fn start_in(
    scheduler: &mut Scheduler,
    host: &SimHost,
    main: impl FnOnce() -> ExitCode,
) -> Result<(u64, Outcome<ExitCode>), RunError> {
    /// What was asked for is taken back also when `main` panics.
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            WAY.take();
        }
    }
    let back = Back;
    WAY.set(Way::Into(host.clone()));
    // The status of a `main` that has only begun says nothing.
    let _begun = main();
    let way = WAY.take();
    drop(back);
    match way {
        Way::Begun(start) => start(scheduler),
        Way::Into(_) | Way::Alone => {
            Err(RunError::Setup(IoError::new(errno::EINVAL, OpKind::Setup, Stage::Setup).with_context(
                "a main that is started in a world has to be under #[wo::main], whose variables are good",
            )))
        }
    }
}

/// Runs a program's main fiber and gives the process's exit status: main's own if it returned; 128 and the signal
/// when a signal stopped it and the grace passed; 101 when it panicked; 1, with the reason on stderr, when the runtime
/// could not be set up or gave out.
#[doc(hidden)]
pub fn run_main<B: IntoFiber + 'static>(options: MainOptions, body: B) -> ExitCode
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
    if let Way::Into(host) = WAY.take() {
        let builder = builder.stop_signals(false).simulated(&host);
        let body = async move || body.into_fiber().await.report();
        WAY.set(Way::Begun(Box::new(move |scheduler| scheduler.start(builder, body))));
        return ExitCode::SUCCESS;
    }
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
