//! The meaning of concurrency: scopes, cancelling, outcomes. Nothing here knows of any kernel.
//!
//! Fibers lower it onto their loop through one seam, [`Executor`]; a test drives it without.

mod body;
mod cancel;
mod cause;
mod driver;
mod executor;
mod nursery;
pub mod schedule;
mod section;

pub use body::Finish;
pub use cancel::{Node, Ran, Within, current};
pub use cause::{Cause, First, Interrupt, Outcome};
pub use driver::{repeat, retry};
pub use executor::{Boxed, Executor};
pub use nursery::{Child, JoinChild, OnFailure, Scope, open};
pub use section::{protect, with_deadline};

pub(crate) use cancel::{is_cancelled, is_sheltered, set_cancelled, tell};
