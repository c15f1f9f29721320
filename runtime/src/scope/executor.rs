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
    /// A fiber that was started. It gives what its body returned; none when it was dropped before its end. Dropping
    /// it leaves the fiber running.
    type Task<T: 'static>: Future<Output = Option<T>> + Unpin;

    /// Starts a fiber on this shard. None, and the body is dropped, when none can be started any more.
    fn start<T: 'static>(&self, body: impl Future<Output = T> + 'static) -> Option<Self::Task<T>>;

    /// Whether a fiber has ended.
    fn is_finished<T: 'static>(task: &Self::Task<T>) -> bool;

    /// Ends when the clock says `at`, whatever is cancelled.
    fn timer(&self, at: Duration) -> Boxed<()>;

    /// Sleeps for `span`; an error when what sleeps is cancelled.
    fn sleep(&self, span: Duration) -> Boxed<IoResult<()>>;

    /// The fiber that is polled now waits for the children of its scope, should anybody ask what it waits for.
    fn waits_for_children(&self) {}

    /// The time since the clock's beginning.
    fn now(&self) -> Duration;
}
