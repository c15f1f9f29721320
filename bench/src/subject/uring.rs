//! The bare io_uring loop: one-shot `recv` and `send` on a ring of its own. No tasks, no runtime.
//!
//! It is the floor for a completion runtime. One call into the kernel per batch both submits and waits; the ring is set
//! up for a single thread with deferred task work, as the best runtimes do. Buffers belong to their connections.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Duration;

use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};
use slab::Slab;

use crate::bench::{Bench, positive};
use crate::echo::{ANY_PORT, BUFFER_BYTES, Ready, Serve};
use crate::failure::{Failure, Tried};
use crate::meter::Meter;
use crate::nop;
use crate::stats::Sample;

use super::{Round, Subject};

/// The bare io_uring loop.
#[derive(Debug)]
pub struct Uring;

const ENTRIES: u32 = 2048;
const ACCEPT: u64 = u64::MAX;
const SEND: u64 = 1 << 32;

struct Connection {
    stream: TcpStream,
    buffer: Box<[u8]>,
}

struct Server {
    ring: IoUring,
    listener: TcpListener,
    connections: Slab<Connection>,
}

fn ring() -> Result<IoUring, Failure> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_cqsize(ENTRIES * 2)
        .build(ENTRIES)
        .tried("set up a ring")
}

fn serve(ready: Ready) -> Result<(), Failure> {
    let listener = TcpListener::bind(ANY_PORT).tried(format!("listen on {ANY_PORT}"))?;
    let address = listener.local_addr().tried("read the address of the listener")?;
    let mut server = Server { ring: ring()?, listener, connections: Slab::new() };
    server.accept()?;
    ready(address)?;
    // A server that fails ends its process: nothing under way outlives the buffers for long enough to matter, but the
    // buffers are still kept until then.
    let failure = server.run();
    std::mem::forget(server.connections);
    failure
}

impl Server {
    fn run(&mut self) -> Result<(), Failure> {
        let mut batch: Vec<cqueue::Entry> = Vec::with_capacity(ENTRIES as usize * 2);
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).tried("enter the ring"),
            }
            batch.extend(self.ring.completion());
            for completion in batch.drain(..) {
                self.advance(&completion)?;
            }
        }
    }

    fn advance(&mut self, completion: &cqueue::Entry) -> Result<(), Failure> {
        let (token, result) = (completion.user_data(), completion.result());
        if token == ACCEPT {
            if !cqueue::more(completion.flags()) {
                self.accept()?;
            }
            return self.welcome(result);
        }
        let key = token as u32 as usize;
        match result {
            // The client hung up or reset; its buffer has no operation under way any more.
            ..=0 => drop(self.connections.remove(key)),
            received if token & SEND == 0 => self.send(key, received as usize)?,
            _ => self.recv(key)?,
        }
        Ok(())
    }

    fn welcome(&mut self, result: i32) -> Result<(), Failure> {
        if result < 0 {
            return Err(io::Error::from_raw_os_error(-result)).tried("accept a connection");
        }
        // SAFETY: the kernel has just made this descriptor for us and nobody else knows it.
        let stream = unsafe { TcpStream::from_raw_fd(result) };
        stream.set_nodelay(true).tried("set up a connection")?;
        let key = self.connections.insert(Connection { stream, buffer: vec![0; BUFFER_BYTES].into() });
        self.recv(key)
    }

    fn accept(&mut self) -> Result<(), Failure> {
        let accept =
            opcode::AcceptMulti::new(Fd(self.listener.as_raw_fd())).flags(libc::SOCK_CLOEXEC).build().user_data(ACCEPT);
        self.push(&accept)
    }

    fn recv(&mut self, key: usize) -> Result<(), Failure> {
        let Connection { stream, buffer } = &mut self.connections[key];
        let recv = opcode::Recv::new(Fd(stream.as_raw_fd()), buffer.as_mut_ptr(), buffer.len() as u32)
            .build()
            .user_data(key as u64);
        self.push(&recv)
    }

    fn send(&mut self, key: usize, bytes: usize) -> Result<(), Failure> {
        let Connection { stream, buffer } = &self.connections[key];
        let send = opcode::Send::new(Fd(stream.as_raw_fd()), buffer.as_ptr(), bytes as u32)
            .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build()
            .user_data(SEND | key as u64);
        self.push(&send)
    }

    fn push(&mut self, entry: &squeue::Entry) -> Result<(), Failure> {
        if self.ring.submission().is_full() {
            self.ring.submit().tried("submit to the ring")?;
        }
        // SAFETY: a connection has one operation under way at a time and is removed only when that has completed, so
        // its socket and its buffer outlive every entry that names them; the buffer is boxed and does not move.
        unsafe { self.ring.submission().push(entry) }
            .map_err(|_| Failure::new("queue an operation", "the ring has no room after a submission"))
    }
}

/// NOPs straight through the ring.
fn nops(case: &str, budget: Duration) -> Result<Vec<Sample>, Failure> {
    let batch = positive(case)?;
    let mut ring = ring()?;
    if batch > ENTRIES as usize {
        return Err(Failure::new(format!("hand in {batch} NOPs at once"), format!("the ring has {ENTRIES} entries")));
    }
    let laps = if batch == 1 { 100 } else { 1 };
    let mut meter = Meter::start(budget);
    loop {
        for _ in 0..laps {
            for number in 0..batch {
                let nop = opcode::Nop::new().build().user_data(number as u64);
                // SAFETY: a NOP names no memory and no descriptor.
                unsafe { ring.submission().push(std::hint::black_box(&nop)) }
                    .map_err(|_| Failure::new("queue a NOP", "the ring is full"))?;
            }
            ring.submit_and_wait(batch).tried("send NOPs through the ring")?;
            for (number, completion) in ring.completion().enumerate() {
                assert_eq!(std::hint::black_box(completion.user_data()), number as u64);
            }
        }
        if meter.lap((laps * batch) as u64) {
            return Ok(nop::samples(meter.nanoseconds_each()));
        }
    }
}

impl Subject for Uring {
    fn name(&self) -> &'static str {
        "uring"
    }

    fn about(&self) -> &'static str {
        "bare io_uring loop, one-shot recv and send, no tasks: the floor for echo and nop"
    }

    fn echo(&self) -> Option<Serve> {
        Some(serve)
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        match bench {
            Bench::Nop => Some(nops),
            _ => None,
        }
    }
}
