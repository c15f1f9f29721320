//! In the steady state an echo allocates nothing: not the server, not the client, not the loop under both.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use wo::net::{TcpListener, TcpStream};
use wo::plane::buf::Slice;

#[path = "support/backends.rs"]
mod backends;

use backends::{REAL, run, those_of};

/// The system's allocator, with a count of what it was asked for.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on unchanged.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const CONNECTIONS: usize = 10;

#[wo::fiber]
fn serve_owned(stream: TcpStream) {
    let mut buf = vec![0; 4096];
    loop {
        let (received, filled) = stream.recv(buf);
        let count = received.expect("recv");
        if count == 0 {
            return;
        }
        let (sent, rest) = stream.send_all(Slice::new(filled, 0..count));
        sent.expect("send");
        buf = rest.into_inner();
    }
}

#[wo::fiber]
fn serve_borrowed(stream: TcpStream) {
    let mut buf = [0; 4096];
    loop {
        let count = stream.read(&mut buf).expect("read");
        if count == 0 {
            return;
        }
        stream.write_all(&buf[..count]).expect("write");
    }
}

#[wo::fiber]
fn ask(stream: &TcpStream, buf: Vec<u8>) -> Vec<u8> {
    let (sent, buf) = stream.send_all(buf);
    sent.expect("send");
    let (received, buf) = stream.recv_exact(buf);
    received.expect("recv");
    buf
}

/// Asks `rounds` times on each connection, and answers how often the allocator was asked meanwhile.
#[wo::fiber]
fn ask_on_all(clients: &[TcpStream], bufs: &mut [Vec<u8>], rounds: usize) -> u64 {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..rounds {
        for (stream, buf) in clients.iter().zip(bufs.iter_mut()) {
            let full = std::mem::take(buf);
            *buf = ask(stream, full);
        }
    }
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

#[wo::fiber]
fn echo(owned: bool) -> u64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(TcpStream::connect(listener.local_addr()).expect("connect"));
        let (stream, _peer) = listener.accept().expect("accept");
        if owned {
            wo::spawn(|| serve_owned(stream));
        } else {
            wo::spawn(|| serve_borrowed(stream));
        }
    }
    let mut bufs = vec![vec![b'x'; 64]; CONNECTIONS];
    // Queues and pools grow to their size once.
    ask_on_all(&clients, &mut bufs, 100);
    ask_on_all(&clients, &mut bufs, 1000)
}

#[test]
fn l8_steady_echo_allocates_nothing() {
    for backend in those_of(REAL) {
        for owned in [true, false] {
            let allocations = run(backend, |builder| builder, || echo(owned));
            let requests = 1000 * CONNECTIONS;
            assert_eq!(allocations, 0, "on {backend}, owned {owned}: {allocations} allocations in {requests} requests");
        }
    }
}
