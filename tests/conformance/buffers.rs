//! A buffer lives until the kernel's last word on it, and not a moment less: invariant 1.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wo::net::UnixStream;
use wo_runtime::plane::backend::{AnyBackend, Backend, BackendConfig, Selection, SocketKind};
use wo_runtime::plane::{EventLoop, LoopConfig, ops};

use crate::backends::{EVERY, REAL, Watch, on_every_backend, run, those_of};
use crate::flagged::{Flagged, Freed};
use crate::poll;
use crate::repeating::Repeating;

async fn a_read_dropped_in_flight() {
    let (reader, writer) = UnixStream::pair().expect("pair");
    let freed = Freed::default();
    let (tell, told) = wo::oneshot::<()>();
    let buf = Flagged::new(64, &freed).then(|| tell.send(()).expect("the test waits"));
    let mut read = Box::pin(reader.recv(buf));
    assert!(poll::once(read.as_mut()).await.is_none());
    // One turn of the loop, so that the kernel has the read.
    wo::sleep(Duration::from_millis(1)).await.expect("sleep");
    drop(read);
    assert_eq!(freed.count(), 0, "freed while the kernel may still write to it");
    told.recv().await.expect("the buffer is freed after the read's last word");
    assert_eq!(freed.count(), 1);
    writer.write_all(b"goes on").await.expect("write");
    let (read, bytes) = reader.recv(Vec::with_capacity(64)).await;
    assert_eq!((read.expect("recv"), bytes.as_slice()), (7, b"goes on".as_slice()));
}

#[test]
fn r6_buffer_outlives_kernel() {
    on_every_backend(a_read_dropped_in_flight);
}

async fn a_read_dropped_after_its_bytes_came() {
    let (reader, writer) = UnixStream::pair().expect("pair");
    let freed = Freed::default();
    let (tell, told) = wo::oneshot::<()>();
    let mut read = Box::pin(reader.recv(Flagged::new(64, &freed).then(|| tell.send(()).expect("the test waits"))));
    assert!(poll::once(read.as_mut()).await.is_none());
    wo::sleep(Duration::from_millis(1)).await.expect("sleep");
    writer.write_all(b"raced").await.expect("write");
    drop(read);
    told.recv().await.expect("the buffer is freed after the read's last word");
    let (read, bytes) = reader.recv(Vec::with_capacity(64)).await;
    assert_eq!((read.expect("recv"), bytes.as_slice()), (5, b"raced".as_slice()));
}

#[test]
fn r6_raced_bytes_are_delivered() {
    on_every_backend(a_read_dropped_after_its_bytes_came);
}

/// How a receive may end that nobody waits for any more.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Cancelled,
    Answered,
}

/// The kernel has ended the op and written to the buffer or not; until the loop has read so, the buffer stays.
fn kept_until_the_last_word(backend: AnyBackend, end: End) {
    let backend = Repeating::new(backend);
    let kernel = backend.switch();
    let mut event_loop = EventLoop::over(backend, &LoopConfig::default());
    let (reader, writer) = event_loop.backend().socket_pair(SocketKind::Stream).expect("socket_pair");
    let freed = Freed::default();
    let receive = ops::Recv::new(&reader, Flagged::new(64, &freed));
    let token = event_loop.submit(receive, |_, _| panic!("nobody waits for it")).expect("submit");
    event_loop.run_once(TURN).expect("run_once");
    assert_eq!((event_loop.in_flight(), freed.count()), (1, 0), "{end:?}: with the kernel");

    kernel.hold();
    event_loop.detach(token);
    match end {
        End::Cancelled => event_loop.cancel(token),
        End::Answered => {
            event_loop.submit(ops::Send::all(&writer, b"seven b".to_vec()), |_, _| {}).expect("submit");
        }
    }
    while !kernel.keeps_the_last_of(token) {
        event_loop.run_once(TURN).expect("run_once");
    }
    event_loop.run_once(TURN).expect("run_once");
    assert_eq!(freed.count(), 0, "{end:?}: freed before the last word was read");

    kernel.release();
    while event_loop.in_flight() > 0 {
        event_loop.run_once(TURN).expect("run_once");
    }
    assert_eq!(freed.count(), 1, "{end:?}: freed with the last word");
}

const TURN: Duration = Duration::from_millis(1);

#[test]
fn r6_buffer_is_kept_until_the_last_word() {
    for backend in those_of(EVERY) {
        let _watch = Watch::new(format!("a loop on {backend}"));
        for end in [End::Cancelled, End::Answered] {
            println!("on {backend}: {end:?}");
            kept_until_the_last_word(AnyBackend::select(backend, &BackendConfig::default()).expect("it is here"), end);
        }
    }
}

const READS: usize = 100;
const BUFFER_BYTES: usize = 4096;
const CANARY: u8 = 0xc5;

/// Makes a pipe with a name, and an end of it that keeps both halves open.
fn fifo(path: &Path) -> File {
    let name = CString::new(path.as_os_str().as_bytes()).expect("a path without a zero byte");
    // SAFETY: the name is a live string that ends in a zero byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0, "mkfifo {}", path.display());
    OpenOptions::new().read(true).write(true).open(path).expect("open the pipe")
}

#[wo::fiber]
fn read_for_ever(path: PathBuf, buf: Flagged, reads: wo::oneshot::Sender<()>) {
    let file = wo::fs::File::open(&path).expect("open");
    assert!(reads.send(()).is_ok());
    let (read, _buf) = file.read(buf);
    unreachable!("nobody writes to {}: {read:?}", path.display());
}

/// Parks `READS` fibers in reads and returns at once; answers when.
#[wo::fiber]
fn leave_reads_pending(paths: Vec<PathBuf>, freed: Freed) -> Instant {
    let mut pending = Vec::new();
    for path in paths {
        let (tell, told) = wo::oneshot();
        let buf = Flagged::new(BUFFER_BYTES, &freed);
        wo::spawn(|| read_for_ever(path, buf, tell));
        pending.push(told);
    }
    for told in pending {
        told.recv().expect("the reader reads");
    }
    // One turn of the loop, so that the kernel has the last read too.
    wo::sleep(Duration::from_millis(1)).expect("sleep");
    assert_eq!(freed.count(), 0);
    Instant::now()
}

#[test]
fn r7_drop_runtime_with_100_reads() {
    for backend in those_of(REAL) {
        let dir = tempfile::tempdir().expect("a folder for the pipes");
        let paths: Vec<PathBuf> = (0..READS).map(|number| dir.path().join(number.to_string())).collect();
        let mut pipes: Vec<File> = paths.iter().map(|path| fifo(path)).collect();
        let freed = Freed::default();
        let counter = freed.clone();
        let returned = run(backend, |builder| builder, move || leave_reads_pending(paths, counter));
        let took = returned.elapsed();
        assert!(took < Duration::from_secs(1), "on {backend}: dropping {READS} reads took {took:?}");
        assert_eq!(freed.count(), READS, "on {backend}");
        // Memory of the same size lands where the buffers were; a read still with the kernel would write to it.
        let canaries: Vec<Vec<u8>> = (0..READS).map(|_| vec![CANARY; BUFFER_BYTES]).collect();
        for pipe in &mut pipes {
            pipe.write_all(&[0x11; 512]).expect("write to the pipe");
        }
        let touched = canaries.iter().filter(|canary| canary.iter().any(|&byte| byte != CANARY)).count();
        assert_eq!(touched, 0, "on {backend}: the kernel wrote to {touched} buffers after their runtime");
    }
}

#[wo::fiber]
fn leave_socket_reads_pending(freed: Freed) {
    let mut writers = Vec::new();
    for _ in 0..READS {
        let (reader, writer) = UnixStream::pair().expect("pair");
        let buf = Flagged::new(BUFFER_BYTES, &freed);
        wo::spawn(|| {
            let (read, _buf) = reader.recv(buf);
            unreachable!("nobody writes: {read:?}");
        });
        writers.push(writer);
    }
    wo::sleep(Duration::from_millis(1)).expect("sleep");
    assert_eq!(freed.count(), 0);
}

#[test]
fn r7_drop_runtime_with_100_socket_reads() {
    for backend in those_of(&[Selection::Uring, Selection::Epoll, Selection::Sim]) {
        let freed = Freed::default();
        let counter = freed.clone();
        run(backend, |builder| builder, move || leave_socket_reads_pending(counter));
        assert_eq!(freed.count(), READS, "on {backend}");
    }
}
