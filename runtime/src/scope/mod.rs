//! The meaning of concurrency: scopes, cancelling, outcomes. Nothing here knows of any kernel.
//!
//! Fibers lower it onto their loop through one seam, [`Executor`]; a test drives it without.

mod at_root;
mod body;
mod call;
pub mod capability;
mod cause;
pub(crate) mod channel;
mod crew;
mod driver;
pub mod effect;
mod executor;
mod member;
mod node;
mod now;
mod nursery;
mod options;
mod panics;
pub mod schedule;
mod section;
mod slots;
mod together;

pub use body::{Body, Finish};
pub use call::{Call, Never, Returns, SettleOrdinary, output};
pub use cause::{Cause, First, Interrupt, Outcome, Panic};
pub use driver::{repeat, retry};
pub use executor::{Boxed, Executor};
pub use now::interrupt;
pub use nursery::{Child, JoinChild, Scope, open};
pub use options::{OnFailure, ScopeOptions};
pub use section::{protect, with_deadline};
pub use together::{Race, Together, join_all, race_all};

pub(crate) use at_root::AtRoot;
pub(crate) use body::Crossed;
pub(crate) use node::give_up_spare;
pub(crate) use now::{
    Around, deadline, is_cancelled, is_given_up, is_marked, is_only_stopping, replace_stopping, set_around,
    set_stopping, why,
};
pub(crate) use nursery::open_plain;
