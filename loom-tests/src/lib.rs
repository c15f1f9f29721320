//! Models of every cross-thread protocol of `wo`, checked by loom: every order in which the threads can take their
//! steps, and every value the memory model lets a load see.
//!
//! The models run the runtime's own files (`build.rs` says how), over stand-ins for what lies outside the protocol:
//! the kernel, the loop above it. Each ordering a protocol rests on has its weakening in `weakenings.rs`, and a model
//! that is seen to fail with it, on every run.
//!
//! Without `--cfg loom` the package is empty. `.ci/run loom` runs it.
#![cfg(all(loom, test))]
#![allow(
    missing_docs,
    missing_debug_implementations,
    dead_code,
    unused_imports,
    unused_doc_comments,
    unsafe_op_in_unsafe_fn,
    clippy::undocumented_unsafe_blocks
)]

#[macro_use]
mod sync;
mod actor;
mod fiber;
mod os;
mod plane;
mod scope;
mod shard;
mod weakened;
mod weakenings;

pub mod error {
    include!(concat!(env!("OUT_DIR"), "/error.rs"));
}

mod models;
