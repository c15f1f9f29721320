//! What the cases are made of: rows, directories of their own, and every kernel at one shard and at several.

use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use wo::RunError;
use wo::db::{Db, Error};
use wo_runtime::error::IoError;
use wo_runtime::fiber::oneshot::oneshot;
use wo_runtime::plane::backend::Selection;
use wo_runtime::plane::backend::sim::{Disk, SimControl, SimHost};
use wo_runtime::{fiber, shard};

use crate::backends::{EVERY, Watch, run, those_of};

/// Where a simulated program keeps its data.
pub const SIMULATED: &str = "/data/base";

/// A row with everything that can be found by.
#[derive(wo::Record, Clone, Debug, PartialEq, Eq)]
pub struct Account {
    #[key]
    pub id: u64,
    #[unique]
    pub email: String,
    #[index]
    pub city: String,
    pub balance: i64,
}

/// An account with values of its own.
pub fn account(id: u64) -> Account {
    Account { id, email: format!("{id}@example.org"), city: format!("city {}", id % 7), balance: 100 }
}

/// The numbers of every account there is.
pub async fn ids(db: Db) -> Result<Vec<u64>, Error> {
    Ok(db.table::<Account>().await?.range(..).all().await?.iter().map(|row| row.id).collect())
}

/// A directory that is gone at the end of its test.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("wo-db-tables-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Scratch(std::env::temp_dir().join(name))
    }

    pub fn dir(&self) -> PathBuf {
        self.0.join("base")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A simulated world took its own along.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A kernel, a number of shards, and a disk that outlives the programs that run on it: a column of the matrix.
#[derive(Debug)]
pub struct Machine {
    io: Selection,
    shards: usize,
    scratch: Scratch,
    host: SimHost,
}

impl Machine {
    pub fn new(io: Selection, shards: usize) -> Machine {
        Machine { io, shards, scratch: Scratch::new(), host: SimHost::new(7) }
    }

    /// A simulated one.
    pub fn simulated(shards: usize) -> Machine {
        Machine::new(Selection::Sim, shards)
    }

    /// A simulated one that begins with what a disk was left with.
    pub fn after(disk: Disk, shards: usize) -> Machine {
        let machine = Machine::simulated(shards);
        machine.host.power_on(disk).expect("it is off");
        machine
    }

    /// How many shards its programs have.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// Where its database is to be.
    pub fn dir(&self) -> PathBuf {
        if self.io == Selection::Sim { SIMULATED.into() } else { self.scratch.dir() }
    }

    /// The host of a simulated one.
    pub fn host(&self) -> &SimHost {
        assert_eq!(self.io, Selection::Sim);
        &self.host
    }

    /// What makes the disk of a simulated one fail.
    pub fn control(&self) -> SimControl {
        self.host().control()
    }

    /// Runs a program, which may end before it has come to its end.
    pub fn try_run<T: 'static, F>(&self, body: impl FnOnce(PathBuf) -> F) -> Result<Result<T, Error>, RunError>
    where
        F: Future<Output = Result<T, Error>> + 'static,
    {
        println!("on {} with {} shards", self.io, self.shards);
        let dir = self.dir();
        let _watch = Watch::new(format!("a run on {} with {} shards", self.io, self.shards));
        let builder = shard::Builder::new().io(self.io).shards(self.shards);
        let builder = if self.io == Selection::Sim { builder.simulated(&self.host) } else { builder };
        builder.run(move || body(dir))
    }

    /// Runs a program to its end.
    pub fn run<T: 'static, F>(&self, body: impl FnOnce(PathBuf) -> F) -> T
    where
        F: Future<Output = Result<T, Error>> + 'static,
    {
        let (io, shards) = (self.io, self.shards);
        self.try_run(body)
            .unwrap_or_else(|error| panic!("on {io} with {shards} shards: {error}"))
            .unwrap_or_else(|error| panic!("on {io} with {shards} shards: {error}"))
    }
}

/// The numbers of shards to run with: that of `WO_SHARDS`, or one and three.
pub fn shards() -> Vec<usize> {
    match std::env::var("WO_SHARDS").ok().and_then(|number| number.parse().ok()) {
        Some(shards) => vec![shards],
        None => vec![1, 3],
    }
}

/// Runs `body` on every kernel, with one shard and with several.
pub fn on_every_machine(body: impl Fn(&Machine)) {
    for io in those_of(EVERY) {
        shards().into_iter().for_each(|shards| body(&Machine::new(io, shards)));
    }
}

/// Runs `body` on simulated machines alone: for what a real disk does not do when it is asked to.
pub fn on_simulated_machines(body: impl Fn(&Machine)) {
    if those_of(EVERY).contains(&Selection::Sim) {
        shards().into_iter().for_each(|shards| body(&Machine::simulated(shards)));
    }
}

/// Runs `body` on every kernel, with one shard and with several. A database of its directory is as good as any.
pub fn everywhere<F>(body: impl Fn(PathBuf) -> F)
where
    F: Future<Output = Result<(), Error>> + 'static,
{
    on_every_machine(|machine| machine.run(&body));
}

/// Runs a program on this kernel with so many shards.
pub fn on<F>(io: Selection, shards: usize, body: impl FnOnce() -> F) -> F::Output
where
    F: Future + 'static,
{
    run(io, |builder| builder.shards(shards), body)
}

/// Runs a program on a simulated host.
pub fn simulated<F>(host: &SimHost, body: impl FnOnce() -> F) -> F::Output
where
    F: Future + 'static,
{
    run(Selection::Sim, |builder| builder.shards(1).simulated(host), body)
}

/// What a verb of the runtime says when the program is stopped.
pub fn stopped(error: IoError) -> Error {
    Error::abort(error)
}

/// Runs `body` in a fiber on this shard, or the one of that number modulo how many there are, and waits for it.
pub async fn at<T, F>(index: usize, body: impl FnOnce() -> F + Send + 'static) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let (sender, receiver) = oneshot();
    let posted = shard::post_to(index % shard::shards(), move || {
        drop(fiber::spawn(move || async move {
            let _ = sender.send(body().await);
        }));
    });
    assert!(posted);
    receiver.recv().await.expect("the fiber ends")
}
