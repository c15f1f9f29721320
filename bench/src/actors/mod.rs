//! `actors`: the Savina workloads, and the round trip of a request, on every library of actors.
//!
//! A workload is written once, against [`Library`] and [`Role`], and compiled once per library: what an actor does with
//! a message is the same code everywhere, and what a library adds is how it starts an actor and how it delivers. Every
//! workload checks its own result (counts, sums, who was last) and refuses the round when it is wrong.
//!
//! A case is `WORKLOAD/THREADS`: `ping-pong/1` has everything on one thread, `ping-pong/all` on as many as there are
//! processors. The clock runs from the first message to the last, with the cast already there; in `create` making the
//! cast is what is measured. `each` is the time per operation as the workload defines it, `cpu` what all threads
//! together ran for it, waiting in a spin included.

use std::fmt;
use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_channel::oneshot;

use crate::bench::positive;
use crate::failure::Failure;
use crate::stats::{Sample, Unit};
use crate::sys;

mod ask;
mod bank;
mod big;
mod chameneos;
mod counting;
mod create;
mod dictionary;
pub mod idle;
mod philosophers;
mod ping_pong;
mod ring;
mod throughput;

/// A library of actors. Its actors run on one thread or on several; nothing else of it is asked for.
pub trait Library: Sized + 'static {
    /// How an actor is reached.
    type Address<R: Role<Self>>: Clone + Send + Sync + Unpin + 'static;

    /// Starts the library on `threads` threads, the calling one included where it can be, and runs `body` there.
    fn host<B, F>(threads: usize, body: B) -> Result<F::Output, Failure>
    where
        B: FnOnce() -> F + Send + 'static,
        F: Future + Send + 'static,
        F::Output: Send + 'static;

    /// Starts an actor on the thread whose number is `place`, in turn; where work moves between threads that is only
    /// where it begins, if that.
    fn start<R: Role<Self>>(role: R, place: usize) -> impl Future<Output = Self::Address<R>> + Send;

    /// Sends a message. The mailboxes have no bound.
    fn tell<R: Role<Self>>(to: &Self::Address<R>, message: R::Message) -> impl Future<Output = ()> + Send;

    /// Sends a question and waits for the answer.
    fn ask<R: Role<Self>>(to: &Self::Address<R>, question: R::Question) -> impl Future<Output = R::Answer> + Send;

    /// Has the actor end when it has handled what it was sent. Nobody else has its address any more.
    fn dismiss<R: Role<Self>>(actor: Self::Address<R>);
}

/// What an actor does.
pub trait Role<L: Library>: Send + Unpin + 'static {
    /// Whether [`receive`](Role::receive) may wait for something; where handlers are plain functions, such a one is
    /// handed over to a future instead.
    #[cfg_attr(not(feature = "peers"), expect(dead_code, reason = "only a rival has to know"))]
    const PARKS: bool = false;

    /// What it is told.
    type Message: Send + 'static;

    /// What it is asked.
    type Question: Send + 'static;

    /// What it answers.
    type Answer: Send + 'static;

    /// Handles a message; the next waits until it is done.
    fn receive(&mut self, message: Self::Message) -> impl Future<Output = ()> + Send;

    /// Answers a question. Never waits.
    fn answer(&mut self, question: Self::Question) -> Self::Answer;
}

/// What nobody asks.
pub type Never = std::convert::Infallible;

/// The stopwatch of a workload.
#[derive(Clone, Copy, Debug)]
struct Watch {
    start: Instant,
    cpu: Duration,
}

impl Watch {
    fn start() -> Watch {
        Watch { cpu: sys::process_cpu(), start: Instant::now() }
    }

    /// What each of so many operations took.
    fn stop(self, operations: u64) -> Vec<Sample> {
        let (time, cpu) = (self.start.elapsed(), sys::process_cpu() - self.cpu);
        let each = |time: Duration| time.as_nanos() as f64 / operations as f64;
        vec![Sample::new("each", each(time), Unit::Nanoseconds), Sample::new("cpu", each(cpu), Unit::Nanoseconds)]
    }
}

/// What a workload must come to.
fn expect<T: PartialEq + fmt::Debug>(what: &str, got: T, expected: T) -> Result<(), Failure> {
    if got == expected {
        return Ok(());
    }
    Err(Failure::new(format!("check {what}"), format!("it is {got:?}, and should be {expected:?}")))
}

/// The end of a workload did not come: an actor that had to tell it has gone.
fn no_end(_: oneshot::Canceled) -> Failure {
    Failure::new("wait for the end of the workload", "an actor ended early")
}

/// Waits for a number of actors to finish, and adds up what they report.
#[derive(Debug)]
struct Latch {
    left: AtomicUsize,
    sum: AtomicU64,
    done: Mutex<Option<oneshot::Sender<u64>>>,
}

impl Latch {
    fn new(number: usize) -> (Latch, oneshot::Receiver<u64>) {
        let (sender, receiver) = oneshot::channel();
        let left = AtomicUsize::new(number);
        (Latch { left, sum: AtomicU64::new(0), done: Mutex::new(Some(sender)) }, receiver)
    }

    fn arrive(&self, report: u64) {
        self.sum.fetch_add(report, Ordering::Relaxed);
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1
            && let Ok(mut done) = self.done.lock()
            && let Some(done) = done.take()
        {
            // Nobody waits any more: then nobody has to be told.
            let _ = done.send(self.sum.load(Ordering::Relaxed));
        }
    }
}

/// Numbers that look random and are the same in every run.
#[derive(Clone, Copy, Debug)]
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * bound as u128) >> 64) as usize
    }
}

/// A few nanoseconds of arithmetic that cannot be left out: what the fork-join workloads do with a message.
fn compute(theta: f64) -> u64 {
    let sine = std::hint::black_box(theta).sin();
    u64::from(std::hint::black_box(sine * sine) > 0.0)
}

/// The workloads, in the order of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workload {
    PingPong,
    Counting,
    Throughput,
    Create,
    Ring,
    Chameneos,
    Big,
    Dictionary,
    Bank,
    Philosophers,
    Ask,
}

const WORKLOADS: [(&str, Workload); 11] = [
    ("ping-pong", Workload::PingPong),
    ("counting", Workload::Counting),
    ("throughput", Workload::Throughput),
    ("create", Workload::Create),
    ("ring", Workload::Ring),
    ("chameneos", Workload::Chameneos),
    ("big", Workload::Big),
    ("dictionary", Workload::Dictionary),
    ("bank", Workload::Bank),
    ("philosophers", Workload::Philosophers),
    ("ask", Workload::Ask),
];

/// What is measured when nothing is named.
pub const CASES: &[&str] = &[
    "ping-pong/1",
    "counting/1",
    "throughput/1",
    "create/1",
    "ring/1",
    "chameneos/1",
    "big/1",
    "dictionary/1",
    "bank/1",
    "philosophers/1",
    "ask/1",
    "ping-pong/all",
    "counting/all",
    "throughput/all",
    "create/all",
    "ring/all",
    "chameneos/all",
    "big/all",
    "dictionary/all",
    "bank/all",
    "philosophers/all",
    "ask/all",
];

const ALL: &str = "all";

fn parse(case: &str) -> Result<(Workload, usize), Failure> {
    let known = case.split_once('/').and_then(|(name, threads)| {
        let (_, workload) = WORKLOADS.iter().find(|(known, _)| *known == name)?;
        let threads = if threads == ALL { sys::cores().ok()?.len() } else { positive(threads).ok()? };
        Some((*workload, threads))
    });
    known.ok_or_else(|| {
        let names: Vec<_> = WORKLOADS.iter().map(|(name, _)| *name).collect();
        Failure::new(
            format!("case `{case}`"),
            format!("expected a workload and its threads, ping-pong/1 or ping-pong/all; there is {}", names.join(", ")),
        )
    })
}

/// Refuses what is no case.
pub fn check(case: &str) -> Result<(), Failure> {
    parse(case).map(drop)
}

/// Whether everything in `case` runs on one thread, which then stays on one processor.
pub fn is_on_one_thread(case: &str) -> bool {
    parse(case).is_ok_and(|(_, threads)| threads == 1)
}

/// One round on library `L`: the whole workload, however long it takes.
pub fn round<L: Library>(case: &str, _budget: Duration) -> Result<Vec<Sample>, Failure> {
    let (workload, threads) = parse(case)?;
    play::<L>(workload, threads, 1)
}

/// Plays a workload of `1/scale` of its size.
fn play<L: Library>(workload: Workload, threads: usize, scale: usize) -> Result<Vec<Sample>, Failure> {
    match workload {
        Workload::PingPong => L::host(threads, move || ping_pong::run::<L>(1_000_000 / scale)),
        Workload::Counting => L::host(threads, move || counting::run::<L>(1_000_000 / scale)),
        Workload::Throughput => L::host(threads, move || throughput::run::<L>(60, 10_000 / scale)),
        Workload::Create => L::host(threads, move || create::run::<L>(40_000 / scale)),
        Workload::Ring => L::host(threads, move || ring::run::<L>(100, 100_000 / scale)),
        Workload::Chameneos => L::host(threads, move || chameneos::run::<L>(100, 200_000 / scale)),
        Workload::Big => L::host(threads, move || big::run::<L>(120, 2_000 / scale)),
        Workload::Dictionary => L::host(threads, move || dictionary::run::<L>(20, 10_000 / scale, (512 << 10) / scale)),
        Workload::Bank => L::host(threads, move || bank::run::<L>(1_000, 50_000 / scale)),
        Workload::Philosophers => L::host(threads, move || philosophers::run::<L>(20, 10_000 / scale)),
        Workload::Ask => L::host(threads, move || ask::run::<L>(200_000 / scale)),
    }?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject;

    fn every_workload_comes_to_its_result<L: Library>() {
        for threads in [1, 2] {
            for (name, workload) in WORKLOADS {
                let samples = play::<L>(workload, threads, 500).unwrap_or_else(|failure| panic!("{name}: {failure}"));
                assert!(samples[0].value > 0.0, "{name}");
            }
        }
    }

    #[test]
    fn every_workload_comes_to_its_result_on_wo() {
        if io_uring::IoUring::new(8).is_ok() {
            every_workload_comes_to_its_result::<subject::wo::Wo>();
        }
    }

    #[cfg(feature = "peers")]
    #[test]
    fn every_workload_comes_to_its_result_on_tokio() {
        every_workload_comes_to_its_result::<subject::tokio::Tokio>();
    }

    #[cfg(feature = "peers")]
    #[test]
    fn every_workload_comes_to_its_result_on_kameo() {
        every_workload_comes_to_its_result::<subject::kameo::Kameo>();
    }

    #[cfg(feature = "peers")]
    #[test]
    fn every_workload_comes_to_its_result_on_ractor() {
        every_workload_comes_to_its_result::<subject::ractor::Ractor>();
    }

    #[cfg(feature = "peers")]
    #[test]
    fn every_workload_comes_to_its_result_on_actix() {
        every_workload_comes_to_its_result::<subject::actix::Actix>();
    }

    #[test]
    fn every_usual_case_names_a_workload_and_every_workload_is_usual() {
        for (name, _) in WORKLOADS {
            for threads in ["1", ALL] {
                assert!(CASES.contains(&format!("{name}/{threads}").as_str()), "{name}/{threads}");
            }
        }
        assert_eq!(CASES.len(), 2 * WORKLOADS.len());
        assert!(CASES.iter().all(|case| check(case).is_ok()));
    }

    #[test]
    fn a_wrong_result_refuses_the_round_and_says_what_was_wrong() {
        let error = expect("the count", 3, 4).unwrap_err().to_string();
        assert_eq!(error, "check the count: it is 3, and should be 4");
    }

    #[test]
    fn dice_stay_below_their_bound_and_repeat_themselves() {
        let roll = || {
            let mut dice = Dice::new(7);
            (0..1000).map(|_| dice.below(10)).collect::<Vec<_>>()
        };
        let rolled = roll();
        assert_eq!(rolled, roll());
        assert!((0..10).all(|face| rolled.iter().filter(|rolled| **rolled == face).count() > 50));
    }
}
