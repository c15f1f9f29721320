//! One value from one fiber to another, across threads too.
//!
//! The sender leaves the value, or its absence, and wakes the receiver; the receiver looks once per poll. Whoever
//! goes first is seen by the other: a value sent to nobody comes back to its sender.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::fiber::local;
use crate::fiber::turn::{Charge, cancelled};
use crate::scope::Call;

/// Makes the two ends.
///
/// # Examples
///
/// ```
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let (sender, receiver) = wo::oneshot();
///     wo::spawn(|| sender.send("hello"));
///     assert_eq!(receiver.recv()?, "hello");
///     Ok(())
/// }
/// ```
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let cell = Arc::new(Mutex::new(Cell { value: None, waker: None, closed: false }));
    (Sender { cell: Arc::clone(&cell) }, Receiver { cell })
}

struct Cell<T> {
    value: Option<T>,
    waker: Option<Waker>,
    /// One of the ends has gone.
    closed: bool,
}

fn lock<T>(cell: &Mutex<Cell<T>>) -> MutexGuard<'_, Cell<T>> {
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The end that sends. Dropping it without sending tells the receiver that nothing will come.
///
/// # Examples
///
/// ```
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let (sender, receiver) = wo::oneshot();
/// assert!(!sender.is_closed());
/// drop(receiver);
/// assert_eq!(sender.send(7), Err(7), "nobody is there");
/// # Ok(())
/// # }
/// ```
pub struct Sender<T> {
    cell: Arc<Mutex<Cell<T>>>,
}

impl<T> Sender<T> {
    /// Hands the value over. Never parks.
    ///
    /// # Errors
    ///
    /// The value itself, when the receiver has gone.
    pub fn send(self, value: T) -> Result<(), T> {
        let mut cell = lock(&self.cell);
        if cell.closed {
            return Err(value);
        }
        cell.value = Some(value);
        Ok(())
        // Dropping the sender wakes the receiver.
    }

    /// Whether the receiver has gone.
    pub fn is_closed(&self) -> bool {
        lock(&self.cell).closed
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut cell = lock(&self.cell);
        cell.closed = true;
        let waker = cell.waker.take();
        drop(cell);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The end that receives.
///
/// # Examples
///
/// ```
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let (sender, mut receiver) = wo::oneshot();
/// assert_eq!(receiver.try_recv(), None);
/// sender.send(7).expect("the receiver is there");
/// assert_eq!(receiver.recv()?, 7);
///
/// let (sender, receiver) = wo::oneshot::<u8>();
/// drop(sender);
/// assert_eq!(receiver.recv().unwrap_err().errno(), wo::error::errno::EPIPE);
/// # Ok(())
/// # }
/// ```
pub struct Receiver<T> {
    cell: Arc<Mutex<Cell<T>>>,
}

impl<T> Receiver<T> {
    /// Parks until the value comes. Dropped half-way, it drops the value with it, or has it come back to its sender.
    ///
    /// # Errors
    ///
    /// EPIPE when the sender has gone without sending, ECANCELED when the fiber was cancelled.
    pub fn recv(self) -> Call<Recv<T>> {
        Call::new(Recv { receiver: self, charge: Charge::new() })
    }

    /// The value, if it is there; never parks.
    pub fn try_recv(&mut self) -> Option<T> {
        lock(&self.cell).value.take()
    }

    /// Waits for the value, with neither a charge nor a checkpoint; none when it will not come.
    pub(crate) fn poll_value(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut cell = lock(&self.cell);
        if cell.value.is_some() || cell.closed {
            return Poll::Ready(cell.value.take());
        }
        if !cell.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            cell.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Looks at the value while it stays.
    pub(crate) fn peek<R>(&self, look: impl FnOnce(Option<&T>) -> R) -> R {
        look(lock(&self.cell).value.as_ref())
    }

    /// Whether the sender has gone.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.cell).closed
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut cell = lock(&self.cell);
        cell.closed = true;
        let value = cell.value.take();
        drop(cell);
        drop(value);
    }
}

/// The future of [`Receiver::recv`].
pub struct Recv<T> {
    receiver: Receiver<T>,
    charge: Charge,
}

impl<T> Future for Recv<T> {
    type Output = IoResult<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<IoResult<T>> {
        if self.charge.is_due(cx) {
            return Poll::Pending;
        }
        let mut cell = lock(&self.receiver.cell);
        if let Some(value) = cell.value.take() {
            return Poll::Ready(Ok(value));
        }
        if cell.closed {
            return Poll::Ready(Err(IoError::new(errno::EPIPE, OpKind::Receive, Stage::Completion)
                .with_context("from a sender that has gone without sending")));
        }
        if local::is_cancelled() {
            return Poll::Ready(Err(cancelled(OpKind::Receive)));
        }
        local::waits_for(OpKind::Receive);
        if !cell.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            cell.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("closed", &self.is_closed()).finish()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver")
    }
}

impl<T> fmt::Debug for Recv<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recv")
    }
}
