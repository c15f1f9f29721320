//! `shards`: whether a server with two shards does twice the work of one.
//!
//! A case is connections x bytes x work: every request makes the server compute for so many microseconds before it sends
//! the bytes back. What is computed is a fixed amount, gauged once on an idle core, not a span of time, so a shard that
//! is kept from its core takes longer. Each subject serves twice, at one shard and at as many as there are cores, each
//! in a process of its own, and every round measures both, one after the other.
//!
//! On a machine of two cores the load has none to itself. With work it costs little beside the server, and `speedup`
//! is the plain ratio of requests per second. Without work the load takes as much of the cores as the server, and that
//! ratio says nothing; `capacity` leaves the load's cost out: it is the ratio of requests per second of the server's own
//! processor time, times the number of shards, and so what the ratio would be if the load ran elsewhere and the shards
//! were evenly busy. `load_cpu` is the load's share of one core while all shards served.

use std::ffi::OsString;
use std::hint::black_box;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use crate::bench::Cores;
use crate::echo::{self, Ready};
use crate::failure::{Failure, Tried};
use crate::load::{Load, Measured};
use crate::rounds::Lane;
use crate::stats::{Sample, Unit};
use crate::sys::{self, ProcessCpu};
use crate::worker::{Post, Worker};

/// Connections, bytes per request, microseconds of work per request.
pub const CASES: &[&str] = &["64x64x0", "64x64x20", "64x64x100"];

/// The variable in which the parent tells a server what to do.
const DUTY: &str = "WO_BENCH_DUTY";

/// How a subject serves: with so many shards, it listens, calls `ready`, and does its duty for ever.
pub type Serve = fn(duty: Duty, ready: Ready) -> Result<(), Failure>;

/// What a server has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duty {
    /// The number of shards, threads or workers.
    pub shards: usize,
    turns: u64,
}

impl Duty {
    /// What the parent asked of this process.
    pub fn of_this_process() -> Result<Duty, Failure> {
        let asked = std::env::var(DUTY).map_err(|error| Failure::new(format!("read {DUTY}"), error))?;
        let duty = asked
            .split_once('x')
            .and_then(|(shards, turns)| Some(Duty { shards: shards.parse().ok()?, turns: turns.parse().ok()? }));
        duty.ok_or_else(|| Failure::new(format!("read {DUTY}={asked}"), "expected shards x turns"))
    }

    fn variable(self) -> (&'static str, OsString) {
        (DUTY, format!("{}x{}", self.shards, self.turns).into())
    }

    /// The work of one request.
    pub fn work(self, request: &[u8]) {
        let seed = request.first().copied().unwrap_or_default();
        black_box(compute(black_box(self.turns), u64::from(seed)));
    }
}

fn compute(turns: u64, seed: u64) -> u64 {
    (0..turns).fold(seed, |state, turn| (state ^ turn).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31))
}

/// Turns of work that take a microsecond on this machine: the best of some tries, as the others were disturbed.
fn turns_per_microsecond() -> u64 {
    static GAUGED: OnceLock<u64> = OnceLock::new();
    *GAUGED.get_or_init(|| {
        const TURNS: u64 = 1_000_000;
        let try_once = |seed| {
            let before = sys::thread_cpu();
            black_box(compute(black_box(TURNS), seed));
            (sys::thread_cpu() - before).as_nanos() as u64
        };
        let best = (0..10).map(try_once).min().unwrap_or(u64::MAX);
        (TURNS * 1000 / best.max(1)).max(1)
    })
}

/// How many connections, how many bytes a request, and how much work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    echo: echo::Case,
    work_us: u64,
}

impl FromStr for Case {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Case, Failure> {
        let case = text
            .rsplit_once('x')
            .and_then(|(echo, work)| Some(Case { echo: echo.parse().ok()?, work_us: work.parse().ok()? }));
        case.ok_or_else(|| {
            Failure::new(
                format!("case `{text}`"),
                "expected connections x bytes x microseconds of work, such as 64x64x100, with 1 connection and 8 bytes \
                 at least",
            )
        })
    }
}

/// A server and the connections to it.
#[derive(Debug)]
struct Served {
    load: Load,
    server: Worker,
    cpu: ProcessCpu,
}

impl Served {
    fn open(post: &Post, case: Case, shards: usize) -> Result<Served, Failure> {
        let duty = Duty { shards, turns: case.work_us * turns_per_microsecond() };
        let post = Post { variable: Some(duty.variable()), ..post.clone() };
        let (mut server, address) = Worker::serve(&post)?;
        let load = Load::connect(address, case.echo.connections, case.echo.bytes)
            .map_err(|failure| server.explain(failure))?;
        let cpu = server.cpu()?;
        Ok(Served { load, server, cpu })
    }

    fn round(&mut self, budget: Duration) -> Result<Measured, Failure> {
        let cpu = self.cpu;
        self.load.round(budget / 5, budget - budget / 5, || cpu.read()).map_err(|failure| self.server.explain(failure))
    }
}

/// One subject at one shard and at all.
#[derive(Debug)]
pub struct ShardsLane {
    one: Served,
    all: Served,
    shards: usize,
}

impl ShardsLane {
    /// Starts both servers and connects to them. Nothing is pinned but what the servers pin.
    pub fn open(post: &Post, _cores: Cores) -> Result<ShardsLane, Failure> {
        let case: Case = post.case.parse()?;
        let shards = sys::cores()?.len();
        Ok(ShardsLane { one: Served::open(post, case, 1)?, all: Served::open(post, case, shards)?, shards })
    }
}

impl Lane for ShardsLane {
    fn round(&mut self, budget: Duration) -> Result<Vec<Sample>, Failure> {
        let (one, all) = (self.one.round(budget / 2)?, self.all.round(budget / 2)?);
        let rate = |measured: &Measured| measured.requests as f64 / measured.wall.as_secs_f64();
        let cost = |measured: &Measured| measured.server_cpu.as_secs_f64() * 1e6 / measured.requests as f64;
        Ok(vec![
            Sample::new("requests_one", rate(&one), Unit::PerSecond),
            Sample::new("requests_all", rate(&all), Unit::PerSecond),
            Sample::new("speedup", rate(&all) / rate(&one), Unit::Ratio),
            Sample::new("cpu_one", cost(&one), Unit::Microseconds),
            Sample::new("cpu_all", cost(&all), Unit::Microseconds),
            Sample::new("capacity", self.shards as f64 * cost(&one) / cost(&all), Unit::Ratio),
            Sample::new(echo::LOAD_SHARE, all.load_cpu.as_secs_f64() / all.wall.as_secs_f64(), Unit::Share),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_connections_by_bytes_by_work() {
        let case: Case = "64x128x100".parse().unwrap();
        assert_eq!(case, Case { echo: echo::Case { connections: 64, bytes: 128 }, work_us: 100 });
    }

    #[test]
    fn the_work_takes_about_as_long_as_it_says() {
        let turns = turns_per_microsecond() * 1000;
        let before = sys::thread_cpu();
        Duty { shards: 1, turns }.work(b"x");
        let took = sys::thread_cpu() - before;
        assert!(took >= Duration::from_micros(900), "{took:?}");
    }
}
