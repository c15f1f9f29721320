//! The runtime's program.

/// Blocking calls are no part of a model.
pub mod blocking {
    #[derive(Debug, Default)]
    pub struct BlockingThreads;

    impl BlockingThreads {
        pub fn close(&self) {}
    }
}

pub mod program {
    include!(concat!(env!("OUT_DIR"), "/shard/program.rs"));
}
