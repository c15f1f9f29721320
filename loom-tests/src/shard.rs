//! The runtime's program.

pub mod program {
    include!(concat!(env!("OUT_DIR"), "/shard/program.rs"));
}
