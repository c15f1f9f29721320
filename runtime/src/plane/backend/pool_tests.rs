//! What a loop sees of its pool.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

use super::*;
use crate::error::OpKind;
use crate::plane::backend::operand::{OpenHow, Path};
use crate::plane::job::JobCell;
use crate::plane::token::Class;

fn token(index: u32) -> Token {
    Token::new(Class::User, 1, index)
}

fn call(call: impl FnOnce() -> i32 + Send + 'static) -> PoolJob {
    let mut cell = JobCell::new(call);
    // SAFETY: the call is taken out here, and the cell is not needed afterwards.
    unsafe { job_for(RawOp::Job { cell: NonNull::from(&mut cell) }) }
}

/// Waits on the waker's descriptor, as a loop does, until `count` answers are there.
fn reaped(pool: &mut WorkerPool, count: usize) -> Vec<RawCompletion> {
    let event = pool.shared.waker.event().expect("made with an event");
    let mut out = Vec::new();
    loop {
        pool.shared.waker.acknowledge();
        pool.reap(&mut out);
        if out.len() >= count {
            return out;
        }
        let mut poll = libc::pollfd { fd: event, events: libc::POLLIN, revents: 0 };
        // SAFETY: one live entry. The descriptor is drained because nothing here waits for edges.
        unsafe {
            libc::poll(&mut poll, 1, 10_000);
            let mut count = 0u64;
            libc::read(event, (&raw mut count).cast(), 8);
        }
    }
}

fn pool(workers_max: usize) -> WorkerPool {
    WorkerPool::with_workers(Waker::with_event().expect("an eventfd"), workers_max)
}

#[test]
fn every_answer_is_reaped_once_under_its_token() {
    let mut pool = pool(WORKERS_MAX);
    for index in 0..1000 {
        pool.submit(token(index), call(move || index as i32));
    }
    let mut out = reaped(&mut pool, 1000);
    out.sort_by_key(|done| done.token.index());
    for (index, done) in out.iter().enumerate() {
        assert_eq!((done.token, done.res, done.more), (token(index as u32), index as i32, false));
    }
    assert_eq!((pool.in_flight(), pool.has_completions()), (0, false));
}

#[test]
fn one_worker_keeps_the_order() {
    let mut pool = pool(1);
    for index in 0..100 {
        pool.submit(token(index), call(|| 0));
    }
    let order: Vec<u32> = reaped(&mut pool, 100).iter().map(|done| done.token.index()).collect();
    assert_eq!(order, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_panic_is_answered_and_the_worker_lives() {
    struct PanicsAgain;
    impl Drop for PanicsAgain {
        fn drop(&mut self) {
            panic!("the payload panics too");
        }
    }
    let mut pool = pool(1);
    pool.submit(token(0), call(|| panic!("a job panics")));
    pool.submit(token(1), call(|| std::panic::panic_any(PanicsAgain)));
    pool.submit(token(2), call(|| 42));
    let results: Vec<i32> = reaped(&mut pool, 3).iter().map(|done| done.res).collect();
    assert_eq!(results, [-errno::EIO, -errno::EIO, 42]);
}

#[test]
fn cancel_takes_back_what_waits_and_nothing_else() {
    let mut pool = pool(1);
    let (started, is_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    pool.submit(
        token(0),
        call(move || {
            started.send(()).unwrap();
            released.recv().unwrap();
            7
        }),
    );
    let ran = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ran);
    pool.submit(
        token(1),
        call(move || {
            flag.store(true, Ordering::SeqCst);
            0
        }),
    );
    is_started.recv().unwrap();
    assert!(pool.cancel(token(1)));
    assert!(!pool.cancel(token(1)), "once");
    assert!(!pool.cancel(token(0)), "it runs");
    assert!(!pool.cancel(token(9)), "unknown");
    assert_eq!(reaped(&mut pool, 1), [RawCompletion { token: token(1), res: -errno::ECANCELED, more: false }]);
    release.send(()).unwrap();
    assert_eq!(reaped(&mut pool, 1), [RawCompletion { token: token(0), res: 7, more: false }]);
    assert!(!ran.load(Ordering::SeqCst));
    assert_eq!(Arc::strong_count(&ran), 1, "a call that was taken back is dropped");
}

#[test]
fn a_call_whose_destructor_panics_can_be_cancelled() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("a captured value panics");
        }
    }
    let mut pool = pool(1);
    let (release, released) = mpsc::channel::<()>();
    pool.submit(token(0), call(move || released.recv().map_or(-1, |()| 0)));
    let captured = Panics;
    pool.submit(
        token(1),
        call(move || {
            let _captured = captured;
            0
        }),
    );
    assert!(pool.cancel(token(1)));
    release.send(()).unwrap();
    assert_eq!(reaped(&mut pool, 2).len(), 2);
}

/// A FIFO without a writer keeps whoever opens it waiting.
fn open_of_a_fifo(test: &str) -> (PoolJob, std::path::PathBuf) {
    let name = std::env::temp_dir().join(format!("wo-pool-{test}-{}", std::process::id()));
    let path: &'static Path = Box::leak(Box::new(Path::new(&name, OpKind::Open).unwrap()));
    // A worker may still look at it when the test has ended.
    static KEPT: Mutex<Vec<&'static Path>> = Mutex::new(Vec::new());
    KEPT.lock().unwrap().push(path);
    // SAFETY: the path ends in a zero byte.
    assert_eq!(unsafe { libc::mkfifo(path.0.as_ptr(), 0o600) }, 0);
    let how = OpenHow {
        read: true,
        write: false,
        append: false,
        create: false,
        create_new: false,
        truncate: false,
        directory: false,
        no_follow: false,
        direct: false,
        mode: 0,
    };
    // SAFETY: the path is leaked.
    (unsafe { job_for(RawOp::Open { path: NonNull::from(path), how }) }, name)
}

#[test]
fn an_open_that_waits_is_brought_out() {
    let mut pool = pool(1);
    let (open, name) = open_of_a_fifo("cancel");
    pool.submit(token(0), open);
    // It started when nothing waits any more; whether it waits in the kernel by then does not matter.
    while !pool.shared.lock().waiting.is_empty() {
        std::thread::yield_now();
    }
    assert!(!pool.cancel(token(0)));
    assert!(!pool.cancel(token(0)), "once more does no harm");
    assert_eq!(reaped(&mut pool, 1), [RawCompletion { token: token(0), res: -errno::ECANCELED, more: false }]);
    // The worker is good for more, and what interrupts it has stopped.
    pool.submit(token(1), call(|| 1));
    assert_eq!(reaped(&mut pool, 1)[0].res, 1);
    std::fs::remove_file(name).unwrap();
}

#[test]
fn dropping_the_pool_brings_an_open_out() {
    let mut pool = pool(2);
    let (open, name) = open_of_a_fifo("drop");
    pool.submit(token(0), open);
    pool.submit(token(1), call(|| 1));
    assert_eq!(reaped(&mut pool, 1)[0].token, token(1), "the stuck call keeps one worker only");
    let shared = Arc::downgrade(&pool.shared);
    drop(pool);
    while shared.upgrade().is_some() {
        std::thread::yield_now();
    }
    std::fs::remove_file(name).unwrap();
}

#[test]
fn dropping_the_pool_leaves_a_stuck_call_behind() {
    let mut pool = pool(1);
    let (started, is_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    pool.submit(
        token(0),
        call(move || {
            started.send(()).unwrap();
            released.recv().map_or(-1, |()| 0)
        }),
    );
    is_started.recv().unwrap();
    let shared = Arc::downgrade(&pool.shared);
    drop(pool);
    assert!(shared.upgrade().is_some(), "the stuck worker still has its half");
    drop(release);
    while shared.upgrade().is_some() {
        std::thread::yield_now();
    }
}

#[test]
fn a_descriptor_nobody_reaped_is_closed() {
    let mut pool = pool(1);
    let (open, name) = open_of_a_fifo("unreaped");
    pool.submit(token(0), open);
    let mut writer = std::fs::OpenOptions::new().write(true).open(&name).unwrap();
    while !pool.has_completions() {
        std::thread::yield_now();
    }
    drop(pool);
    std::fs::remove_file(name).unwrap();
    let error = std::io::Write::write(&mut writer, b"x").expect_err("nobody reads");
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[test]
fn dropping_the_pool_drops_what_waits_and_joins_the_idle() {
    let mut pool = pool(1);
    pool.submit(token(0), call(|| 0));
    reaped(&mut pool, 1);
    let shared = Arc::downgrade(&pool.shared);
    drop(pool);
    assert!(shared.upgrade().is_none(), "the worker was joined");
}

#[test]
fn workers_are_few_and_started_when_needed() {
    let mut pool = pool(3);
    assert!(pool.threads.iter().all(Option::is_none));
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    for index in 0..50 {
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        pool.submit(
            token(index),
            call(move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
                0
            }),
        );
    }
    reaped(&mut pool, 50);
    assert!(most.load(Ordering::SeqCst) <= 3);
}

#[test]
fn a_worker_blocks_signals_but_a_users_call_does_not_see_it() {
    fn terminates_blocked(mask: &SignalMask) -> i32 {
        // SAFETY: the set is initialised.
        unsafe { libc::sigismember(&mask.0, libc::SIGTERM) }
    }
    let here = terminates_blocked(&SignalMask::of_this_thread());
    let mut pool = pool(1);
    pool.submit(token(0), call(|| terminates_blocked(&SignalMask::of_this_thread())));
    assert_eq!(reaped(&mut pool, 1)[0].res, here);
    assert_eq!(terminates_blocked(&SignalMask::of_this_thread()), here, "starting a worker leaves the mask alone");
    assert_eq!(terminates_blocked(&SignalMask::of_workers()), 1);
}
