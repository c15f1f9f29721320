//! How a scope treats what goes wrong in it, and how long it may take.

use std::time::Duration;

/// What a child's failure does to its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// They are cancelled.
    #[default]
    CancelSiblings,
    /// They finish.
    Collect,
}

/// How to open a scope, beyond what [`scope`](crate::fiber::scope) does.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// #[wo::main]
/// fn main() {
///     let options = wo::ScopeOptions::new().deadline(Duration::from_millis(5)).cleanup(Duration::from_millis(5));
///     let outcome = wo::scope_with(options, |s: wo::Scope| {
///         s.spawn(|| wo::protect(|| wo::sleep(Duration::MAX)));
///     });
///     let cause = outcome.unwrap_err();
///     assert!(cause.is_timeout() && cause.is_cleanup_timeout());
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScopeOptions {
    pub(crate) on_failure: OnFailure,
    pub(crate) deadline: Option<Duration>,
    pub(crate) cleanup: Option<Duration>,
}

impl ScopeOptions {
    /// The first failure cancels the others; no deadline; cleaning up takes the time it takes.
    pub const fn new() -> ScopeOptions {
        ScopeOptions { on_failure: OnFailure::CancelSiblings, deadline: None, cleanup: None }
    }

    /// A child that fails does not cancel the others: they finish, and the first cause is told at the end.
    #[must_use]
    pub const fn collect(mut self) -> ScopeOptions {
        self.on_failure = OnFailure::Collect;
        self
    }

    /// Cancels the scope after `limit`. Of nested deadlines the nearest wins; zero cancels before the first verb, and
    /// `Duration::MAX` is none.
    #[must_use]
    pub const fn deadline(mut self, limit: Duration) -> ScopeOptions {
        self.deadline = Some(limit);
        self
    }

    /// Bounds what happens after the scope is cancelled, or after its last child has ended: clean-ups under
    /// [`protect`](crate::fiber::protect), exit hooks, and bodies that will not hear of it. What is not done after
    /// `limit` is dropped where it stands, which is said on stderr and counted in the scope's
    /// [`Cause`](crate::scope::Cause). Memory the kernel still works on stays with the loop until the kernel has
    /// finished. Without a limit the scope waits.
    #[must_use]
    pub const fn cleanup(mut self, limit: Duration) -> ScopeOptions {
        self.cleanup = Some(limit);
        self
    }
}
