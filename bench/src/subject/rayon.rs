//! rayon, whose pool is built once and kept.

use std::path::PathBuf;
use std::sync::LazyLock;

use rayon::{Scope, ThreadPool, ThreadPoolBuilder};

use crate::bench::Bench;
use crate::walk::{self, Totals, Walker};

use super::{Round, Subject};

/// rayon.
#[derive(Debug)]
pub struct Rayon;

static POOL: LazyLock<ThreadPool> = LazyLock::new(|| {
    ThreadPoolBuilder::new().num_threads(walk::THREADS).build().unwrap_or_else(|error| panic!("{error}"))
});

fn count<'scope>(scope: &Scope<'scope>, directory: PathBuf, totals: &'scope Totals) {
    walk::visit(&directory, totals, |found| scope.spawn(move |scope| count(scope, found, totals)));
}

impl Walker for Rayon {
    fn walk(root: PathBuf, totals: &Totals) {
        POOL.scope(|scope| count(scope, root, totals));
    }
}

impl Subject for Rayon {
    fn name(&self) -> &'static str {
        "rayon"
    }

    fn about(&self) -> &'static str {
        "rayon, a pool of two threads"
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        (bench == Bench::Walk).then_some(walk::round::<Rayon>)
    }
}
