//! Serving: accept, and let each connection have one exchange after the other, within limits.
//!
//! Between two exchanges a connection waits for its next byte with no buffer of its own; that may take as long as the
//! idle limit says. What has come is looked at, and kept for the handler's first read, since the end of the stream is
//! no exchange. From that byte on the exchange has its own limit, so a peer that sends or takes its bytes one by one
//! is evicted as well. Where it is evicted, its handler's future is dropped, which is always safe.
//!
//! Acceptors share a count of what is open. Whoever ends a connection gives its place back and wakes the acceptors that
//! wait for one; whoever drops the serving wakes them to end.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use wo_runtime::error::{IoError, IoResult, OpKind, Stage, errno};
use wo_runtime::fiber::oneshot::{Sender, oneshot};
use wo_runtime::fiber::{self, Call};
use wo_runtime::plane::op::Readiness;
use wo_runtime::plane::{Deadline, ops};
use wo_runtime::shard;

use crate::family::Family;
use crate::listener::Listener;
use crate::race;
use crate::stream::Stream;

/// How much is looked at of what begins an exchange. Most requests fit, so that a handler's first read gets them whole.
const LOOK_BYTES: usize = 1024;

/// Who accepts connections.
/// # Examples
///
/// ```
/// use wo::net::{Acceptors, Limits, ListenOptions, Next, TcpListener, TcpStream};
///
/// #[wo::fiber]
/// fn hello(stream: TcpStream) -> wo::IoResult<Next> {
///     stream.write_all(b"hello")?;
///     Ok(Next::Close)
/// }
///
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// let shared = ListenOptions { reuse_port: true, ..ListenOptions::default() };
/// let listener = TcpListener::bind_with("127.0.0.1:0", shared)?;
/// let address = listener.local_addr();
/// let limits = Limits { acceptors: Acceptors::EveryShard, ..Limits::default() };
/// let server = wo::spawn(|| wo::net::serve(listener, limits, hello));
/// let client = TcpStream::connect(address)?;
/// client.write_all(b"?")?;
/// let mut word = [0; 5];
/// client.read_exact(&mut word)?;
/// assert_eq!(&word, b"hello");
/// server.interrupt();
/// assert_eq!(server.join().expect("it does not panic")?.accepted, 1);
/// # Ok(())
/// # }
/// # wo::Builder::new().shards(2).run(example).unwrap().unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Acceptors {
    /// The fiber that serves; all shards get connections in turn.
    #[default]
    One,
    /// Every shard, each on a listener of its own to the same address, over which the kernel spreads the connections:
    /// for connections that come and go by the ten thousand a second. It takes a TCP listener with
    /// [`reuse_port`](crate::ListenOptions::reuse_port). The spread is by hash, so it is uneven for few connections.
    EveryShard,
}

/// What a server allows its peers.
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::net::Limits;
///
/// let limits = Limits { idle: Duration::from_secs(5), connections: 100, ..Limits::default() };
/// assert_eq!(limits.exchange, Duration::from_secs(30));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a connection may lie idle between two exchanges; zero for ever. A minute unless told otherwise.
    pub idle: Duration,
    /// How long an exchange may take, from its first byte until its handler has returned; zero for ever. Half a minute
    /// unless told otherwise.
    pub exchange: Duration,
    /// Connections open at once, over all shards; more wait in the kernel's backlog. 10,000 unless told otherwise; at
    /// least one.
    pub connections: usize,
    /// Who accepts.
    pub acceptors: Acceptors,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            idle: Duration::from_secs(60),
            exchange: Duration::from_secs(30),
            connections: 10_000,
            acceptors: Acceptors::One,
        }
    }
}

/// What becomes of a connection after an exchange.
/// # Examples
///
/// ```
/// use wo::net::{Next, TcpStream};
///
/// /// Says `pong` for every `ping`, and goodbye to the rest.
/// #[wo::fiber]
/// fn pong(stream: TcpStream) -> wo::IoResult<Next> {
///     let mut word = [0; 4];
///     stream.read_exact(&mut word)?;
///     let (answer, next) = if &word == b"ping" { ("pong", Next::Again) } else { ("bye.", Next::Close) };
///     stream.write_all(answer.as_bytes())?;
///     Ok(next)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// It may begin another.
    Again,
    /// It is closed.
    Close,
}

/// What came of serving.
/// # Examples
///
/// ```
/// use wo::net::{Limits, Next, TcpListener, TcpStream};
///
/// #[wo::fiber]
/// fn refuse(_stream: TcpStream) -> wo::IoResult<Next> {
///     Ok(Next::Close)
/// }
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let address = listener.local_addr();
///     let server = wo::spawn(|| wo::net::serve(listener, Limits::default(), refuse));
///     let client = TcpStream::connect(address)?;
///     client.write_all(b"?")?;
///     assert_eq!(client.read(&mut [0])?, 0, "it was closed");
///     server.interrupt();
///     let served = server.join().expect("it does not panic")?;
///     assert_eq!((served.accepted, served.failed), (1, 0));
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Connections accepted.
    pub accepted: u64,
    /// Of them, closed at the idle limit.
    pub idle: u64,
    /// Of them, closed at the limit of an exchange.
    pub slow: u64,
    /// Of them, ended by an error of theirs.
    pub failed: u64,
}

/// Serves every connection of `listener` until the fiber is cancelled, and answers what came of it: the stop of the
/// program is no error. Each connection has a fiber of its own, which calls `handler` for each exchange, when its first
/// byte is there; the handler reads the request, sends the answer, and says what is [`Next`]. It may as well keep the
/// connection for good, when no limit is set to the exchange.
///
/// A peer that ends its stream between two exchanges is done; a handler that answers an error ends its connection. A
/// panic ends that connection alone. When the serving ends, no more connections are accepted; those that are open go
/// on within their limits, or until the program has stopped.
///
/// # Errors
///
/// What a broken listener answers. With [`Acceptors::EveryShard`], EADDRINUSE when the listener was bound without
/// `reuse_port`, EOPNOTSUPP when it is a Unix socket's.
///
/// # Examples
///
/// ```
/// use wo::net::{Limits, Next, TcpListener, TcpStream};
///
/// #[wo::fiber]
/// fn shout(stream: TcpStream) -> wo::IoResult<Next> {
///     let (received, text) = stream.recv(Vec::with_capacity(64));
///     received?;
///     stream.write_all(&text.to_ascii_uppercase())?;
///     Ok(Next::Again)
/// }
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let address = listener.local_addr();
///     drop(wo::spawn(|| wo::net::serve(listener, Limits::default(), shout)));
///     let client = TcpStream::connect(address)?;
///     for _ in 0..2 {
///         client.write_all(b"hello")?;
///         let (answered, answer) = client.recv_exact(Vec::with_capacity(5));
///         answered?;
///         assert_eq!(answer, b"HELLO");
///     }
///     Ok(())
/// }
/// ```
pub fn serve<F, H, R>(
    listener: Listener<F>,
    limits: Limits,
    handler: H,
) -> Call<impl Future<Output = IoResult<Served>> + use<F, H, R>>
where
    F: Family,
    H: Fn(Stream<F>) -> R + Clone + Send + 'static,
    R: Future<Output = IoResult<Next>> + 'static,
{
    Call::new(async move {
        let shared = Arc::new(Shared { limits, state: Mutex::default(), counts: Counts::default() });
        // Dropped or ended, it ends the other acceptors.
        let _serving = Serving(Arc::clone(&shared));
        if limits.acceptors == Acceptors::EveryShard {
            listen_elsewhere(&listener, &shared, &handler).await?;
        }
        accept(&listener, &shared, &handler).await?;
        Ok(shared.counts.read())
    })
}

/// Starts an acceptor on every other shard, each with a listener of its own.
async fn listen_elsewhere<F, H, R>(listener: &Listener<F>, shared: &Arc<Shared>, handler: &H) -> IoResult<()>
where
    F: Family,
    H: Fn(Stream<F>) -> R + Clone + Send + 'static,
    R: Future<Output = IoResult<Next>> + 'static,
{
    let here = shard::shard_index();
    for index in (0..shard::shards()).filter(|index| Some(*index) != here) {
        let (listens, listening) = oneshot();
        let (again, shared, handler) = (listener.again(), Arc::clone(shared), handler.clone());
        let posted = shard::post_to(index, move || {
            drop(fiber::spawn(move || accept_elsewhere::<F, H, R>(again, shared, handler, listens)));
        });
        if !posted {
            return Ok(()); // The program is ending, and so will this.
        }
        listening.recv().await??;
    }
    Ok(())
}

async fn accept_elsewhere<F, H, R>(
    again: impl FnOnce() -> IoResult<Listener<F>>,
    shared: Arc<Shared>,
    handler: H,
    listens: Sender<IoResult<()>>,
) where
    F: Family,
    H: Fn(Stream<F>) -> R + Clone + Send + 'static,
    R: Future<Output = IoResult<Next>> + 'static,
{
    let listener = match again() {
        Ok(listener) => listener,
        Err(error) => return drop(listens.send(Err(error))),
    };
    if listens.send(Ok(())).is_ok() {
        // The first acceptor meets what is wrong with a listener as well, and answers it.
        let _ = accept(&listener, &shared, &handler).await;
    }
}

async fn accept<F, H, R>(listener: &Listener<F>, shared: &Arc<Shared>, handler: &H) -> IoResult<()>
where
    F: Family,
    H: Fn(Stream<F>) -> R + Clone + Send + 'static,
    R: Future<Output = IoResult<Next>> + 'static,
{
    loop {
        let free = fiber::park(OpKind::Accept, |cx| shared.poll_place(cx.waker()).map(Ok)).await;
        // None when the serving is over, an error when this fiber is cancelled.
        let Ok(Some(place)) = free else { return Ok(()) };
        let mut next = pin!(listener.accept());
        let accepted = poll_fn(|cx| {
            if shared.is_over(cx.waker()) {
                return Poll::Ready(None);
            }
            next.as_mut().poll(cx).map(Some)
        })
        .await;
        match accepted {
            None => return Ok(()),
            Some(Ok((stream, _))) => {
                shared.counts.accepted.fetch_add(1, Ordering::Relaxed);
                let handler = handler.clone();
                let connection = move || converse(stream, handler, place);
                match shared.limits.acceptors {
                    Acceptors::One => drop(shard::spawn_anywhere(connection)),
                    Acceptors::EveryShard => drop(fiber::spawn(connection)),
                }
            }
            Some(Err(error)) if error.is_cancelled() => return Ok(()),
            // Told once; accepting goes on by itself when there is room again.
            Some(Err(error)) if passes(&error) => {}
            Some(Err(error)) => return Err(error),
        }
    }
}

/// Whether accepting may go on after this.
fn passes(error: &IoError) -> bool {
    use errno::{ECONNABORTED, EMFILE, ENFILE, ENOBUFS, ENOMEM};
    matches!(error.errno(), ECONNABORTED | EMFILE | ENFILE | ENOBUFS | ENOMEM)
}

/// The life of a connection.
async fn converse<F, H, R>(stream: Stream<F>, handler: H, place: Place)
where
    F: Family,
    H: Fn(Stream<F>) -> R,
    R: Future<Output = IoResult<Next>>,
{
    let Shared { limits, counts, .. } = &*place.0;
    let count = |which: &AtomicU64| {
        which.fetch_add(1, Ordering::Relaxed);
    };
    loop {
        match begins(&stream, limits.idle).await {
            Ok(Begins::Exchange) => {}
            Ok(Begins::End) => return,
            Ok(Begins::Nothing) => return count(&counts.idle),
            Err(error) if error.is_cancelled() => return,
            Err(_) => return count(&counts.failed),
        }
        let until = Deadline::from(limits.exchange).instant(fiber::now());
        match race::by(until, handler(stream.clone())).await {
            Ok(Some(Next::Again)) => {}
            Ok(Some(Next::Close)) => return,
            Ok(None) => return count(&counts.slow),
            Err(error) if error.is_cancelled() => return,
            Err(_) => return count(&counts.failed),
        }
    }
}

/// What a connection meets after an exchange.
enum Begins {
    Exchange,
    /// The peer has said all.
    End,
    /// Nothing came within the limit.
    Nothing,
}

/// Waits for the next exchange's first byte. No buffer waits with it.
async fn begins<F: Family>(stream: &Stream<F>, limit: Duration) -> IoResult<Begins> {
    if !stream.fd.has_leftover() {
        let at = Deadline::from(limit).instant(fiber::now());
        match fiber::verb(ops::Poll::new(&stream.fd, Readiness::READABLE)).by(at).await {
            (Ok(_), _) => {}
            (Err(_), true) => return Ok(Begins::Nothing),
            (Err(error), false) => return Err(error),
        }
    }
    let (received, bytes) = stream.recv(Vec::with_capacity(LOOK_BYTES)).await;
    Ok(match received? {
        0 => Begins::End,
        count => {
            stream.fd.keep(&bytes[..count]);
            Begins::Exchange
        }
    })
}

/// What the acceptors and connections of one serving share.
struct Shared {
    limits: Limits,
    state: Mutex<State>,
    counts: Counts,
}

#[derive(Default)]
struct State {
    open: usize,
    over: bool,
    /// Acceptors that wait for a place, or for the end.
    acceptors: Vec<Waker>,
}

#[derive(Default)]
struct Counts {
    accepted: AtomicU64,
    idle: AtomicU64,
    slow: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    fn read(&self) -> Served {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Served {
            accepted: read(&self.accepted),
            idle: read(&self.idle),
            slow: read(&self.slow),
            failed: read(&self.failed),
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for one more connection, once there is one; none when the serving is over.
    fn poll_place(self: &Arc<Shared>, waker: &Waker) -> Poll<Option<Place>> {
        let mut state = self.state();
        if state.over {
            return Poll::Ready(None);
        }
        if state.open < self.limits.connections.max(1) {
            state.open += 1;
            return Poll::Ready(Some(Place(Arc::clone(self))));
        }
        state.wait(waker);
        Poll::Pending
    }

    /// Whether the serving is over; if not, the waker hears of it.
    fn is_over(&self, waker: &Waker) -> bool {
        let mut state = self.state();
        state.wait(waker);
        state.over
    }

    fn wake(mut state: MutexGuard<'_, State>) {
        let acceptors = std::mem::take(&mut state.acceptors);
        drop(state);
        acceptors.into_iter().for_each(Waker::wake);
    }
}

impl State {
    fn wait(&mut self, waker: &Waker) {
        if !self.acceptors.iter().any(|known| known.will_wake(waker)) {
            self.acceptors.push(waker.clone());
        }
    }
}

/// One of the connections that may be open.
struct Place(Arc<Shared>);

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.0.state();
        let was_full = state.open >= self.0.limits.connections.max(1);
        state.open -= 1;
        if was_full {
            Shared::wake(state);
        }
    }
}

/// Lives as long as the serving.
struct Serving(Arc<Shared>);

impl Drop for Serving {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.over = true;
        Shared::wake(state);
    }
}

/// What a family without shared ports answers.
pub(crate) fn one_listener_only() -> IoError {
    IoError::new(errno::EOPNOTSUPP, OpKind::Bind, Stage::Submit)
        .with_context("a Unix address has one listener; serve it with Acceptors::One")
}
