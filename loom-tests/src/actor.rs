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

pub mod life {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::actor::mailbox::Envelope;
    use crate::fiber::home::Home;

    /// How many messages were dead-lettered in this run of a model.
    pub static DEAD_LETTERS: AtomicUsize = AtomicUsize::new(0);

    pub fn dead_letter<M>(_home: Option<&'static Home>, _envelope: Envelope<M>) {
        DEAD_LETTERS.fetch_add(1, Ordering::Relaxed);
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
