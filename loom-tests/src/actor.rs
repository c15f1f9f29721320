//! The runtime's mailboxes, and stand-ins for what they carry.

pub mod ask {
    /// Who waits for an answer: nobody, here.
    pub trait Asked: Send + Sync {}
}

pub mod monitor {
    /// Who wants to know of an end: nobody, here.
    pub trait Monitor: Send {}

    #[derive(Default)]
    pub struct Monitors;

    impl Monitors {
        pub fn add(&mut self, monitor: Box<dyn Monitor>) -> Vec<Box<dyn Monitor>> {
            vec![monitor]
        }

        pub fn begun(&mut self) {}
    }
}

pub mod counters {
    include!(concat!(env!("OUT_DIR"), "/actor/counters.rs"));
}
pub mod error {
    include!(concat!(env!("OUT_DIR"), "/actor/error.rs"));
}
pub mod mailbox {
    include!(concat!(env!("OUT_DIR"), "/actor/mailbox/mod.rs"));
}
pub mod waits {
    include!(concat!(env!("OUT_DIR"), "/actor/waits.rs"));
}
