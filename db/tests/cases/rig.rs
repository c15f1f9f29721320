//! Runs a body on every kernel, at one shard and at several, with a directory of its own.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use wo::db::Error;
use wo_runtime::plane::backend::Selection;
use wo_runtime::plane::backend::sim::SimHost;
use wo_runtime::shard::Builder;

/// Where a simulated program keeps its data.
pub const SIMULATED: &str = "/data";

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

/// A directory that is gone at the end of its test.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("wo-db-tables-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Scratch(std::env::temp_dir().join(name))
    }

    pub fn dir(&self) -> PathBuf {
        self.0.clone()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A simulated world took its own along.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Every file under a directory with its bytes.
pub fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<(PathBuf, Vec<u8>)> = std::fs::read_dir(dir)
        .expect("the directory is there")
        .map(|entry| entry.expect("it can be listed").path())
        .map(|path| (path.clone(), std::fs::read(path).expect("readable")))
        .collect();
    files.sort();
    files
}

/// Runs `body` on this kernel with so many shards.
pub fn on<F>(io: Selection, shards: usize, body: impl FnOnce() -> F) -> F::Output
where
    F: Future + 'static,
{
    println!("on {io} with {shards} shards");
    Builder::new().io(io).shards(shards).run(body).unwrap_or_else(|error| panic!("on {io}: {error}"))
}

/// The kernels to run on: the one of `WO_IO`, or all.
pub fn kernels() -> Vec<Selection> {
    let all = [Selection::Uring, Selection::Epoll, Selection::Sim];
    let asked = std::env::var("WO_IO").ok().and_then(|word| word.parse::<Selection>().ok());
    all.into_iter().filter(|io| asked.is_none_or(|asked| asked == Selection::Auto || asked == *io)).collect()
}

/// The numbers of shards to run with: that of `WO_SHARDS`, or one and three.
pub fn shards() -> Vec<usize> {
    match std::env::var("WO_SHARDS").ok().and_then(|number| number.parse().ok()) {
        Some(shards) => vec![shards],
        None => vec![1, 3],
    }
}

/// Runs `body` on every kernel, with one shard and with several. A database of its directory is as good as any.
pub fn everywhere<F>(body: impl Fn(PathBuf) -> F)
where
    F: Future<Output = Result<(), Error>> + 'static,
{
    for io in kernels() {
        let numbers = if io == Selection::Sim { vec![1] } else { shards() };
        for shards in numbers {
            let scratch = Scratch::new();
            on(io, shards, || body(scratch.dir()))
                .unwrap_or_else(|error| panic!("on {io} with {shards} shards: {error}"));
        }
    }
}

/// Runs a program on a simulated host.
pub fn simulated<F>(host: &SimHost, body: impl FnOnce() -> F) -> F::Output
where
    F: Future + 'static,
{
    Builder::new().simulated(host).run(body).unwrap_or_else(|error| panic!("simulated: {error}"))
}
