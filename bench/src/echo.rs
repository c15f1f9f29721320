//! `echo`: a TCP server that sends back what it gets, under a closed loop of requests.
//!
//! The server has a process and a core of its own, the load (`load.rs`) the other core. A case is connections x bytes.
//! Requests per second contain what the load costs as soon as its core is full; the server's processor time per request
//! does not, and is the figure to compare servers by.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use crate::bench::Cores;
use crate::failure::Failure;
use crate::load::{Load, REQUEST_BYTES_MIN};
use crate::rounds::Lane;
use crate::stats::{Sample, Unit};
use crate::sys::{self, ProcessCpu};
use crate::worker::{Post, Worker};

/// Connections and bytes per request.
pub const CASES: &[&str] = &["1x64", "50x64", "50x1024", "1000x64", "50x16384"];

/// The buffer every server reads into, one per connection.
pub const BUFFER_BYTES: usize = 16 * 1024;

/// The metric that tells whether the load was the limit.
pub const LOAD_SHARE: &str = "load_cpu";

/// The metric that tells whether the server was.
pub const SERVER_SHARE: &str = "server_cpu";

/// From this share of its core on the load counts as saturated.
pub const SATURATED: f64 = 0.95;

/// With several connections one of the two cores must be nearly full; below this something else used them.
pub const UNDISTURBED: f64 = 0.85;

/// What a server calls with its address, once it listens.
pub type Ready = fn(SocketAddr) -> Result<(), Failure>;

/// How a subject serves: it listens on [`ANY_PORT`], calls `ready`, and echoes for ever.
pub type Serve = fn(ready: Ready) -> Result<(), Failure>;

/// What every server listens on: any free port.
pub const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// How many connections, and how many bytes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Connections, each with one request under way.
    pub connections: usize,
    /// Bytes of a request and of its answer.
    pub bytes: usize,
}

impl FromStr for Case {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Case, Failure> {
        let case = text.split_once('x').and_then(|(connections, bytes)| {
            Some(Case { connections: connections.parse().ok()?, bytes: bytes.parse().ok()? })
        });
        match case {
            Some(case) if case.connections > 0 && case.bytes >= REQUEST_BYTES_MIN => Ok(case),
            _ => Err(Failure::new(
                format!("case `{text}`"),
                "expected connections x bytes, such as 50x64, with 1 connection and 8 bytes at least",
            )),
        }
    }
}

/// One server and the connections to it, which stay open between its rounds.
#[derive(Debug)]
pub struct EchoLane {
    load: Load,
    server: Worker,
    cpu: ProcessCpu,
}

impl EchoLane {
    /// Starts the server and connects to it.
    pub fn open(post: &Post, cores: Cores) -> Result<EchoLane, Failure> {
        let case: Case = post.case.parse()?;
        sys::pin(cores.load)?;
        let (mut server, address) = Worker::serve(post)?;
        let load = Load::connect(address, case.connections, case.bytes).map_err(|failure| server.explain(failure))?;
        let cpu = server.cpu()?;
        Ok(EchoLane { load, server, cpu })
    }
}

impl Lane for EchoLane {
    fn round(&mut self, budget: Duration) -> Result<Vec<Sample>, Failure> {
        let cpu = self.cpu;
        let measured = self
            .load
            .round(budget / 5, budget - budget / 5, || cpu.read())
            .map_err(|failure| self.server.explain(failure))?;
        let wall = measured.wall.as_secs_f64();
        let requests = measured.requests as f64;
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        Ok(vec![
            Sample::new("requests", requests / wall, Unit::PerSecond),
            Sample::new("server_cpu_per_request", us(measured.server_cpu) / requests, Unit::Microseconds),
            Sample::new("p50", us(measured.p50), Unit::Microseconds),
            Sample::new("p99", us(measured.p99), Unit::Microseconds),
            Sample::new(SERVER_SHARE, measured.server_cpu.as_secs_f64() / wall, Unit::Share),
            Sample::new(LOAD_SHARE, measured.load_cpu.as_secs_f64() / wall, Unit::Share),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_connections_by_bytes() {
        assert_eq!("50x1024".parse::<Case>().unwrap(), Case { connections: 50, bytes: 1024 });
    }
}
