//! The actors' cases, by topic.

mod asks;
mod circles;
mod conservation;
mod crowds;
mod lives;
mod messages;
mod names;
mod panics;
mod supervision;
mod timers;
mod topics;
mod wakes;

use std::future::Future;

use wo::Selection;

use crate::backends::{EVERY, REAL, run, those_of};

/// Runs `body` as a program on every kernel, at one shard and at several.
pub fn everywhere<F: Future<Output = ()> + 'static>(body: impl Fn() -> F) {
    everywhere_on(&[1, 3], body);
}

/// Runs `body` as a program on every kernel, at each of these numbers of shards.
pub fn everywhere_on<F: Future<Output = ()> + 'static>(several: &[usize], body: impl Fn() -> F) {
    for backend in those_of(EVERY) {
        for &shards in several {
            println!("with {shards} shards");
            run(backend, |builder| builder.shards(shards), &body);
        }
    }
}

/// Runs `body` on the operating system's kernels, at so many shards.
pub fn on_shards<F: Future + 'static>(shards: usize, body: impl Fn() -> F) {
    for backend in those_of(REAL) {
        run(backend, |builder| builder.shards(shards), &body);
    }
}

/// Runs `body` in the simulated world, where time is exact.
pub fn simulated<F: Future + 'static>(body: impl Fn() -> F) {
    for backend in those_of(&[Selection::Sim]) {
        run(backend, |builder| builder, &body);
    }
}
