//! What only kernels of the operating system have: other threads, signals, and descriptors that came from elsewhere.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use wo_runtime::plane::backend::Backend;
use wo_runtime::plane::job::JobCell;
use wo_runtime::plane::op::{NO_OFFSET, RawOp};

use super::rig::{PATIENCE, Rig, Subject};

/// No ring is lost between the loop's last look and its sleep.
pub fn rings_from_another_thread<B: Backend>(subject: &Subject<B>) {
    const ROUNDS: u64 = 20_000;
    let mut rig = subject.rig();
    let (asked, answered) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let ringer = {
        let (waker, asked, answered) = (rig.backend().waker(), asked.clone(), answered.clone());
        std::thread::spawn(move || {
            for round in 1..=ROUNDS {
                while answered.load(Ordering::Acquire) + 1 < round {
                    std::hint::spin_loop();
                }
                // Now and then the loop gets to sleep first.
                for _ in 0..round % 97 {
                    std::hint::spin_loop();
                }
                asked.store(round, Ordering::Release);
                waker.wake();
            }
        })
    };
    for round in 1..=ROUNDS {
        while asked.load(Ordering::Acquire) < round {
            let start = rig.backend().now();
            rig.backend().wait(Some(PATIENCE)).unwrap();
            assert!(rig.backend().now() - start < PATIENCE, "round {round}: the ring was lost");
            rig.reap();
        }
        answered.store(round, Ordering::Release);
    }
    ringer.join().unwrap();
}

/// Signals end waits early and nothing else: not an op, not a flush, not the span of a sleep.
pub fn signals_are_no_errors<B: Backend>(subject: &Subject<B>) {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing, and without SA_RESTART interrupted calls say so.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        assert_eq!(libc::sigaction(libc::SIGURG, &action, std::ptr::null_mut()), 0);
    }
    let mut rig = subject.rig();
    let storm = Storm::over_this_thread();
    let (a, b) = rig.pair();
    let bytes: Vec<u8> = (0..200_000u32).map(|at| (at % 241) as u8).collect();
    let out = rig.bytes(&bytes);
    let mut send = rig.start(RawOp::Send { fd: a.raw(), buf: out.slice(), all: true });
    let (mut sent, mut got) = (0, Vec::new());
    while got.len() < bytes.len() {
        got.extend(rig.recv(&b, 777));
        if sent < bytes.len() && rig.is_done(send) {
            sent += usize::try_from(rig.finish(send)).unwrap();
            if sent < bytes.len() {
                let rest = out.part(sent, bytes.len() - sent).slice();
                send = rig.start(RawOp::Send { fd: a.raw(), buf: rest, all: true });
            }
        }
    }
    assert!(got == bytes, "the bytes arrived changed");
    // A sleep keeps its span, however often it is interrupted.
    let span = Duration::from_millis(30);
    let mut slept = 0;
    while slept == 0 || storm.sent() < 100 {
        let end = rig.backend().now() + span;
        while let left = end - rig.backend().now()
            && !left.is_zero()
        {
            rig.backend().wait(Some(left)).unwrap();
            rig.reap();
        }
        slept += 1;
    }
}

/// Signals to the thread that began it, without end until it is dropped: also by a test that fails, for a thread that
/// comes later may have the same handle.
struct Storm {
    over: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Storm {
    fn over_this_thread() -> Storm {
        let (over, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        // SAFETY: the calling thread's own handle.
        let target = unsafe { libc::pthread_self() };
        let (until, count) = (over.clone(), sent.clone());
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Acquire) {
                // SAFETY: the target joins this thread before it ends, on every path: where the storm is dropped.
                unsafe { libc::pthread_kill(target, libc::SIGURG) };
                count.fetch_add(1, Ordering::Release);
                std::thread::yield_now();
            }
        });
        Storm { over, sent, thread: Some(thread) }
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn pipe(flags: libc::c_int) -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both numbers, which nobody else owns.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | flags), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

fn write(fd: &OwnedFd, bytes: &[u8]) -> isize {
    // SAFETY: the bytes are live during the call.
    unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) }
}

/// Reads from a descriptor that has nothing yet, expects the read to wait, then feeds it.
fn reading_waits<B: Backend>(rig: &mut Rig<B>, reading: RawFd, feed: impl FnOnce()) {
    let fd = rig.backend().foreign(reading).unwrap();
    let room = rig.room(16);
    let read = rig.start(RawOp::Read { fd: fd.raw(), buf: room.slice(), offset: NO_OFFSET });
    rig.expect_silence();
    feed();
    assert_eq!(rig.finish(read), 3);
    assert_eq!(&rig.holds(room)[..3], b"fed");

    let read = rig.start(RawOp::Read { fd: fd.raw(), buf: room.slice(), offset: NO_OFFSET });
    rig.expect_silence();
    rig.cancel(read);
    assert_eq!(rig.finish(read), -libc::ECANCELED);
}

/// Somebody else made them non-blocking; a read waits all the same.
pub fn foreign_descriptors_wait<B: Backend>(subject: &Subject<B>) {
    for flags in [0, libc::O_NONBLOCK] {
        let mut rig = subject.rig();
        let (reading, writing) = pipe(flags);
        reading_waits(&mut rig, reading.as_raw_fd(), || assert_eq!(write(&writing, b"fed"), 3));

        let dir = rig.scratch();
        let fifo = dir.join("fifo");
        let name = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
        // SAFETY: the name ends in a zero byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&fifo).unwrap();
        let writing = OpenOptions::new().write(true).open(&fifo).unwrap();
        reading_waits(&mut rig, file.as_raw_fd(), || assert_eq!(write(&writing.into(), b"fed"), 3));

        let (primary, secondary) = terminal();
        set_flags(&secondary, flags);
        reading_waits(&mut rig, secondary.as_raw_fd(), || assert_eq!(write(&primary, b"fed"), 3));
    }
}

/// A pair of terminal ends that pass bytes through.
fn terminal() -> (OwnedFd, OwnedFd) {
    let (mut primary, mut secondary) = (0, 0);
    // SAFETY: both numbers have room and belong to nobody else; the attributes are read before they are written.
    unsafe {
        let null = std::ptr::null_mut();
        assert_eq!(libc::openpty(&mut primary, &mut secondary, null, null.cast(), null.cast()), 0);
        let mut raw = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(secondary, &mut raw), 0);
        libc::cfmakeraw(&mut raw);
        assert_eq!(libc::tcsetattr(secondary, libc::TCSANOW, &raw), 0);
        (OwnedFd::from_raw_fd(primary), OwnedFd::from_raw_fd(secondary))
    }
}

fn set_flags(fd: &OwnedFd, flags: libc::c_int) {
    // SAFETY: the call takes no pointers.
    assert_eq!(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) }, 0);
}

/// A write into a full pipe waits for a reader, also where somebody made the pipe non-blocking.
pub fn writes_wait_for_room<B: Backend>(subject: &Subject<B>) {
    for flags in [0, libc::O_NONBLOCK] {
        let mut rig = subject.rig();
        let (reading, writing) = pipe(flags);
        set_flags(&writing, libc::O_NONBLOCK);
        while write(&writing, &[0; 4096]) > 0 {}
        set_flags(&writing, flags);
        let fd = rig.backend().foreign(writing.as_raw_fd()).unwrap();
        let bytes = rig.bytes(b"waits").slice();
        let pending = rig.start(RawOp::Write { fd: fd.raw(), buf: bytes, offset: NO_OFFSET });
        rig.expect_silence();
        let mut room = vec![0; 1 << 16];
        // SAFETY: the room is live during the call.
        assert!(unsafe { libc::read(reading.as_raw_fd(), room.as_mut_ptr().cast(), room.len()) } > 0);
        assert_eq!(rig.finish(pending), 5);
    }
}

/// Two acceptors on one non-blocking listener wake each other up for nothing, time and again; neither gives up.
pub fn crowded_accepts_go_on<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let (listener, address) = rig.listener();
    // SAFETY: the call takes no pointers.
    assert_eq!(unsafe { libc::fcntl(listener.raw(), libc::F_SETFL, libc::O_NONBLOCK) }, 0);
    let op = RawOp::Accept { fd: listener.raw(), multishot: true };
    let mut accepts = [rig.start(op), rig.start(op)];
    rig.backend().flush().unwrap();
    let mut accepted = 0;
    for round in 1..=400 {
        let _client = std::net::TcpStream::connect(address.as_ip().unwrap()).unwrap();
        while accepted < round {
            for accept in &mut accepts {
                while rig.is_done(*accept) {
                    let completion = rig.next(*accept);
                    assert!(completion.res >= 0, "round {round}: {completion:?}");
                    drop(rig.backend().adopt(completion.res));
                    accepted += 1;
                    if !completion.more {
                        *accept = rig.start(op);
                    }
                }
            }
            if accepted < round {
                rig.backend().wait(Some(PATIENCE)).unwrap();
                rig.reap();
            }
        }
    }
}

/// Opening a pipe nobody writes to waits in the kernel; a cancel gets it out.
pub fn an_open_that_waits_can_be_cancelled<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let fifo = rig.scratch().join("fifo");
    let name = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
    // SAFETY: the name ends in a zero byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let path = rig.path(&fifo);
    let how = super::READ_ONLY;
    let open = rig.start(RawOp::Open { path, how });
    rig.expect_silence();
    rig.cancel(open);
    assert_eq!(rig.finish(open), -libc::ECANCELED);
    // It left nothing behind that reads.
    let writing = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&fifo);
    assert_eq!(writing.unwrap_err().raw_os_error(), Some(libc::ENXIO));
}

/// Runs `body` in a forked child and expects that it returns.
pub fn in_child(body: impl FnOnce()) {
    // SAFETY: the child leaves by `_exit`, whatever the body does, and so runs nothing of the parent's.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            let returned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_ok();
            libc::_exit(if returned { 0 } else { 1 });
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child ended with status {status:#x}");
    }
}

/// A peer that has gone is an error, never a signal.
pub fn no_write_raises_sigpipe<B: Backend>(subject: &Subject<B>) {
    in_child(|| {
        // SAFETY: the disposition is the child's own.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let mut rig = subject.rig();
        let (a, b) = rig.pair();
        drop(a);
        assert_eq!(rig.send(&b, b"nobody"), -libc::EPIPE);
        if super::pipes_raise_no_signal() {
            let (reading, writing) = rig.backend().pipe().unwrap();
            drop(reading);
            let buf = rig.bytes(b"nobody").slice();
            assert_eq!(rig.run(RawOp::Write { fd: writing.raw(), buf, offset: NO_OFFSET }), -libc::EPIPE);
        }
    });
}

/// Of more jobs than there are workers, those that wait are taken back by a cancel; those that run are not
/// interrupted. Each ends once.
pub fn cancel_of_jobs<B: Backend>(subject: &Subject<B>) {
    const JOBS: i32 = 64;
    let mut rig = subject.rig();
    let (started, has_started) = mpsc::channel();
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let jobs: Vec<_> = (0..JOBS)
        .map(|number| {
            let (started, gate) = (started.clone(), gate.clone());
            let cell = rig.operand(JobCell::new(move || {
                started.send(number).unwrap();
                drop(gate.1.wait_while(gate.0.lock().unwrap(), |open| !*open).unwrap());
                number
            }));
            rig.start(RawOp::Job { cell })
        })
        .collect();
    rig.backend().flush().unwrap();
    let first = has_started.recv().unwrap();
    for job in &jobs {
        rig.cancel(*job);
    }
    rig.backend().flush().unwrap();
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    let results: Vec<_> = jobs.into_iter().map(|job| rig.finish(job)).collect();
    let ran: BTreeSet<i32> = has_started.try_iter().chain([first]).collect();
    for (number, res) in (0..).zip(results) {
        assert_eq!(res, if ran.contains(&number) { number } else { -libc::ECANCELED }, "job {number}");
    }
    assert!(ran.len() < JOBS as usize, "no job waited");
    rig.expect_silence();
}
