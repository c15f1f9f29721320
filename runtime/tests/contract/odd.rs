//! Descriptors as programs really meet them: made by others, shared, blocking, of every kind, closed and reused.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

use wo_runtime::plane::Fd;
use wo_runtime::plane::backend::{Backend, SocketKind};
use wo_runtime::plane::op::{NO_OFFSET, RawOp, RawSlice, Readiness};
use wo_runtime::plane::token::Token;

use super::READ_ONLY;
use super::real::in_child;
use super::rig::{Rig, Subject};

fn read<B: Backend>(rig: &mut Rig<B>, fd: RawFd, buf: RawSlice) -> Token {
    rig.start(RawOp::Read { fd, buf, offset: NO_OFFSET })
}

fn write<B: Backend>(rig: &mut Rig<B>, fd: RawFd, bytes: &[u8]) -> Token {
    let buf = rig.bytes(bytes).slice();
    rig.start(RawOp::Write { fd, buf, offset: NO_OFFSET })
}

/// Hands everything over and takes in what is there.
fn settle<B: Backend>(rig: &mut Rig<B>) {
    for _ in 0..2 {
        let nop = rig.start(RawOp::Nop);
        rig.finish(nop);
    }
}

fn is_nonblocking(fd: RawFd) -> bool {
    // SAFETY: the call takes no pointers.
    unsafe { libc::fcntl(fd, libc::F_GETFL) & libc::O_NONBLOCK != 0 }
}

/// What a program may find as its standard input, a pipe and a terminal aside.
pub fn r52_odd_fds<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let room = rig.bytes(&[7; 8]);

    let null = File::options().read(true).write(true).open("/dev/null").unwrap();
    let token = read(&mut rig, null.as_raw_fd(), room.slice());
    assert_eq!(rig.finish(token), 0, "/dev/null is at its end");
    let token = write(&mut rig, null.as_raw_fd(), b"gone");
    assert_eq!(rig.finish(token), 4);

    let zero = File::open("/dev/zero").unwrap();
    let token = read(&mut rig, zero.as_raw_fd(), room.slice());
    assert_eq!(rig.finish(token), 8);
    assert_eq!(rig.holds(room), [0; 8]);

    let dir = rig.scratch();
    std::fs::write(dir.join("file"), "in a regular file").unwrap();
    let file = File::open(dir.join("file")).unwrap();
    for expected in [&b"in a reg"[..], b"ular fil", b"e", b""] {
        let token = read(&mut rig, file.as_raw_fd(), room.slice());
        assert_eq!(rig.finish(token), expected.len() as i32);
        assert_eq!(&rig.holds(room)[..expected.len()], expected);
    }
    let directory = File::open(&dir).unwrap();
    let token = read(&mut rig, directory.as_raw_fd(), room.slice());
    assert_eq!(rig.finish(token), -libc::EISDIR);

    for closed in [-1, 1_000_000, i32::MAX] {
        let token = read(&mut rig, closed, room.slice());
        assert_eq!(rig.finish(token), -libc::EBADF);
        let token = write(&mut rig, closed, b"x");
        assert_eq!(rig.finish(token), -libc::EBADF);
        for op in [
            RawOp::Recv { fd: closed, buf: room.slice() },
            RawOp::Poll { fd: closed, wanted: Readiness::READABLE },
            RawOp::Accept { fd: closed, multishot: true },
        ] {
            let token = rig.start(op);
            assert_eq!(rig.finish(token), -libc::EBADF, "{op:?}");
        }
    }
    let token = rig.start(RawOp::Recv { fd: file.as_raw_fd(), buf: room.slice() });
    assert_eq!(rig.finish(token), -libc::ENOTSOCK);
}

/// A blocking pair of pipe ends that others made.
fn blocking_pipe() -> (File, File) {
    let mut ends = [0; 2];
    // SAFETY: the array has room for the two numbers, which are nobody else's.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    }
}

fn fifo(at: &Path) {
    let name = std::ffi::CString::new(at.to_str().unwrap()).unwrap();
    // SAFETY: the name ends in a zero byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

/// Both ends of a FIFO. It knows nothing of RWF_NOWAIT.
fn blocking_fifo(at: &Path) -> (File, File) {
    let both = File::options().read(true).write(true).open(at).unwrap();
    let ends = (File::open(at).unwrap(), File::options().write(true).open(at).unwrap());
    drop(both);
    ends
}

/// A blocking pipe whose mode is left alone, since others use it too, is read and written, and nobody waits.
pub fn shared_pipes_block_nobody<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let path = rig.scratch().join("fifo");
    fifo(&path);
    for (reader, writer) in [blocking_pipe(), blocking_fifo(&path)] {
        read_without_blocking(&mut rig, reader, writer);
    }
    for (reader, writer) in [blocking_pipe(), blocking_fifo(&path)] {
        write_without_blocking(&mut rig, reader, writer);
    }
}

fn read_without_blocking<B: Backend>(rig: &mut Rig<B>, reader: File, mut writer: File) {
    let fd = rig.backend().foreign(reader.as_raw_fd()).unwrap();
    let room = rig.room(8);
    for _ in 0..3 {
        let waits = read(rig, fd.raw(), room.slice());
        settle(rig);
        assert!(!rig.is_done(waits));
        writer.write_all(b"inherited").unwrap();
        assert_eq!(rig.finish(waits), 8);
        assert_eq!(rig.holds(room), b"inherite");
        let rest = read(rig, fd.raw(), room.slice());
        assert_eq!(rig.finish(rest), 1);
        assert!(!is_nonblocking(fd.raw()), "the mode of somebody else's pipe was changed");
    }
    let waits = read(rig, fd.raw(), room.slice());
    settle(rig);
    drop(writer);
    assert_eq!(rig.finish(waits), 0);
}

fn write_without_blocking<B: Backend>(rig: &mut Rig<B>, mut reader: File, writer: File) {
    let fd = rig.backend().foreign(writer.as_raw_fd()).unwrap();
    let bytes: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
    let memory = rig.bytes(&bytes);
    let mut written = 0;
    let mut got = Vec::new();
    let mut piece = vec![0; 7_000];
    let mut pending = None;
    while got.len() < bytes.len() {
        if pending.is_none() && written < bytes.len() {
            let buf = memory.part(written, bytes.len() - written).slice();
            pending = Some(rig.start(RawOp::Write { fd: fd.raw(), buf, offset: NO_OFFSET }));
        }
        if let Some(token) = pending {
            settle(rig);
            if rig.is_done(token) {
                let count = rig.finish(token);
                assert!(count > 0, "write answered {count}");
                written += count as usize;
                pending = None;
                continue;
            }
        }
        // The pipe is full, or everything is in it.
        let count = reader.read(&mut piece).unwrap();
        got.extend_from_slice(&piece[..count]);
    }
    assert!(got == bytes);
    assert!(!is_nonblocking(fd.raw()), "the mode of somebody else's pipe was changed");
}

/// A FIFO that the backend opened itself.
pub fn an_opened_fifo_is_a_stream<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let path = rig.scratch().join("fifo");
    fifo(&path);
    let both = File::options().read(true).write(true).open(&path).unwrap();
    let reading = rig.open_file(&path, READ_ONLY).unwrap();
    let mut writer = File::options().write(true).open(&path).unwrap();
    drop(both);
    let room = rig.room(8);
    for _ in 0..3 {
        let waits = read(&mut rig, reading.raw(), room.slice());
        settle(&mut rig);
        assert!(!rig.is_done(waits));
        writer.write_all(b"opened").unwrap();
        assert_eq!(rig.finish(waits), 6);
    }
    let waits = read(&mut rig, reading.raw(), room.slice());
    settle(&mut rig);
    drop(writer);
    assert_eq!(rig.finish(waits), 0);
}

pub fn a_terminal_is_read_and_written<B: Backend>(subject: &Subject<B>) {
    let (mut primary, mut secondary) = (0, 0);
    // SAFETY: the two numbers are written to live places; no name, modes or size are asked for.
    let (mut primary, secondary) = unsafe {
        let none = std::ptr::null_mut();
        assert_eq!(libc::openpty(&mut primary, &mut secondary, none, none.cast(), none.cast()), 0);
        (File::from_raw_fd(primary), OwnedFd::from_raw_fd(secondary))
    };
    let mut rig = subject.rig();
    let fd = rig.backend().foreign(secondary.as_raw_fd()).unwrap();
    let room = rig.room(32);
    for _ in 0..3 {
        let waits = read(&mut rig, fd.raw(), room.slice());
        settle(&mut rig);
        assert!(!rig.is_done(waits));
        primary.write_all(b"a line\n").unwrap();
        assert_eq!(rig.finish(waits), 7);
        assert_eq!(&rig.holds(room)[..7], b"a line\n");
        let wrote = write(&mut rig, fd.raw(), b"answer");
        assert_eq!(rig.finish(wrote), 6);
        let mut echoed = [0; 14];
        primary.read_exact(&mut echoed).unwrap();
        assert_eq!(&echoed, b"a line\r\nanswer");
    }
    let waits = read(&mut rig, fd.raw(), room.slice());
    settle(&mut rig);
    rig.cancel(waits);
    assert_eq!(rig.finish(waits), -libc::ECANCELED);
    assert!(!is_nonblocking(fd.raw()), "the mode of somebody else's terminal was changed");
}

/// A listener of another process's making, in blocking mode and perhaps shared: it is not changed, and waiting on it
/// keeps nobody waiting.
pub fn a_shared_listener_blocks_nobody<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let theirs = TcpListener::bind("127.0.0.1:0").unwrap();
    let fd = rig.backend().foreign(theirs.as_raw_fd()).unwrap();
    let op = RawOp::Accept { fd: fd.raw(), multishot: true };
    let mut accepting = rig.start(op);
    settle(&mut rig);
    for _ in 0..3 {
        let mut client = TcpStream::connect(theirs.local_addr().unwrap()).unwrap();
        let completion = rig.next(accepting);
        assert!(completion.res >= 0, "{completion:?}");
        if !completion.more {
            // A kernel without the feature takes one at a time.
            accepting = rig.start(op);
        }
        let served = rig.backend().adopt(completion.res);
        assert_eq!(rig.send(&served, b"welcome"), 7);
        let mut got = [0; 7];
        client.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"welcome");
    }
    rig.cancel(accepting);
    let completion = rig.next(accepting);
    assert_eq!((completion.res, completion.more), (-libc::ECANCELED, false));
    assert!(!is_nonblocking(fd.raw()), "the mode of somebody else's listener was changed");
}

/// (1) A receive waits on a descriptor, so the kernel is asked to watch it. (2) It ends, and the descriptor is closed,
/// here or on another thread. (3) The next one gets the same number. (4) A receive waits on that one: were the old
/// registration taken for the new one's, nobody would wake it.
pub fn a_reused_number_meets_no_old_op<B: Backend>(subject: &Subject<B>) {
    for elsewhere in [false, true] {
        let mut rig = subject.rig();
        let mut numbers = HashSet::new();
        for round in 0..200u8 {
            let (a, b) = rig.pair();
            numbers.insert(b.raw());
            let room = rig.room(4);
            let waits = rig.start(RawOp::Recv { fd: b.raw(), buf: room.slice() });
            settle(&mut rig);
            assert!(!rig.is_done(waits), "an old event ended a new receive");
            assert_eq!(rig.send(&a, &[round]), 1);
            assert_eq!(rig.finish(waits), 1);
            assert_eq!(rig.holds(room)[0], round);
            if elsewhere {
                std::thread::spawn(move || drop((a, b))).join().unwrap();
            }
        }
        assert!(numbers.len() < 200, "no number was ever used again");
    }
}

/// Descriptors of others come and go without a word to the backend, and others read them between two ops.
pub fn a_borrowed_number_may_be_anything_next_time<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let room = rig.room(4);
    for _ in 0..100 {
        let (mut reader, mut writer) = blocking_pipe();
        let fd = rig.backend().foreign(reader.as_raw_fd()).unwrap();
        let waits = rig.start(RawOp::Poll { fd: fd.raw(), wanted: Readiness::READABLE });
        settle(&mut rig);
        assert!(!rig.is_done(waits));
        writer.write_all(b"x").unwrap();
        assert_eq!(Readiness::from_bits(rig.finish(waits)), Readiness::READABLE);
        reader.read_exact(&mut [0]).unwrap();
        let waits = read(&mut rig, fd.raw(), room.slice());
        settle(&mut rig);
        assert!(!rig.is_done(waits));
        writer.write_all(b"y").unwrap();
        assert_eq!(rig.finish(waits), 1);
        drop((fd, reader));
        // A file gets the number, which no poller takes.
        let file = File::open("/proc/self/maps").unwrap();
        let token = read(&mut rig, file.as_raw_fd(), room.slice());
        assert_eq!(rig.finish(token), 4);
    }
}

/// A connection over TCP: the end held by a thread of the test, and ours.
fn connection<B: Backend>(rig: &mut Rig<B>) -> (TcpStream, Fd) {
    let (listener, address) = rig.listener();
    let theirs = TcpStream::connect(address.as_ip().unwrap()).unwrap();
    theirs.set_nodelay(true).unwrap();
    let raw = rig.run(RawOp::Accept { fd: listener.raw(), multishot: false });
    assert!(raw >= 0, "accept answered {raw}");
    (theirs, rig.backend().adopt(raw))
}

/// The end of a connection arrives with its last bytes, in one event, with a reader waiting or without: it is found,
/// and so are bytes behind an urgent one. A kernel that takes a short receive for an empty socket has to tell.
pub fn ends_come_with_the_last_bytes<B: Backend>(subject: &Subject<B>) {
    for exchanges in 0..5 {
        for waiting in [true, false] {
            for urgent in [true, false] {
                let mut rig = subject.rig();
                let (mut theirs, ours) = connection(&mut rig);
                let room = rig.room(64);
                let op = RawOp::Recv { fd: ours.raw(), buf: room.slice() };
                for _ in 0..exchanges {
                    let waits = rig.start(op);
                    settle(&mut rig);
                    theirs.write_all(b"request").unwrap();
                    assert_eq!(rig.finish(waits), 7);
                    assert_eq!(rig.send(&ours, b"answer"), 6);
                    theirs.read_exact(&mut [0; 6]).unwrap();
                }
                let early = waiting.then(|| rig.start(op));
                settle(&mut rig);
                theirs.write_all(b"last").unwrap();
                if urgent {
                    // SAFETY: the byte lives during the call.
                    let sent = unsafe { libc::send(theirs.as_raw_fd(), b"!".as_ptr().cast(), 1, libc::MSG_OOB) };
                    assert_eq!(sent, 1);
                    theirs.write_all(b"words").unwrap();
                }
                theirs.shutdown(std::net::Shutdown::Write).unwrap();
                if !waiting {
                    // The event is taken in while nobody reads.
                    rig.backend().wait(Some(Duration::from_millis(1))).unwrap();
                }
                let mut got = Vec::new();
                let mut next = early.unwrap_or_else(|| rig.start(op));
                loop {
                    let count = rig.finish(next);
                    assert!(count >= 0, "recv answered {count}");
                    if count == 0 {
                        break;
                    }
                    got.extend_from_slice(&rig.holds(room)[..count as usize]);
                    next = rig.start(op);
                }
                let expected: &[u8] = if urgent { b"lastwords" } else { b"last" };
                assert_eq!(got, expected, "{exchanges} exchanges, waiting {waiting}");
            }
        }
    }
}

pub fn descriptors_are_closed_on_exec<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let how = super::READ_ONLY;
    let file = rig.open_file(Path::new("/proc/self/maps"), how).unwrap();
    let (a, b) = rig.pair();
    let (reading, writing) = rig.backend().pipe().unwrap();
    let (listener, address) = rig.listener();
    let client = TcpStream::connect(address.as_ip().unwrap()).unwrap();
    let accepted = rig.run(RawOp::Accept { fd: listener.raw(), multishot: false });
    let accepted = rig.backend().adopt(accepted);
    for fd in [&file, &a, &b, &reading, &writing, &listener, &accepted] {
        // SAFETY: the call takes no pointers.
        let flags = unsafe { libc::fcntl(fd.raw(), libc::F_GETFD) };
        assert_ne!(flags & libc::FD_CLOEXEC, 0, "{fd:?}");
    }
    drop(client);
}

/// More descriptors with something to tell at once than any one batch takes.
pub fn many_sockets_are_served<B: Backend>(subject: &Subject<B>) {
    const PAIRS: usize = 400;
    let mut rig = subject.rig();
    let pairs: Vec<(Fd, Fd)> = (0..PAIRS).map(|_| rig.backend().socket_pair(SocketKind::Stream).unwrap()).collect();
    let rooms: Vec<_> = (0..PAIRS).map(|_| rig.room(8)).collect();
    let waits: Vec<_> = pairs
        .iter()
        .zip(&rooms)
        .map(|((_, b), room)| rig.start(RawOp::Recv { fd: b.raw(), buf: room.slice() }))
        .collect();
    settle(&mut rig);
    for (at, (a, _)) in pairs.iter().enumerate() {
        let buf = rig.bytes(&at.to_ne_bytes()).slice();
        rig.start(RawOp::Send { fd: a.raw(), buf, all: true });
    }
    for (at, wait) in waits.into_iter().enumerate() {
        assert_eq!(rig.finish(wait), 8);
        assert_eq!(rig.holds(rooms[at]), at.to_ne_bytes());
    }
}

/// A timer interrupts whatever the process does, every half millisecond: files, jobs, sockets and waits go on.
pub fn r20_eintr_storm<B: Backend>(subject: &Subject<B>) {
    extern "C" fn nothing(_: libc::c_int) {}
    in_child(|| {
        // SAFETY: the handler does nothing; the structs are plain words, valid when zero.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
            assert_eq!(libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut()), 0);
            let each = libc::timeval { tv_sec: 0, tv_usec: 500 };
            let timer = libc::itimerval { it_interval: each, it_value: each };
            assert_eq!(libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()), 0);
        }
        let mut rig = subject.rig();
        let bytes: Vec<u8> = (0..65_536u32).map(|at| (at % 251) as u8).collect();
        let path = rig.scratch().join("file");
        let how =
            wo_runtime::plane::backend::operand::OpenHow { write: true, create_new: true, mode: 0o640, ..READ_ONLY };
        let file = rig.open_file(&path, how).unwrap();
        for at in 0..50 {
            let buf = rig.bytes(&bytes).slice();
            let offset = at * bytes.len() as u64;
            assert_eq!(rig.run(RawOp::Write { fd: file.raw(), buf, offset }), bytes.len() as i32);
        }
        assert_eq!(rig.run(RawOp::Sync { fd: file.raw(), data_only: false }), 0);
        let room = rig.room(bytes.len());
        for at in 0..50 {
            let offset = at * bytes.len() as u64;
            assert_eq!(rig.run(RawOp::Read { fd: file.raw(), buf: room.slice(), offset }), bytes.len() as i32);
            assert!(rig.holds(room) == bytes);
        }
        let (a, b) = rig.pair();
        for _ in 0..20 {
            let buf = rig.bytes(&bytes).slice();
            let sent = rig.start(RawOp::Send { fd: a.raw(), buf, all: true });
            let mut got = Vec::new();
            while got.len() < bytes.len() {
                got.extend(rig.recv(&b, bytes.len() - got.len()));
            }
            assert!(got == bytes);
            assert_eq!(rig.finish(sent), bytes.len() as i32);
        }
        let (start, span) = (rig.backend().now(), Duration::from_millis(50));
        while rig.backend().now() - start < span {
            let left = span.saturating_sub(rig.backend().now() - start);
            rig.backend().wait(Some(left)).expect("a signal is no error");
        }
    });
}
