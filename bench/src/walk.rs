//! `walk`: what it costs to count the files, directories and bytes under a directory on two threads.
//!
//! Four trees of some ten thousand entries each, grown anew by the parent and walked again and again: `wide` has its
//! directories side by side, `deep` one inside the other, `balanced` six in each, `dense` few directories full of
//! files. A directory is a task, which spawns one for each directory in it; all subjects share the code that reads a
//! directory, so what differs is how the tasks are spread. Every answer is checked. One metric: nanoseconds per entry,
//! of the whole walk, threads included that a subject starts for it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::failure::{Failure, Tried};
use crate::meter::Meter;
use crate::stats::{Sample, Unit};

/// The shapes of trees.
pub const CASES: &[&str] = &["wide", "deep", "balanced", "dense"];

/// Threads of each subject.
pub const THREADS: usize = 2;

/// The variable in which the parent tells a worker where the tree is.
const TREE: &str = "WO_BENCH_TREE";

const FILE: &[u8] = b"something to count";

/// A subject that walks.
pub trait Walker {
    /// Counts everything under `root`.
    fn walk(root: PathBuf, totals: &Totals);
}

/// What was counted.
#[derive(Debug, Default)]
pub struct Totals {
    files: AtomicU64,
    directories: AtomicU64,
    bytes: AtomicU64,
}

impl Totals {
    fn entries(&self) -> [u64; 3] {
        [&self.files, &self.directories, &self.bytes].map(|total| total.load(Ordering::Relaxed))
    }
}

/// Counts what is in one directory, and hands every directory in it over.
pub fn visit(directory: &Path, totals: &Totals, mut found: impl FnMut(PathBuf)) {
    let (mut files, mut bytes) = (0, 0);
    let unread = |error| -> ! { panic!("{}: {error}", directory.display()) };
    for entry in fs::read_dir(directory).unwrap_or_else(|error| unread(error)) {
        let entry = entry.unwrap_or_else(|error| unread(error));
        if entry.file_type().unwrap_or_else(|error| unread(error)).is_dir() {
            found(entry.path());
        } else {
            files += 1;
            bytes += entry.metadata().unwrap_or_else(|error| unread(error)).len();
        }
    }
    totals.files.fetch_add(files, Ordering::Relaxed);
    totals.directories.fetch_add(1, Ordering::Relaxed);
    totals.bytes.fetch_add(bytes, Ordering::Relaxed);
}

/// How a tree looks.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Directories in each directory, and how often that goes on.
    fan_out: u64,
    depth: u32,
    /// Files in each directory.
    files: u64,
}

impl Shape {
    fn named(case: &str) -> Result<Shape, Failure> {
        let (fan_out, depth, files) = match case {
            "wide" => (4000, 1, 2),
            "deep" => (1, 1000, 4),
            "balanced" => (6, 5, 2),
            "dense" => (10, 2, 300),
            _ => return Err(Failure::new(format!("case `{case}`"), format!("expected one of {}", CASES.join(", ")))),
        };
        Ok(Shape { fan_out, depth, files })
    }

    fn directories(self) -> u64 {
        (0..=self.depth).map(|level| self.fan_out.pow(level)).sum()
    }

    fn expected(self) -> [u64; 3] {
        let files = self.directories() * self.files;
        [files, self.directories(), files * FILE.len() as u64]
    }

    fn grow(self, at: &Path) -> std::io::Result<()> {
        for file in 0..self.files {
            fs::write(at.join(format!("f{file}")), FILE)?;
        }
        if self.depth > 0 {
            for number in 0..self.fan_out {
                let below = at.join(format!("{number}"));
                fs::create_dir(&below)?;
                Shape { depth: self.depth - 1, ..self }.grow(&below)?;
            }
        }
        Ok(())
    }
}

/// Refuses what is no case.
pub fn check(case: &str) -> Result<(), Failure> {
    Shape::named(case).map(drop)
}

/// A tree to walk, which goes when this does.
#[derive(Debug)]
pub struct Tree(tempfile::TempDir);

impl Tree {
    /// Grows the tree of a case where temporary files belong.
    pub fn grow(case: &str) -> Result<Tree, Failure> {
        let shape = Shape::named(case)?;
        let root = tempfile::Builder::new().prefix("wo-bench-").tempdir().tried("make a folder for the tree")?;
        shape.grow(root.path()).tried(format!("grow the {case} tree under {}", root.path().display()))?;
        Ok(Tree(root))
    }

    /// What a worker has to find in its environment.
    pub fn variable(&self) -> (&'static str, OsString) {
        (TREE, self.0.path().into())
    }
}

/// One round of a subject.
pub fn round<W: Walker>(case: &str, budget: Duration) -> Result<Vec<Sample>, Failure> {
    let expected = Shape::named(case)?.expected();
    let root = std::env::var_os(TREE).map(PathBuf::from).ok_or_else(|| Failure::new("find the tree", TREE))?;
    let [files, directories, _] = expected;
    let mut meter = Meter::start(budget);
    loop {
        let totals = Totals::default();
        W::walk(root.clone(), &totals);
        if totals.entries() != expected {
            let counted = format!("counted {:?} where there are {expected:?}", totals.entries());
            return Err(Failure::new(format!("walk the {case} tree"), counted));
        }
        if meter.lap(files + directories) {
            return Ok(vec![Sample::new("entry", meter.nanoseconds_each(), Unit::Nanoseconds)]);
        }
    }
}
