//! `shards`: whether a server with two shards does twice the work of one.
//!
//! A case is connections x bytes x work: every request makes the server compute for so many microseconds before it
//! sends the bytes back. What is computed is a fixed amount, gauged once on an idle core, not a span of time, so a
//! shard that is kept from its core takes longer. Each subject serves twice, at one shard and at as many as there are
//! cores, each in a process of its own, and every round measures both, one after the other.
//!
//! On a machine of two cores the load has none to itself, so a closed loop shows the load as much as the server; it
//! is measured all the same, as `loop_speedup`, with the load's share of a core beside it. What the shards can do is
//! measured without the load: the server is stopped (SIGSTOP) while the requests are laid into its sockets, then it
//! goes on, and the clock runs until every answer lies in the client's sockets. All that time the load sleeps: its
//! sockets are told not to wake it before the last byte (SO_RCVLOWAT). A server reads one request at a time, as it
//! does in the loop. `speedup` is the ratio of these rates, at all shards to at one.

use std::ffi::OsString;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

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
    /// Bytes of a request: it reads no more at a time.
    pub bytes: usize,
    turns: u64,
}

impl Duty {
    /// What the parent asked of this process.
    pub fn of_this_process() -> Result<Duty, Failure> {
        let asked = std::env::var(DUTY).map_err(|error| Failure::new(format!("read {DUTY}"), error))?;
        let numbers: Vec<u64> = asked.split('x').map_while(|number| number.parse().ok()).collect();
        match numbers[..] {
            [shards, bytes, turns] => Ok(Duty { shards: shards as usize, bytes: bytes as usize, turns }),
            _ => Err(Failure::new(format!("read {DUTY}={asked}"), "expected shards x bytes x turns")),
        }
    }

    fn variable(self) -> (&'static str, OsString) {
        (DUTY, format!("{}x{}x{}", self.shards, self.bytes, self.turns).into())
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

/// A server, the closed loop's connections to it, and those that are laid full.
#[derive(Debug)]
struct Served {
    load: Load,
    burst: Burst,
    server: Worker,
    cpu: ProcessCpu,
}

impl Served {
    fn open(post: &Post, case: Case, shards: usize) -> Result<Served, Failure> {
        let duty = Duty { shards, bytes: case.echo.bytes, turns: case.work_us * turns_per_microsecond() };
        let post = Post { variable: Some(duty.variable()), ..post.clone() };
        let (mut server, address) = Worker::serve(&post)?;
        let load = Load::connect(address, case.echo.connections, case.echo.bytes)
            .map_err(|failure| server.explain(failure))?;
        let burst = Burst::connect(address, case)?;
        let cpu = server.cpu()?;
        Ok(Served { load, burst, server, cpu })
    }

    fn looped(&mut self, budget: Duration) -> Result<Measured, Failure> {
        let cpu = self.cpu;
        self.load.round(budget / 5, budget - budget / 5, || cpu.read()).map_err(|failure| self.server.explain(failure))
    }

    /// Requests per second while no load runs.
    fn laid(&mut self) -> Result<f64, Failure> {
        self.burst.round(self.server.process()).map_err(|failure| self.server.explain(failure))
    }
}

/// What is laid into the server's sockets at once: so many bytes fit into any socket's buffers.
const BURST_BYTES_MAX: usize = 32 * 1024;
/// And takes a server of one shard about this long, or less.
const BURST_US: u64 = 100_000;
/// Requests per connection, when they are small and without work.
const BURST_REQUESTS_MAX: usize = 256;

/// Connections that are laid full of requests while the server stands still.
#[derive(Debug)]
struct Burst {
    connections: Vec<TcpStream>,
    requests: Vec<u8>,
    answers: Vec<u8>,
    /// Requests per connection.
    depth: usize,
}

impl Burst {
    fn connect(server: SocketAddr, case: Case) -> Result<Burst, Failure> {
        let echo::Case { connections, bytes } = case.echo;
        let by_time = (BURST_US / (connections as u64 * (case.work_us + 5))) as usize;
        let depth = by_time.min(BURST_BYTES_MAX / bytes).clamp(1, BURST_REQUESTS_MAX);
        let requests: Vec<u8> = (0..depth * bytes).map(|place| (place / bytes + place) as u8).collect();
        let connections = (0..connections).map(|index| {
            let stream = TcpStream::connect(server).tried(format!("open connection {index} to {server}"))?;
            let whole = i32::try_from(requests.len()).unwrap_or(i32::MAX);
            sys::wake_reader_at(&stream, whole)?;
            Ok(stream)
        });
        let connections = connections.collect::<Result<_, Failure>>()?;
        Ok(Burst { connections, answers: vec![0; requests.len()], requests, depth })
    }

    fn round(&mut self, server: Pid) -> Result<f64, Failure> {
        let tell =
            |signal| rustix::process::kill_process(server, signal).tried(format!("signal the server {signal:?}"));
        tell(Signal::STOP)?;
        rustix::process::waitid(
            WaitId::Pid(server),
            WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )
        .tried("wait for the server to stand still")?;
        for connection in &mut self.connections {
            connection.write_all(&self.requests).tried("lay requests into a socket")?;
        }
        let begun = Instant::now();
        tell(Signal::CONT)?;
        for connection in &mut self.connections {
            // A read would take what comes in and then wait for as much again.
            let mut there = [PollFd::new(&*connection, PollFlags::IN)];
            rustix::event::poll(&mut there, None).tried("wait for the answers to what was laid")?;
            connection.read_exact(&mut self.answers).tried("read the answers to what was laid")?;
            if self.answers != self.requests {
                return Err(Failure::new("read the answers to what was laid", "they are not what was sent"));
            }
        }
        Ok((self.depth * self.connections.len()) as f64 / begun.elapsed().as_secs_f64())
    }
}

/// One subject at one shard and at all.
#[derive(Debug)]
pub struct ShardsLane {
    one: Served,
    all: Served,
}

impl ShardsLane {
    /// Starts both servers and connects to them. Nothing is pinned but what the servers pin.
    pub fn open(post: &Post, _cores: Cores) -> Result<ShardsLane, Failure> {
        let case: Case = post.case.parse()?;
        let shards = sys::cores()?.len();
        Ok(ShardsLane { one: Served::open(post, case, 1)?, all: Served::open(post, case, shards)? })
    }
}

impl Lane for ShardsLane {
    fn round(&mut self, budget: Duration) -> Result<Vec<Sample>, Failure> {
        let (one, all) = (self.one.laid()?, self.all.laid()?);
        let (loop_one, loop_all) = (self.one.looped(budget / 2)?, self.all.looped(budget / 2)?);
        let rate = |measured: &Measured| measured.requests as f64 / measured.wall.as_secs_f64();
        Ok(vec![
            Sample::new("one", one, Unit::PerSecond),
            Sample::new("all", all, Unit::PerSecond),
            Sample::new("speedup", all / one, Unit::Ratio),
            Sample::new("loop_one", rate(&loop_one), Unit::PerSecond),
            Sample::new("loop_all", rate(&loop_all), Unit::PerSecond),
            Sample::new("loop_speedup", rate(&loop_all) / rate(&loop_one), Unit::Ratio),
            Sample::new(echo::LOAD_SHARE, loop_all.load_cpu.as_secs_f64() / loop_all.wall.as_secs_f64(), Unit::Share),
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
        Duty { shards: 1, bytes: 1, turns }.work(b"x");
        let took = sys::thread_cpu() - before;
        assert!(took >= Duration::from_micros(900), "{took:?}");
    }
}
