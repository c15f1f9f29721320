//! Scopes as a user sees them, on every kernel; the simulated one makes the times exact.

mod scopes {
    pub mod away;
    pub mod cases;
    pub mod channels;
    pub mod cleanup;
    pub mod reasons;
    pub mod schedules;
    pub mod together;
    pub mod trouble;
}

use std::time::Duration;

use wo_runtime::error::IoError;
use wo_runtime::fiber::{self, Scope};
use wo_runtime::plane::Instant;
use wo_runtime::plane::backend::Selection;
use wo_runtime::scope::{First, Outcome};
use wo_runtime::shard::Builder;

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// The simulated kernel first: what would never end is a deadlock there, said at once.
fn each(test: impl Fn(Builder)) {
    for io in [Selection::Sim, Selection::Uring, Selection::Epoll] {
        for shards in [1, 2] {
            eprintln!("on {io} with {shards} shards");
            test(Builder::new().io(io).shards(shards));
        }
    }
}

fn in_sim<T: 'static, F: Future<Output = T> + 'static>(body: impl FnOnce() -> F) -> T {
    Builder::new().io(Selection::Sim).run(body).unwrap()
}

fn since(start: Instant) -> Duration {
    fiber::now() - start
}

#[test]
fn a_panicking_child_is_the_scopes_cause() {
    each(|builder| {
        let outcome: Outcome<(), IoError> = builder
            .run(|| async {
                fiber::scope(async |s: Scope<IoError>| {
                    s.spawn(|| async { assert_eq!(1, 2, "as planned") });
                    s.spawn(|| async { fiber::sleep(Duration::MAX).await });
                })
                .await
            })
            .unwrap();
        assert!(matches!(outcome.unwrap_err().first(), First::Die(_)));
    });
}

#[test]
fn a_body_that_swallows_its_cancel_still_ends_interrupted() {
    each(|builder| {
        let outcome: Outcome<i32, IoError> = builder
            .run(|| async {
                fiber::with_deadline(millis(5), || async {
                    let _ = fiber::sleep(Duration::MAX).await;
                    Ok::<_, IoError>(7)
                })
                .await
            })
            .unwrap();
        assert!(outcome.unwrap_err().is_timeout());
    });
}
