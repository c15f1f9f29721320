//! The load of the `echo` benchmark: one thread, `n` connections, a closed loop.
//!
//! Every connection has exactly one request under way. A request is two linked operations on a ring, `send` and
//! `recv` of the whole answer; only the answer makes a completion, and all that is due goes into the kernel in the one
//! call that waits for more. That is as little as a client can do, yet on loopback the sender's core also does the
//! receiver's share of TCP, so a fast server can saturate it: the load's own processor share is part of the result.
//!
//! What comes back is checked: the first eight bytes number the request, the rest is a pattern of its connection. The
//! number and both ends are compared on every answer, all bytes on every answer up to 1024 bytes, and on every 64th
//! answer beyond, counted per connection and beginning with the first.
//!
//! A latency runs from the batch of work in which a request was handed in to the one in which its answer came out; the
//! clock is read once per batch. Between rounds every connection is idle.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use io_uring::types::{Fd, Timespec};
use io_uring::{IoUring, opcode, squeue};

use crate::failure::{Failure, Tried};
use crate::sys;

/// The least a request can hold: its number.
pub const REQUEST_BYTES_MIN: usize = size_of::<u64>();

/// Answers up to this size are compared whole every time.
const COMPARE_WHOLE_BYTES_MAX: usize = 1024;
/// Larger ones are compared whole once in so many.
const COMPARE_WHOLE_EVERY: u64 = 64;
/// And at both ends, this much, every time.
const COMPARE_END_BYTES: usize = 64;

/// Latencies beyond this are counted as this; the load gives up on a silent server before that.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// How long the server may answer nothing before the load gives up on it.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// A request ends in exactly one completion: a `send` that succeeds makes none, and when it fails its `recv` does not.
const SEND: u64 = 1 << 32;
const WATCHDOG: u64 = 2 << 32;
const WATCHDOG_OFF: u64 = 3 << 32;

/// What one round of load saw.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Answers that came within the measured time.
    pub requests: u64,
    /// The measured time.
    pub wall: Duration,
    /// Processor time of the load in it.
    pub load_cpu: Duration,
    /// Processor time of the server in it.
    pub server_cpu: Duration,
    /// Half of the answers came within this.
    pub p50: Duration,
    /// All but one in a hundred came within this.
    pub p99: Duration,
}

/// The connections and the ring that drives them.
pub struct Load {
    ring: IoUring,
    connections: Vec<Connection>,
    server: SocketAddr,
    latencies: Histogram<u64>,
    under_way: usize,
    limit: Box<Timespec>,
}

struct Connection {
    stream: TcpStream,
    request: Box<[u8]>,
    answer: Box<[u8]>,
    number: u64,
    handed_in: Instant,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Warming,
    Measuring,
    Draining,
}

impl Load {
    /// Opens `connections` connections to `server` for requests of `bytes` bytes.
    pub fn connect(server: SocketAddr, connections: usize, bytes: usize) -> Result<Load, Failure> {
        if bytes < REQUEST_BYTES_MIN {
            return Err(Failure::new(
                format!("send requests of {bytes} bytes"),
                format!("a request holds at least its number, {REQUEST_BYTES_MIN} bytes"),
            ));
        }
        let ring = ring(connections).tried("set up the load's ring")?;
        let connections =
            (0..connections).map(|index| Connection::open(server, index, bytes)).collect::<Result<_, _>>()?;
        Ok(Load {
            ring,
            connections,
            server,
            latencies: Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
                .map_err(|error| Failure::new("set up the histogram of latencies", error))?,
            under_way: 0,
            limit: Box::default(),
        })
    }

    /// One round: `warm_up`, then `measure`, then every request under way is waited for.
    ///
    /// `server_cpu` reads the server's processor time; it is called at both ends of the measured time.
    pub fn round(
        &mut self,
        warm_up: Duration,
        measure: Duration,
        server_cpu: impl Fn() -> Result<Duration, Failure>,
    ) -> Result<Measured, Failure> {
        let start = Instant::now();
        let mut phase = Phase::Warming;
        let mut began = start;
        let (mut load_before, mut server_before) = (Duration::ZERO, Duration::ZERO);
        let mut measured = None;
        let mut requests = 0;
        self.latencies.reset();

        *self.limit = Timespec::from(warm_up + measure + SILENCE_MAX);
        self.push(&[opcode::Timeout::new(&raw const *self.limit).build().user_data(WATCHDOG)])?;
        for index in 0..self.connections.len() {
            self.request(index, start)?;
        }
        while self.under_way > 0 {
            self.enter()?;
            let now = Instant::now();
            match phase {
                Phase::Warming if now >= start + warm_up => {
                    phase = Phase::Measuring;
                    began = now;
                    (load_before, server_before) = (sys::thread_cpu(), server_cpu()?);
                }
                Phase::Measuring if now >= began + measure => {
                    phase = Phase::Draining;
                    measured = Some(Measured {
                        requests,
                        wall: now - began,
                        load_cpu: sys::thread_cpu() - load_before,
                        server_cpu: server_cpu()? - server_before,
                        p50: self.quantile(0.50),
                        p99: self.quantile(0.99),
                    });
                }
                _ => {}
            }
            while let Some((index, latency)) = self.answer(now)? {
                if phase == Phase::Measuring {
                    requests += 1;
                    self.latencies.saturating_record(latency.as_nanos() as u64);
                }
                if phase != Phase::Draining {
                    self.request(index, now)?;
                }
            }
        }
        self.call_off_watchdog()?;
        measured.filter(|measured| measured.requests > 0).ok_or_else(|| {
            Failure::new(format!("measure {} for {measure:?}", self.server), "no answer came in that time")
                .remedy("raise --seconds")
        })
    }

    fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.latencies.value_at_quantile(quantile))
    }

    /// Hands in the next request of connection `index`, and the wait for its answer.
    fn request(&mut self, index: usize, now: Instant) -> Result<(), Failure> {
        let connection = &mut self.connections[index];
        connection.handed_in = now;
        connection.number += 1;
        connection.request[..REQUEST_BYTES_MIN].copy_from_slice(&connection.number.to_le_bytes());
        let socket = Fd(connection.stream.as_raw_fd());
        let bytes = connection.request.len() as u32;
        let send = opcode::Send::new(socket, connection.request.as_ptr(), bytes)
            .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build()
            .flags(squeue::Flags::IO_LINK | squeue::Flags::SKIP_SUCCESS)
            .user_data(SEND | index as u64);
        let recv = opcode::Recv::new(socket, connection.answer.as_mut_ptr(), bytes)
            .flags(libc::MSG_WAITALL)
            .build()
            .user_data(index as u64);
        self.push(&[send, recv])?;
        self.under_way += 1;
        Ok(())
    }

    /// Takes one answer from the ring and checks it: whose, and how long it took.
    fn answer(&mut self, now: Instant) -> Result<Option<(usize, Duration)>, Failure> {
        let Some(completion) = self.ring.completion().next() else {
            return Ok(None);
        };
        let (token, result) = (completion.user_data(), completion.result());
        let index = token as u32 as usize;
        if token < WATCHDOG {
            self.under_way -= 1;
        }
        match token & !u64::from(u32::MAX) {
            0 => {
                let connection = &self.connections[index];
                connection.check(index, result, self.server)?;
                Ok(Some((index, now - connection.handed_in)))
            }
            SEND => Err(std::io::Error::from_raw_os_error(-result))
                .tried(format!("send on connection {index} to {}", self.server)),
            _ => Err(Failure::new(
                format!("wait for answers of {}", self.server),
                format!("{} requests unanswered for {SILENCE_MAX:?}", self.under_way),
            )),
        }
    }

    fn enter(&mut self) -> Result<(), Failure> {
        match self.ring.submit_and_wait(1) {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(()),
            result => result.map(drop).tried("enter the load's ring"),
        }
    }

    /// Queues `entries` together; a link does not survive a submission between its halves.
    fn push(&mut self, entries: &[squeue::Entry]) -> Result<(), Failure> {
        let room = {
            let queue = self.ring.submission();
            queue.capacity() - queue.len()
        };
        if room < entries.len() {
            self.ring.submit().tried("submit to the load's ring")?;
        }
        // SAFETY: the entries name sockets and buffers of `self.connections`. They are neither moved nor freed while
        // an operation is under way: `drop` waits for the last one. The time limit is boxed and lives as long as the
        // ring.
        unsafe { self.ring.submission().push_multiple(entries) }
            .map_err(|_| Failure::new("queue a request", "the ring has no room after a submission"))
    }

    fn call_off_watchdog(&mut self) -> Result<(), Failure> {
        self.push(&[opcode::TimeoutRemove::new(WATCHDOG).build().user_data(WATCHDOG_OFF)])?;
        let mut left = 2;
        while left > 0 {
            self.enter()?;
            left -= self.ring.completion().count();
        }
        Ok(())
    }
}

impl std::fmt::Debug for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Load")
            .field("server", &self.server)
            .field("connections", &self.connections.len())
            .field("under_way", &self.under_way)
            .finish_non_exhaustive()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // After a failed round the kernel still holds our buffers: end the connections and wait until it lets go.
        if self.under_way == 0 {
            return;
        }
        for connection in &self.connections {
            // A connection that is already gone has nothing under way any more.
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
        while self.under_way > 0 && self.enter().is_ok() {
            let answers = self.ring.completion().filter(|completion| completion.user_data() < WATCHDOG).count();
            self.under_way -= answers;
        }
        if self.under_way > 0 {
            // The ring itself failed. The kernel may write until it is closed, so the buffers are given up to it.
            self.connections.drain(..).for_each(std::mem::forget);
        }
    }
}

impl Connection {
    fn open(server: SocketAddr, index: usize, bytes: usize) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(server).tried(format!("open connection {index} to {server}"))?;
        stream.set_nodelay(true).tried(format!("set TCP_NODELAY on connection {index}"))?;
        Ok(Connection {
            stream,
            request: pattern(index, bytes),
            answer: vec![0; bytes].into(),
            number: 0,
            handed_in: Instant::now(),
        })
    }

    fn check(&self, index: usize, result: i32, server: SocketAddr) -> Result<(), Failure> {
        let what = || format!("read answer {} on connection {index} of {server}", self.number);
        if result < 0 {
            return Err(std::io::Error::from_raw_os_error(-result)).tried(what());
        }
        let bytes = self.request.len();
        if result as usize != bytes {
            return Err(Failure::new(what(), format!("the server closed after {result} of {bytes} bytes")));
        }
        let whole = bytes <= COMPARE_WHOLE_BYTES_MAX || self.number % COMPARE_WHOLE_EVERY == 1;
        let same = if whole {
            self.answer == self.request
        } else {
            let tail = bytes - COMPARE_END_BYTES;
            self.answer[..COMPARE_END_BYTES] == self.request[..COMPARE_END_BYTES]
                && self.answer[tail..] == self.request[tail..]
        };
        if same {
            return Ok(());
        }
        let offset = self.answer.iter().zip(&self.request).position(|(a, b)| a != b);
        Err(Failure::new(what(), format!("byte {} is not the one that was sent", offset.unwrap_or(0))))
    }
}

/// Bytes that differ from connection to connection, so that answers sent to the wrong one are noticed.
fn pattern(index: usize, bytes: usize) -> Box<[u8]> {
    let mut state = (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

fn ring(connections: usize) -> std::io::Result<IoUring> {
    let entries = (connections * 2 + 2).next_power_of_two().min(4096) as u32;
    let completions = (connections * 2 + 2).next_power_of_two().max(entries as usize) as u32;
    IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_cqsize(completions).build(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// A server of one thread per connection; `spoil` sees every chunk before it goes back, and says whether to go on.
    fn serve(spoil: fn(u64, &mut Vec<u8>) -> bool) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || {
                    let mut buffer = vec![0; 4096];
                    for turn in 0.. {
                        let Ok(length @ 1..) = stream.read(&mut buffer) else {
                            return;
                        };
                        let mut chunk = buffer[..length].to_vec();
                        if !spoil(turn, &mut chunk) || stream.write_all(&chunk).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    /// A load connected to `server`; none, with the reason said, where the machine has no io_uring.
    fn connect(server: SocketAddr, connections: usize, bytes: usize) -> Option<Load> {
        if let Err(error) = IoUring::new(8) {
            eprintln!("skipped: this machine refuses io_uring, {error}");
            return None;
        }
        Some(Load::connect(server, connections, bytes).unwrap())
    }

    fn round(load: &mut Load) -> Result<Measured, Failure> {
        load.round(Duration::ZERO, Duration::from_millis(20), || Ok(sys::thread_cpu()))
    }

    #[test]
    fn an_honest_server_passes_and_its_answers_are_counted() {
        let server = serve(|_, _| true);
        for (connections, bytes) in [(1, 8), (7, 64), (3, 40_000)] {
            let Some(mut load) = connect(server, connections, bytes) else { return };
            for _ in 0..3 {
                let measured = round(&mut load).unwrap();
                assert!(measured.requests > 0);
                assert!(measured.wall >= Duration::from_millis(20));
                assert!(Duration::ZERO < measured.p50 && measured.p50 <= measured.p99);
                assert!(measured.load_cpu > Duration::ZERO);
                assert_eq!(load.under_way, 0, "between rounds all connections are idle");
            }
        }
    }

    #[test]
    fn a_changed_byte_is_noticed_wherever_it_is() {
        let first = serve(|_, chunk| {
            chunk[0] ^= 1;
            true
        });
        let last = serve(|_, chunk| {
            *chunk.last_mut().unwrap() ^= 1;
            true
        });
        for (server, bytes) in [(first, 64), (last, 64), (first, 8000), (last, 8000)] {
            let Some(mut load) = connect(server, 2, bytes) else { return };
            let error = round(&mut load).unwrap_err();
            assert!(error.to_string().contains("is not the one that was sent"), "{error}");
        }
    }

    #[test]
    fn a_changed_byte_in_the_middle_of_a_large_answer_is_noticed() {
        let server = serve(|_, chunk| {
            let middle = chunk.len() / 2;
            chunk[middle] ^= 1;
            true
        });
        let Some(mut load) = connect(server, 1, 3000) else { return };
        let error = round(&mut load).unwrap_err();
        assert!(error.to_string().contains("is not the one that was sent"), "{error}");
    }

    #[test]
    fn a_stale_answer_is_noticed_by_its_number() {
        let server = serve(|turn, chunk| {
            if turn > 5 {
                chunk[..8].copy_from_slice(&5u64.to_le_bytes());
            }
            true
        });
        let Some(mut load) = connect(server, 1, 64) else { return };
        let error = round(&mut load).unwrap_err();
        assert!(error.to_string().contains("byte 0 is not"), "{error}");
    }

    #[test]
    fn a_server_that_hangs_up_is_noticed_and_nothing_stays_under_way() {
        let server = serve(|turn, _| turn < 3);
        let Some(mut load) = connect(server, 3, 64) else { return };
        let error = round(&mut load).unwrap_err().to_string();
        assert!(error.contains("closed after 0 of 64 bytes") || error.contains("reset"), "{error}");
        drop(load);
    }

    #[test]
    fn a_send_that_fails_is_named_and_its_request_has_ended() {
        // A failed `send` takes the completion of its linked `recv` with it: a load that waited for both never ended.
        let Some(mut load) = connect(serve(|_, _| true), 2, 64) else { return };
        load.connections[1].stream.shutdown(Shutdown::Write).unwrap();
        let error = round(&mut load).unwrap_err().to_string();
        assert!(error.contains("send on connection 1"), "{error}");
        drop(load);
    }

    #[test]
    fn a_request_without_room_for_its_number_is_refused() {
        let server = serve(|_, _| true);
        let error = Load::connect(server, 1, 7).unwrap_err().to_string();
        assert!(error.contains("8 bytes"), "{error}");
    }

    #[test]
    fn a_server_that_is_not_there_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let error = Connection::open(address, 0, 64).err().unwrap().to_string();
        assert!(error.contains(&address.to_string()), "{error}");
    }
}
