//! What only a backend with queues of its own promises: ops on one side of one descriptor end in the order they came.

use std::io::Read;
use std::net::TcpStream;

use wo_runtime::plane::backend::operand::{Datagram, PeerAddress};
use wo_runtime::plane::backend::{Backend, SocketKind, SocketOption};
use wo_runtime::plane::op::{Half, NO_OFFSET, RawOp};
use wo_runtime::plane::{Fd, SocketAddress};

use super::rig::{PATIENCE, Rig, Subject};

fn settle<B: Backend>(rig: &mut Rig<B>) {
    let nop = rig.start(RawOp::Nop);
    rig.finish(nop);
}

fn recv_all<B: Backend>(rig: &mut Rig<B>, fd: &Fd, len: usize) -> Vec<u8> {
    let mut got = Vec::new();
    while got.len() < len {
        let piece = rig.recv(fd, len - got.len());
        assert!(!piece.is_empty(), "the end after {} of {len} bytes", got.len());
        got.extend(piece);
    }
    got
}

pub fn receives_end_in_order<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (a, b) = rig.pair();
    let rooms = [rig.room(2), rig.room(2), rig.room(2), rig.room(2)];
    let mut waits = Vec::new();
    for room in rooms {
        waits.push(rig.start(RawOp::Recv { fd: b.raw(), buf: room.slice() }));
        settle(&mut rig);
    }
    rig.cancel(waits[1]);
    assert_eq!(rig.finish(waits[1]), -libc::ECANCELED);
    assert_eq!(rig.send(&a, b"abcdef"), 6);
    for (at, expected) in [(0, b"ab"), (2, b"cd"), (3, b"ef")] {
        assert_eq!(rig.finish(waits[at]), 2);
        assert_eq!(rig.holds(rooms[at]), expected);
    }
}

/// A send of the whole outlasts the socket's buffer; what comes after it waits its turn, and an immediate send does
/// not overtake.
pub fn sends_end_in_order<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (a, b) = rig.pair();
    rig.backend().set_socket_option(&a, SocketOption::SendBuffer(8192)).unwrap();
    let bytes: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
    let (long, short) = (rig.bytes(&bytes), rig.bytes(b"after"));
    let first = rig.start(RawOp::Send { fd: a.raw(), buf: long.slice(), all: true });
    let second = rig.start(RawOp::Send { fd: a.raw(), buf: short.slice(), all: true });
    settle(&mut rig);
    assert!(!rig.is_done(first), "more than the buffer holds cannot have gone");
    // SAFETY: the memory is the rig's.
    assert_eq!(unsafe { rig.backend().try_send(&a, short.slice()) }, None);
    assert!(recv_all(&mut rig, &b, bytes.len()) == bytes);
    assert_eq!(recv_all(&mut rig, &b, 5), b"after");
    assert_eq!((rig.finish(first), rig.finish(second)), (bytes.len() as i32, 5));
    // SAFETY: as above.
    assert_eq!(unsafe { rig.backend().try_send(&a, short.slice()) }, Some(5));
}

pub fn a_cancelled_send_tells_what_went_out<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (a, b) = rig.pair();
    rig.backend().set_socket_option(&a, SocketOption::SendBuffer(8192)).unwrap();
    let bytes: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
    let buf = rig.bytes(&bytes).slice();
    let send = rig.start(RawOp::Send { fd: a.raw(), buf, all: true });
    settle(&mut rig);
    rig.cancel(send);
    let went = rig.finish(send);
    assert!(went > 0 && (went as usize) < bytes.len(), "the cancelled send answered {went}");
    assert_eq!(rig.run(RawOp::Shutdown { fd: a.raw(), half: Half::Write }), 0);
    assert!(recv_all(&mut rig, &b, went as usize) == bytes[..went as usize]);
    assert_eq!(rig.recv(&b, 1), b"", "not a byte more than was told");
}

/// What is submitted before a shutdown goes before it.
pub fn a_shutdown_comes_after_what_was_sent<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (a, b) = rig.pair();
    let buf = rig.bytes(b"last words").slice();
    let send = rig.start(RawOp::Send { fd: a.raw(), buf, all: true });
    let shut = rig.start(RawOp::Shutdown { fd: a.raw(), half: Half::Write });
    assert_eq!((rig.finish(send), rig.finish(shut)), (10, 0));
    assert_eq!(recv_all(&mut rig, &b, 10), b"last words");
    assert_eq!(rig.recv(&b, 1), b"");
    assert_eq!(rig.send(&b, b"heard"), 5);
    assert_eq!(rig.recv(&a, 8), b"heard");
}

/// Several writes at once on a file's own position land one after the other.
pub fn writes_of_a_stream_file_keep_order<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let path = rig.scratch().join("log");
    let how = super::READ_ONLY;
    let how = wo_runtime::plane::backend::operand::OpenHow { write: true, create: true, mode: 0o640, ..how };
    let file = rig.open_file(&path, how).unwrap();
    let lines: Vec<String> = (0..100).map(|number| format!("line {number}\n")).collect();
    let writes: Vec<_> = lines
        .iter()
        .map(|line| {
            let buf = rig.bytes(line.as_bytes()).slice();
            rig.start(RawOp::Write { fd: file.raw(), buf, offset: NO_OFFSET })
        })
        .collect();
    for (write, line) in writes.into_iter().zip(&lines) {
        assert_eq!(rig.finish(write), line.len() as i32);
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), lines.concat());
}

/// No event tells when a Unix listener has room for one more.
pub fn a_connect_waits_for_a_full_listener<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let address = SocketAddress::Unix(rig.scratch().join("socket"));
    let listener = rig.backend().socket(address.domain(), SocketKind::Stream).unwrap();
    rig.backend().bind(&listener, &address).unwrap();
    rig.backend().listen(&listener, 0).unwrap();
    let connects: Vec<_> = (0..4).map(|_| rig.connect(&address)).collect();
    settle(&mut rig);
    let (cancelled_fd, cancelled) = &connects[3];
    assert!(!rig.is_done(*cancelled), "there is no room for four");
    rig.cancel(*cancelled);
    assert_eq!(rig.finish(*cancelled), -libc::ECANCELED);
    for _ in 0..3 {
        let raw = rig.run(RawOp::Accept { fd: listener.raw(), multishot: false });
        assert!(raw >= 0, "accept answered {raw}");
        drop(rig.backend().adopt(raw));
    }
    for (_, connect) in &connects[..3] {
        assert_eq!(rig.finish(*connect), 0);
    }
    // The one that gave up may try again.
    let to = rig.operand(PeerAddress::new(&address).unwrap());
    assert_eq!(rig.run(RawOp::Connect { fd: cancelled_fd.raw(), address: to }), 0);
}

/// Nor when another datagram socket has room for one more.
pub fn a_datagram_waits_for_a_full_peer<B: Backend>(subject: &Subject<B>) {
    // Far more than a socket queues (`net.unix.max_dgram_qlen`).
    const DATAGRAMS: u32 = 1_500;
    let mut rig = subject.rig();
    let address = SocketAddress::Unix(rig.scratch().join("socket"));
    let receiver = rig.backend().socket(address.domain(), SocketKind::Datagram).unwrap();
    rig.backend().bind(&receiver, &address).unwrap();
    let sender = rig.backend().socket(address.domain(), SocketKind::Datagram).unwrap();
    let sends: Vec<_> = (0..DATAGRAMS)
        .map(|number| {
            let buf = rig.bytes(&number.to_ne_bytes()).slice();
            let datagram = rig.boxed(Datagram::to(buf, Some(&address)).unwrap());
            rig.start(RawOp::SendTo { fd: sender.raw(), datagram })
        })
        .collect();
    settle(&mut rig);
    assert!(!rig.is_done(sends[DATAGRAMS as usize - 1]), "the queue cannot hold so many");
    for number in 0..DATAGRAMS {
        assert_eq!(rig.recv(&receiver, 8), number.to_ne_bytes());
    }
    for send in sends {
        assert_eq!(rig.finish(send), 4);
    }
}

/// What was accepted or opened and never reaped goes with the backend.
pub fn unreaped_descriptors_are_closed<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (listener, address) = rig.listener();
    let accepting = rig.start(RawOp::Accept { fd: listener.raw(), multishot: true });
    rig.backend().flush().unwrap();
    let mut client = TcpStream::connect(address.as_ip().unwrap()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    while !rig.backend().has_completions() {
        rig.backend().wait(Some(PATIENCE)).unwrap();
    }
    rig.forget(&[accepting]);
    drop(rig);
    drop(listener);
    let end = loop {
        match client.read(&mut [0]) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            end => break end,
        }
    };
    assert!(
        matches!(&end, Ok(0)) || matches!(&end, Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset),
        "the accepted end is still open: {end:?}"
    );
}
