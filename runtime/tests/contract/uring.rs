//! What is the ring's own: registered buffers, overflow, refusals by the kernel, forks.

use std::os::fd::RawFd;

use wo_runtime::error::errno;
use wo_runtime::plane::SocketAddress;
use wo_runtime::plane::backend::operand::{Datagram, PeerAddress};
use wo_runtime::plane::backend::uring::UringBackend;
use wo_runtime::plane::backend::{Backend, BackendConfig, Mode, Shim, SocketKind};
use wo_runtime::plane::op::{NO_OFFSET, RawOp, RawSlice};
use wo_runtime::plane::token::{Class, Token};

use super::real::in_child;
use super::rig::{Rig, Subject};

fn subject() -> Subject<UringBackend> {
    Subject::new(BackendConfig::default())
}

/// More completions than their queue holds, and nobody takes them out: they are counted as overflow, and all there.
#[test]
fn overflow_is_counted_and_the_doorbell_survives_it() {
    let mut rig = subject().rig_with(|config| (config.submission_entries, config.completion_entries) = (8, 16));
    let waker = rig.backend().waker();
    let tokens: Vec<_> = (0..500).map(|_| rig.start(RawOp::Nop)).collect();
    waker.wake();
    rig.backend().flush().unwrap();
    assert!(rig.backend().has_completions());
    rig.reap();
    assert!(tokens.iter().all(|token| rig.is_done(*token)), "one reap takes out all that is ready");
    assert!(rig.backend().overflows() > 0);
    // The doorbell's own completion was among those without room; it rings on.
    for _ in 0..3 {
        waker.wake();
        rig.backend().wait(None).unwrap();
        rig.reap();
    }
    for token in tokens {
        assert_eq!(rig.finish(token), 0);
    }
}

fn registered(rig: &mut Rig<UringBackend>, bytes: &[u8]) -> RawSlice {
    let slice = rig.bytes(bytes).slice();
    // SAFETY: the rig keeps the memory for longer than the backend.
    let index = unsafe { rig.backend().register_buffer(slice) }.expect("small enough for any limit");
    RawSlice { fixed: index, ..slice }
}

#[test]
fn registered_buffers_carry_bytes() {
    let mut rig = subject().rig();
    let (out, back) = (registered(&mut rig, b"by index"), registered(&mut rig, &[0; 8]));
    assert_eq!((out.fixed, back.fixed), (0, 1));
    let (reading, writing) = rig.backend().pipe().unwrap();
    let write = |buf| RawOp::Write { fd: writing.raw(), buf, offset: NO_OFFSET };
    assert_eq!(rig.run(write(out)), 8);
    assert_eq!(rig.run(RawOp::Read { fd: reading.raw(), buf: back, offset: NO_OFFSET }), 8);
    // SAFETY: the read has ended.
    assert_eq!(unsafe { std::slice::from_raw_parts(back.ptr, 8) }, b"by index");
    // The index is not for show: with one that is not registered the kernel refuses.
    assert_eq!(rig.run(write(RawSlice { fixed: 9, ..out })), -libc::EFAULT);
    // Sockets are quicker without, and any index will do.
    let (a, b) = rig.pair();
    assert_eq!(rig.run(RawOp::Send { fd: a.raw(), buf: RawSlice { fixed: 9, ..out }, all: true }), 8);
    assert_eq!(rig.recv(&b, 16), b"by index");
}

#[test]
fn registration_refused_is_no_error_and_said_once() {
    let mut rig =
        subject().rig_with(|config| config.shim = Shim { fail_registration: Some(errno::ENOMEM), ..Shim::default() });
    for len in [4096, 100] {
        let slice = rig.room(len).slice();
        // SAFETY: the rig keeps the memory for longer than the backend.
        assert_eq!(unsafe { rig.backend().register_buffer(slice) }, None);
    }
    let steps = &rig.backend().caps().steps;
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert!(steps[0].tried.contains("4096 bytes") && steps[0].error.to_string().contains("ulimit -l"), "{steps:?}");
    assert_eq!(rig.run(RawOp::Nop), 0);
}

fn limit(what: libc::__rlimit_resource_t, to: u64) {
    let limit = libc::rlimit { rlim_cur: to, rlim_max: to };
    // SAFETY: the structure is live during the call.
    assert_eq!(unsafe { libc::setrlimit(what, &limit) }, 0);
}

/// R15: a process that may lock next to nothing starts, goes without registered buffers, and says so.
#[test]
fn r15_memlock_64k() {
    in_child(|| {
        limit(libc::RLIMIT_MEMLOCK, 64 << 10);
        // What a user has locked counts for all of the user's processes, so this test has a user of its own.
        let user = 2_000_000 + std::process::id();
        // SAFETY: no pointers; the system call itself, since the C function would look for the parent's threads. A
        // process without privileges stays what it is.
        unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) };
        let mut rig = subject().rig();
        let slice = rig.room(1 << 20).slice();
        // SAFETY: the rig keeps the memory for longer than the backend.
        assert_eq!(unsafe { rig.backend().register_buffer(slice) }, None);
        assert_eq!(rig.backend().caps().steps.len(), 1);
        let (a, b) = rig.pair();
        assert_eq!(rig.send(&a, b"echo"), 4);
        assert_eq!(rig.recv(&b, 8), b"echo");
    });
}

#[test]
fn no_descriptor_left_is_told_with_its_remedy() {
    in_child(|| {
        limit(libc::RLIMIT_NOFILE, 3);
        let error = UringBackend::open(&BackendConfig::default()).unwrap_err();
        assert_eq!(error.errno(), errno::EMFILE);
        assert!(error.to_string().contains("ulimit -n"), "{error}");
    });
}

/// Makes one system call answer `errno`, for this process and for good.
fn deny(call: libc::c_long, errno: i32) {
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        step(LOAD_NUMBER, 0, 0, 0),
        step(IF_EQUAL, call as u32, 0, 1),
        step(ANSWER, libc::SECCOMP_RET_ERRNO | errno as u32, 0, 0),
        step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program is live during the call, which copies it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program), 0);
    }
}

/// R14, the ring's part: whatever a filter answers, the error carries it, with the remedy.
#[test]
fn r14_ring_denied() {
    for (call, errno, remedy) in [
        (libc::SYS_io_uring_setup, libc::ENOSYS, "Linux 6.1"),
        (libc::SYS_io_uring_setup, libc::EPERM, "kernel.io_uring_disabled"),
        (libc::SYS_io_uring_setup, libc::EACCES, "seccomp"),
        (libc::SYS_io_uring_setup, libc::EINVAL, "seccomp"),
        (libc::SYS_io_uring_setup, libc::ENOMEM, "ulimit -l"),
        (libc::SYS_io_uring_setup, libc::EMFILE, "ulimit -n"),
        (libc::SYS_io_uring_register, libc::EPERM, "io_uring_register"),
        (libc::SYS_io_uring_enter, libc::EPERM, "io_uring_enter"),
    ] {
        in_child(|| {
            deny(call, errno);
            let error = UringBackend::open(&BackendConfig::default()).unwrap_err();
            assert_eq!(error.errno(), errno);
            assert!(error.to_string().contains(remedy), "{error}");
        });
    }
}

/// R26: a fork while ops are in flight. The child cannot use the parent's ring and is told so, makes its own, and
/// disturbs nothing in the parent.
#[test]
fn r26_fork_then_new_runtime() {
    let mut rig = subject().rig();
    let (a, b) = rig.pair();
    let reads: Vec<_> = (0..20)
        .map(|_| {
            let buf = rig.room(1).slice();
            rig.start(RawOp::Recv { fd: b.raw(), buf })
        })
        .collect();
    // Some of them are with the kernel, and one is still queued.
    rig.backend().flush().unwrap();
    let queued = rig.start(RawOp::Nop);
    in_child(|| {
        let token = Token::new(Class::User, 7, 7);
        // SAFETY: the op points at nothing.
        assert!(unsafe { rig.backend().submit(token, RawOp::Nop) }.is_err());
        assert!(rig.backend().cancel(token).is_err());
        for error in [rig.backend().flush().unwrap_err(), rig.backend().wait(None).unwrap_err()] {
            assert!(error.to_string().contains("forked"), "{error}");
        }
        rig.expect_nothing_reaped();
        drop(rig.take_backend());

        let mut own = subject().rig();
        let (reading, writing) = own.backend().pipe().unwrap();
        let (byte, room) = (own.bytes(b"x").slice(), own.room(1).slice());
        assert_eq!(own.run(RawOp::Write { fd: writing.raw(), buf: byte, offset: NO_OFFSET }), 1);
        assert_eq!(own.run(RawOp::Read { fd: reading.raw(), buf: room, offset: NO_OFFSET }), 1);
    });
    assert_eq!(rig.finish(queued), 0);
    assert_eq!(rig.send(&a, &[5; 20]), 20);
    for read in reads {
        assert_eq!(rig.finish(read), 1);
    }
}

/// A thread has places for sixteen registered rings: one ring after the other takes the same place, and more at once
/// go without.
#[test]
fn rings_give_their_registration_back() {
    for _ in 0..40 {
        assert_eq!(subject().rig().backend().caps().steps, []);
    }
    let mut many: Vec<_> = (0..20).map(|_| subject().rig()).collect();
    assert_eq!(many[0].backend().caps().steps, []);
    let step = &many[19].backend().caps().steps[0];
    assert!(step.tried.contains("descriptor"), "{step:?}");
    for rig in &mut many {
        assert_eq!(rig.run(RawOp::Nop), 0);
    }
}

/// A loop that spins before it sleeps sees a completion come without entering the kernel, though the kernel delivers
/// it only when entered.
#[test]
fn spinning_notices() {
    for mode in [Mode::Exclusive, Mode::Cooperative] {
        let mut rig = subject().rig_with(|config| config.mode = mode);
        let (a, b) = rig.pair();
        let buf = rig.room(1).slice();
        let recv = rig.start(RawOp::Recv { fd: b.raw(), buf });
        rig.backend().flush().unwrap();
        rig.reap();
        assert!(!rig.backend().has_completions());
        // SAFETY: the byte is live during the call.
        let sent = std::thread::spawn(move || unsafe { libc::send(a.raw(), b"x".as_ptr().cast(), 1, 0) });
        assert_eq!(sent.join().unwrap(), 1);
        assert!(rig.backend().has_completions(), "{mode:?}");
        rig.reap();
        assert!(rig.is_done(recv), "{mode:?}");
        assert!(!rig.backend().has_completions());
    }
}

/// Datagrams that have to wait for room at a Unix socket arrive whole, each once, whether its sender is connected or
/// not. (Left to wait by itself, the kernel sends them empty.)
pub fn datagrams_wait_for_a_full_peer(subject: &Subject<UringBackend>) {
    // Far more than a socket queues (`net.unix.max_dgram_qlen`).
    const DATAGRAMS: u32 = 500;
    for connected in [false, true] {
        let mut rig = subject.rig();
        let address = SocketAddress::Unix(rig.scratch().join("socket"));
        let datagrams =
            |rig: &mut Rig<UringBackend>| rig.backend().socket(address.domain(), SocketKind::Datagram).unwrap();
        let (receiver, sender) = (datagrams(&mut rig), datagrams(&mut rig));
        rig.backend().bind(&receiver, &address).unwrap();
        if connected {
            let to = rig.operand(PeerAddress::new(&address).unwrap());
            assert_eq!(rig.run(RawOp::Connect { fd: sender.raw(), address: to }), 0);
        }
        let to = if connected { None } else { Some(&address) };
        let sends: Vec<_> = (0..DATAGRAMS)
            .map(|number| {
                let buf = rig.bytes(&number.to_ne_bytes()).slice();
                let datagram = rig.boxed(Datagram::to(buf, to).unwrap());
                rig.start(RawOp::SendTo { fd: sender.raw(), datagram })
            })
            .collect();
        rig.expect_silence_of(sends[DATAGRAMS as usize - 1]);
        // One that waits can be cancelled, and then nothing of it arrives.
        rig.cancel(sends[DATAGRAMS as usize - 1]);
        assert_eq!(rig.finish(sends[DATAGRAMS as usize - 1]), -libc::ECANCELED);
        let mut got: Vec<_> = (1..DATAGRAMS).map(|_| rig.recv(&receiver, 8)).collect();
        got.sort_unstable_by_key(|bytes| bytes.iter().rev().copied().collect::<Vec<_>>());
        let expected: Vec<_> = (0..DATAGRAMS - 1).map(|number| number.to_le_bytes().to_vec()).collect();
        assert!(got == expected, "connected: {connected}; datagrams arrived changed");
        for send in &sends[..DATAGRAMS as usize - 1] {
            assert_eq!(rig.finish(*send), 4);
        }
    }
}

/// A connect to a full listener wanders between the kernel's lists, and a cancel that meets it on the way is told
/// that there is no such op. It ends all the same.
pub fn a_cancel_always_arrives(subject: &Subject<UringBackend>) {
    let mut rig = subject.rig();
    let address = SocketAddress::Unix(rig.scratch().join("socket"));
    let listener = rig.backend().socket(address.domain(), SocketKind::Stream).unwrap();
    rig.backend().bind(&listener, &address).unwrap();
    rig.backend().listen(&listener, 0).unwrap();
    let (_first, connect) = rig.connect(&address);
    assert_eq!(rig.finish(connect), 0);
    for round in 0..100 {
        let (_client, connect) = rig.connect(&address);
        // The cancel comes together with the op, or some entries of the kernel later.
        for _ in 0..round % 4 {
            rig.backend().flush().unwrap();
            rig.reap();
        }
        rig.cancel(connect);
        assert_eq!(rig.finish(connect), -libc::ECANCELED);
    }
}

fn is_close_on_exec(fd: RawFd) -> bool {
    // SAFETY: the call takes no pointers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    assert!(flags >= 0, "descriptor {fd} is not open");
    flags & libc::FD_CLOEXEC != 0
}

#[test]
fn every_descriptor_is_born_close_on_exec() {
    let mut rig = subject().rig();
    let (a, b) = rig.pair();
    let (reading, writing) = rig.backend().pipe().unwrap();
    let (listener, address) = rig.listener();
    let accept = rig.start(RawOp::Accept { fd: listener.raw(), multishot: true });
    let (client, connect) = rig.connect(&address);
    assert_eq!(rig.finish(connect), 0);
    let accepted = rig.next(accept).res;
    let accepted = rig.backend().adopt(accepted);
    let file = rig.open_file(std::path::Path::new("/dev/null"), super::READ_ONLY).unwrap();
    let datagrams = rig.backend().socket(address.domain(), SocketKind::Datagram).unwrap();
    for fd in [&a, &b, &reading, &writing, &listener, &client, &accepted, &file, &datagrams] {
        assert!(is_close_on_exec(fd.raw()), "{fd:?}");
    }
    // The ring and the doorbell have no handle; they are found by name.
    let mut found = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        let name = target.to_string_lossy().into_owned();
        if name.contains("io_uring") || name.contains("eventfd") {
            let fd: RawFd = entry.file_name().to_str().unwrap().parse().unwrap();
            // Another test may have closed it since.
            // SAFETY: the call takes no pointers.
            let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
            assert!(flags < 0 || flags & libc::FD_CLOEXEC != 0, "{name}");
            found += 1;
        }
    }
    assert!(found >= 2);
}
