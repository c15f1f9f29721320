//! The type every parking call has, and how a fiber body tells it from an ordinary value.
//!
//! The macros put `.__wo_settle().await` behind the calls of a fiber body. For a [`Call`] the inherent method answers
//! the future inside; for every other type the method of [`SettleOrdinary`] answers the value, ready at once. Inherent
//! methods win over trait methods, so ordinary values pass through untouched, futures of other libraries too.

use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

pin_project! {
    /// A call that may park its fiber. In a fiber body it is awaited without being written so; in ordinary async
    /// Rust it is a future, and `.await` runs it.
    ///
    /// Dropping it before its end is safe and cancels what it waits for.
    #[derive(Debug)]
    ///
    /// # When the compiler speaks of `Call`
    ///
    /// Then the function around the call is a plain one, where the call is only a value that has not run: "the `?`
    /// operator cannot be applied to type `Call<...>`", "no method named `unwrap` found for struct `Call<...>`". Put
    /// `#[wo::fiber]` on that function; or, in a plain closure (of `map`, of `for_each`, one with a name), write a loop
    /// instead.
    ///
    /// A closure given to `timeout`, `retry`, `repeat`, `race`, `join` and their like is taken for a plain one, too,
    /// when they are called without `wo::` and imported outside of the body, where the attribute cannot see it: others
    /// have functions of these names. Write `wo::timeout(..)`, or put the `use wo::timeout;` into the body.
    #[must_use = "this call does nothing here: the function around it is plain; put `#[wo::fiber]` on it, or `.await` \
                  the call in async Rust"]
    pub struct Call<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future> Call<F> {
    /// Makes a parking call of a future.
    #[inline]
    pub const fn new(future: F) -> Call<F> {
        Call { future }
    }

    /// The future inside.
    pub fn into_future(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Call<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().future.poll(cx)
    }
}

/// What the macros say to a call. Both methods have names nobody else uses, since a type's own method would win.
#[doc(hidden)]
impl<F: Future> Call<F> {
    /// The future of a parking call.
    #[inline]
    pub fn __wo_settle(self) -> F {
        self.future
    }

    /// The future of a call that may be recursive: a future cannot hold itself, but it can hold a box of itself.
    #[inline]
    pub fn __wo_settle_boxed(self) -> Pin<Box<F>> {
        Box::pin(self.future)
    }
}

/// What the macros say to the value of a call that does not park: it is ready. For the macros.
#[doc(hidden)]
pub trait SettleOrdinary: Sized {
    /// The value, ready at once.
    #[inline]
    fn __wo_settle(self) -> Ready<Self> {
        ready(self)
    }

    /// The value, ready at once; nothing to box.
    #[inline]
    fn __wo_settle_boxed(self) -> Ready<Self> {
        ready(self)
    }
}

impl<T> SettleOrdinary for T {}

/// Stands where a fiber body would return an `R`, in code that never runs, so that the compiler knows what its
/// `return` and `?` convert to. For the macros.
#[doc(hidden)]
pub fn output<R>() -> R {
    unreachable!("it is only called where control never comes")
}

/// The type `!`, which cannot be named yet as a future's output. For the macros.
#[doc(hidden)]
pub type Never = <fn() -> ! as Returns>::Output;

/// What a function pointer returns.
#[doc(hidden)]
pub trait Returns {
    /// The type behind the arrow.
    type Output;
}

impl<R> Returns for fn() -> R {
    type Output = R;
}
