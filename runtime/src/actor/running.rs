//! Which actor's function runs on this thread now, and what it may say about itself.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::ptr;

use crate::actor::address::Addr;
use crate::actor::mailbox::{AnyMailbox, Head, Mailbox};

thread_local! {
    /// The mailbox of the actor one of whose functions is being polled.
    static RUNNING: Cell<Option<&'static dyn AnyMailbox>> = const { Cell::new(None) };
    static HAS_FAILED: Cell<bool> = const { Cell::new(false) };
    static REASON: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A function of this mailbox's actor is polled from now on; none ends it.
#[inline]
pub(crate) fn set(mailbox: Option<&'static dyn AnyMailbox>) {
    RUNNING.set(mailbox);
}

/// The head of the actor whose function runs.
#[inline]
pub(crate) fn head() -> Option<&'static Head> {
    RUNNING.get().map(AnyMailbox::head)
}

/// Whether a function of this mailbox's actor runs now.
#[inline]
pub(crate) fn is(head: &'static Head) -> bool {
    RUNNING.get().is_some_and(|mailbox| ptr::eq(mailbox.head(), head))
}

/// The reason the function that was polled gave for a failure, if it gave one.
#[inline]
pub(crate) fn take_failure() -> Option<String> {
    if !HAS_FAILED.get() {
        return None;
    }
    HAS_FAILED.set(false);
    Some(REASON.with(|reason| std::mem::take(&mut *reason.borrow_mut())))
}

/// The address of the actor whose function runs now, when it takes messages of type `M`; none elsewhere, also in a
/// fiber the actor has spawned.
///
/// # Examples
///
/// ```
/// use wo::actor;
///
/// struct Countdown;
/// #[wo::actor]
/// impl Countdown {
///     fn receive(&mut self, left: u32) {
///         let own = actor::this::<u32>().unwrap();
///         if left == 0 {
///             own.stop();
///         } else {
///             own.send(left - 1).unwrap();
///         }
///     }
/// }
///
/// #[wo::main]
/// fn main() {
///     let countdown = wo::spawn(Countdown);
///     countdown.send(10).unwrap();
///     countdown.ended().unwrap();
///     assert_eq!(actor::counters().handled, 11);
///     assert!(actor::this::<u32>().is_none());
/// }
/// ```
pub fn this<M: Send + 'static>() -> Option<Addr<M>> {
    let mailbox = RUNNING.get()?.as_any().downcast_ref::<Mailbox<M>>()?;
    Some(Addr::new(mailbox, mailbox.head().life_at_home()))
}

/// The actor whose function runs now fails when the function returns, for this reason: as after a panic it ends, or its
/// supervisor restarts it. A later reason replaces an earlier one. False, and nothing happens, where no actor's
/// function runs.
///
/// Under `#[wo::actor]` a function that returns an error says so by itself.
///
/// # Examples
///
/// ```
/// use wo::actor::{self, Exit};
///
/// struct Picky;
/// #[wo::actor]
/// impl Picky {
///     fn receive(&mut self, number: u32) {
///         if number == 13 {
///             actor::fail(format!("{number} is not for me"));
///         }
///     }
/// }
///
/// #[wo::main]
/// fn main() {
///     let picky = wo::spawn(Picky);
///     picky.send(13).unwrap();
///     assert_eq!(picky.ended().unwrap(), Exit::Failed("13 is not for me".to_owned()));
/// }
/// ```
pub fn fail(reason: impl Display) -> bool {
    if RUNNING.get().is_none() {
        return false;
    }
    let reason = reason.to_string();
    HAS_FAILED.set(true);
    REASON.with(|kept| *kept.borrow_mut() = reason);
    true
}

/// What an actor's function may return: nothing, or a `Result` whose error fails the actor. For the macros.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an actor's function returns nothing or a `Result<(), E>` whose error can be shown, not `{Self}`",
    label = "this is what it returns"
)]
pub trait Returned {
    /// Fails the actor if it is an error.
    fn returned(self);
}

impl Returned for () {
    fn returned(self) {}
}

impl<E: Display> Returned for Result<(), E> {
    fn returned(self) {
        if let Err(error) = self {
            fail(error);
        }
    }
}
