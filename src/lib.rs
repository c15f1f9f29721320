//! `wo`: servers in plain straight-line Rust.
//!
//! A function under [`macro@main`] or [`macro@fiber`] is written without `async`, without `.await`, without locks and
//! threads. Underneath, one io_uring loop runs its fibers: a call that would block parks its fiber, and the others
//! go on.

pub use wo_db as db;
pub use wo_macros::{Field, Message, Record, actor, fiber, main};
pub use wo_net as net;
pub use wo_runtime::actor::{spawn, spawn_with};
pub use wo_runtime::error::{self, IoError, IoResult, OpKind, Stage};
pub use wo_runtime::fiber::notify::Notify;
pub use wo_runtime::fiber::oneshot::{self, oneshot};
pub use wo_runtime::fiber::{
    Call, Channel, Child, FiberId, IntoFiber, JoinError, JoinHandle, MissedTicks, PutError, Scope, SharedChannel,
    Ticker, checkpoint, id, now, sleep, sleep_until, spawn_named, spawn_pinned, spawn_stealable, wait,
    wait_unless_cancelled, wall_clock, yield_now,
};
pub use wo_runtime::os::cpus::cores;
pub use wo_runtime::os::{fs, io, process};
pub use wo_runtime::plane;
pub use wo_runtime::plane::backend::{BackendKind, Caps, Selection};
pub use wo_runtime::plane::{Deadline, Instant, Written};
pub use wo_runtime::scope::{Cause, First, Interrupt, Outcome, Panic, ScopeOptions, interrupt, schedule};
pub use wo_runtime::shard::{
    BlockingError, Builder, Environment, EnvironmentError, RunError, Topology, backend, blocking, pool, post_to,
    shard_index, shards, spawn_anywhere, stop,
};
pub use wo_runtime::sim;

/// In a fiber function the closure is a part of this fiber, as plain as the rest, and borrows what it uses; the
/// closures it gives to the scope are fibers, and own what they use:
///
/// ```
/// use std::time::Duration;
///
/// #[wo::fiber]
/// fn price(of: &str) -> wo::IoResult<u32> {
///     wo::sleep(Duration::from_millis(1))?;
///     Ok(of.len() as u32)
/// }
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let mut total = 0;
///     wo::scope(|s| {
///         let tea = s.fork(|| price("tea"));
///         let milk = s.fork(|| price("milk"));
///         s.spawn_daemon(|| {
///             while wo::sleep(Duration::from_secs(1)).is_ok() {
///                 println!("still shopping");
///             }
///         });
///         total = tea.join()? + milk.join()?;
///         Ok(())
///     })?;
///     assert_eq!(total, 7);
///     Ok(())
/// }
/// ```
///
/// What the errors of a scope are follows from its body and its children; where all of them return nothing, it is
/// written at the parameter: `|s: wo::Scope|` for an [`IoError`], `|s: wo::Scope<MyError>|` for another.
pub use wo_runtime::fiber::scope;

/// ```
/// use std::time::Duration;
/// use wo::ScopeOptions;
///
/// #[wo::main]
/// fn main() {
///     let options = ScopeOptions::new().deadline(Duration::from_millis(1)).cleanup(Duration::from_millis(1));
///     let outcome = wo::scope_with(options, |s: wo::Scope| {
///         s.spawn(|| {
///             // What it does when it is cancelled takes too long.
///             wo::protect(|| wo::sleep(Duration::MAX))
///         });
///     });
///     let cause = outcome.expect_err("it ran out of time");
///     assert!(cause.is_timeout() && cause.abandoned() == 1);
/// }
/// ```
pub use wo_runtime::fiber::scope_with;

/// ```
/// #[wo::main]
/// fn main() {
///     let outcome = wo::collecting_scope(|s| {
///         s.spawn(|| Err::<(), _>("no tea"));
///         s.spawn(|| {
///             wo::yield_now().map_err(|_| "cancelled")?;
///             Err::<(), _>("no milk")
///         });
///     });
///     assert_eq!(outcome.expect_err("both fail").to_string(), "failed: no tea (and 1 more)");
/// }
/// ```
pub use wo_runtime::fiber::collecting_scope;

/// In a fiber function the closure is a part of this fiber, as plain as the rest:
///
/// ```
/// use std::time::Duration;
///
/// #[wo::main]
/// fn main() {
///     let mut tries = 0;
///     let outcome: wo::Outcome<()> = wo::with_deadline(Duration::from_millis(5), || {
///         loop {
///             tries += 1;
///             wo::sleep(Duration::from_millis(1))?;
///         }
///     });
///     assert!(outcome.expect_err("it goes on for ever").is_timeout());
///     assert!(tries > 0);
/// }
/// ```
pub use wo_runtime::fiber::with_deadline;

/// ```
/// #[wo::main]
/// fn main() {
///     let past = wo::now();
///     let outcome = wo::with_deadline_at(past, || wo::yield_now());
///     assert!(outcome.expect_err("it is too late").is_timeout());
/// }
/// ```
pub use wo_runtime::fiber::with_deadline_at;

/// ```
/// use std::time::Duration;
///
/// #[wo::main]
/// fn main() {
///     let outcome = wo::timeout(Duration::from_millis(1), || wo::sleep(Duration::MAX));
///     assert!(outcome.expect_err("for ever is too long").is_timeout());
/// }
/// ```
pub use wo_runtime::fiber::timeout;

/// In a fiber function the closures are parts of this fiber, as plain as the rest, and may borrow what is around them:
///
/// ```
/// use std::time::Duration;
///
/// #[wo::main]
/// fn main() {
///     let answers = wo::Channel::new(1);
///     let outcome = wo::race((
///         || answers.take(),
///         || {
///             wo::sleep(Duration::from_millis(1))?;
///             Ok("nobody answers")
///         },
///     ));
///     assert_eq!(outcome.expect("a sleep that ends wins"), "nobody answers");
/// }
/// ```
pub use wo_runtime::fiber::race;

/// ```
/// use std::time::Duration;
///
/// #[wo::main]
/// fn main() {
///     let mirrors = [("far", 60_000), ("near", 1), ("farther", 90_000)];
///     let quickest: wo::Outcome<&str> = wo::race_all(mirrors, |(name, millis)| {
///         wo::sleep(Duration::from_millis(millis))?;
///         Ok(name)
///     });
///     assert_eq!(quickest.expect("one of them answers"), "near");
/// }
/// ```
pub use wo_runtime::fiber::race_all;

/// ```
/// #[wo::fiber]
/// fn length(of: &str) -> wo::IoResult<usize> {
///     wo::yield_now()?;
///     Ok(of.len())
/// }
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let name = String::from("Ada");
///     let (characters, ()) = wo::join((|| length(&name), || wo::yield_now()))?;
///     assert_eq!(characters, 3);
///     Ok(())
/// }
/// ```
pub use wo_runtime::fiber::join;

/// ```
/// #[wo::fiber]
/// fn length(of: &str) -> wo::IoResult<usize> {
///     wo::yield_now()?;
///     Ok(of.len())
/// }
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let lengths = wo::join_all(["Ada", "Grace"], |name| length(name))?;
///     assert_eq!(lengths, [3, 5]);
///     Ok(())
/// }
/// ```
pub use wo_runtime::fiber::join_all;

/// ```
/// use std::time::Duration;
///
/// #[wo::main]
/// fn main() {
///     let outcome: wo::Outcome<()> = wo::with_deadline(Duration::ZERO, || {
///         assert!(wo::yield_now().is_err());
///         // Cleaning up is not cancelled.
///         wo::protect(|| wo::sleep(Duration::from_millis(1)))?;
///         wo::yield_now()
///     });
///     assert!(outcome.expect_err("there was no time").is_timeout());
/// }
/// ```
pub use wo_runtime::fiber::protect;

/// In a fiber function the closure is a part of this fiber, as plain as the rest:
///
/// ```
/// use std::time::Duration;
/// use wo::schedule::{exponential, recurs};
///
/// #[wo::main]
/// fn main() {
///     let mut tries = 0;
///     let policy = exponential(Duration::from_micros(10)) & recurs(5);
///     let outcome = wo::retry(policy, || {
///         tries += 1;
///         wo::yield_now().map_err(|_| "cancelled")?;
///         if tries == 3 { Ok(tries) } else { Err("not yet") }
///     });
///     assert_eq!(outcome.expect("the third time it works"), 3);
/// }
/// ```
pub use wo_runtime::fiber::retry;

/// ```
/// use std::time::Duration;
/// use wo::schedule::{recurs, spaced};
///
/// #[wo::main]
/// fn main() {
///     let mut beats = 0;
///     let every_millisecond = spaced(Duration::from_millis(1)) & recurs(2);
///     let outcome: wo::Outcome<u32> = wo::repeat(every_millisecond, || {
///         beats += 1;
///         Ok(beats)
///     });
///     assert_eq!(outcome.expect("it does not fail"), 3);
/// }
/// ```
pub use wo_runtime::fiber::repeat;

/// What a program may do to the world, as values: traits, doubles for tests, and the live ones.
///
/// `main` is given the live row when it asks for it; its functions take what they need, and a test passes doubles:
///
/// ```
/// use std::time::Duration;
/// use wo::capability::{Clock, HasClock, TestClock};
///
/// #[wo::fiber]
/// fn nap(env: &impl HasClock) -> wo::IoResult<Duration> {
///     let start = env.clock().now();
///     env.clock().sleep(Duration::from_millis(1))?;
///     Ok(env.clock().now() - start)
/// }
///
/// #[wo::main]
/// fn main(env: wo::Env) -> wo::IoResult<()> {
///     assert!(nap(&env)? >= Duration::from_millis(1));
///
///     let clock = TestClock::new();
///     let double = env.with_clock(clock.clone());
///     let napping = wo::spawn(|| nap(&double));
///     wo::capability::advance_and_settle(&clock, Duration::from_secs(1))?;
///     assert_eq!(napping.join().expect("it does not panic")?, Duration::from_millis(1));
///     Ok(())
/// }
/// ```
pub mod capability {
    pub use wo_net::LiveNet;
    pub use wo_runtime::fiber::{LiveClock, advance_and_settle, settle};
    pub use wo_runtime::os::fs::LiveFs;
    pub use wo_runtime::os::process::{LiveProc, LiveProcess};
    pub use wo_runtime::scope::capability::{
        ByteStream, Captured, Clock, Command, Env, ExitStatus, Fs, HasClock, HasFs, HasNet, HasProc, Listener, MemFs,
        Net, NotThere, Proc, Process, Script, SimListener, SimNet, SimProc, SimProcess, SimStream, TestClock,
    };
}

/// What `main` may do to the world: the live row of [`capability`], unless another is written.
pub type Env<C = capability::LiveClock, N = capability::LiveNet, F = capability::LiveFs, P = capability::LiveProc> =
    capability::Env<C, N, F, P>;

/// Work described as a value, to be run later, again, or beside other work.
///
/// ```
/// use std::time::Duration;
/// use wo::effect::{Effect, Run, effect, succeed};
/// use wo::schedule::recurs;
///
/// #[wo::main]
/// fn main() {
///     let tea = wo::effect::effect(async || {
///         wo::sleep(Duration::from_micros(10)).await?;
///         Ok(3)
///     });
///     let order = tea.with_retry(recurs(2)).map(|cups| cups * 2).zip_par(succeed("milk"));
///     let outcome: wo::Outcome<(u32, &str)> = order.run(&());
///     assert_eq!(outcome.expect("there is tea"), (6, "milk"));
/// }
/// ```
pub mod effect {
    pub use wo_runtime::fiber::Run;
    pub use wo_runtime::scope::effect::{
        After, AndThen, Effect, Failed, Function, Lifted, LiftedIn, Map, Retried, RunsIn, Succeed, Timed, ZipPar,
        effect, effect_in, fail, succeed,
    };
}

/// In a fiber function the closure is as plain as the rest:
///
/// ```
/// use wo::effect::{Effect, Run};
///
/// #[wo::main]
/// fn main() {
///     let length = wo::effect(|| {
///         wo::yield_now()?;
///         Ok("tea".len())
///     });
///     let doubled: wo::Outcome<usize> = length.map(|length| length * 2).run(&());
///     assert_eq!(doubled.expect("it does not fail"), 6);
/// }
/// ```
pub use wo_runtime::scope::effect::effect;

/// Actors: state that only ever handles one message at a time, reached through an address.
pub mod actor {
    pub use wo_runtime::actor::{
        Actor, Addr, Ask, AskError, Calls, Counters, Delivery, Exit, NameError, Options, Overflow, Publishing, Reply,
        SendError, Sending, Spawn, Subscribed, Subscription, Supervision, Supervisor, Timer, Topic, TrySendError,
        back_off, counters, fail, lookup, register, spawn_with, this, unregister,
    };
}

/// What the macros expand to. Not for direct use.
#[doc(hidden)]
pub mod __rt {
    /// The row that `main` is given.
    pub const fn env() -> crate::Env {
        crate::Env {
            clock: crate::capability::LiveClock,
            net: crate::capability::LiveNet,
            fs: crate::capability::LiveFs,
            proc: crate::capability::LiveProc,
        }
    }

    pub use wo_db::__rt as db;
    pub use wo_runtime::actor::{Calls, call, crosses, handled, is_actor};
    pub use wo_runtime::fiber::{Call, Never, SettleOrdinary, output, spend, yield_turn};
    pub use wo_runtime::plane::backend::Selection;
    pub use wo_runtime::shard::{MainOptions, Topology, run_main};
}

/// The README's program, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
