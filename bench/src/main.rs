//! Benchmarks of `wo` beside its peers.
//!
//! `wo-bench echo|spawn|switch|nop|timers|memory|walk|shards|actors|scope|sim|db` measures every subject of the build
//! in alternating rounds on one machine, in one run; `--help` says how to read what comes out. The parts: `subject/`
//! holds one file per runtime, `echo.rs` to `shards.rs` and `actors/` one per benchmark, `executor.rs` and
//! `actors/mod.rs` the seam between the two; `rounds.rs` takes turns, `worker.rs` keeps each subject in a process of
//! its own, `load.rs` drives the echo servers.

mod actors;
mod alloc;
mod bench;
mod cli;
mod crowd;
mod db;
mod echo;
mod executor;
mod failure;
mod front;
mod load;
mod memory;
mod meter;
mod nop;
mod report;
mod rounds;
mod scope;
mod shards;
mod sim;
mod spawn;
mod stats;
mod subject;
mod switch;
mod sys;
mod timers;
mod walk;
mod worker;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use bench::{Bench, Cores};
use cli::{Cli, Command, Options};
use failure::{Failure, Tried};
use report::Report;
use rounds::{Outcome, Plan};
use subject::Subject;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("wo-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Does what the command says; false when some subject failed and the others went on.
fn run(command: Command) -> Result<bool, Failure> {
    let (bench, options) = match command {
        Command::Echo(options) => (Bench::Echo, options),
        Command::Spawn(options) => (Bench::Spawn, options),
        Command::Switch(options) => (Bench::Switch, options),
        Command::Nop(options) => (Bench::Nop, options),
        Command::Timers(options) => (Bench::Timers, options),
        Command::Memory(options) => (Bench::Memory, options),
        Command::Walk(options) => (Bench::Walk, options),
        Command::Shards(options) => (Bench::Shards, options),
        Command::Actors(options) => (Bench::Actors, options),
        Command::Scope(options) => (Bench::Scope, options),
        Command::Sim(options) => (Bench::Sim, options),
        Command::Db(options) => (Bench::Db, options),
        Command::Subjects => return list().map(|()| true),
        Command::Worker(worker) => {
            let subject = subject::named(&worker.subject)?;
            return worker::work(subject, worker.bench, &worker.case, worker.core).map(|()| true);
        }
    };
    campaign(bench, &options)
}

fn campaign(bench: Bench, options: &Options) -> Result<bool, Failure> {
    let cases: Vec<&str> = if options.cases.is_empty() {
        bench.cases().to_vec()
    } else {
        options.cases.iter().map(String::as_str).collect()
    };
    cases.iter().try_for_each(|case| bench.check(case))?;
    let subjects = subjects(bench, &cases, options)?;
    let plan = Plan {
        rounds: options.rounds.map_or(bench.rounds(), |rounds| rounds as usize),
        budget: options.seconds.unwrap_or(bench.budget()),
    };
    let cores = cores(bench, options)?;
    if cfg!(debug_assertions) {
        eprintln!("wo-bench: this is a debug build, its figures mean nothing");
    }
    let mut all_went_well = true;
    let mut measured = Vec::new();
    let print = |case: &str, outcomes: &[Outcome]| {
        let report = Report { bench, case, outcomes, against: options.against.as_deref() };
        let out = std::io::stdout().lock();
        if options.json { report.write_json(out) } else { report.write_table(out) }.tried("write the figures")
    };
    for case in &cases {
        let outcomes = bench.run(case, &subjects, plan, cores)?;
        for outcome in &outcomes {
            if let Err(failure) = &outcome.result {
                all_went_well = false;
                eprintln!("wo-bench: {failure}");
            }
        }
        print(case, &outcomes)?;
        measured.push(outcomes);
    }
    if bench == Bench::Echo && cases.len() > 1 {
        print("geometric mean", &rounds::geometric_mean(&measured))?;
    }
    Ok(all_went_well)
}

/// The subjects asked for, or all; one that was asked for and takes part in none of the cases is an error.
fn subjects(bench: Bench, cases: &[&str], options: &Options) -> Result<Vec<&'static dyn Subject>, Failure> {
    let takes_part = |subject: &dyn Subject| cases.iter().any(|case| bench.is_offered(subject, case));
    let chosen = if options.subjects.is_empty() {
        subject::all()
    } else {
        options.subjects.iter().map(|name| subject::named(name)).collect::<Result<_, _>>()?
    };
    for subject in &chosen {
        if !options.subjects.is_empty() && !takes_part(*subject) {
            return Err(Failure::new(
                format!("run {bench} {}", cases.join(",")),
                format!("{} does not offer it", subject.name()),
            )
            .remedy("`wo-bench subjects` lists who takes part in what"));
        }
    }
    if let Some(against) = &options.against
        && !chosen.iter().any(|subject| subject.name() == against)
    {
        return Err(Failure::new(format!("compare against `{against}`"), "it is not among the subjects of this run"));
    }
    Ok(chosen)
}

fn cores(bench: Bench, options: &Options) -> Result<Cores, Failure> {
    let available = sys::cores()?;
    let first = *available.first().ok_or_else(|| Failure::new("choose a processor", "this process may run on none"))?;
    let subject = options.server_core.unwrap_or(first);
    let other = available.iter().find(|core| **core != subject);
    let load = options.load_core.or(other.copied()).unwrap_or(subject);
    if bench == Bench::Echo && load == subject {
        eprintln!("wo-bench: server and load share one processor; only server_cpu_per_request means anything");
    }
    Ok(Cores { subject, load })
}

fn list() -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for subject in subject::all() {
        let part: Vec<_> = Bench::value_variants()
            .iter()
            .filter(|bench| bench.cases().iter().any(|case| bench.is_offered(subject, case)))
            .map(Bench::to_string)
            .collect();
        writeln!(out, "{:8} {}\n         {}", subject.name(), subject.about(), part.join(" "))
            .tried("write the list of subjects")?;
    }
    Ok(())
}
