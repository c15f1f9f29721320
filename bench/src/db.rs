//! `db`: what a durable store takes to keep a row, and to give it back.
//!
//! A row is a number, about twenty bytes of name, and another number. `insert-1` has one caller who waits for each row
//! to be on the disk. `insert-64` has sixty-four, each with a row of its own at a time and waiting for that one; rows
//! that are ready together may share a sync. In `wo` they are sixty-four fibers that call the table. No other store
//! groups commits by itself, so theirs are sixty-four tasks of tokio with a batching writer on a thread of its own in
//! front (`front.rs`). `batch-64` is the case that nobody meets who has sixty-four callers, and the best that a store
//! can do with as many rows: one caller has them at hand and commits them at once, in `wo` as one transaction; what it
//! counts is rows. `remote-1` and `remote-64` are `insert-1` and `insert-64` from another shard, and `wo`'s alone; so
//! are `snapshot`, what a caller waits while nothing else is written, and while a snapshot of a million rows is, and
//! `call` and `remote-call`, the time of one reading of a row on the owner's shard and from another, beside the barest
//! question there is. `bulk` commits 1,000 rows at a time. `get` and `scan` ask a store of a million rows, `get` of
//! `wo` beside a `BTreeMap` of the same rows in `Arc`s; `recover` opens it, and says how much memory that takes at its
//! peak beside what is held afterwards. `log` is no store but a file: write, fdatasync, in front of a `BTreeMap`; the
//! floor.
//!
//! # What bounds the commits
//!
//! A disk's sync takes 130 to 200 microseconds here, whether one row waits for it or sixty-four. So a crowd's rate is
//! its size by the sync and by what all of it does in between, and two things count: that nobody who is ready misses
//! the batch, and how little a commit costs between hearing of one sync and waiting for the next. In two halves that
//! take turns each sync carries half of the rows: it is worth its while only where a crowd prepares longer than the
//! disk syncs. A single caller of a buffered write pays the hand-over to a thread of the kernel and back, which a loop
//! of write and fdatasync on its own thread does not: a bare loop on the ring had 0.93 of that one's commits on a quiet
//! machine, 0.75 to 0.9 on a busy one, and `wo` 0.79. A write of whole blocks past the cache needs no such thread: the
//! bare loop had 1.00 to 1.05 with it, and `wo`, which has written so since, 0.96 to 1.00. It helps a crowd as well:
//! beside the log with its front `wo` had 1.25 before and 1.67 to 1.85 after.
//!
//! Every answer is checked. All subjects of a case share a disk and take turns.

use std::ffi::OsString;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::alloc;
use crate::failure::{Failure, Tried};
use crate::front;
use crate::meter::Meter;
use crate::stats::{Sample, Unit};

/// What is measured.
pub const CASES: &[&str] = &[
    "insert-1",
    "insert-64",
    "batch-64",
    "remote-1",
    "remote-64",
    "call",
    "remote-call",
    "snapshot",
    "bulk",
    "get",
    "scan",
    "recover",
];

/// The variable in which the parent tells a worker where to keep files.
const PLACE: &str = "WO_BENCH_DB";

/// Rows of the store that is read.
pub const ROWS: u64 = 1_000_000;
/// Rows of one commit of `bulk`.
pub const BULK: u64 = 1_000;
/// Callers of `insert-64`, and rows of a commit of `batch-64`.
pub const CALLERS: u64 = 64;

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its key.
    pub id: u64,
    /// About twenty bytes.
    pub name: String,
    /// A number.
    pub value: i64,
}

impl Row {
    /// The `number`th row. Numbers are spread over the keys, so that rows come in no order.
    pub fn numbered(number: u64) -> Row {
        Row { id: spread(number), name: format!("name of row {number:08}"), value: number as i64 }
    }
}

/// A different key for every number.
pub fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A store whose calls return when they are done.
pub trait Store: Sized {
    /// Opens it in a directory that is there.
    fn open(dir: &Path) -> Result<Self, Failure>;

    /// Commits rows, all at once and on the disk.
    fn commit(&mut self, rows: impl Iterator<Item = Row>) -> Result<(), Failure>;

    /// A row's number.
    fn get(&mut self, id: u64) -> Result<Option<i64>, Failure>;

    /// How many rows there are, and the sum of their numbers.
    fn scan(&mut self) -> Result<(u64, i64), Failure>;
}

/// Refuses what is no case.
pub fn check(case: &str) -> Result<(), Failure> {
    if CASES.contains(&case) {
        return Ok(());
    }
    Err(Failure::new(format!("case `{case}`"), format!("expected one of {}", CASES.join(", "))))
}

/// Whether the callers are on another shard.
pub fn is_remote(case: &str) -> bool {
    case.starts_with("remote")
}

/// Whether only `wo` takes part.
pub fn is_its_own(case: &str) -> bool {
    is_remote(case) || case == "snapshot" || case == "call"
}

/// A directory for files, which goes when this does.
#[derive(Debug)]
pub struct Place(tempfile::TempDir);

impl Place {
    /// Makes one where temporary files belong.
    pub fn make() -> Result<Place, Failure> {
        tempfile::Builder::new().prefix("wo-bench-").tempdir().tried("make a folder for the stores").map(Place)
    }

    /// What a worker has to find in its environment.
    pub fn variable(&self) -> (&'static str, OsString) {
        (PLACE, self.0.path().into())
    }
}

/// A directory of a subject's own, empty or as its last round left it.
pub fn directory(subject: &str, fresh: bool) -> Result<PathBuf, Failure> {
    let place = std::env::var_os(PLACE).map(PathBuf::from).ok_or_else(|| Failure::new("find a place", PLACE))?;
    let dir = place.join(subject);
    if fresh && dir.exists() {
        std::fs::remove_dir_all(&dir).tried(format!("remove {}", dir.display()))?;
    }
    std::fs::create_dir_all(&dir).tried(format!("make {}", dir.display()))?;
    Ok(dir)
}

/// The bytes of the files under a directory.
pub fn bytes_under(dir: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir).tried(format!("read {}", dir.display()))? {
        let entry = entry.tried(format!("read {}", dir.display()))?;
        let stat = entry.metadata().tried(format!("look at {}", entry.path().display()))?;
        bytes += if stat.is_dir() { bytes_under(&entry.path())? } else { stat.len() };
    }
    Ok(bytes)
}

/// Commits per second.
pub fn commits(meter: &Meter) -> Vec<Sample> {
    vec![Sample::new("commits", 1e9 / meter.nanoseconds_each(), Unit::PerSecond)]
}

/// What `bulk` tells.
pub fn bulk(rows: u64, took: Duration, disk: u64) -> Vec<Sample> {
    vec![
        Sample::new("rows", rows as f64 / took.as_secs_f64(), Unit::PerSecond),
        Sample::new("disk_per_row", disk as f64 / rows as f64, Unit::Bytes),
    ]
}

/// What is answered must be right.
pub fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    Err(Failure::new(what, format!("{found:?} instead of {expected:?}")))
}

/// How many rows there are in the store that is read, and the sum of their numbers.
pub fn expected() -> (u64, i64) {
    (ROWS, (ROWS * (ROWS - 1) / 2) as i64)
}

/// Numbers of rows that are there, in no order.
pub fn asked(turn: u64) -> u64 {
    spread(turn) % ROWS
}

/// One round of a store.
pub fn round<S: Store>(subject: &str, case: &str, budget: Duration) -> Result<Vec<Sample>, Failure> {
    match case {
        "insert-1" => insert::<S>(subject, 1, budget),
        "insert-64" => front::crowd::<S>(&directory(subject, true)?, CALLERS, budget),
        "batch-64" => insert::<S>(subject, CALLERS, budget),
        "bulk" => {
            let dir = directory(subject, true)?;
            let mut store = S::open(&dir)?;
            let began = Instant::now();
            let mut rows = 0;
            while began.elapsed() < budget {
                store.commit((rows..rows + BULK).map(Row::numbered))?;
                rows += BULK;
            }
            let took = began.elapsed();
            drop(store);
            Ok(bulk(rows, took, bytes_under(&dir)?))
        }
        "get" => {
            let mut store = filled::<S>(subject)?;
            let mut meter = Meter::start(budget);
            let mut turn = 0;
            loop {
                for _ in 0..1000 {
                    turn += 1;
                    let number = asked(turn);
                    let found = store.get(spread(number))?;
                    expect("get a row", black_box(found), Some(number as i64))?;
                }
                if meter.lap(1000) {
                    return Ok(vec![Sample::new("get", meter.nanoseconds_each(), Unit::Nanoseconds)]);
                }
            }
        }
        "scan" => {
            let mut store = filled::<S>(subject)?;
            let mut meter = Meter::start(budget);
            loop {
                expect("scan the rows", store.scan()?, expected())?;
                if meter.lap(ROWS) {
                    return Ok(vec![Sample::new("row", meter.nanoseconds_each(), Unit::Nanoseconds)]);
                }
            }
        }
        _ => {
            drop(filled::<S>(subject)?);
            let store = directory(subject, false)?.join("store");
            let opening = Opening::begin();
            let mut store = S::open(&store)?;
            expect("find a row", store.get(spread(7))?, Some(7))?;
            Ok(opening.end())
        }
    }
}

/// An opening: how long it takes, and how much memory.
#[derive(Debug)]
pub struct Opening {
    began: Instant,
    held: i64,
}

impl Opening {
    /// Begins it, on the thread that does all of it.
    pub fn begin() -> Opening {
        alloc::begin_peak();
        Opening { began: Instant::now(), held: alloc::live_bytes() }
    }

    /// The store is open, and has everything in memory that it keeps there.
    pub fn end(self) -> Vec<Sample> {
        let took = self.began.elapsed();
        let (peak, kept) = (alloc::peak_bytes() - self.held, alloc::live_bytes() - self.held);
        vec![
            Sample::new("open", took.as_micros() as f64, Unit::Microseconds),
            Sample::new("held_per_row", kept as f64 / ROWS as f64, Unit::Bytes),
            Sample::new("peak_by_held", peak as f64 / kept.max(1) as f64, Unit::Ratio),
        ]
    }
}

fn insert<S: Store>(subject: &str, rows: u64, budget: Duration) -> Result<Vec<Sample>, Failure> {
    let mut store = S::open(&directory(subject, true)?)?;
    let mut meter = Meter::start(budget);
    let mut number = 0;
    loop {
        store.commit((number..number + rows).map(Row::numbered))?;
        number += rows;
        if meter.lap(rows) {
            return Ok(commits(&meter));
        }
    }
}

/// The store of a million rows, filled the first time.
fn filled<S: Store>(subject: &str) -> Result<S, Failure> {
    let dir = directory(subject, false)?;
    let full = dir.join("full");
    if full.exists() {
        return S::open(&dir.join("store"));
    }
    std::fs::create_dir_all(dir.join("store")).tried("make a folder")?;
    let mut store = S::open(&dir.join("store"))?;
    for first in (0..ROWS).step_by(10_000) {
        store.commit((first..first + 10_000).map(Row::numbered))?;
    }
    std::fs::write(full, "").tried("note that the store is full")?;
    Ok(store)
}
