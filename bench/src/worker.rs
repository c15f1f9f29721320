//! Every subject runs in a process of its own, started from this same executable.
//!
//! So each has its own heap, its own limits and its own processor clock, and one that panics or hangs spoils nothing
//! but its own line. The two talk in lines: the parent writes `Order`s to the worker's standard input, the worker
//! writes `Answer`s to its standard output. A worker ends when its standard input does, so none is left behind when
//! the parent goes, however it goes.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::bench::Bench;
use crate::failure::{Failure, Tried};
use crate::shards::Duty;
use crate::stats::Sample;
use crate::subject::Subject;
use crate::sys::{self, ProcessCpu};

/// What a worker may take on top of the time it was given before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// The hidden subcommand a worker is started with.
pub const SUBCOMMAND: &str = "worker";

/// What to run, where.
#[derive(Clone, Debug)]
pub struct Post {
    /// The benchmark.
    pub bench: Bench,
    /// The subject's name.
    pub subject: &'static str,
    /// The case.
    pub case: String,
    /// The processor to stay on, if it uses one alone.
    pub core: usize,
    /// A variable of the environment it is to find, and its value.
    pub variable: Option<(&'static str, OsString)>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Ready,
    Listening(SocketAddr),
    Samples(Vec<Sample>),
    Failed(String),
}

/// A worker as its parent sees it.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
    what: String,
}

impl Worker {
    /// Starts a worker that runs rounds on request.
    pub fn start(post: &Post) -> Result<Worker, Failure> {
        let mut worker = Worker::launch(post)?;
        match worker.answer(Duration::ZERO)? {
            Answer::Ready => Ok(worker),
            other => Err(worker.unexpected(&other)),
        }
    }

    /// Starts a worker that serves; returns it with the address it listens on.
    pub fn serve(post: &Post) -> Result<(Worker, SocketAddr), Failure> {
        let mut worker = Worker::launch(post)?;
        match worker.answer(Duration::ZERO)? {
            Answer::Listening(address) => Ok((worker, address)),
            other => Err(worker.unexpected(&other)),
        }
    }

    /// Runs one round of `budget`.
    pub fn round(&mut self, budget: Duration) -> Result<Vec<Sample>, Failure> {
        writeln!(self.orders, "{}", budget.as_nanos()).tried(format!("ask {} for a round", self.what))?;
        match self.answer(budget)? {
            Answer::Samples(samples) => Ok(samples),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The worker's process.
    pub fn process(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The worker's processor clock.
    pub fn cpu(&self) -> Result<ProcessCpu, Failure> {
        ProcessCpu::of(self.child.id())
    }

    /// Why a worker that stopped answering did so, if it is known.
    pub fn explain(&mut self, failure: Failure) -> Failure {
        match self.answers.try_recv().ok().map(|line| serde_json::from_str(&line)) {
            Some(Ok(Answer::Failed(cause))) => Failure::new(self.what.clone(), cause),
            _ => failure,
        }
    }

    fn launch(post: &Post) -> Result<Worker, Failure> {
        let what = format!("{} in {} {}", post.subject, post.bench, post.case);
        let program = std::env::current_exe().tried("find the path of this program")?;
        let mut child = Command::new(program)
            .args([SUBCOMMAND, &post.bench.to_string(), post.subject, &post.case])
            .arg(post.core.to_string())
            .envs(post.variable.clone())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .tried(format!("start {what}"))?;
        let (Some(orders), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both ends were asked for as pipes");
        };
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Worker { child, orders, answers, what })
    }

    fn answer(&mut self, budget: Duration) -> Result<Answer, Failure> {
        let line = match self.answers.recv_timeout(budget + PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                return Err(Failure::new(self.what.clone(), format!("no answer within {:?}", budget + PATIENCE)));
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait().tried(format!("wait for {}", self.what))?;
                return Err(Failure::new(self.what.clone(), format!("the process ended early, {status}")));
            }
        };
        match serde_json::from_str(&line) {
            Ok(Answer::Failed(cause)) => Err(Failure::new(self.what.clone(), cause)),
            Ok(answer) => Ok(answer),
            Err(error) => Err(Failure::new(format!("read the answer of {}", self.what), format!("{error}: {line}"))),
        }
    }

    fn unexpected(&self, answer: &Answer) -> Failure {
        Failure::new(self.what.clone(), format!("unexpected answer {answer:?}"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is over, and waiting leaves no zombie.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The life of a worker: this is what the hidden subcommand runs.
pub fn work(subject: &'static dyn Subject, bench: Bench, case: &str, core: usize) -> Result<(), Failure> {
    let result = try_work(subject, bench, case, core);
    if let Err(failure) = &result {
        tell(&Answer::Failed(failure.to_string()))?;
    }
    result
}

fn try_work(subject: &'static dyn Subject, bench: Bench, case: &str, core: usize) -> Result<(), Failure> {
    let missing = || Failure::new(format!("run {bench}"), format!("{} does not offer it", subject.name()));
    if bench == Bench::Shards {
        let serve = subject.shards().ok_or_else(missing)?;
        std::thread::spawn(end_with_input);
        return serve(Duty::of_this_process()?, |address| tell(&Answer::Listening(address)));
    }
    if bench == Bench::Echo {
        let serve = subject.echo().ok_or_else(missing)?;
        // Started before this thread is pinned: it must not share the server's core. It sleeps until the end.
        std::thread::spawn(end_with_input);
        sys::pin(core)?;
        return serve(|address| tell(&Answer::Listening(address)));
    }
    let round = subject.round(bench).ok_or_else(missing)?;
    if bench.is_on_one_core(case) {
        sys::pin(core)?;
    }
    tell(&Answer::Ready)?;
    for order in std::io::stdin().lines() {
        let order = order.tried("read the next order")?;
        let nanoseconds = order.parse().map_err(|error| Failure::new(format!("read the order `{order}`"), error))?;
        tell(&Answer::Samples(round(case, Duration::from_nanos(nanoseconds))?))?;
    }
    Ok(())
}

fn end_with_input() {
    // Nothing is ever sent to a server: the read returns when the parent is gone or has had enough.
    let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    std::process::exit(0);
}

fn tell(answer: &Answer) -> Result<(), Failure> {
    let line = serde_json::to_string(answer).map_err(|error| Failure::new("write an answer", error))?;
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").and_then(|()| output.flush()).tried("write an answer")
}
