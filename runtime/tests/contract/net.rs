//! Sockets, pipes and polls.

use wo_runtime::plane::SocketAddress;
use wo_runtime::plane::backend::operand::{Datagram, IoVecs};
use wo_runtime::plane::backend::{Backend, SocketKind};
use wo_runtime::plane::op::{Half, NO_OFFSET, RawOp, Readiness};

use super::rig::{Rig, Subject};

pub fn bytes_travel<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (a, b) = rig.pair();
    let waiting = rig.room(64);
    let recv = rig.start(RawOp::Recv { fd: b.raw(), buf: waiting.slice() });
    assert_eq!(rig.send(&a, b"there"), 5);
    // A short message fills a part of the buffer.
    assert_eq!(rig.finish(recv), 5);
    assert_eq!(&rig.holds(waiting)[..5], b"there");
    // A small buffer takes a part of the message, the next one the rest.
    assert_eq!(rig.send(&b, b"and back"), 8);
    assert_eq!(rig.recv(&a, 3), b"and");
    assert_eq!(rig.recv(&a, 64), b" back");
}

/// More than fits into any buffer between: everything arrives, in order, however it is cut.
pub fn a_megabyte_travels<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (a, b) = rig.pair();
    let bytes: Vec<u8> = (0..1u32 << 20).map(|at| (at % 251) as u8).collect();
    let out = rig.bytes(&bytes);
    let mut sent = 0;
    let mut send = rig.start(RawOp::Send { fd: a.raw(), buf: out.slice(), all: true });
    let mut got = Vec::new();
    while got.len() < bytes.len() {
        got.extend(rig.recv(&b, 10_000));
        if sent < bytes.len() && rig.is_done(send) {
            sent += usize::try_from(rig.finish(send)).unwrap();
            if sent < bytes.len() {
                let rest = out.part(sent, bytes.len() - sent).slice();
                send = rig.start(RawOp::Send { fd: a.raw(), buf: rest, all: true });
            }
        }
    }
    assert!(got == bytes, "the bytes arrived changed");
}

pub fn ends_are_told<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (a, b) = rig.pair();
    assert_eq!(rig.run(RawOp::Shutdown { fd: a.raw(), half: Half::Write }), 0);
    assert_eq!(rig.recv(&b, 8), b"");
    assert_eq!(rig.send(&b, b"late"), 4);
    assert_eq!(rig.recv(&a, 8), b"late");
    drop(a);
    assert_eq!(rig.send(&b, b"nobody"), -libc::EPIPE);
}

pub fn cancelled_recv_ends_once<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (a, b) = rig.pair();
    for flushed in [true, false] {
        let buf = rig.room(8).slice();
        let recv = rig.start(RawOp::Recv { fd: b.raw(), buf });
        if flushed {
            rig.backend().flush().unwrap();
        }
        rig.cancel(recv);
        assert_eq!(rig.finish(recv), -libc::ECANCELED);
        rig.cancel(recv);
    }
    rig.expect_silence();
    // The cancelled reads took nothing with them.
    assert_eq!(rig.send(&a, b"kept"), 4);
    assert_eq!(rig.recv(&b, 8), b"kept");
}

/// Cancel and completion meet: either wins, and in both cases no byte is lost.
pub fn cancel_that_races<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (a, b) = rig.pair();
    let mut delivered = Vec::new();
    for round in 0..200u8 {
        let memory = rig.room(1);
        let recv = rig.start(RawOp::Recv { fd: b.raw(), buf: memory.slice() });
        if round % 3 == 0 {
            rig.backend().flush().unwrap();
        }
        let byte = rig.bytes(&[round]).slice();
        let send = rig.start(RawOp::Send { fd: a.raw(), buf: byte, all: true });
        if round % 2 == 0 {
            rig.backend().flush().unwrap();
        }
        rig.cancel(recv);
        assert_eq!(rig.finish(send), 1);
        match rig.finish(recv) {
            1 => delivered.extend_from_slice(rig.holds(memory)),
            res => {
                assert_eq!(res, -libc::ECANCELED);
                delivered.extend(rig.recv(&b, 1));
            }
        }
    }
    assert_eq!(delivered, (0..200).collect::<Vec<u8>>());
}

pub fn connections_are_made<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (listener, address) = rig.listener();
    let accept = rig.start(RawOp::Accept { fd: listener.raw(), multishot: false });
    let (client, connect) = rig.connect(&address);
    assert_eq!(rig.finish(connect), 0);
    let raw = rig.finish(accept);
    assert!(raw >= 0, "accept: {raw}");
    let server = rig.backend().adopt(raw);
    assert_eq!(rig.backend().peer_address(&client).unwrap(), address);
    let local = rig.backend().local_address(&client).unwrap();
    assert_eq!(rig.backend().peer_address(&server).unwrap(), local);
    assert_eq!(rig.send(&client, b"hello"), 5);
    assert_eq!(rig.recv(&server, 8), b"hello");
}

/// One accept for several connections: `more` on every completion but the last, and a cancel is the last.
pub fn accept_goes_on<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (listener, address) = rig.listener();
    let op = RawOp::Accept { fd: listener.raw(), multishot: true };
    let mut accept = rig.start(op);
    let mut ended = false;
    for _ in 0..3 {
        if ended {
            accept = rig.start(op);
        }
        let (_client, connect) = rig.connect(&address);
        assert_eq!(rig.finish(connect), 0);
        let completion = rig.next(accept);
        assert!(completion.res >= 0, "{completion:?}");
        drop(rig.backend().adopt(completion.res));
        // A backend without the feature ends at once, and says so.
        ended = !completion.more;
    }
    if !ended {
        rig.cancel(accept);
        assert_eq!(rig.finish(accept), -libc::ECANCELED);
    }
    rig.expect_silence();
}

pub fn refused_connection_completes<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (listener, address) = rig.listener();
    drop(listener);
    let (_client, connect) = rig.connect(&address);
    assert_eq!(rig.finish(connect), -libc::ECONNREFUSED);
}

pub fn cancelled_accept_ends_once<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (listener, _) = rig.listener();
    let accept = rig.start(RawOp::Accept { fd: listener.raw(), multishot: false });
    rig.backend().flush().unwrap();
    rig.cancel(accept);
    assert_eq!(rig.finish(accept), -libc::ECANCELED);
    rig.expect_silence();
}

pub fn refusals_are_completions<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let buf = rig.room(1).slice();
    assert_eq!(rig.run(RawOp::Recv { fd: -1, buf }), -libc::EBADF);
    let (reading, _writing) = rig.backend().pipe().unwrap();
    assert_eq!(rig.run(RawOp::Recv { fd: reading.raw(), buf }), -libc::ENOTSOCK);
    let (a, _b) = rig.pair();
    assert_eq!(rig.run(RawOp::Accept { fd: a.raw(), multishot: false }), -libc::EINVAL);
}

pub fn datagrams_know_their_sender<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let any = SocketAddress::from(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    let bound = |rig: &mut Rig<B>| {
        let fd = rig.backend().socket(any.domain(), SocketKind::Datagram).unwrap();
        rig.backend().bind(&fd, &any).unwrap();
        let address = rig.backend().local_address(&fd).unwrap();
        (fd, address)
    };
    let ((a, a_address), (b, b_address)) = (bound(&mut rig), bound(&mut rig));

    let room = rig.room(4);
    let from = rig.boxed(Datagram::from_anyone(room.slice()));
    let recv = rig.start(RawOp::RecvFrom { fd: b.raw(), datagram: from });
    let bytes = rig.bytes(b"too long").slice();
    let to = rig.boxed(Datagram::to(bytes, Some(&b_address)).unwrap());
    assert_eq!(rig.run(RawOp::SendTo { fd: a.raw(), datagram: to }), 8);
    assert_eq!(rig.finish(recv), 4);
    assert_eq!(rig.holds(room), b"too ");
    // SAFETY: the op on it has ended, and the rig keeps it.
    let from = unsafe { from.as_ref() };
    assert_eq!((from.sender(), from.is_truncated()), (Some(a_address), true));
}

pub fn pipes_are_streams<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (reading, writing) = rig.backend().pipe().unwrap();
    let room = rig.room(16);
    let read = rig.start(RawOp::Read { fd: reading.raw(), buf: room.slice(), offset: NO_OFFSET });
    rig.expect_silence();
    let (one, two) = (rig.bytes(b"one "), rig.bytes(b"two"));
    let bufs = rig.operand(IoVecs::new([one.slice(), two.slice()]));
    assert_eq!(rig.run(RawOp::WriteVectored { fd: writing.raw(), bufs, offset: NO_OFFSET }), 7);
    assert_eq!(rig.finish(read), 7);
    assert_eq!(&rig.holds(room)[..7], b"one two");

    let more = rig.bytes(b"three").slice();
    assert_eq!(rig.run(RawOp::Write { fd: writing.raw(), buf: more, offset: NO_OFFSET }), 5);
    let (three, four) = (rig.room(2), rig.room(8));
    let bufs = rig.operand(IoVecs::new([three.slice(), four.slice()]));
    assert_eq!(rig.run(RawOp::ReadVectored { fd: reading.raw(), bufs, offset: NO_OFFSET }), 5);
    assert_eq!((rig.holds(three), &rig.holds(four)[..3]), (&b"th"[..], &b"ree"[..]));

    drop(writing);
    assert_eq!(rig.run(RawOp::Read { fd: reading.raw(), buf: room.slice(), offset: NO_OFFSET }), 0);
}

pub fn cancelled_read_of_a_pipe_ends_once<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (reading, writing) = rig.backend().pipe().unwrap();
    let room = rig.room(8);
    let read = rig.start(RawOp::Read { fd: reading.raw(), buf: room.slice(), offset: NO_OFFSET });
    rig.backend().flush().unwrap();
    rig.cancel(read);
    assert_eq!(rig.finish(read), -libc::ECANCELED);
    let bytes = rig.bytes(b"kept").slice();
    assert_eq!(rig.run(RawOp::Write { fd: writing.raw(), buf: bytes, offset: NO_OFFSET }), 4);
    assert_eq!(rig.run(RawOp::Read { fd: reading.raw(), buf: room.slice(), offset: NO_OFFSET }), 4);
}

pub fn polls_tell_readiness<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (reading, writing) = rig.backend().pipe().unwrap();
    let poll = |fd: i32, wanted| RawOp::Poll { fd, wanted };
    let ready = |res: i32| {
        assert!(res >= 0, "poll: {res}");
        Readiness::from_bits(res)
    };

    assert!(ready(rig.run(poll(writing.raw(), Readiness::WRITABLE))).writable);

    let waiting = rig.start(poll(reading.raw(), Readiness::READABLE));
    rig.expect_silence();
    let byte = rig.bytes(b"x").slice();
    assert_eq!(rig.run(RawOp::Write { fd: writing.raw(), buf: byte, offset: NO_OFFSET }), 1);
    let found = ready(rig.finish(waiting));
    assert!(found.readable && !found.writable && !found.hangup, "{found:?}");

    let room = rig.room(8).slice();
    assert_eq!(rig.run(RawOp::Read { fd: reading.raw(), buf: room, offset: NO_OFFSET }), 1);
    let cancelled = rig.start(poll(reading.raw(), Readiness::READABLE));
    rig.backend().flush().unwrap();
    rig.cancel(cancelled);
    assert_eq!(rig.finish(cancelled), -libc::ECANCELED);

    let waiting = rig.start(poll(reading.raw(), Readiness::READABLE));
    rig.backend().flush().unwrap();
    drop(writing);
    assert!(ready(rig.finish(waiting)).hangup);
}

/// A pending read sees the end that its own side makes.
pub fn shutdown_ends_a_pending_recv<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (a, _b) = rig.pair();
    let buf = rig.room(8).slice();
    let recv = rig.start(RawOp::Recv { fd: a.raw(), buf });
    rig.backend().flush().unwrap();
    assert_eq!(rig.run(RawOp::Shutdown { fd: a.raw(), half: Half::Read }), 0);
    assert_eq!(rig.finish(recv), 0);
}
