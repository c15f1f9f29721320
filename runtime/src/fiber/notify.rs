//! A signal between the fibers of one shard.
//!
//! A notification meets the fiber that has waited longest; with nobody waiting it is kept, once, for the next that
//! waits. One that met a fiber which then went away passes on to the next.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::error::{IoResult, OpKind};
use crate::fiber::local;
use crate::fiber::turn::{Charge, cancelled};
use crate::scope::Call;

/// Wakes fibers of the same shard that wait for it.
///
/// # Examples
///
/// ```
/// use std::rc::Rc;
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let ready = Rc::new(wo::Notify::new());
///     let signal = Rc::clone(&ready);
///     let _ = wo::spawn(|| signal.notify_one());
///     ready.notified()
/// }
/// ```
#[derive(Default)]
pub struct Notify {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    kept: bool,
    made: u64,
    /// Those who wait, by their numbers, which count up. Whoever has a number and is not here was met.
    waiting: BTreeMap<u64, Waker>,
    /// Those who were met alone, and have not looked yet: what they leave behind goes to the next.
    met: BTreeSet<u64>,
}

impl Notify {
    /// A signal nobody has given.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Wakes the fiber that has waited longest, or keeps one notification for the next that waits.
    pub fn notify_one(&self) {
        let waker = self.state.borrow_mut().meet_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Wakes every fiber that waits now; keeps nothing.
    pub fn notify_all(&self) {
        let waiting = std::mem::take(&mut self.state.borrow_mut().waiting);
        waiting.into_values().for_each(Waker::wake);
    }

    /// Parks until notified. Dropped half-way, a notification it met goes to the next.
    ///
    /// # Errors
    ///
    /// ECANCELED when the fiber was cancelled.
    pub fn notified(&self) -> Call<Notified<'_>> {
        Call::new(Notified { notify: self, number: None, charge: Charge::new() })
    }
}

impl State {
    fn meet_one(&mut self) -> Option<Waker> {
        let Some((number, waker)) = self.waiting.pop_first() else {
            self.kept = true;
            return None;
        };
        self.met.insert(number);
        Some(waker)
    }
}

/// The future of [`Notify::notified`].
#[derive(Debug)]
pub struct Notified<'a> {
    notify: &'a Notify,
    number: Option<u64>,
    charge: Charge,
}

impl Future for Notified<'_> {
    type Output = IoResult<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<IoResult<()>> {
        let this = self.get_mut();
        if this.charge.is_due(cx) {
            return Poll::Pending;
        }
        local::waits_for(OpKind::Receive);
        let mut state = this.notify.state.borrow_mut();
        match this.number {
            None if std::mem::take(&mut state.kept) => Poll::Ready(Ok(())),
            None if local::is_cancelled() => Poll::Ready(Err(cancelled(OpKind::Receive))),
            None => {
                let number = state.made;
                state.made += 1;
                state.waiting.insert(number, cx.waker().clone());
                this.number = Some(number);
                Poll::Pending
            }
            Some(number) => match state.waiting.get_mut(&number) {
                None => {
                    state.met.remove(&number);
                    this.number = None;
                    Poll::Ready(Ok(()))
                }
                Some(_) if local::is_cancelled() => {
                    drop(state);
                    this.leave();
                    Poll::Ready(Err(cancelled(OpKind::Receive)))
                }
                Some(waker) => {
                    waker.clone_from(cx.waker());
                    Poll::Pending
                }
            },
        }
    }
}

impl Notified<'_> {
    fn leave(&mut self) {
        let Some(number) = self.number.take() else { return };
        let mut state = self.notify.state.borrow_mut();
        if state.waiting.remove(&number).is_none() && state.met.remove(&number) {
            let next = state.meet_one();
            drop(state);
            if let Some(next) = next {
                next.wake();
            }
        }
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.borrow();
        f.debug_struct("Notify").field("waiting", &state.waiting.len()).field("kept", &state.kept).finish()
    }
}
