//! The runtime's fibers.

pub mod channel {
    include!(concat!(env!("OUT_DIR"), "/fiber/channel.rs"));
}
pub mod home {
    include!(concat!(env!("OUT_DIR"), "/fiber/home.rs"));
}
pub mod join {
    include!(concat!(env!("OUT_DIR"), "/fiber/join.rs"));
}
pub mod local {
    include!(concat!(env!("OUT_DIR"), "/fiber/local.rs"));
}
pub mod oneshot {
    include!(concat!(env!("OUT_DIR"), "/fiber/oneshot.rs"));
}
pub mod spin {
    include!(concat!(env!("OUT_DIR"), "/fiber/spin.rs"));
}
pub mod steal {
    include!(concat!(env!("OUT_DIR"), "/fiber/steal.rs"));
}
pub mod tally {
    include!(concat!(env!("OUT_DIR"), "/fiber/tally.rs"));
}
pub mod task {
    include!(concat!(env!("OUT_DIR"), "/fiber/task/mod.rs"));
}
pub mod tick {
    include!(concat!(env!("OUT_DIR"), "/fiber/tick.rs"));
}
pub mod turn {
    include!(concat!(env!("OUT_DIR"), "/fiber/turn.rs"));
}

pub(crate) use local::wake_in_turn;
pub use task::Payload;
pub use tick::StopRequest;

/// As the runtime's.
pub(crate) fn home_here() -> Option<&'static home::Home> {
    local::local(local::Local::home)
}
