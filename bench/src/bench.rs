//! The benchmarks there are, and how one runs over the subjects.

use std::fmt;
use std::time::Duration;

use crate::db::{self, Place};
use crate::echo::EchoLane;
use crate::failure::Failure;
use crate::rounds::{Lane, Outcome, Plan, alternate};
use crate::shards::ShardsLane;
use crate::stats::Sample;
use crate::subject::Subject;
use crate::walk::Tree;
use crate::worker::{Post, Worker};
use crate::{actors, echo, memory, nop, scope, shards, sim, spawn, switch, timers, walk};

/// One of the benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Bench {
    /// A TCP echo server under load.
    Echo,
    /// Starting and joining tasks.
    Spawn,
    /// Going from one task to the next.
    Switch,
    /// Operations that do nothing.
    Nop,
    /// Many sleeping tasks.
    Timers,
    /// What a waiting task costs.
    Memory,
    /// Counting what is under a directory, on two threads.
    Walk,
    /// A TCP server with one shard and with all.
    Shards,
    /// Actors that send each other messages.
    Actors,
    /// What structure costs beside the same work without it.
    Scope,
    /// How fast virtual time passes.
    Sim,
    /// A durable store.
    Db,
}

impl fmt::Display for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bench::Echo => "echo",
            Bench::Spawn => "spawn",
            Bench::Switch => "switch",
            Bench::Nop => "nop",
            Bench::Timers => "timers",
            Bench::Memory => "memory",
            Bench::Walk => "walk",
            Bench::Shards => "shards",
            Bench::Actors => "actors",
            Bench::Scope => "scope",
            Bench::Sim => "sim",
            Bench::Db => "db",
        })
    }
}

/// Which processors to use.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    /// The one of the server, and of every benchmark without a load.
    pub subject: usize,
    /// The one of the load.
    pub load: usize,
}

impl Bench {
    /// The cases measured when none are named.
    pub fn cases(self) -> &'static [&'static str] {
        match self {
            Bench::Echo => echo::CASES,
            Bench::Spawn => spawn::CASES,
            Bench::Switch => switch::CASES,
            Bench::Nop => nop::CASES,
            Bench::Timers => timers::CASES,
            Bench::Memory => memory::CASES,
            Bench::Walk => walk::CASES,
            Bench::Shards => shards::CASES,
            Bench::Actors => actors::CASES,
            Bench::Scope => scope::CASES,
            Bench::Sim => sim::CASES,
            Bench::Db => db::CASES,
        }
    }

    /// Rounds per subject when no number is given.
    pub fn rounds(self) -> usize {
        match self {
            Bench::Timers | Bench::Memory | Bench::Actors | Bench::Db => 7,
            _ => 15,
        }
    }

    /// The length of a round when none is given.
    pub fn budget(self) -> Duration {
        match self {
            Bench::Echo | Bench::Walk => Duration::from_millis(250),
            Bench::Shards => Duration::from_millis(600),
            Bench::Db => Duration::from_millis(500),
            _ => Duration::from_millis(100),
        }
    }

    /// Refuses a case this benchmark cannot read, before anything is started.
    pub fn check(self, case: &str) -> Result<(), Failure> {
        match self {
            Bench::Echo => case.parse::<echo::Case>().map(drop),
            Bench::Memory => memory::check(case),
            Bench::Walk => walk::check(case),
            Bench::Db => db::check(case),
            Bench::Shards => case.parse::<shards::Case>().map(drop),
            Bench::Actors => actors::check(case),
            Bench::Scope => scope::check(case),
            Bench::Sim => sim::check(case),
            _ => positive(case).map(drop),
        }
    }

    /// Whether `subject` takes part in `case`.
    pub fn is_offered(self, subject: &dyn Subject, case: &str) -> bool {
        match self {
            Bench::Echo => subject.echo().is_some(),
            Bench::Shards => subject.shards().is_some(),
            Bench::Db if db::is_its_own(case) => subject.name() == "wo",
            Bench::Memory if memory::needs_timers(case) => subject.round(Bench::Timers).is_some(),
            Bench::Memory if memory::needs_actors(case) => subject.round(Bench::Actors).is_some(),
            // Who can park a task can also start one.
            Bench::Memory => subject.round(Bench::Spawn).is_some(),
            _ => subject.round(self).is_some(),
        }
    }

    /// Whether a worker is to stay on one processor in `case`.
    pub fn is_on_one_core(self, case: &str) -> bool {
        match self {
            // The kernel syncs a file on a thread of its own.
            Bench::Walk | Bench::Db => false,
            Bench::Actors => actors::is_on_one_thread(case),
            _ => true,
        }
    }

    /// Runs one case over those of `subjects` that take part in it.
    pub fn run(
        self,
        case: &str,
        subjects: &[&'static dyn Subject],
        plan: Plan,
        cores: Cores,
    ) -> Result<Vec<Outcome>, Failure> {
        let tree = if self == Bench::Walk { Some(Tree::grow(case)?) } else { None };
        let place = if self == Bench::Db { Some(Place::make()?) } else { None };
        let variable = tree.as_ref().map(Tree::variable).or_else(|| place.as_ref().map(Place::variable));
        let starters = subjects
            .iter()
            .filter(|subject| self.is_offered(**subject, case))
            .map(|subject| {
                let post = Post {
                    bench: self,
                    subject: subject.name(),
                    case: case.to_owned(),
                    core: cores.subject,
                    variable: variable.clone(),
                };
                let start: Box<dyn FnOnce() -> Result<Box<dyn Lane>, Failure>> = Box::new(move || post.lane(cores));
                (subject.name(), start)
            })
            .collect();
        Ok(alternate(starters, plan))
    }
}

impl Post {
    fn lane(self, cores: Cores) -> Result<Box<dyn Lane>, Failure> {
        Ok(match self.bench {
            Bench::Echo => Box::new(EchoLane::open(&self, cores)?),
            Bench::Shards => Box::new(ShardsLane::open(&self, cores)?),
            Bench::Memory => Box::new(Afresh(self)),
            _ => Box::new(Worker::start(&self)?),
        })
    }
}

impl Lane for Worker {
    fn round(&mut self, budget: Duration) -> Result<Vec<Sample>, Failure> {
        Worker::round(self, budget)
    }
}

/// A lane whose every round runs in a new process.
struct Afresh(Post);

impl Lane for Afresh {
    fn round(&mut self, budget: Duration) -> Result<Vec<Sample>, Failure> {
        Worker::start(&self.0)?.round(budget)
    }
}

/// Reads a case that is a number, one at least.
pub fn positive(case: &str) -> Result<usize, Failure> {
    match case.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(Failure::new(format!("case `{case}`"), "expected a number, 1 or more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_benchmark_reads_its_own_cases_and_refuses_nonsense() {
        for bench in Bench::value_variants() {
            for case in bench.cases() {
                bench.check(case).unwrap();
            }
            for case in [
                "",
                "x",
                "0",
                "-3",
                "5x",
                "0x64",
                "5x3",
                "many-parked",
                "0-parked",
                "0-actors",
                "ring/0",
                "ring/x",
                "/1",
            ] {
                let error = bench.check(case).unwrap_err().to_string();
                assert!(error.contains(&format!("`{case}`")), "{error}");
            }
        }
    }
}
