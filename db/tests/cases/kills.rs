//! B12: real processes, really killed, while they write as fast as they can.
//!
//! The process to be killed is this test's own binary again: it opens a database, and callers on every shard add and
//! change rows, two of each in one transaction, and say so on stdout once it is acknowledged. What was said must be
//! there afterwards, and of every transaction all or nothing.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wo::db::{Builder, Db, Error};
use wo_runtime::plane::backend::Selection;
use wo_runtime::{fiber, shard};

use super::rig::{Scratch, at, on};
use crate::backends::{REAL, those_of};

/// Names the directory to the process that is to be killed.
const LOADED: &str = "WO_DB_TEST_LOADED";
const ROUNDS: u32 = 20;
/// The longest time under load before a kill, for each kernel and number of shards that the rounds are shared among.
const UNDER_LOAD: Duration = Duration::from_millis(1250);
const CALLERS: u64 = 6;

/// Each caller has two counters, which one transaction moves on together.
#[derive(wo::Record, Clone, Debug)]
struct Counter {
    #[key]
    caller: u64,
    #[key]
    half: u8,
    #[index]
    count: u64,
    filler: String,
}

/// And every count leaves a mark.
#[derive(wo::Record, Clone, Debug)]
struct Mark {
    #[key]
    caller: u64,
    #[key]
    count: u64,
}

fn builder() -> Builder {
    // So small that segments and snapshots come and go all the time.
    Db::builder().table::<Counter>().table::<Mark>().segment_bytes(64 << 10).snapshot_after(512 << 10)
}

/// The process that is killed: never ends by itself.
#[test]
fn b12_loaded() {
    let Ok(dir) = std::env::var(LOADED) else { return };
    let io = std::env::var("WO_IO").expect("it is told").parse::<Selection>().expect("a kernel");
    let shards = std::env::var("WO_SHARDS").expect("it is told").parse().expect("a number");
    on(io, shards, move || async move {
        let db = builder().open(&dir).await.expect("it opens");
        println!("serving");
        let mut callers = Vec::new();
        for caller in 0..CALLERS {
            callers.push(fiber::spawn(move || at(caller as usize % shard::shards(), move || load(db, caller))));
        }
        for caller in callers {
            caller.join().await.expect("no caller panics").expect("no commit fails");
        }
    });
}

async fn load(db: Db, caller: u64) -> Result<(), Error> {
    loop {
        let count = db
            .transaction(move |tx| {
                let counters = tx.table::<Counter>()?;
                let count = counters.get(&(caller, 0))?.map_or(0, |counter| counter.count) + 1;
                for half in 0..2 {
                    let filler = "x".repeat((count * 37 % 500) as usize);
                    counters.upsert(Counter { caller, half, count, filler })?;
                }
                tx.table::<Mark>()?.insert(Mark { caller, count })?;
                Ok(count)
            })
            .await?;
        // One write to a pipe, and short: it is there whole or not at all.
        let line = format!("\ncounted {caller} {count}\n");
        std::io::stdout().write_all(line.as_bytes()).expect("somebody listens");
    }
}

/// Starts the process, lets it serve for a while, kills it; answers each caller's last count that was said.
fn round(dir: &Path, (io, shards): (Selection, usize), under_load: Duration, round: u32) -> BTreeMap<u64, u64> {
    let mut child = Command::new(std::env::current_exe().expect("it has a name"))
        .args(["--exact", "cases::kills::b12_loaded", "--nocapture", "--test-threads=1"])
        .env(LOADED, dir)
        .env("WO_IO", io.to_string())
        .env("WO_SHARDS", shards.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "serving"), "it ended before it served");
    // Not after a number of answers: the kill is to come at any moment. Early ones are more, for the opening is under
    // way then, and the first segments.
    let moment = under_load * (round + 1) * (round + 1) / (ROUNDS * ROUNDS);
    let killed = std::thread::spawn(move || {
        let began = Instant::now();
        while began.elapsed() < moment {
            std::thread::yield_now();
            std::thread::park_timeout(moment.saturating_sub(began.elapsed()));
        }
        child.kill().expect("it lives");
        child.wait().expect("it is a child")
    });
    let mut counts = BTreeMap::new();
    for line in lines {
        let Some(words) = line.strip_prefix("counted ") else { continue };
        let numbers: Vec<u64> = words.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [caller, count] = numbers[..] else { panic!("said {line:?}") };
        counts.insert(caller, count);
    }
    let ended = killed.join().expect("it does not panic");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(9), "it was killed: {ended}");
    counts
}

#[test]
fn b12_nothing_acknowledged_is_lost_by_kill_9() {
    // One directory, whose processes run on one kernel after the other, with one shard and with several.
    let columns: Vec<(Selection, usize)> = those_of(REAL)
        .into_iter()
        .flat_map(|io| super::rig::shards().into_iter().map(move |shards| (io, shards)))
        .collect();
    if columns.is_empty() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir();
    let mut said: BTreeMap<u64, u64> = BTreeMap::new();
    let mut transactions = 0;
    for number in 0..ROUNDS {
        let (io, shards) = columns[number as usize % columns.len()];
        said.extend(round(&dir, (io, shards), UNDER_LOAD * columns.len() as u32, number));
        let (place, told) = (dir.clone(), said.clone());
        transactions = on(io, shards, move || async move { check(&place, &told).await }).expect("it opens");
    }
    println!("{transactions} transactions survived {ROUNDS} kills");
    assert!(said.len() as u64 == CALLERS && transactions > u64::from(ROUNDS), "{said:?}");
}

/// That everything that was said is there, and every transaction whole; answers how many there are.
async fn check(dir: &Path, said: &BTreeMap<u64, u64>) -> Result<u64, Error> {
    let db = builder().open(dir).await?;
    assert!(db.is_consistent().await?);
    let (counters, marks) = (db.table::<Counter>().await?, db.table::<Mark>().await?);
    let mut transactions = 0;
    for caller in 0..CALLERS {
        let halves = counters.prefix(&caller).all().await?;
        let counts: Vec<u64> = halves.iter().map(|half| half.count).collect();
        assert!(counts.is_empty() || counts.len() == 2 && counts[0] == counts[1], "caller {caller}: {counts:?}");
        let count = counts.first().copied().unwrap_or(0);
        let least = said.get(&caller).copied().unwrap_or(0);
        assert!(count >= least, "caller {caller} was told of {least}, and {count} are there");
        // A single caller has one transaction under way: one more may be there than was said, and no other.
        let marked: Vec<u64> = marks.prefix(&caller).all().await?.iter().map(|mark| mark.count).collect();
        assert!(marked.iter().copied().eq(1..=count), "caller {caller}: {} marks for {count}", marked.len());
        transactions += count;
    }
    db.close().await?;
    Ok(transactions)
}
