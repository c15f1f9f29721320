//! The type every parking call has, and how a fiber body tells it from an ordinary value.
//!
//! A fiber body's calls are wrapped by the macros as `Settle(call).settle().await`. For a [`Call`] the inherent
//! `settle` answers the future inside; for every other type the trait's method of the same name answers the value,
//! ready at once. Inherent methods win over trait methods, so ordinary values pass through untouched, futures of
//! other libraries too.

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
    #[must_use = "a call that parks does nothing until it is awaited; in a fiber body that happens by itself"]
    pub struct Call<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future> Call<F> {
    /// Makes a parking call of a future.
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

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().future.poll(cx)
    }
}

/// Wraps the value of one call in a fiber body; see the module's text. For the macros.
#[doc(hidden)]
#[derive(Debug)]
pub struct Settle<T>(pub T);

impl<F: Future> Settle<Call<F>> {
    /// The future of a parking call.
    #[inline(always)]
    pub fn settle(self) -> F {
        self.0.future
    }
}

/// The fallback of [`Settle`], for values of every other type. For the macros.
#[doc(hidden)]
pub trait SettleOrdinary {
    /// The value's type.
    type Value;

    /// The value, ready at once.
    fn settle(self) -> Ready<Self::Value>;
}

impl<T> SettleOrdinary for Settle<T> {
    type Value = T;

    #[inline(always)]
    fn settle(self) -> Ready<T> {
        ready(self.0)
    }
}
