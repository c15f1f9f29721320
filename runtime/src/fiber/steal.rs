//! Fibers that have not started yet, and that another shard of the program may start.
//!
//! What moves is the body alone: the fiber is made by the shard that starts it, which is its home for life, and the
//! handle to join it comes back through a oneshot. Each shard keeps such bodies in a queue of its own, apart from its
//! run queue. It starts one whenever its run queue runs dry, and one each tick when it does not; a shard that has run
//! dry and has none starts one of another's.
//!
//! Spawner: push, fence, look for a shard that sleeps, and wake one. Idle shard: announce sleep, fence, look at every
//! queue, then sleep. As at home, at least one sees the other, so a fiber is never left to a busy shard while another
//! sleeps.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::{Context, Poll};

use crate::fiber::home::Home;
use crate::fiber::join::{IntoFiber, JoinHandle, spawn};
use crate::fiber::local::local;
use crate::fiber::oneshot::{Receiver, oneshot};
use crate::fiber::task::FiberId;

/// Starts a fiber on the shard that calls it.
pub(crate) type Start = Box<dyn FnOnce() + Send>;

/// A fiber that this shard has left, until whoever started it says so.
///
/// Who wants it stopped says so, fence, then looks for its handle; who starts it sends the handle, fence, then looks
/// whether it is to stop. At least one of them sees the other.
pub(crate) struct Left<T> {
    handle: Receiver<JoinHandle<T>>,
    interrupted: Arc<AtomicBool>,
}

/// The other shards that share what has not started with this one; none where nothing is shared.
pub(crate) struct Peers {
    homes: ManuallyDrop<RefCell<Vec<&'static Home>>>,
    /// Where the next look at them begins, so that each gets its share.
    next: Cell<usize>,
}

impl Peers {
    pub(crate) const fn none() -> Peers {
        Peers { homes: ManuallyDrop::new(RefCell::new(Vec::new())), next: Cell::new(0) }
    }

    pub(crate) fn swap(&self, other: &Peers) {
        self.homes.swap(&other.homes);
        self.next.swap(&other.next);
    }

    pub(crate) fn set(&self, homes: Vec<&'static Home>) {
        *self.homes.borrow_mut() = homes;
    }

    /// Whether this shard shares with any.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.homes.borrow().is_empty()
    }

    /// The first thing found at one of them, each looked at once.
    fn find<R>(&self, look: impl FnMut(&'static Home) -> Option<R>) -> Option<R> {
        let homes = self.homes.borrow();
        let first = self.next.get() % homes.len().max(1);
        self.next.set(first + 1);
        let (before, from) = homes.split_at(first);
        from.iter().chain(before).copied().find_map(look)
    }
}

/// Leaves a fiber to whoever comes first: this shard, or one that is idle. None where this one shares with nobody, and
/// the body comes back.
pub(crate) fn leave<B>(body: B) -> Result<Left<B::Output>, B>
where
    B: IntoFiber + Send + 'static,
    B::Output: Send,
{
    let sharing = local(|local| if local.peers.is_empty() { None } else { local.open_home() });
    let Some(home) = sharing else { return Err(body) };
    let (start, left) = prepare(body);
    offer(home, start);
    Ok(left)
}

/// What starts a fiber wherever it is called, and where the handle to join it comes back.
pub(crate) fn prepare<B>(body: B) -> (Start, Left<B::Output>)
where
    B: IntoFiber + Send + 'static,
    B::Output: Send,
{
    let (sender, handle) = oneshot();
    let interrupted = Arc::new(AtomicBool::new(false));
    let left = Left { handle, interrupted: Arc::clone(&interrupted) };
    let start = move || {
        if interrupted.load(Ordering::Relaxed) {
            return;
        }
        // A body that panics before it has a future does so as a fiber, too. Nobody may want the handle any more.
        let started = spawn(move || async move { body.into_fiber().await });
        let fiber = started.fiber();
        let _ = sender.send(started);
        fence(Ordering::SeqCst);
        if let Some(fiber) = fiber
            && interrupted.load(Ordering::Relaxed)
        {
            fiber.interrupt();
        }
    };
    (Box::new(start), left)
}

fn offer(home: &'static Home, start: Start) {
    home.offer(start);
    let _woken = local(|local| local.peers.find(|peer| peer.wake_if_asleep().then_some(())));
}

impl<T: 'static> Left<T> {
    /// Waits until the fiber has started, for the handle to it; none when that will not be.
    pub(crate) fn poll_started(&self, cx: &mut Context<'_>) -> Poll<Option<JoinHandle<T>>> {
        self.handle.poll_value(cx)
    }

    /// The fiber's number, once it has started.
    pub(crate) fn id(&self) -> Option<FiberId> {
        self.handle.peek(|started| started.and_then(JoinHandle::id))
    }

    /// Whether the fiber has ended, be it without having started.
    pub(crate) fn is_finished(&self) -> bool {
        self.handle.peek(|started| started.map(JoinHandle::is_finished)).unwrap_or_else(|| self.handle.is_closed())
    }

    /// Asks the fiber to stop; it never starts if it has not yet.
    pub(crate) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.handle.peek(|started| started.map(JoinHandle::interrupt));
    }
}

/// Starts a fiber of this shard's own that has not started; whether there was one.
pub(crate) fn start_own(home: &'static Home) -> bool {
    !local(|local| local.peers.is_empty()) && start(home.take_unstarted())
}

/// Starts a fiber of this shard's own, else of another's; whether there was one.
pub(crate) fn start_any(home: &'static Home) -> bool {
    start_own(home) || start(local(|local| local.peers.find(Home::take_unstarted)))
}

fn start(unstarted: Option<Start>) -> bool {
    unstarted.map(|start| start()).is_some()
}

/// Whether there is a fiber that this shard could start.
pub(crate) fn is_waiting(home: &'static Home) -> bool {
    local(|local| {
        !local.peers.is_empty()
            && (home.has_unstarted() || local.peers.find(|peer| peer.has_unstarted().then_some(())).is_some())
    })
}
