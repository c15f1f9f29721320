//! Runs one test body on every kernel, and what bodies need again and again.
#![allow(dead_code)] // Each test program uses its own part of it.

use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use wo_net::{TcpListener, TcpStream};
use wo_runtime::error::IoResult;
use wo_runtime::fiber;
use wo_runtime::plane::backend::{BackendKind, Selection};
use wo_runtime::shard::Builder;

/// Long enough that only what hangs meets it.
pub const FOREVER: Duration = Duration::from_secs(20);
/// How long a body may take before it is taken for hanging.
const PATIENCE: Duration = Duration::from_secs(60);

const KERNELS: [Selection; 3] = [Selection::Uring, Selection::Epoll, Selection::Sim];

/// Runs `body` as the main fiber on each kernel, or on the one that `WO_IO` names.
pub fn on_every_backend<B, F>(body: B)
where
    B: Fn() -> F,
    F: Future<Output = IoResult<()>> + 'static,
{
    on(&KERNELS, body);
}

/// The same for what only the host's own kernels have.
pub fn on_the_hosts_backends<B, F>(body: B)
where
    B: Fn() -> F,
    F: Future<Output = IoResult<()>> + 'static,
{
    on(&KERNELS[..2], body);
}

/// The same for what needs virtual time.
pub fn on_the_simulated_backend<B, F>(body: B)
where
    B: Fn() -> F,
    F: Future<Output = IoResult<()>> + 'static,
{
    on(&KERNELS[2..], body);
}

fn on<B, F>(kernels: &[Selection], body: B)
where
    B: Fn() -> F,
    F: Future<Output = IoResult<()>> + 'static,
{
    let asked: Option<Selection> = std::env::var("WO_IO").ok().map(|word| word.parse().expect("WO_IO"));
    for selection in kernels.iter().filter(|kernel| asked.is_none_or(|asked| asked == **kernel)) {
        eprintln!("on {selection}");
        let body = body();
        Builder::new().io(*selection).run(move || ended_in_time(body)).unwrap().unwrap();
    }
}

async fn ended_in_time(body: impl Future<Output = IoResult<()>>) -> IoResult<()> {
    let mut body = pin!(body);
    let mut patience = pin!(fiber::sleep(PATIENCE));
    poll_fn(|cx| {
        if let Poll::Ready(ended) = body.as_mut().poll(cx) {
            return Poll::Ready(ended);
        }
        if let Poll::Ready(Ok(())) = patience.as_mut().poll(cx) {
            panic!("it hangs");
        }
        Poll::Pending
    })
    .await
}

/// Whether the kernel under this shard is the simulated one.
pub fn is_simulated() -> bool {
    wo_runtime::shard::backend().is_some_and(|caps| caps.backend == BackendKind::Sim)
}

/// Polls `future` until it is pending for the first time after having been submitted, then drops it. Its answer, if it
/// was ready before that.
pub async fn started_then_dropped<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// A listener and the two ends of a connection to it.
pub async fn tcp_pair() -> IoResult<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let client = TcpStream::connect(listener.local_addr()).await?;
    let (server, peer) = listener.accept().await?;
    assert_eq!(peer, client.local_addr()?);
    Ok((client, server))
}

/// Whether the host has IPv6 at all; some containers have not.
pub async fn has_ipv6() -> bool {
    match TcpListener::bind("[::1]:0").await {
        Ok(_) => true,
        Err(error) => {
            eprintln!("left out, there is no IPv6 here: {error}");
            false
        }
    }
}

/// Bytes that tell where they stand.
pub fn numbered(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 ^ (at / 251) as u8).collect()
}

/// Reads to the end of file.
pub async fn read_to_end(stream: &TcpStream) -> IoResult<Vec<u8>> {
    let mut all = Vec::new();
    let mut buf = vec![0; 1000];
    loop {
        match stream.read(&mut buf).await? {
            0 => return Ok(all),
            count => all.extend_from_slice(&buf[..count]),
        }
    }
}

/// A folder of this test's own on the host, removed with everything in it; in a simulated world, its root.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static MADE: AtomicU32 = AtomicU32::new(0);
        if is_simulated() {
            return Folder(PathBuf::from("/"));
        }
        let name = format!("wo-net-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder for the test");
        Folder(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.0 != Path::new("/") {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// Waits for a condition the kernel's last words bring about; fails when they do not come.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) -> IoResult<()> {
    let end = fiber::now() + FOREVER;
    while !condition() {
        assert!(fiber::now() < end, "waited in vain for {what}");
        fiber::sleep(Duration::from_millis(1)).await?;
    }
    Ok(())
}
