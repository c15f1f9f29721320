//! A network in memory: the double of [`Net`].
//!
//! Bytes travel for as long as a clock says, in order. A connection is two lines, each with its own end and a bound on
//! what is under way; whoever waits at a line leaves a waker there, and whoever changes it calls all of them. Faults
//! are properties of the network's addresses, so a test breaks what it talks to without holding any of its connections.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::scope::call::Call;
use crate::scope::capability::{ByteStream, Clock, Listener, Net};
use crate::scope::now::{is_cancelled, why};

/// Bytes under way in one direction of a connection at most.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Connections that wait to be accepted at most.
const BACKLOG_MAX: usize = 128;
/// The first of the ports that are given out.
const PORTS_FROM: u16 = 49_152;

/// A network in memory. Clones are the same network.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::capability::{ByteStream, Clock, Listener, Net, SimNet, TestClock, advance_and_settle};
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let clock = TestClock::new();
///     let net = SimNet::new(clock.clone()).latency(Duration::from_millis(20));
///     let address = "10.0.0.1:80".parse().expect("an address");
///     let listener = net.listen(address)?;
///     let server = wo::spawn(|| {
///         let (stream, _) = listener.accept()?;
///         stream.write_all(b"hello")
///     });
///     let watch = clock.clone();
///     let client = wo::spawn(|| {
///         let stream = net.connect(address)?;
///         let mut word = [0; 5];
///         let read = stream.read(&mut word)?;
///         assert_eq!(&word[..read], b"hello");
///         Ok::<_, wo::IoError>(watch.now())
///     });
///     advance_and_settle(&clock, Duration::from_secs(1))?;
///     server.join().expect("it does not panic")?;
///     // There and back; the word comes with the connection.
///     assert_eq!(client.join().expect("it does not panic")?, Duration::from_millis(40));
///     Ok(())
/// }
/// ```
pub struct SimNet<C> {
    world: Rc<World<C>>,
}

struct World<C> {
    clock: C,
    latency: Cell<Duration>,
    ports: Cell<u16>,
    listeners: RefCell<BTreeMap<SocketAddr, Weak<Listening>>>,
    cut: RefCell<BTreeSet<SocketAddr>>,
    refusing: RefCell<BTreeSet<SocketAddr>>,
    /// Both lines of every connection, by the listener's address.
    lines: RefCell<Vec<(SocketAddr, Weak<Line>)>>,
    /// Called when a cut is healed.
    changed: Changed,
}

/// Those who wait for something to change.
#[derive(Default)]
struct Changed {
    version: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Changed {
    fn tell(&self) {
        self.version.set(self.version.get() + 1);
        let waiting = self.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Ends at the next change, or when `also` does.
    async fn wait(&self, kind: OpKind, mut also: Option<Pin<Box<dyn Future<Output = IoResult<()>>>>>) -> IoResult<()> {
        let seen = self.version.get();
        std::future::poll_fn(|cx| {
            if self.version.get() != seen {
                return Poll::Ready(Ok(()));
            }
            if is_cancelled() {
                return Poll::Ready(Err(IoError::new(errno::ECANCELED, kind, Stage::Submit).with_context(why())));
            }
            if let Some(also) = &mut also
                && let Poll::Ready(over) = also.as_mut().poll(cx)
            {
                return Poll::Ready(over);
            }
            let mut waiting = self.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }
}

/// One direction of a connection.
#[derive(Default)]
struct Line {
    /// What is under way, and when it arrives.
    pieces: RefCell<VecDeque<(Duration, Vec<u8>)>>,
    under_way: Cell<usize>,
    /// The writer has ended it, or has gone.
    finished: Cell<Option<Duration>>,
    /// The reader has gone.
    abandoned: Cell<bool>,
    reset: Cell<bool>,
    changed: Changed,
}

/// Who waits to be accepted: the line that goes there, the one that comes back, and an address.
type Waiting = (Rc<Line>, Rc<Line>, SocketAddr);

struct Listening {
    at: SocketAddr,
    backlog: RefCell<VecDeque<Waiting>>,
    changed: Changed,
}

impl<C: Clock + Clone + 'static> SimNet<C> {
    /// A network without latency, whose time is `clock`'s.
    pub fn new(clock: C) -> SimNet<C> {
        SimNet {
            world: Rc::new(World {
                clock,
                latency: Cell::new(Duration::ZERO),
                ports: Cell::new(PORTS_FROM),
                listeners: RefCell::default(),
                cut: RefCell::default(),
                refusing: RefCell::default(),
                lines: RefCell::default(),
                changed: Changed::default(),
            }),
        }
    }

    /// From now on each way takes this long; what is under way already arrives as it was to.
    #[must_use]
    pub fn latency(self, latency: Duration) -> SimNet<C> {
        self.world.latency.set(latency);
        self
    }

    /// Nothing reaches or leaves the listener at `at` any more, until [`heal`](SimNet::heal): what is written meanwhile
    /// waits, and so does who connects.
    pub fn cut(&self, at: SocketAddr) {
        self.world.cut.borrow_mut().insert(at);
    }

    /// Undoes [`cut`](SimNet::cut) and [`refuse`](SimNet::refuse).
    pub fn heal(&self, at: SocketAddr) {
        self.world.cut.borrow_mut().remove(&at);
        self.world.refusing.borrow_mut().remove(&at);
        self.world.changed.tell();
        self.lines_of(at).iter().for_each(|line| line.changed.tell());
    }

    /// Who connects to `at` is refused, until [`heal`](SimNet::heal).
    pub fn refuse(&self, at: SocketAddr) {
        self.world.refusing.borrow_mut().insert(at);
    }

    /// Every connection of the listener at `at` is reset: what is under way is lost, and both sides are told.
    pub fn reset(&self, at: SocketAddr) {
        for line in self.lines_of(at) {
            line.reset.set(true);
            line.pieces.borrow_mut().clear();
            line.changed.tell();
        }
    }

    fn lines_of(&self, at: SocketAddr) -> Vec<Rc<Line>> {
        let mut lines = self.world.lines.borrow_mut();
        lines.retain(|(_, line)| line.strong_count() > 0);
        lines.iter().filter(|(of, _)| *of == at).filter_map(|(_, line)| line.upgrade()).collect()
    }

    fn later(&self, span: Duration) -> Pin<Box<dyn Future<Output = IoResult<()>>>> {
        let clock = self.world.clock.clone();
        Box::pin(async move { clock.sleep(span).await })
    }

    async fn connected(&self, to: SocketAddr) -> IoResult<SimStream<C>> {
        let refused =
            |number: i32| Err(IoError::new(number, OpKind::Connect, Stage::Completion).with_context(to.to_string()));
        self.world.clock.sleep(self.world.latency.get()).await?;
        while self.world.cut.borrow().contains(&to) {
            self.world.changed.wait(OpKind::Connect, None).await?;
        }
        let listening = self.world.listeners.borrow().get(&to).and_then(Weak::upgrade);
        let Some(listening) = listening.filter(|_| !self.world.refusing.borrow().contains(&to)) else {
            self.world.clock.sleep(self.world.latency.get()).await?;
            return refused(errno::ECONNREFUSED);
        };
        if listening.backlog.borrow().len() >= BACKLOG_MAX {
            return refused(errno::ECONNREFUSED);
        }
        let own = SocketAddr::new(to.ip(), self.next_port());
        let (there, back) = (Rc::new(Line::default()), Rc::new(Line::default()));
        for line in [&there, &back] {
            self.world.lines.borrow_mut().push((to, Rc::downgrade(line)));
        }
        let stream = SimStream { net: self.clone(), out: Rc::clone(&there), into: Rc::clone(&back), listener: to };
        listening.backlog.borrow_mut().push_back((there, back, own));
        listening.changed.tell();
        self.world.clock.sleep(self.world.latency.get()).await?;
        Ok(stream)
    }

    fn next_port(&self) -> u16 {
        let port = self.world.ports.get();
        self.world.ports.set(port.checked_add(1).unwrap_or(PORTS_FROM));
        port
    }
}

impl<C: Clock + Clone + 'static> Net for SimNet<C> {
    type Stream = SimStream<C>;
    type Listener = SimListener<C>;

    fn listen(&self, at: SocketAddr) -> Call<impl Future<Output = IoResult<SimListener<C>>>> {
        Call::new(std::future::ready(self.listening(at)))
    }

    fn connect(&self, to: SocketAddr) -> Call<impl Future<Output = IoResult<SimStream<C>>>> {
        Call::new(self.connected(to))
    }
}

impl<C: Clock + Clone + 'static> SimNet<C> {
    fn listening(&self, mut at: SocketAddr) -> IoResult<SimListener<C>> {
        if is_cancelled() {
            return Err(IoError::new(errno::ECANCELED, OpKind::Listen, Stage::Submit).with_context(why()));
        }
        while at.port() == 0 {
            let free = SocketAddr::new(at.ip(), self.next_port());
            if self.world.listeners.borrow().get(&free).is_none_or(|other| other.strong_count() == 0) {
                at = free;
            }
        }
        let mut listeners = self.world.listeners.borrow_mut();
        if listeners.get(&at).is_some_and(|other| other.strong_count() > 0) {
            return Err(IoError::new(errno::EADDRINUSE, OpKind::Bind, Stage::Completion).with_context(at.to_string()));
        }
        let listening = Rc::new(Listening { at, backlog: RefCell::default(), changed: Changed::default() });
        listeners.insert(at, Rc::downgrade(&listening));
        Ok(SimListener { net: self.clone(), listening })
    }
}

/// A listener of a [`SimNet`]. Dropped, it refuses those who waited to be accepted.
///
/// # Examples
///
/// ```
/// use wo::capability::{Listener, Net, SimNet, TestClock};
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let net = SimNet::new(TestClock::new());
/// let at = "10.0.0.1:80".parse().expect("an address");
/// let listener = net.listen(at)?;
/// assert_eq!(listener.local_addr()?, at);
/// drop(listener);
/// assert_eq!(net.connect(at).unwrap_err().errno(), wo::error::errno::ECONNREFUSED);
/// # Ok(())
/// # }
/// ```
pub struct SimListener<C> {
    net: SimNet<C>,
    listening: Rc<Listening>,
}

impl<C: Clock + Clone + 'static> Listener for SimListener<C> {
    type Stream = SimStream<C>;

    fn accept(&self) -> Call<impl Future<Output = IoResult<(SimStream<C>, SocketAddr)>>> {
        Call::new(async move {
            loop {
                let next = self.listening.backlog.borrow_mut().pop_front();
                if let Some((into, out, from)) = next {
                    let stream = SimStream { net: self.net.clone(), out, into, listener: self.listening.at };
                    return Ok((stream, from));
                }
                self.listening.changed.wait(OpKind::Accept, None).await?;
            }
        })
    }

    fn local_addr(&self) -> IoResult<SocketAddr> {
        Ok(self.listening.at)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        for (there, back, _) in self.backlog.take() {
            for line in [there, back] {
                line.reset.set(true);
                line.changed.tell();
            }
        }
    }
}

/// A connection of a [`SimNet`]. Dropped, the other side reads the end.
///
/// # Examples
///
/// ```
/// use wo::capability::{ByteStream, Listener, Net, SimNet, TestClock};
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let net = SimNet::new(TestClock::new());
/// let listener = net.listen("10.0.0.1:80".parse().expect("an address"))?;
/// let here = net.connect(listener.local_addr()?)?;
/// let (there, _peer) = listener.accept()?;
/// here.write_all(b"hello")?;
/// drop(here);
/// let mut piece = [0; 64];
/// assert_eq!(there.read(&mut piece)?, 5);
/// assert_eq!(there.read(&mut piece)?, 0, "the end");
/// # Ok(())
/// # }
/// ```
pub struct SimStream<C> {
    net: SimNet<C>,
    out: Rc<Line>,
    into: Rc<Line>,
    listener: SocketAddr,
}

impl<C: Clock + Clone + 'static> SimStream<C> {
    fn is_cut(&self) -> bool {
        self.net.world.cut.borrow().contains(&self.listener)
    }

    /// Takes what has arrived; none when nothing has, and when to look again.
    fn arrived(&self, into: &mut [u8]) -> Result<usize, Option<Duration>> {
        let now = self.net.world.clock.now();
        if self.is_cut() {
            return Err(None);
        }
        let mut pieces = self.into.pieces.borrow_mut();
        let mut taken = 0;
        while taken < into.len()
            && let Some((at, bytes)) = pieces.front_mut().filter(|(at, _)| *at <= now)
        {
            let part = bytes.len().min(into.len() - taken);
            into[taken..taken + part].copy_from_slice(&bytes[..part]);
            taken += part;
            if part == bytes.len() {
                pieces.pop_front();
            } else {
                let at = *at;
                let rest = bytes.split_off(part);
                pieces[0] = (at, rest);
            }
        }
        if taken > 0 || into.is_empty() {
            self.into.under_way.set(self.into.under_way.get() - taken);
            return Ok(taken);
        }
        match (pieces.front(), self.into.finished.get()) {
            (Some((at, _)), _) => Err(Some(*at)),
            (None, Some(at)) if at <= now => Ok(0),
            (None, end) => Err(end),
        }
    }

    async fn read_some(&self, into: &mut [u8]) -> IoResult<usize> {
        loop {
            if self.into.reset.get() {
                return Err(IoError::new(errno::ECONNRESET, OpKind::Recv, Stage::Completion)
                    .with_context(self.listener.to_string()));
            }
            match self.arrived(into) {
                Ok(0) if into.is_empty() => return Ok(0),
                Ok(taken) => {
                    if taken > 0 {
                        self.into.changed.tell();
                    }
                    return Ok(taken);
                }
                Err(later) => {
                    let now = self.net.world.clock.now();
                    let sleep = later.filter(|at| *at > now).map(|at| self.net.later(at - now));
                    self.into.changed.wait(OpKind::Recv, sleep).await?;
                }
            }
        }
    }

    async fn write_whole(&self, mut bytes: &[u8]) -> IoResult<()> {
        let failed = |number: i32| {
            Err(IoError::new(number, OpKind::Send, Stage::Completion).with_context(self.listener.to_string()))
        };
        if is_cancelled() {
            return Err(IoError::new(errno::ECANCELED, OpKind::Send, Stage::Submit).with_context(why()));
        }
        while !bytes.is_empty() {
            if self.out.reset.get() {
                return failed(errno::ECONNRESET);
            }
            if self.out.abandoned.get() || self.out.finished.get().is_some() {
                return failed(errno::EPIPE);
            }
            let room = LINE_BYTES_MAX - self.out.under_way.get();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            if now.is_empty() {
                self.out.changed.wait(OpKind::Send, None).await?;
                continue;
            }
            let at = self.net.world.clock.now().saturating_add(self.net.world.latency.get());
            self.out.pieces.borrow_mut().push_back((at, now.to_vec()));
            self.out.under_way.set(self.out.under_way.get() + now.len());
            self.out.changed.tell();
            bytes = later;
        }
        Ok(())
    }
}

impl<C> SimStream<C> {
    fn end(&self, at: Duration) {
        if self.out.finished.get().is_none() {
            self.out.finished.set(Some(at));
            self.out.changed.tell();
        }
    }
}

impl<C: Clock + Clone + 'static> ByteStream for SimStream<C> {
    fn read(&self, into: &mut [u8]) -> Call<impl Future<Output = IoResult<usize>>> {
        Call::new(self.read_some(into))
    }

    fn write_all(&self, bytes: &[u8]) -> Call<impl Future<Output = IoResult<()>>> {
        Call::new(self.write_whole(bytes))
    }

    fn finish(&self) -> Call<impl Future<Output = IoResult<()>>> {
        self.end(self.net.world.clock.now().saturating_add(self.net.world.latency.get()));
        Call::new(std::future::ready(Ok(())))
    }
}

impl<C> Drop for SimStream<C> {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
        self.into.abandoned.set(true);
        self.into.changed.tell();
    }
}

impl<C> Clone for SimNet<C> {
    fn clone(&self) -> SimNet<C> {
        SimNet { world: Rc::clone(&self.world) }
    }
}

impl<C> fmt::Debug for SimNet<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimNet").field("latency", &self.world.latency).finish_non_exhaustive()
    }
}

impl<C> fmt::Debug for SimListener<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimListener").field("at", &self.listening.at).finish_non_exhaustive()
    }
}

impl<C> fmt::Debug for SimStream<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimStream").field("listener", &self.listener).finish_non_exhaustive()
    }
}
