//! Plain functions on one thread, without any runtime: the floor of a walk's own work.

use std::path::PathBuf;

use crate::bench::Bench;
use crate::walk::{self, Totals, Walker};

use super::{Round, Subject};

/// Plain functions.
#[derive(Debug)]
pub struct Plain;

impl Walker for Plain {
    fn walk(root: PathBuf, totals: &Totals) {
        walk::visit(&root, totals, |found| Plain::walk(found, totals));
    }
}

impl Subject for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn about(&self) -> &'static str {
        "plain recursion on one thread"
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        (bench == Bench::Walk).then_some(walk::round::<Plain>)
    }
}
