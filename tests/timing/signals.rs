//! Signals: a storm of them disturbs nothing, and the one that stops a program is heard at once.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use wo::net::{TcpListener, TcpStream};
use wo::{Builder, RunError};
use wo_runtime::plane::backend::Selection;

use crate::alone;
use crate::backends::{EVERY, REAL, Watch, on_real_backends, those_of};
use crate::child::{self, test_path};
use crate::process::{this_thread, thread_queued, threads, until_asleep};

/// The thread that the storm is for, and how often it was interrupted.
static STRUCK: AtomicI32 = AtomicI32::new(0);
static STRIKES: AtomicU32 = AtomicU32::new(0);

/// Whichever thread the system chooses hands the signal on to the one it is for.
extern "C" fn strike(signal: libc::c_int) {
    let meant = STRUCK.load(Ordering::Relaxed);
    // SAFETY: the calls take numbers, may be made in a handler, and leave errno alone unless they fail.
    unsafe {
        if libc::gettid() == meant {
            STRIKES.fetch_add(1, Ordering::Relaxed);
        } else if meant != 0 {
            libc::syscall(libc::SYS_tgkill, libc::getpid(), meant, signal);
        }
    }
}

/// SIGALRM that often to this thread, interrupting every call it meets.
fn begin_storm(every: Duration) {
    STRUCK.store(i32::try_from(this_thread()).expect("a thread's id"), Ordering::Relaxed);
    // SAFETY: the handler touches atomics; both structures are live and fully set, zeros where not named.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = strike as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()), 0);
        let every = libc::timeval { tv_sec: 0, tv_usec: every.subsec_micros().into() };
        let storm = libc::itimerval { it_interval: every, it_value: every };
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &raw const storm, std::ptr::null_mut()), 0);
    }
}

#[wo::fiber]
fn echo_back(stream: TcpStream) {
    let mut buf = vec![0; 8192];
    loop {
        let count = stream.read(&mut buf).expect("read");
        if count == 0 {
            return;
        }
        stream.write_all(&buf[..count]).expect("write");
    }
}

#[wo::fiber]
fn sleep_echo_and_read() {
    const MIB: usize = 1 << 20;
    begin_storm(Duration::from_millis(1));
    let (start, queued, strikes) = (wo::now(), thread_queued(), STRIKES.load(Ordering::Relaxed));
    wo::sleep(Duration::from_millis(100)).expect("sleep");
    let strikes = STRIKES.load(Ordering::Relaxed) - strikes;
    assert!(strikes > 0, "nothing interrupted the loop's thread: there was no storm");
    let slept = wo::now().since(start);
    // What the system gave to other programs is not ours.
    let late = slept.saturating_sub(Duration::from_millis(130)).saturating_sub(thread_queued() - queued);
    assert!(slept >= Duration::from_millis(100) && late.is_zero(), "sleep(100 ms) took {slept:?}");

    let bytes: Rc<Vec<u8>> = Rc::new((0..MIB).map(|at| (at % 251) as u8).collect());
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let client = TcpStream::connect(listener.local_addr()).expect("connect");
    let (stream, _peer) = listener.accept().expect("accept");
    let server = wo::spawn(|| echo_back(stream));
    let (sending, sent) = (client.clone(), bytes.clone());
    let sender = wo::spawn(|| sending.write_all(&sent).expect("write"));
    let mut reply = vec![0; MIB];
    client.read_exact(&mut reply).expect("read");
    assert_eq!(reply, *bytes);
    sender.join().expect("the sender ended");
    // What follows needs threads that the kernel starts for this one, and it gives up when a signal meets the start.
    begin_storm(Duration::from_micros(200));
    client.shutdown(std::net::Shutdown::Write).expect("shutdown");
    server.join().expect("the server ended");

    let dir = tempfile::tempdir().expect("a folder for the file");
    let path = dir.path().join("mebibyte");
    wo::fs::write(&path, bytes.to_vec()).expect("write");
    assert_eq!(wo::fs::read(&path).expect("read"), *bytes);
    for name in 0..50 {
        let path = dir.path().join(format!("{name}"));
        wo::fs::write(&path, vec![name; 100]).expect("write");
        wo::fs::rename(&path, dir.path().join("renamed")).expect("rename");
        let file = wo::fs::File::open(dir.path().join("renamed")).expect("open");
        file.sync_all().expect("sync");
        assert_eq!(file.metadata().expect("stat").len(), 100);
        file.close().expect("close");
        wo::fs::remove_file(dir.path().join("renamed")).expect("remove");
    }
}

#[test]
fn r20_eintr_storm() {
    let _alone = alone();
    child::run(test_path!(), || on_real_backends(sleep_echo_and_read));
}

/// Sends the signal to this thread once it has gone to sleep in the kernel; answers when that was, and how much
/// later it may have been because the sender had to wait for a processor.
fn signal_when_asleep(signal: i32) -> std::thread::JoinHandle<(Instant, Duration)> {
    let thread = this_thread();
    let all = threads(std::process::id());
    let before = all.into_iter().find(|other| other.id == thread).expect("this thread lives").sleeps;
    std::thread::spawn(move || {
        until_asleep(thread, before);
        let (sent, queued) = (Instant::now(), thread_queued());
        // To the thread that sleeps: another would have to get a processor before it could pass the signal on.
        // SAFETY: the call takes numbers.
        assert_eq!(unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) }, 0);
        (sent, thread_queued() - queued)
    })
}

#[wo::fiber]
fn wait_for_the_stop(signal: i32) {
    // Fresh submissions go in with the very call that waits: each echo leaves some behind.
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let client = TcpStream::connect(listener.local_addr()).expect("connect");
    let (stream, _peer) = listener.accept().expect("accept");
    let cleaned_up = Rc::new(Cell::new(false));
    let noted = cleaned_up.clone();
    let cleaning = wo::spawn(|| {
        let mut buf = [0; 16];
        let stopped = stream.read(&mut buf).expect_err("nobody writes");
        assert!(stopped.is_cancelled(), "{stopped}");
        noted.set(true);
    });
    let queued = thread_queued();
    let signalling = signal_when_asleep(signal);
    let mut buf = [0; 16];
    let stopped = client.read(&mut buf).expect_err("nobody writes");
    let heard = Instant::now();
    assert!(stopped.is_cancelled(), "{stopped}");
    let own = thread_queued() - queued;
    let (sent, theirs) = signalling.join().expect("the signal was sent");
    // What the system gave to other programs is not ours.
    let latency = heard.duration_since(sent).saturating_sub(own + theirs);
    assert!(latency < Duration::from_millis(20), "the stop was heard after {latency:?}");
    // The stop is no error of the other fiber's either: it has run to its end, or will in this turn.
    while !cleaning.is_finished() {
        let _stopping = wo::yield_now();
    }
    assert!(cleaned_up.get());
}

fn stop_by(signal: i32, backend: Selection) {
    let _watch = Watch::new(format!("a stop on {backend}"));
    Builder::new()
        .io(backend)
        .stop_signals(true)
        .run(|| wait_for_the_stop(signal))
        .unwrap_or_else(|error| panic!("on {backend}: {error}"));
}

#[test]
fn r22_signal_latency() {
    let _alone = alone();
    child::run(test_path!(), || {
        for backend in those_of(REAL) {
            stop_by(libc::SIGTERM, backend);
            stop_by(libc::SIGINT, backend);
        }
    });
}

#[wo::fiber]
fn heeds_no_stop() {
    // SAFETY: the signal meets the handler of the program that runs.
    assert_eq!(unsafe { libc::raise(libc::SIGTERM) }, 0);
    loop {
        let _ = wo::sleep(Duration::from_secs(1));
    }
}

/// The clock of a simulated world may stand still while fibers are ready; the one who sent the signal waits by his own.
#[test]
fn r22_a_signal_ends_a_busy_program_after_the_grace() {
    let _alone = alone();
    child::run(test_path!(), || {
        for backend in those_of(EVERY) {
            let _watch = Watch::new(format!("the end of a busy program on {backend}"));
            let grace = Duration::from_millis(300);
            let ended = Builder::new().io(backend).stop_signals(true).grace(grace).run(heeds_no_stop);
            assert!(matches!(ended, Err(RunError::Stopped { signal: Some(libc::SIGTERM) })), "on {backend}: {ended:?}");
        }
    });
}
