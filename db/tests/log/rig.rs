//! Runs a body on every kernel with an empty directory, and keeps what a log replays in a plain map.
//!
//! An entry's body is a key, eight bytes, and a value; the map is what all entries up to the last one left.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use wo_db::log::error::{CommitError, OpenError, Undecodable};
use wo_db::log::{Entry, Log, LogOptions, Recovery, Replay};
use wo_runtime::error::OpKind;
use wo_runtime::plane::backend::sim::SimControl;
use wo_runtime::plane::backend::{AnyBackend, Selection};
use wo_runtime::plane::current::with_loop;

use crate::backends::{self, EVERY, REAL, those_of};

pub use crate::files::{Files, exists, files, put_files, remove};
pub use crate::segment::frames;

/// What a test may fail with.
pub type Failure = Box<dyn std::error::Error>;

/// The state a log holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    pub rows: BTreeMap<u64, Vec<u8>>,
    pub catalogues: Vec<Vec<u8>>,
    /// The numbers of transactions behind the snapshot, as they came.
    pub sequences: Vec<u64>,
    pub snapshot: Option<u64>,
}

impl Replay for Model {
    fn catalogue(&mut self, bytes: &[u8]) -> Result<(), Undecodable> {
        self.catalogues.push(bytes.to_vec());
        Ok(())
    }

    fn snapshot_end(&mut self, as_of: u64) -> Result<(), Undecodable> {
        self.snapshot = Some(as_of);
        self.sequences.clear();
        Ok(())
    }

    fn transaction(&mut self, sequence: u64, body: &[u8]) -> Result<(), Undecodable> {
        let (key, value) = body.split_first_chunk().ok_or_else(|| Undecodable::new("a body without a key"))?;
        let key = u64::from_le_bytes(*key);
        if value == b"?" {
            return Err(Undecodable::new("a value nobody knows").in_table("rows"));
        }
        self.rows.insert(key, value.to_vec());
        self.sequences.push(sequence);
        Ok(())
    }
}

/// The body of an entry.
pub fn row(key: u64, value: &[u8]) -> Vec<u8> {
    [&key.to_le_bytes()[..], value].concat()
}

/// Segments so small that some come together in a test.
pub fn small() -> LogOptions {
    LogOptions { segment_bytes: 16 << 10, ..LogOptions::default() }
}

/// Opens a log with what it holds.
pub async fn open_with(dir: &Path, options: &LogOptions) -> Result<(Log, Recovery, Model), OpenError> {
    let mut model = Model::default();
    let (log, recovery) = Log::open(dir, options, &mut model).await?;
    Ok((log, recovery, model))
}

/// The same with small segments.
pub async fn open(dir: &Path) -> Result<(Log, Recovery, Model), OpenError> {
    open_with(dir, &small()).await
}

/// Why a log is not opened.
pub async fn refusal(dir: &Path) -> OpenError {
    match open(dir).await {
        Ok((log, recovery, _)) => panic!("opened: {log:?} {recovery:?}"),
        Err(error) => error,
    }
}

/// One entry, durable.
pub async fn commit(log: &Log, key: u64, value: &[u8]) -> Result<u64, CommitError> {
    let sequence = log.append(Entry::Transaction, &row(key, value))?;
    log.durable(sequence).await?;
    Ok(sequence)
}

/// A directory of a test's own.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new() -> Rc<Scratch> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("wo-db-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Rc::new(Scratch { path: std::env::temp_dir().join(name) })
    }

    /// The data directory, which is not there yet.
    pub fn dir(&self) -> PathBuf {
        self.path.join("data")
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A simulated world took its own along.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn on<F: Future<Output = Result<(), Failure>> + 'static>(selection: Selection, body: impl FnOnce(Rc<Scratch>) -> F) {
    let scratch = Scratch::new();
    let ran = backends::run(selection, |builder| builder, || body(Rc::clone(&scratch)));
    ran.unwrap_or_else(|error| panic!("on {selection}: {error}"));
}

/// Runs `body` on every kernel.
pub fn on_every_kernel<F: Future<Output = Result<(), Failure>> + 'static>(body: impl Fn(Rc<Scratch>) -> F) {
    those_of(EVERY).into_iter().for_each(|selection| on(selection, &body));
}

/// Runs `body` where other processes can be: on the system's own kernels.
pub fn on_real_kernels<F: Future<Output = Result<(), Failure>> + 'static>(body: impl Fn(Rc<Scratch>) -> F) {
    those_of(REAL).into_iter().for_each(|selection| on(selection, &body));
}

/// Runs `body` in a simulated world, with its fault controls.
pub fn in_a_world<F: Future<Output = Result<(), Failure>> + 'static>(
    body: impl FnOnce(Rc<Scratch>, SimControl) -> F + 'static,
) {
    on(Selection::Sim, |scratch| async move {
        let control = with_loop(OpKind::None, |event_loop| match event_loop.backend() {
            AnyBackend::Sim(sim) => Ok(sim.control()),
            other => panic!("not a simulated world: {other:?}"),
        })?;
        body(scratch, control).await
    });
}

/// Gives a snapshot its next row; false when there is none.
pub fn put(rows: &mut impl Iterator<Item = (u64, Vec<u8>)>, body: &mut Vec<u8>) -> bool {
    let next = rows.next();
    next.iter().for_each(|(key, value)| body.extend_from_slice(&row(*key, value)));
    next.is_some()
}

/// Makes a log with this many small entries, 0 and up, each a commit of its own, and closes it; answers its files.
pub async fn written(dir: &Path, entries: u64) -> Result<Files, Failure> {
    let (log, ..) = open(dir).await?;
    for key in 0..entries {
        commit(&log, key, b"some value").await?;
    }
    log.close().await?;
    Ok(files(dir).await)
}

/// The keys of a model.
pub fn keys(model: &Model) -> Vec<u64> {
    model.rows.keys().copied().collect()
}

/// The error of something that must fail.
pub fn fails<T: Debug, E>(answer: Result<T, E>) -> E {
    match answer {
        Ok(value) => panic!("it must fail, and gave {value:?}"),
        Err(error) => error,
    }
}
