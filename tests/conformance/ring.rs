//! Rings that are too small, and rings that are refused.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use wo::net::{TcpListener, TcpStream};
use wo::{Builder, RunError};
use wo_runtime::error::errno::{EAGAIN, ENOMEM};
use wo_runtime::error::{OpKind, Stage};
use wo_runtime::fiber;
use wo_runtime::plane::backend::{AnyBackend, BackendConfig, BackendKind, Selection};
use wo_runtime::plane::buf::BufPool;
use wo_runtime::plane::current::{register_pool, with_loop};
use wo_runtime::plane::ops;

use crate::backends::{Watch, run, those_of};
use crate::child::{self, test_path};

/// Asks for room for that many descriptors.
fn raise_descriptor_limit(to: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls are given a live `rlimit`.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = limit.rlim_max.min(to);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
    assert!(limit.rlim_cur >= to, "this case wants `ulimit -n {to}`");
}

#[wo::fiber]
fn echo_once(stream: TcpStream) {
    let mut buf = [0; 64];
    loop {
        let count = stream.read(&mut buf).expect("read");
        if count == 0 {
            return;
        }
        stream.write_all(&buf[..count]).expect("write");
    }
}

#[wo::fiber]
fn ask(address: std::net::SocketAddr, number: usize) {
    let stream = TcpStream::connect(address).expect("connect");
    for round in 0..4 {
        let request = format!("{number}/{round}").into_bytes();
        stream.write_all(&request).expect("write");
        let mut reply = vec![0; request.len()];
        let reply = match stream.read_exact_by(&mut reply, Duration::from_secs(60)).expect("read") {
            Some(()) => reply,
            None => panic!("connection {number} waited in vain in round {round}"),
        };
        assert_eq!(reply, request);
    }
}

#[wo::fiber]
fn more_than_the_queue_holds() {
    const NOPS: usize = 10_000;
    const CONNECTIONS: usize = 500;
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr();
    let mut fibers = Vec::new();
    let done = Rc::new(Cell::new(0));
    for _ in 0..NOPS {
        let done = done.clone();
        fibers.push(wo::spawn(|| {
            wo::wait(fiber::verb(ops::Nop)).expect("nop");
            done.set(done.get() + 1);
        }));
    }
    for number in 0..CONNECTIONS {
        fibers.push(wo::spawn(|| ask(address, number)));
    }
    for _ in 0..CONNECTIONS {
        let (stream, _peer) = listener.accept().expect("accept");
        fibers.push(wo::spawn(|| echo_once(stream)));
    }
    for fiber in fibers {
        fiber.join().expect("a fiber ended");
    }
    assert_eq!(done.get(), NOPS);
    let overflows = with_loop(OpKind::None, |event_loop| {
        Ok(match event_loop.backend() {
            AnyBackend::Uring(ring) => Some(ring.overflows()),
            _ => None,
        })
    });
    let overflows = overflows.expect("a loop runs here");
    assert_ne!(overflows, Some(0), "the queue never overflowed: the case was not run");
}

#[test]
fn r13_cq_overflow() {
    child::run(test_path!(), || {
        raise_descriptor_limit(2000);
        for backend in those_of(&[Selection::Uring, Selection::Epoll, Selection::Sim]) {
            let small = BackendConfig { submission_entries: 8, completion_entries: 16, ..BackendConfig::default() };
            run(backend, |builder| builder.backend_config(small), more_than_the_queue_holds);
        }
    });
}

/// From here on this thread's system call of this number answers `errno`.
fn deny(call: libc::c_long, errno: i32) {
    let denied = call as u32;
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut filter = [
        // The number of the call stands first in what a filter sees.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt: 0, jf: 1, k: denied },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its four statements are live during the call; the kernel copies them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let installed = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program);
        assert_eq!(installed, 0, "seccomp: {}", std::io::Error::last_os_error());
    }
}

#[wo::fiber]
fn echo_across() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr();
    let client = wo::spawn(|| ask(address, 0));
    let (stream, _peer) = listener.accept().expect("accept");
    echo_once(stream);
    client.join().expect("the client ended");
}

#[wo::fiber]
fn works_on_epoll_and_says_why(errno: i32) {
    echo_across();
    let caps = wo::backend().expect("a program runs");
    assert_eq!(caps.backend, BackendKind::Epoll);
    let why = &caps.steps.last().expect("the reason is on record").error;
    assert_eq!((why.errno(), why.op(), why.stage()), (errno, OpKind::Setup, Stage::Setup), "{why}");
    println!("fell back: {why}");
}

fn with_ring_denied(errno: i32, remedies: &[&str]) {
    let _watch = Watch::new(format!("a program without a ring, errno {errno}"));
    deny(libc::SYS_io_uring_setup, errno);
    Builder::new().io(Selection::Auto).run(|| works_on_epoll_and_says_why(errno)).expect("auto falls back");
    match Builder::new().io(Selection::Uring).run(echo_across) {
        Err(RunError::Setup(refusal)) => {
            assert_eq!((refusal.errno(), refusal.stage()), (errno, Stage::Setup), "{refusal}");
            let text = refusal.to_string();
            println!("refused: {text}");
            for remedy in remedies {
                assert!(text.contains(remedy), "errno {errno} should mention {remedy}: {text}");
            }
        }
        other => panic!("uring never falls back: {other:?}"),
    }
}

#[test]
fn r14_ring_denied() {
    // Filters add up, so each errno has a child of its own.
    let cases: [(i32, &[&str]); 6] = [
        (libc::ENOSYS, &["6.1", "WO_IO"]),
        (libc::EPERM, &["io_uring_disabled", "seccomp"]),
        (libc::EACCES, &["seccomp"]),
        (libc::EINVAL, &["6.1", "WO_IO"]),
        (libc::ENOMEM, &["ulimit -l"]),
        (libc::EMFILE, &["ulimit -n"]),
    ];
    let test = test_path!();
    if child::is_child(test) {
        let asked = std::env::var("WO_TEST_ERRNO").expect("set by the parent");
        let (errno, remedies) =
            cases.into_iter().find(|(errno, _)| errno.to_string() == asked).expect("one of the cases");
        return with_ring_denied(errno, remedies);
    }
    for (errno, _) in cases {
        let mut command = child::command(test);
        command.env("WO_TEST_ERRNO", errno.to_string()).env_remove("WO_IO");
        child::expect_success(command.output().expect("the test binary starts"));
    }
}

/// The same of the descriptor that wakes a loop: both real backends need one.
#[test]
fn r14_a_denied_eventfd_names_its_remedy() {
    child::run(test_path!(), || {
        deny(libc::SYS_eventfd2, libc::EPERM);
        for io in [Selection::Uring, Selection::Epoll] {
            match Builder::new().io(io).run(echo_across) {
                Err(RunError::Setup(refusal)) => {
                    let text = refusal.to_string();
                    assert!(text.contains("seccomp") && !text.contains("ulimit"), "{io:?}: {text}");
                }
                other => panic!("there is no loop without a waker: {other:?}"),
            }
        }
    });
}

/// Shards past what the process may open: the refusal names the shard, the cause and both remedies; and where io_uring
/// was refused before, that as well, which is the reason it is epoll that says so.
#[test]
fn r14_more_shards_than_can_be_set_up() {
    child::run(test_path!(), || {
        let _watch = Watch::new("far too many shards".to_owned());
        let refused = |io| match Builder::new().io(io).shards(100_000).run(echo_across) {
            Err(RunError::Setup(refusal)) => refusal,
            other => panic!("there are not as many descriptors: {other:?}"),
        };
        let expect = |io, words: &[&str]| {
            let refusal = refused(io);
            let text = refusal.to_string();
            println!("on {io}: {text}");
            assert_eq!((refusal.errno(), refusal.stage()), (libc::EMFILE, Stage::Setup), "{text}");
            for words in ["of 100000, ", "ulimit -n", "ask for fewer shards (WO_SHARDS)"].iter().chain(words) {
                assert!(text.contains(words), "{io}: {words:?} is missing in {text}");
            }
        };
        // A shard takes a few descriptors: whichever of them is the first that there is none for, the report is whole.
        for descriptors in (60..=64).rev() {
            let limit = libc::rlimit { rlim_cur: descriptors, rlim_max: descriptors };
            // SAFETY: the limit is live.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
            expect(Selection::Epoll, &[]);
            for io in those_of(&[Selection::Uring]) {
                expect(io, &[]);
                expect(Selection::Auto, &["io_uring"]);
            }
        }
        deny(libc::SYS_io_uring_setup, libc::EPERM);
        expect(Selection::Auto, &["io_uring", "kernel.io_uring_disabled"]);
        // The process is none the worse for it.
        Builder::new().run(echo_across).expect("one shard there can be");
    });
}

/// No memory may be locked beyond 64 KiB, and no privilege lifts that.
fn lock_at_most_64_kib() {
    let limit = libc::rlimit { rlim_cur: 64 << 10, rlim_max: 64 << 10 };
    // What a user has locked counts for all of the user's processes, so each test has a user of its own.
    let user = 1_000_000 + std::process::id();
    // SAFETY: the limit is live; the other calls take numbers. Root would be beyond the limit, so it is given up.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit), 0);
        if libc::geteuid() == 0 {
            assert_eq!(libc::setresgid(user, user, user), 0);
            assert_eq!(libc::setresuid(user, user, user), 0);
        }
    }
}

/// An echo whose server receives into and sends from buffers of a pool.
#[wo::fiber]
fn echo_from_a_pool(pool: BufPool) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr();
    let client = wo::spawn(|| ask(address, 0));
    let (stream, _peer) = listener.accept().expect("accept");
    loop {
        let buf = pool.take().expect("it came back");
        let (received, buf) = stream.recv(buf);
        if received.expect("recv") == 0 {
            break;
        }
        let (sent, _buf) = stream.send_all(buf);
        sent.expect("send");
    }
    client.join().expect("the client ended");
}

/// 4 MiB on every shard, twice; refused each time, said once.
#[wo::fiber]
fn register_more_than_may_be_locked(shards: usize) {
    assert_eq!(wo::shards(), shards);
    let mut refused = Vec::new();
    for shard in 0..shards {
        let (told, tells) = wo::oneshot();
        assert!(wo::post_to(shard, move || assert!(told.send(wo::spawn(register_twice)).is_ok())));
        refused.push(tells.recv().expect("a handle"));
    }
    for fiber in refused {
        fiber.join().expect("a shard's fiber ended");
    }
}

#[wo::fiber]
fn register_twice() {
    for _ in 0..2 {
        let mut pool = BufPool::new(1024, 4096).expect("the memory itself is to be had");
        let refusal = register_pool(&mut pool).expect_err("64 KiB may be locked");
        assert_eq!(refusal.errno(), ENOMEM, "{refusal}");
        assert!(refusal.to_string().contains("ulimit -l"), "the error names the remedy: {refusal}");
        assert!(!pool.is_registered());
        echo_from_a_pool(pool);
    }
}

#[test]
fn r15_memlock_64k() {
    let ring = those_of(&[Selection::Uring]);
    let test = test_path!();
    if child::is_child(test) {
        lock_at_most_64_kib();
        // All four shards start, on rings as small as they fit beside each other.
        for io in &ring {
            run(*io, |builder| builder.shards(4), || register_more_than_may_be_locked(4));
        }
        return;
    }
    // A process that gave up its privileges may not be looked into.
    let wrote = child::expect_success(child::leaky_command(test).output().expect("the test binary starts"));
    assert_eq!(wrote.matches("wo: warning:").count(), ring.len(), "one warning: {wrote}");
}

/// How many threads this thread, and the kernel for it, may start from here on: none, or any number again. No privilege
/// lifts that.
fn may_start_threads(any: bool) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // What a user has started counts for all of the user's processes; this user has but this thread. Other threads keep
    // theirs: the library's call would change all of them.
    let user = 1_000_000 + std::process::id();
    // SAFETY: the limit is live; the other calls take numbers.
    unsafe {
        if libc::geteuid() == 0 {
            assert_eq!(libc::syscall(libc::SYS_setresuid, user, user, user), 0);
        }
        assert_eq!(libc::getrlimit(libc::RLIMIT_NPROC, &raw mut limit), 0);
        limit.rlim_cur = if any { limit.rlim_max } else { 0 };
        assert_eq!(libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit), 0);
    }
}

#[wo::fiber]
fn ask_without_a_thread() {
    may_start_threads(false);
    let refusal = wo::fs::metadata("/").expect_err("no thread can be started for it");
    assert!(!refusal.is_cancelled(), "nobody cancelled it: {refusal}");
    assert_eq!(refusal.errno(), EAGAIN, "{refusal}");
    assert!(refusal.to_string().contains("ulimit -u"), "the error names the remedy: {refusal}");
    may_start_threads(true);
    assert!(wo::fs::metadata("/").expect("now one can").is_dir());
}

/// What wants a thread, the kernel's or the pool's, is refused where none is to be had, rather than told that it was
/// cancelled.
#[test]
fn no_thread_to_be_had_is_told_as_that() {
    let test = test_path!();
    if child::is_child(test) {
        return those_of(&[Selection::Uring, Selection::Epoll]).into_iter().for_each(|io| {
            // The kernel's threads are a thread's own, and this one gives its user up.
            let on_a_thread = std::thread::spawn(move || run(io, |builder| builder, ask_without_a_thread));
            on_a_thread.join().expect("the program ended");
        });
    }
    child::expect_success(child::leaky_command(test).output().expect("the test binary starts"));
}

#[wo::fiber]
fn ask_while_threads_are_to_be_had_again() {
    may_start_threads(false);
    let asking = wo::spawn(|| wo::fs::metadata("/"));
    // By then the kernel has given it up, which tries for some 40 ms by itself; and the loop has not.
    wo::sleep(Duration::from_millis(100)).expect("sleep");
    assert!(!asking.is_finished(), "it is tried again for longer than this");
    may_start_threads(true);
    let found = asking.join().expect("the fiber ended");
    assert!(found.expect("a thread was to be had in time").is_dir());
}

/// The kernel ends an op as cancelled when it cannot start the first thread for it, be it a limit or a signal that is
/// in the way. Nobody cancelled it, so it is tried again.
#[test]
fn an_op_the_kernel_had_no_thread_for_is_tried_again() {
    let test = test_path!();
    if child::is_child(test) {
        for io in those_of(&[Selection::Uring]) {
            run(io, |builder| builder, ask_while_threads_are_to_be_had_again);
        }
        return;
    }
    child::expect_success(child::leaky_command(test).output().expect("the test binary starts"));
}
