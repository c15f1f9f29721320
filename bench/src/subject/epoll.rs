//! The bare epoll loop: level-triggered, `recv` when readable, `send` at once. No tasks, no runtime.
//!
//! It shows what readiness costs on this machine: two system calls per request, one wait per batch.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::{RecvFlags, SendFlags};
use slab::Slab;

use crate::bench::Bench;
use crate::echo::{ANY_PORT, BUFFER_BYTES, Ready, Serve};
use crate::failure::{Failure, Tried};

use super::{Round, Subject};

/// The bare epoll loop.
#[derive(Debug)]
pub struct Epoll;

const LISTENER: u64 = u64::MAX;
const EVENTS_MAX: usize = 1024;

struct Connection {
    stream: TcpStream,
    buffer: Box<[u8]>,
    /// What is in `buffer` and not yet sent back.
    unsent: std::ops::Range<usize>,
}

fn serve(ready: Ready) -> Result<(), Failure> {
    let listener = TcpListener::bind(ANY_PORT).tried(format!("listen on {ANY_PORT}"))?;
    listener.set_nonblocking(true).tried("make the listener non-blocking")?;
    let poll = epoll::create(CreateFlags::CLOEXEC).tried("create an epoll instance")?;
    epoll::add(&poll, &listener, EventData::new_u64(LISTENER), EventFlags::IN).tried("watch the listener")?;
    ready(listener.local_addr().tried("read the address of the listener")?)?;

    let mut connections: Slab<Connection> = Slab::new();
    let mut events = Vec::with_capacity(EVENTS_MAX);
    loop {
        events.clear();
        match epoll::wait(&poll, spare_capacity(&mut events), None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error).tried("wait for events"),
        }
        for event in &events {
            let token = { event.data }.u64();
            if token == LISTENER {
                accept(&listener, &poll, &mut connections)?;
                continue;
            }
            let key = token as usize;
            // Dropping a connection closes its socket, which also ends the watch on it.
            if !matches!(connections[key].advance(&poll, token), Ok(true)) {
                connections.remove(key);
            }
        }
    }
}

fn accept(listener: &TcpListener, poll: impl AsFd, connections: &mut Slab<Connection>) -> Result<(), Failure> {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).tried("accept a connection"),
        };
        stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).tried("set up a connection")?;
        let entry = connections.vacant_entry();
        epoll::add(&poll, &stream, EventData::new_u64(entry.key() as u64), EventFlags::IN)
            .tried("watch a connection")?;
        entry.insert(Connection { stream, buffer: vec![0; BUFFER_BYTES].into(), unsent: 0..0 });
    }
}

impl Connection {
    /// Receives and sends until one of them would have to wait; false at the end of the stream.
    fn advance(&mut self, poll: impl AsFd, token: u64) -> rustix::io::Result<bool> {
        if self.unsent.is_empty() {
            match rustix::net::recv(&self.stream, &mut *self.buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Ok(false),
                Ok((received, _)) => self.unsent = 0..received,
                Err(rustix::io::Errno::AGAIN) => return Ok(true),
                Err(error) => return Err(error),
            }
            self.send(&poll, token, EventFlags::IN)
        } else {
            self.send(&poll, token, EventFlags::OUT)
        }
    }

    /// Sends what there is; `watched` is what the connection is watched for now.
    fn send(&mut self, poll: impl AsFd, token: u64, watched: EventFlags) -> rustix::io::Result<bool> {
        while !self.unsent.is_empty() {
            let unsent = &self.buffer[self.unsent.clone()];
            match rustix::net::send(&self.stream, unsent, SendFlags::NOSIGNAL) {
                Ok(sent) => self.unsent.start += sent,
                Err(rustix::io::Errno::AGAIN) => break,
                Err(error) => return Err(error),
            }
        }
        let wanted = if self.unsent.is_empty() { EventFlags::IN } else { EventFlags::OUT };
        if wanted != watched {
            epoll::modify(poll, &self.stream, EventData::new_u64(token), wanted)?;
        }
        Ok(true)
    }
}

impl Subject for Epoll {
    fn name(&self) -> &'static str {
        "epoll"
    }

    fn about(&self) -> &'static str {
        "bare epoll loop, recv and send when ready: what readiness costs here"
    }

    fn echo(&self) -> Option<Serve> {
        Some(serve)
    }

    fn round(&self, _bench: Bench) -> Option<Round> {
        None
    }
}
