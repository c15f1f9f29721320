//! The seam through which scopes start fibers and tell the time. The fibers' side implements it; so does a test
//! executor without any kernel.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::error::IoResult;

/// A future of a type nobody needs to name.
pub type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// Starts fibers, and tells the time, for scopes.
pub trait Executor: Clone + 'static {
    /// Starts a fiber on this shard. False, and the body is dropped, when none can be started any more.
    fn start(&self, body: impl Future<Output = ()> + 'static) -> bool;

    /// Ends after `span`, whatever is cancelled.
    fn timer(&self, span: Duration) -> Boxed<()>;

    /// Sleeps for `span`; an error when what sleeps is cancelled.
    fn sleep(&self, span: Duration) -> Boxed<IoResult<()>>;

    /// The time since the clock's beginning.
    fn now(&self) -> Duration;
}
