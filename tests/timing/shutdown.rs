//! The end of a program whose ops do not end, and cancels that meet a full queue.

use std::ffi::CString;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wo::net::UnixStream;
use wo::{Builder, IoResult, RunError};
use wo_runtime::error::OpKind;
use wo_runtime::fiber;
use wo_runtime::plane::backend::BackendConfig;
use wo_runtime::plane::ops::Job;

use crate::alone;
use crate::backends::{EVERY, REAL, Watch, run, those_of};
use crate::child::{self, test_path};

/// Leaves a fiber in a call that never comes back, and that nothing can interrupt.
#[wo::fiber]
fn leave_a_call_stuck(held: Arc<()>) {
    let runs = Arc::new(AtomicBool::new(false));
    let started = Arc::clone(&runs);
    wo::spawn(|| {
        let call = Job::new(move || {
            let _held = held;
            started.store(true, Ordering::SeqCst);
            loop {
                std::thread::park();
            }
        });
        let ended: IoResult<std::thread::Result<()>> = wo::wait(fiber::verb(call));
        unreachable!("it never comes back: {ended:?}");
    });
    // A call that has not begun can be taken back.
    while !runs.load(Ordering::SeqCst) {
        wo::yield_now().expect("yield");
    }
}

#[test]
fn r8_shutdown_stuck_op() {
    let _alone = alone();
    let test = test_path!();
    if !child::is_child(test) {
        // The stuck call keeps its thread and its memory for as long as the process lives.
        child::expect_success(child::leaky_command(test).output().expect("the test binary starts"));
        return;
    }
    for backend in those_of(REAL) {
        let _watch = Watch::new(format!("a shutdown on {backend}"));
        let held = Arc::new(());
        let by_the_call = Arc::clone(&held);
        let begun = Instant::now();
        let ended =
            Builder::new().io(backend).grace(Duration::from_millis(200)).run(|| leave_a_call_stuck(by_the_call));
        let took = begun.elapsed();
        assert!(took <= Duration::from_millis(500), "on {backend}: {took:?}");
        match ended {
            Err(RunError::Stuck { ops }) => {
                assert_eq!(ops, [OpKind::Job], "on {backend}");
                let text = RunError::Stuck { ops }.to_string();
                assert!(text.contains("job"), "on {backend}: {text}");
            }
            other => panic!("on {backend}: {other:?}"),
        }
        assert_eq!(Arc::strong_count(&held), 2, "on {backend}: freed while the call may still use it");
    }
}

/// Leaves a fiber that opens a pipe nobody writes to.
#[wo::fiber]
fn leave_an_open_stuck(path: PathBuf) {
    wo::spawn(|| {
        let opened = wo::fs::File::open(&path);
        unreachable!("nobody opens the other half: {opened:?}");
    });
    // One turn of the loop, so that the kernel has the open.
    wo::sleep(Duration::from_millis(1)).expect("sleep");
}

#[test]
fn r8_shutdown_brings_an_open_back() {
    let _alone = alone();
    for backend in those_of(REAL) {
        let _watch = Watch::new(format!("a shutdown on {backend}"));
        let dir = tempfile::tempdir().expect("a folder for the pipe");
        let path = dir.path().join("fifo");
        let name = CString::new(path.as_os_str().as_bytes()).expect("a path without a zero byte");
        // SAFETY: the name is a live string that ends in a zero byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let begun = Instant::now();
        let ended = Builder::new().io(backend).grace(Duration::from_millis(200)).run(|| leave_an_open_stuck(path));
        let took = begun.elapsed();
        assert!(took <= Duration::from_millis(500), "on {backend}: {took:?}");
        ended.unwrap_or_else(|error| panic!("on {backend}: {error}"));
    }
}

/// Which of them run first: those whose timers were made first.
#[derive(Clone, Copy, Debug)]
enum First {
    /// The cancels fill the queue, and the new ops find it full.
    Cancels,
    /// The new ops fill it, and the cancels find it full.
    Ops,
    /// Each finds what the others left.
    InTurn,
}

/// Eight silent reads whose deadlines pass in the tick that queues sixteen ops more.
#[wo::fiber]
fn cancels_meet_a_full_queue(first: First) {
    const SILENT: usize = 8;
    const MORE: usize = 16;
    let silent: Vec<bool> = match first {
        First::Cancels => [vec![true; SILENT], vec![false; MORE]].concat(),
        First::Ops => [vec![false; MORE], vec![true; SILENT]].concat(),
        First::InTurn => (0..SILENT + MORE).map(|number| number % 3 == 2).collect(),
    };
    assert_eq!(silent.iter().filter(|silent| **silent).count(), SILENT);
    let start = wo::now();
    let at = start + Duration::from_millis(20);
    let mut fibers = Vec::new();
    let mut kept = Vec::new();
    for silent in silent {
        let (reader, writer) = UnixStream::pair().expect("pair");
        fibers.push(if silent {
            wo::spawn(|| {
                let (read, _buf) = reader.recv_by(vec![0; 16], at);
                assert_eq!(read.expect("recv"), None);
            })
        } else {
            writer.write_all(b"ready").expect("write");
            wo::spawn(|| {
                wo::sleep_until(at).expect("sleep");
                let (read, _buf) = reader.recv(vec![0; 16]);
                assert_eq!(read.expect("recv"), 5);
            })
        });
        kept.push(writer);
    }
    for fiber in fibers {
        fiber.join().expect("a fiber ended");
    }
    let took = wo::now().since(start);
    assert!(took < Duration::from_millis(200), "{first:?}: {took:?}");
}

#[test]
fn r11_cancel_when_sq_full() {
    let _alone = alone();
    for backend in those_of(EVERY) {
        for first in [First::Cancels, First::Ops, First::InTurn] {
            let config = BackendConfig { submission_entries: 8, ..BackendConfig::default() };
            run(backend, |builder| builder.backend_config(config), || cancels_meet_a_full_queue(first));
        }
    }
}

/// Never comes back to its loop.
fn hold_the_thread() -> ! {
    loop {
        std::thread::park();
    }
}

/// Has another shard's thread held.
#[wo::fiber]
fn hold_the_thread_of(shard: usize) {
    let (holds, held) = wo::oneshot();
    let posted = wo::post_to(shard, move || {
        assert!(holds.send(()).is_ok());
        hold_the_thread()
    });
    assert!(posted);
    held.recv().expect("it is held");
}

#[test]
fn a_shard_whose_thread_is_held_is_left_to_itself() {
    let _alone = alone();
    let test = test_path!();
    if !child::is_child(test) {
        let wrote = child::expect_success(child::leaky_command(test).output().expect("the test binary starts"));
        assert!(wrote.contains("shard 1 does not come back") && wrote.contains("`wo::blocking`"), "{wrote}");
        return;
    }
    for backend in those_of(REAL) {
        let _watch = Watch::new(format!("an end beside a held thread on {backend}"));
        let grace = Duration::from_millis(50);
        let ended = Builder::new().io(backend).shards(2).grace(grace).run(async || {
            hold_the_thread_of(1).await;
            7
        });
        assert!(matches!(ended, Ok(7)), "on {backend}: {ended:?}");
    }
}

#[test]
fn a_signal_ends_a_process_whose_first_thread_is_held() {
    let _alone = alone();
    let test = test_path!();
    if child::is_child(test) {
        let builder = Builder::new().grace(Duration::from_millis(50)).stop_signals(true);
        let ended: Result<(), _> = builder.run(async || {
            println!("held");
            hold_the_thread()
        });
        unreachable!("{ended:?}");
    }
    let mut process = child::command(test);
    let mut process = process.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the test binary starts");
    let mut out = BufReader::new(process.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains("held") {
        line.clear();
        assert_ne!(out.read_line(&mut line).expect("its words"), 0, "it ended before");
    }
    let id = libc::pid_t::try_from(process.id()).expect("a process's id");
    // SAFETY: the call takes numbers; the child is not waited for yet, so the number is still its own.
    assert_eq!(unsafe { libc::kill(id, libc::SIGTERM) }, 0);
    let output = process.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(128 + libc::SIGTERM), "{output:?}");
    let wrote = child::written(&output);
    assert!(wrote.contains("has not come to its end past the grace") && wrote.contains("`wo::blocking`"), "{wrote}");
}
