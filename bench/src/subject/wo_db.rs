//! `wo`'s database: its callers are fibers, on its own shard or on another.

use std::collections::BTreeMap;
use std::future::Future;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wo::db::{Db, Table};
use wo_runtime::fiber;
use wo_runtime::plane::backend::Selection;
use wo_runtime::shard::{Builder, post_to};

use crate::db::{self, BULK, CALLERS, ROWS, asked, bulk, bytes_under, commits, directory, expect, spread};
use crate::failure::{Failure, Tried};
use crate::meter::Meter;
use crate::stats::{Sample, Unit};

#[derive(wo::Record, Clone, Debug)]
#[record(table = "rows")]
struct Row {
    #[key]
    id: u64,
    name: String,
    value: i64,
}

impl From<db::Row> for Row {
    fn from(row: db::Row) -> Row {
        Row { id: row.id, name: row.name, value: row.value }
    }
}

fn refused(error: wo::db::Error) -> Failure {
    Failure::new("use wo's database", error)
}

async fn open(dir: &Path) -> Result<(Db, Table<Row>), Failure> {
    let db = Db::builder().table::<Row>().open(dir).await.map_err(refused)?;
    let rows = db.table::<Row>().await.map_err(refused)?;
    Ok((db, rows))
}

/// A round of the benchmark `db`.
pub(super) fn round(case: &str, budget: Duration) -> Result<Vec<Sample>, Failure> {
    let shards = if db::is_remote(case) { 2 } else { 1 };
    let case = case.to_owned();
    let builder = Builder::new().io(Selection::Uring).shards(shards).pin(shards > 1);
    builder.run(move || async move { measure(&case, budget).await }).map_err(|error| Failure::new("run wo", error))?
}

async fn measure(case: &str, budget: Duration) -> Result<Vec<Sample>, Failure> {
    match case {
        "insert-1" => insert(1, budget).await,
        "insert-64" => insert(CALLERS, budget).await,
        "batch-64" => batch(CALLERS, budget).await,
        "remote-1" => remote(1, budget).await,
        "remote-64" => remote(CALLERS, budget).await,
        "call" => calls(budget).await,
        "remote-call" => remote_calls(budget).await,
        "snapshot" => snapshot(budget).await,
        "bulk" => load(budget).await,
        "get" => get(budget).await,
        "scan" => scan(budget).await,
        _ => recover().await,
    }
}

/// Callers who insert until the time is up; answers how many rows each one did while it counted, and how long that was.
async fn callers(rows: Table<Row>, callers: u64, budget: Duration) -> Result<Vec<Sample>, Failure> {
    let meter = Rc::new(std::cell::RefCell::new(Meter::start(budget)));
    let fibers: Vec<_> = (0..callers)
        .map(|caller| {
            let meter = Rc::clone(&meter);
            fiber::spawn(move || async move {
                let mut number = caller;
                loop {
                    rows.insert(db::Row::numbered(number).into()).await.map_err(refused)?;
                    number += callers;
                    if meter.borrow_mut().lap(1) {
                        return Ok::<(), Failure>(());
                    }
                }
            })
        })
        .collect();
    for fiber in fibers {
        fiber.join().await.map_err(|error| Failure::new("join a caller", error))??;
    }
    Ok(commits(&meter.borrow()))
}

async fn insert(count: u64, budget: Duration) -> Result<Vec<Sample>, Failure> {
    let (db, rows) = open(&directory("wo", true)?).await?;
    let samples = callers(rows, count, budget).await?;
    db.close().await.map_err(refused)?;
    Ok(samples)
}

/// The callers are on the other shard.
async fn remote(count: u64, budget: Duration) -> Result<Vec<Sample>, Failure> {
    let (db, rows) = open(&directory("wo", true)?).await?;
    let (sender, receiver) = fiber::oneshot::oneshot();
    post_to(1, move || {
        drop(fiber::spawn(move || async move {
            drop(sender.send(callers(rows, count, budget).await));
        }));
    });
    let samples = receiver.recv().await.map_err(|error| Failure::new("hear from the other shard", error))??;
    db.close().await.map_err(refused)?;
    Ok(samples)
}

async fn commit(db: &Db, numbers: std::ops::Range<u64>) -> Result<(), Failure> {
    let insert = db.transaction(move |tx| {
        let rows = tx.table::<Row>()?;
        for number in numbers {
            rows.insert(db::Row::numbered(number).into())?;
        }
        Ok(())
    });
    insert.await.map_err(refused)
}

/// One caller whose transactions are of so many rows.
async fn batch(count: u64, budget: Duration) -> Result<Vec<Sample>, Failure> {
    let (db, _) = open(&directory("wo", true)?).await?;
    let mut meter = Meter::start(budget);
    let mut number = 0;
    loop {
        commit(&db, number..number + count).await?;
        number += count;
        if meter.lap(count) {
            break;
        }
    }
    db.close().await.map_err(refused)?;
    Ok(commits(&meter))
}

async fn load(budget: Duration) -> Result<Vec<Sample>, Failure> {
    let dir = directory("wo", true)?;
    let (db, _) = open(&dir).await?;
    let began = Instant::now();
    let mut rows = 0;
    while began.elapsed() < budget {
        commit(&db, rows..rows + BULK).await?;
        rows += BULK;
    }
    let took = began.elapsed();
    let snapshot = db.snapshot().await.map_err(refused)?;
    db.close().await.map_err(refused)?;
    let _all = bytes_under(&dir)?;
    Ok(bulk(rows, took, snapshot.bytes))
}

/// The store of a million rows, filled the first time; all of it in the log, as after a crash.
async fn filled() -> Result<PathBuf, Failure> {
    let dir = directory("wo", false)?;
    let store = dir.join("store");
    if !dir.join("full").exists() {
        let db = Db::builder().table::<Row>().snapshot_after(u64::MAX).open(&store).await.map_err(refused)?;
        for first in (0..ROWS).step_by(1000) {
            commit(&db, first..first + 1000).await?;
        }
        db.close().await.map_err(refused)?;
        std::fs::write(dir.join("full"), "").tried("note that the store is full")?;
    }
    Ok(store)
}

async fn get(budget: Duration) -> Result<Vec<Sample>, Failure> {
    let (db, rows) = open(&filled().await?).await?;
    // Made a part at a time and in the order of the rows, as the tables were.
    let mut map = BTreeMap::new();
    for number in 0..ROWS {
        let row = Row::from(db::Row::numbered(number));
        map.insert(row.id, Arc::new(row));
    }
    let mut meter = Meter::start(budget);
    let mut turn = 0;
    let (mut of_table, mut of_map) = (Duration::ZERO, Duration::ZERO);
    loop {
        let began = Instant::now();
        for turn in turn..turn + 1000 {
            let number = asked(turn);
            let found = rows.get(&spread(number)).await.map_err(refused)?;
            expect("get a row", found.map(|row| row.value), Some(number as i64))?;
        }
        let middle = Instant::now();
        // Others, or the table's would have brought the way there into the cache.
        for turn in turn + 1000..turn + 2000 {
            let number = asked(turn);
            let found = black_box(map.get(&spread(number)).cloned());
            expect("get a row", found.map(|row| row.value), Some(number as i64))?;
        }
        of_table += middle - began;
        of_map += middle.elapsed();
        turn += 2000;
        if meter.lap(1000) {
            break;
        }
    }
    db.close().await.map_err(refused)?;
    Ok(vec![
        Sample::new("get", of_table.as_nanos() as f64 / (turn / 2) as f64, Unit::Nanoseconds),
        Sample::new("by_map", of_table.as_secs_f64() / of_map.as_secs_f64(), Unit::Ratio),
    ])
}

async fn scan(budget: Duration) -> Result<Vec<Sample>, Failure> {
    let (db, rows) = open(&filled().await?).await?;
    let mut meter = Meter::start(budget);
    loop {
        let all = rows.range(..).all().await.map_err(refused)?;
        let sum = all.iter().map(|row| row.value).sum();
        expect("scan the rows", (all.len() as u64, sum), db::expected())?;
        if meter.lap(ROWS) {
            break;
        }
    }
    db.close().await.map_err(refused)?;
    Ok(vec![Sample::new("row", meter.nanoseconds_each(), Unit::Nanoseconds)])
}

async fn recover() -> Result<Vec<Sample>, Failure> {
    let dir = filled().await?;
    let opening = db::Opening::begin();
    let (db, rows) = open(&dir).await?;
    let found = rows.get(&spread(7)).await.map_err(refused)?;
    expect("find a row", found.map(|row| row.value), Some(7))?;
    let samples = opening.end();
    db.close().await.map_err(refused)?;
    Ok(samples)
}

/// How long a question takes, one at a time, in nanoseconds.
async fn times<F: Future<Output = Result<(), Failure>>>(
    number: u64,
    mut ask: impl FnMut(u64) -> F,
) -> Result<Vec<u64>, Failure> {
    let mut times = Vec::with_capacity(number as usize);
    for turn in 0..number {
        let began = Instant::now();
        ask(turn).await?;
        times.push(began.elapsed().as_nanos() as u64);
    }
    times.sort_unstable();
    Ok(times)
}

/// Rows of the store whose calls are timed: few enough to lie in the cache, so that it is the call that is timed.
const CALLED: u64 = 1_000;
/// Questions in a row.
const QUESTIONS: u64 = 2_000;

/// Calls of a table and the barest questions, in turns, until the time is up.
async fn called<F: Future<Output = Result<(), Failure>>>(
    rows: Table<Row>,
    budget: Duration,
    bare: impl Fn(u64) -> F,
) -> Result<Vec<Sample>, Failure> {
    let began = Instant::now();
    let (mut calls, mut questions) = (Vec::new(), Vec::new());
    let get = |turn: u64| async move {
        let number = asked(turn) % CALLED;
        let found = rows.get(&spread(number)).await.map_err(refused)?;
        expect("get a row", found.map(|row| row.value), Some(number as i64))
    };
    // The first turn warms up.
    times(QUESTIONS, get).await?;
    times(QUESTIONS, &bare).await?;
    while questions.is_empty() || began.elapsed() < budget {
        calls.extend(times(QUESTIONS, get).await?);
        questions.extend(times(QUESTIONS, &bare).await?);
    }
    calls.sort_unstable();
    questions.sort_unstable();
    let at = |sorted: &[u64], part| percentile(sorted, part) * 1000.0;
    Ok(vec![
        Sample::new("p50", at(&calls, 0.5), Unit::Nanoseconds),
        Sample::new("p99", at(&calls, 0.99), Unit::Nanoseconds),
        Sample::new("bare_p50", at(&questions, 0.5), Unit::Nanoseconds),
        Sample::new("bare_p99", at(&questions, 0.99), Unit::Nanoseconds),
        Sample::new("p50_by_bare", at(&calls, 0.5) / at(&questions, 0.5), Unit::Ratio),
    ])
}

/// A call on the owner's shard, beside a look at the clock.
async fn calls(budget: Duration) -> Result<Vec<Sample>, Failure> {
    let (db, rows) = open(&directory("wo", true)?).await?;
    commit(&db, 0..CALLED).await?;
    let samples = called(rows, budget, |_| async { Ok(()) }).await?;
    db.close().await.map_err(refused)?;
    Ok(samples)
}

/// A call from the other shard, beside a closure that is posted there and answers.
async fn remote_calls(budget: Duration) -> Result<Vec<Sample>, Failure> {
    let (db, rows) = open(&directory("wo", true)?).await?;
    commit(&db, 0..CALLED).await?;
    let (sender, receiver) = fiber::oneshot::oneshot();
    let bare = |turn: u64| async move {
        let (sender, receiver) = fiber::oneshot::oneshot();
        post_to(0, move || {
            let _gone = sender.send(turn);
        });
        let answer = receiver.recv().await.map_err(|error| Failure::new("hear from the other shard", error))?;
        expect("an answer", answer, turn)
    };
    post_to(1, move || {
        drop(fiber::spawn(move || async move {
            drop(sender.send(called(rows, budget, bare).await));
        }));
    });
    let samples = receiver.recv().await.map_err(|error| Failure::new("hear from the other shard", error))??;
    db.close().await.map_err(refused)?;
    Ok(samples)
}

/// What one caller waits for its commit, in nanoseconds, while `go_on` says so.
async fn waits(rows: Table<Row>, from: u64, mut go_on: impl FnMut() -> bool) -> Result<Vec<u64>, Failure> {
    let mut waits = Vec::new();
    let mut number = from;
    while go_on() {
        let began = Instant::now();
        rows.upsert(db::Row::numbered(number).into()).await.map_err(refused)?;
        waits.push(began.elapsed().as_nanos() as u64);
        number += 1;
    }
    waits.sort_unstable();
    Ok(waits)
}

fn percentile(sorted: &[u64], part: f64) -> f64 {
    let place = (sorted.len() as f64 * part) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).map_or(0.0, |wait| *wait as f64 / 1000.0)
}

async fn snapshot(budget: Duration) -> Result<Vec<Sample>, Failure> {
    let (db, rows) = open(&filled().await?).await?;
    let began = Instant::now();
    let alone = waits(rows, ROWS, || began.elapsed() < budget).await?;
    let making = fiber::spawn(move || async move { db.snapshot().await.map(drop) });
    let during = waits(rows, 2 * ROWS, || !making.is_finished()).await?;
    making.join().await.map_err(|error| Failure::new("join the snapshot", error))?.map_err(refused)?;
    db.close().await.map_err(refused)?;
    Ok(vec![
        Sample::new("p50_alone", percentile(&alone, 0.5), Unit::Microseconds),
        Sample::new("p99_alone", percentile(&alone, 0.99), Unit::Microseconds),
        Sample::new("p50_during", percentile(&during, 0.5), Unit::Microseconds),
        Sample::new("p99_during", percentile(&during, 0.99), Unit::Microseconds),
        Sample::new("p99_ratio", percentile(&during, 0.99) / percentile(&alone, 0.99), Unit::Ratio),
    ])
}
