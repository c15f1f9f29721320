//! Scopes stand in: no model opens one, so nothing is cancelled by any.

mod call {
    include!(concat!(env!("OUT_DIR"), "/scope/call.rs"));
}

pub mod channel {
    include!(concat!(env!("OUT_DIR"), "/scope/channel.rs"));
}

pub use call::Call;

pub fn is_cancelled() -> bool {
    false
}

pub fn is_only_stopping() -> bool {
    false
}

pub fn set_stopping(_stopping: bool) {}

pub fn why() -> &'static str {
    ""
}
