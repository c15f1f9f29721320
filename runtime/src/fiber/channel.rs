//! Channels: fibers hand items to fibers, in order, a bounded number ahead.
//!
//! One face, two kinds: a [`Channel`] stays on its shard and locks nothing; a [`SharedChannel`] goes between shards,
//! and threads. Both are the same queue behind a different door.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::fiber::local;
use crate::fiber::turn::{Charge, cancelled};
use crate::scope::Call;
use crate::scope::channel::{Attempt, Calls, Queue, Ticket};

/// The way to a channel's queue.
pub trait Door<T>: Clone {
    #[doc(hidden)]
    fn open(capacity: usize) -> Self;
    #[doc(hidden)]
    fn with<R>(&self, look: impl FnOnce(&mut Inner<T>) -> R) -> R;
}

/// What is behind the door. Nothing to name.
#[doc(hidden)]
#[derive(Debug)]
pub struct Inner<T>(Queue<T>);

/// A channel's way to its queue on its own shard.
pub struct Local<T>(Rc<RefCell<Inner<T>>>);

/// A channel's way to its queue from every shard.
pub struct Shared<T>(Arc<Mutex<Inner<T>>>);

impl<T> Door<T> for Local<T> {
    fn open(capacity: usize) -> Local<T> {
        Local(Rc::new(RefCell::new(Inner(Queue::new(capacity)))))
    }

    fn with<R>(&self, look: impl FnOnce(&mut Inner<T>) -> R) -> R {
        look(&mut self.0.borrow_mut())
    }
}

impl<T> Door<T> for Shared<T> {
    fn open(capacity: usize) -> Shared<T> {
        Shared(Arc::new(Mutex::new(Inner(Queue::new(capacity)))))
    }

    fn with<R>(&self, look: impl FnOnce(&mut Inner<T>) -> R) -> R {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Clone for Local<T> {
    fn clone(&self) -> Local<T> {
        Local(Rc::clone(&self.0))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(Arc::clone(&self.0))
    }
}

/// A bounded channel between the fibers of a shard, any number at each end. Clones are the same channel.
///
/// Items come out in the order they went in, and who has waited longest is served first. Putting and taking are
/// checkpoints; a wait that is cancelled or dropped loses nothing: what it was called for goes to the next.
///
/// # Examples
///
/// ```
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let numbers = wo::Channel::new(2);
///     let source = numbers.clone();
///     wo::spawn(|| {
///         for number in 1..=10_u32 {
///             source.put(number).expect("the channel is open");
///         }
///         source.close();
///     });
///     let mut sum = 0;
///     while let Some(number) = numbers.next()? {
///         sum += number;
///     }
///     assert_eq!(sum, 55);
///     Ok(())
/// }
/// ```
pub struct Channel<T, D: Door<T> = Local<T>> {
    door: D,
    item: std::marker::PhantomData<fn(T) -> T>,
}

/// A bounded channel between fibers of any shards. It has the face of a [`Channel`]; what goes through it is `Send`.
///
/// # Examples
///
/// ```
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// // On two shards.
/// let words = wo::Channel::shared(4);
/// let there = words.clone();
/// wo::spawn_anywhere(|| {
///     there.put("hello").expect("the channel is open");
/// });
/// assert_eq!(words.take()?, "hello");
/// # Ok(())
/// # }
/// # wo::Builder::new().shards(2).run(example).unwrap().unwrap();
/// ```
pub type SharedChannel<T> = Channel<T, Shared<T>>;

impl<T> Channel<T> {
    /// A channel on this shard for at most `capacity` items at a time; at least one.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wo::main]
    /// # fn main() -> wo::IoResult<()> {
    /// let channel = wo::Channel::new(2);
    /// channel.put("tea")?;
    /// assert_eq!((channel.len(), channel.capacity()), (1, 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(capacity: usize) -> Channel<T> {
        Channel::behind(Local::open(capacity))
    }
}

impl<T: Send> SharedChannel<T> {
    /// A channel between shards for at most `capacity` items at a time; at least one.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wo::fiber]
    /// # fn example() -> wo::IoResult<()> {
    /// // On two shards.
    /// let channel = wo::Channel::shared(2);
    /// let there = channel.clone();
    /// wo::post_to(1, move || assert!(there.try_put("from the other shard").is_ok()));
    /// assert_eq!(channel.take()?, "from the other shard");
    /// # Ok(())
    /// # }
    /// # wo::Builder::new().shards(2).run(example).unwrap().unwrap();
    /// ```
    pub fn shared(capacity: usize) -> SharedChannel<T> {
        Channel::behind(Shared::open(capacity))
    }
}

impl<T, D: Door<T>> Channel<T, D> {
    fn behind(door: D) -> Channel<T, D> {
        Channel { door, item: std::marker::PhantomData }
    }

    /// Changes the queue, then calls whoever is served by that.
    fn change<R>(&self, change: impl FnOnce(&mut Queue<T>, &mut Calls) -> R) -> R {
        let mut calls = Calls::new();
        let changed = self.door.with(|inner| change(&mut inner.0, &mut calls));
        calls.into_iter().for_each(std::task::Waker::wake);
        changed
    }

    /// Puts an item in, parking while the channel is full.
    ///
    /// # Errors
    ///
    /// With the item: EPIPE when the channel is closed, ECANCELED when this fiber was cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wo::main]
    /// # fn main() -> wo::IoResult<()> {
    /// let channel = wo::Channel::new(1);
    /// channel.put(1)?;
    /// channel.close();
    /// let refused = channel.put(2).unwrap_err();
    /// assert!(refused.is_closed());
    /// assert_eq!(refused.into_item(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn put(&self, item: T) -> Call<Put<T, D>> {
        Call::new(Put { channel: self.clone(), item: Some(item), ticket: None, charge: Charge::new() })
    }

    /// Takes the oldest item out, parking while there is none.
    ///
    /// # Errors
    ///
    /// EPIPE when the channel is closed and empty, ECANCELED when this fiber was cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wo::main]
    /// # fn main() -> wo::IoResult<()> {
    /// let channel = wo::Channel::new(1);
    /// channel.put("the last")?;
    /// channel.close();
    /// assert_eq!(channel.take()?, "the last");
    /// assert_eq!(channel.take().unwrap_err().errno(), wo::error::errno::EPIPE);
    /// # Ok(())
    /// # }
    /// ```
    pub fn take(&self) -> Call<Take<T, D>> {
        Call::new(Take { channel: self.clone(), ticket: None, charge: Charge::new() })
    }

    /// The same, with none for the end: the channel is closed and empty.
    ///
    /// # Errors
    ///
    /// ECANCELED when this fiber was cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wo::main]
    /// # fn main() -> wo::IoResult<()> {
    /// let channel = wo::Channel::new(2);
    /// channel.put(1)?;
    /// channel.put(2)?;
    /// channel.close();
    /// let mut sum = 0;
    /// while let Some(number) = channel.next()? {
    ///     sum += number;
    /// }
    /// assert_eq!(sum, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn next(&self) -> Call<impl Future<Output = IoResult<Option<T>>> + use<T, D>> {
        let take = self.take();
        Call::new(async move {
            match take.await {
                Ok(item) => Ok(Some(item)),
                Err(error) if error.errno() == errno::EPIPE => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    /// Puts an item in, if there is room now.
    ///
    /// # Errors
    ///
    /// With the item: EPIPE when the channel is closed, EAGAIN when it is full, or others who waited come first.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wo::main]
    /// # fn main() -> wo::IoResult<()> {
    /// let channel = wo::Channel::new(1);
    /// assert!(channel.try_put("first").is_ok());
    /// let refused = channel.try_put("second").unwrap_err();
    /// assert!(refused.is_full());
    /// assert_eq!(refused.into_item(), "second");
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_put(&self, item: T) -> Result<(), PutError<T>> {
        let mut item = Some(item);
        let put = self.change(|queue, calls| queue.put(&mut item, &mut None, None, calls));
        match (put, item) {
            (Attempt::Done(()), _) | (_, None) => Ok(()),
            (Attempt::Waits, Some(item)) => {
                Err(PutError { item, error: refused(errno::EAGAIN, "the channel is full") })
            }
            (Attempt::Closed, Some(item)) => Err(PutError { item, error: closed(OpKind::Put) }),
        }
    }

    /// Takes the oldest item out, if there is one now that nobody has waited for.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wo::main]
    /// # fn main() -> wo::IoResult<()> {
    /// let channel = wo::Channel::new(1);
    /// assert_eq!(channel.try_take(), None);
    /// channel.put(7)?;
    /// assert_eq!(channel.try_take(), Some(7));
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_take(&self) -> Option<T> {
        match self.change(|queue, calls| queue.take(&mut None, None, calls)) {
            Attempt::Done(item) => Some(item),
            Attempt::Waits | Attempt::Closed => None,
        }
    }

    /// Closes the channel: putting fails from now on, taking when it is empty. A second time it does nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[wo::main]
    /// # fn main() -> wo::IoResult<()> {
    /// let channel = wo::Channel::<u8>::new(1);
    /// let waiting = channel.clone();
    /// let taker = wo::spawn(|| waiting.next());
    /// wo::yield_now()?;
    /// channel.close();
    /// assert_eq!(taker.join().expect("it does not panic")?, None, "the end");
    /// assert!(channel.is_closed());
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(&self) {
        self.change(Queue::close);
    }

    /// Whether it is closed. There may be items left to take.
    pub fn is_closed(&self) -> bool {
        self.door.with(|inner| inner.0.is_closed())
    }

    /// The number of items in it.
    pub fn len(&self) -> usize {
        self.door.with(|inner| inner.0.len())
    }

    /// Whether there is no item in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most items it takes.
    pub fn capacity(&self) -> usize {
        self.door.with(|inner| inner.0.capacity())
    }
}

impl<T, D: Door<T>> Clone for Channel<T, D> {
    fn clone(&self) -> Channel<T, D> {
        Channel::behind(self.door.clone())
    }
}

impl<T, D: Door<T>> fmt::Debug for Channel<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, capacity, closed) = self.door.with(|inner| (inner.0.len(), inner.0.capacity(), inner.0.is_closed()));
        f.debug_struct("Channel").field("len", &len).field("capacity", &capacity).field("closed", &closed).finish()
    }
}

impl<T> fmt::Debug for Local<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Local")
    }
}

impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

fn refused(number: i32, why: &'static str) -> IoError {
    IoError::new(number, OpKind::Put, Stage::Submit).with_context(why)
}

fn closed(kind: OpKind) -> IoError {
    IoError::new(errno::EPIPE, kind, Stage::Submit).with_context("the channel is closed")
}

/// The future of [`Channel::put`]. Dropped before its end it has put nothing, and the item is dropped.
pub struct Put<T, D: Door<T>> {
    channel: Channel<T, D>,
    item: Option<T>,
    ticket: Ticket,
    charge: Charge,
}

// The item is only ever moved.
impl<T, D: Door<T>> Unpin for Put<T, D> {}

impl<T, D: Door<T>> Future for Put<T, D> {
    type Output = Result<(), PutError<T>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), PutError<T>>> {
        let this = self.get_mut();
        if this.charge.is_due(cx) {
            return Poll::Pending;
        }
        // Room that came with the cancel is used; who has not waited for any is told first.
        let waited = this.ticket.is_some();
        let mut error = None;
        if waited || !local::is_cancelled() {
            let (item, ticket) = (&mut this.item, &mut this.ticket);
            match this.channel.change(|queue, calls| queue.put(item, ticket, Some(cx.waker()), calls)) {
                Attempt::Done(()) => return Poll::Ready(Ok(())),
                Attempt::Closed => error = Some(closed(OpKind::Put)),
                Attempt::Waits if !waited || !local::is_cancelled() => {
                    local::waits_for(OpKind::Put);
                    return Poll::Pending;
                }
                Attempt::Waits => {}
            }
        }
        this.leave();
        let item = this.item.take().expect("a verb is not polled after its end");
        Poll::Ready(Err(PutError { item, error: error.unwrap_or_else(|| cancelled(OpKind::Put)) }))
    }
}

impl<T, D: Door<T>> Put<T, D> {
    fn leave(&mut self) {
        if self.ticket.is_some() {
            let ticket = &mut self.ticket;
            self.channel.change(|queue, calls| queue.putter_leaves(ticket, calls));
        }
    }
}

impl<T, D: Door<T>> Drop for Put<T, D> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The future of [`Channel::take`]. Dropped before its end it has taken nothing.
pub struct Take<T, D: Door<T>> {
    channel: Channel<T, D>,
    ticket: Ticket,
    charge: Charge,
}

impl<T, D: Door<T>> Unpin for Take<T, D> {}

impl<T, D: Door<T>> Future for Take<T, D> {
    type Output = IoResult<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<IoResult<T>> {
        let this = self.get_mut();
        if this.charge.is_due(cx) {
            return Poll::Pending;
        }
        // An item that came with the cancel is taken; who has not waited for any is told first.
        let waited = this.ticket.is_some();
        if waited || !local::is_cancelled() {
            let ticket = &mut this.ticket;
            match this.channel.change(|queue, calls| queue.take(ticket, Some(cx.waker()), calls)) {
                Attempt::Done(item) => return Poll::Ready(Ok(item)),
                Attempt::Closed => return Poll::Ready(Err(closed(OpKind::Receive))),
                Attempt::Waits if !waited || !local::is_cancelled() => {
                    local::waits_for(OpKind::Receive);
                    return Poll::Pending;
                }
                Attempt::Waits => {}
            }
        }
        this.leave();
        Poll::Ready(Err(cancelled(OpKind::Receive)))
    }
}

impl<T, D: Door<T>> Take<T, D> {
    fn leave(&mut self) {
        if self.ticket.is_some() {
            let ticket = &mut self.ticket;
            self.channel.change(|queue, calls| queue.taker_leaves(ticket, calls));
        }
    }
}

impl<T, D: Door<T>> Drop for Take<T, D> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<T, D: Door<T>> fmt::Debug for Put<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Put").field("channel", &self.channel).finish_non_exhaustive()
    }
}

impl<T, D: Door<T>> fmt::Debug for Take<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Take").field("channel", &self.channel).finish_non_exhaustive()
    }
}

/// An item that was not put, and why. `?` makes an [`IoError`] of it, and drops the item.
///
/// # Examples
///
/// ```
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let channel = wo::Channel::new(1);
/// channel.put("tea")?;
/// let refused = channel.try_put("milk").unwrap_err();
/// assert!(refused.is_full() && !refused.is_closed());
/// assert_eq!(refused.error().errno(), wo::error::errno::EAGAIN);
/// assert_eq!(refused.into_item(), "milk");
/// # Ok(())
/// # }
/// ```
pub struct PutError<T> {
    item: T,
    error: IoError,
}

impl<T> PutError<T> {
    /// The item.
    pub fn into_item(self) -> T {
        self.item
    }

    /// Why it was not put.
    pub const fn error(&self) -> &IoError {
        &self.error
    }

    /// Whether the channel was full.
    pub fn is_full(&self) -> bool {
        self.error.errno() == errno::EAGAIN
    }

    /// Whether the channel is closed.
    pub fn is_closed(&self) -> bool {
        self.error.errno() == errno::EPIPE
    }
}

impl<T> From<PutError<T>> for IoError {
    fn from(refused: PutError<T>) -> IoError {
        refused.error
    }
}

impl<T> fmt::Display for PutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> fmt::Debug for PutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PutError({})", self.error)
    }
}

impl<T> std::error::Error for PutError<T> {}
