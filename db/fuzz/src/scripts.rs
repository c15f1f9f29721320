//! Any script of operations beside a plain sorted map, with closings, power cuts and failing disks in between.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use wo::db::{Builder, Db, Error, ErrorKind, Table};
use wo_runtime::error::{OpKind, errno};
use wo_runtime::plane::backend::sim::{SimControl, SimHost, Survival};
use wo_runtime::shard;

use crate::forge::Bytes;

const DIR: &str = "/data";
const OPS_MAX: usize = 64;

#[derive(wo::Record, Clone, Debug, PartialEq)]
#[record(table = "accounts")]
struct Account {
    #[key]
    id: u8,
    #[unique]
    email: Option<u8>,
    #[index]
    city: u8,
    filler: Vec<u8>,
}

type Rows = BTreeMap<u8, Account>;

#[derive(Clone, Debug)]
enum Op {
    Insert(Account),
    Update(Account),
    Upsert(Account),
    Modify(u8, u8),
    Delete(u8),
    DeleteRange(u8, u8),
    Clear,
    Several(Vec<Op>, bool),
    Snapshot,
    Close,
    /// After so many steps of the machine, with this much of what was not synced.
    Cut(u8, u64),
    /// The next op of this kind fails.
    Fail(bool, bool),
}

fn account(bytes: &mut Bytes<'_>) -> Account {
    let (id, email) = (bytes.byte() % 24, bytes.byte());
    let filler = vec![id; usize::from(bytes.byte()) * 3];
    Account { id, email: (email % 3 > 0).then_some(email % 32), city: email % 5, filler }
}

fn op(bytes: &mut Bytes<'_>, nested: bool) -> Op {
    match bytes.byte() % 32 {
        0..6 => Op::Insert(account(bytes)),
        6..8 => Op::Update(account(bytes)),
        8..13 => Op::Upsert(account(bytes)),
        13..16 => Op::Modify(bytes.byte() % 24, bytes.byte()),
        16..20 => Op::Delete(bytes.byte() % 24),
        20 => Op::DeleteRange(bytes.byte() % 24, bytes.byte() % 24),
        21 => Op::Clear,
        22..25 if !nested => Op::Several((0..=bytes.below(5)).map(|_| op(bytes, true)).collect(), bytes.one_in(2)),
        25 if !nested => Op::Snapshot,
        26 if !nested => Op::Close,
        27..30 if !nested => Op::Cut(bytes.byte(), bytes.long()),
        30 if !nested => Op::Fail(bytes.one_in(2), bytes.one_in(2)),
        _ => Op::Delete(bytes.byte() % 24),
    }
}

/// What the map makes of it; false when it is refused.
fn apply(rows: &mut Rows, op: &Op) -> bool {
    let conflicts = |rows: &Rows, row: &Account| {
        row.email.is_some() && rows.values().any(|other| other.id != row.id && other.email == row.email)
    };
    match op {
        Op::Insert(row) if rows.contains_key(&row.id) => false,
        Op::Update(row) if !rows.contains_key(&row.id) => false,
        Op::Insert(row) | Op::Update(row) | Op::Upsert(row) if conflicts(rows, row) => false,
        Op::Insert(row) | Op::Update(row) | Op::Upsert(row) => {
            rows.insert(row.id, row.clone());
            true
        }
        Op::Modify(id, city) => rows.get_mut(id).map(|row| row.city = *city).is_some(),
        Op::Delete(id) => {
            rows.remove(id);
            true
        }
        Op::DeleteRange(from, to) => {
            rows.retain(|id, _| !(from..to).contains(&id));
            true
        }
        Op::Clear => {
            rows.clear();
            true
        }
        Op::Several(ops, gives_up) => {
            let mut changed = rows.clone();
            for op in ops {
                apply(&mut changed, op);
            }
            if !gives_up {
                *rows = changed;
            }
            !gives_up
        }
        Op::Snapshot | Op::Close | Op::Cut(..) | Op::Fail(..) => true,
    }
}

/// What somebody outside knows.
#[derive(Clone, Debug, Default)]
struct Known {
    rows: Rows,
    /// May be there or not, whole.
    under_way: Option<Op>,
    /// The op to go on with.
    next: usize,
}

fn builder() -> Builder {
    Db::builder().table::<Account>().segment_bytes(4096).snapshot_after(16 << 10)
}

/// Fuzzes a script.
pub fn scripts(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let shards = 1 + bytes.below(3) as usize;
    let mut ops = Vec::new();
    while !bytes.is_empty() && ops.len() < OPS_MAX {
        ops.push(op(&mut bytes, false));
    }
    let host = SimHost::new(3);
    let known = Arc::new(Mutex::new(Known::default()));
    let ops = Arc::new(ops);
    for lives in 0.. {
        assert!(lives <= 4 * OPS_MAX, "it does not get on");
        let (script, now, control, machine) = (Arc::clone(&ops), Arc::clone(&known), host.control(), host.clone());
        let life = move || async move { life(&script, &now, &control, &machine).await };
        let ended = shard::Builder::new().shards(shards).simulated(&host).run(life);
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => assert!(host.is_cut() || may_end_by(&error), "{error}"),
            Err(error) => assert!(host.is_cut(), "{error}"),
        }
        let next = known.lock().expect("no panic").next;
        if host.is_cut() {
            let seed = ops[..next].iter().rev().find_map(|op| match op {
                Op::Cut(_, seed) => Some(*seed),
                _ => None,
            });
            let left = host.disk().after_power_cut(Survival::Seeded(seed.unwrap_or(0)));
            host.power_on(left).expect("it is off");
        } else if next >= ops.len() {
            break;
        }
    }
}

/// Whether a life may end so: a write that failed, or an opening that met a failure meant for something else.
fn may_end_by(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::CommitUnknown | ErrorKind::Poisoned | ErrorKind::NoSpace | ErrorKind::Io)
}

/// Opens, compares, and goes on with the script to its end, a closing or a failure.
async fn life(ops: &[Op], known: &Mutex<Known>, control: &SimControl, host: &SimHost) -> Result<(), Error> {
    let db = builder().open(DIR).await?;
    let accounts = db.table::<Account>().await?;
    let there: Rows = accounts.range(..).all().await?.into_iter().map(|row| (row.id, row.into_record())).collect();
    {
        let mut known = known.lock().expect("no panic");
        if there != known.rows {
            let op = known.under_way.take().expect("everything was acknowledged, and something else is there");
            apply(&mut known.rows, &op);
            assert_eq!(there, known.rows, "neither before nor after {op:?}");
        }
        known.under_way = None;
    }
    loop {
        let rows = known.lock().expect("no panic").rows.clone();
        compare(db, accounts, &rows).await?;
        let op = {
            let mut known = known.lock().expect("no panic");
            let Some(op) = ops.get(known.next) else { break };
            known.next += 1;
            known.under_way = Some(op.clone());
            op.clone()
        };
        let done = match &op {
            Op::Close => {
                db.close().await?;
                known.lock().expect("no panic").under_way = None;
                return Ok(());
            }
            Op::Cut(steps, _) => {
                host.cut_power_at(host.steps() + 1 + u64::from(*steps));
                true
            }
            Op::Fail(write, full) => {
                let error = if *full { errno::ENOSPC } else { errno::EIO };
                control.fail_next(if *write { OpKind::Write } else { OpKind::Sync }, error);
                true
            }
            op => match run(db, accounts, op.clone()).await {
                Ok(done) => done,
                // Nothing of it stays, and the disk has room again.
                Err(error) if matches!(error.kind(), ErrorKind::NoSpace) => {
                    known.lock().expect("no panic").under_way = None;
                    continue;
                }
                // A snapshot that was not made, or a wait behind one.
                Err(error)
                    if matches!(error.kind(), ErrorKind::CopyBusy | ErrorKind::Io) && matches!(op, Op::Snapshot) =>
                {
                    true
                }
                Err(error) => return Err(error),
            },
        };
        let mut known = known.lock().expect("no panic");
        assert_eq!(done, apply(&mut known.rows, &op), "{op:?}");
        known.under_way = None;
    }
    db.close().await
}

async fn run(db: Db, accounts: Table<Account>, op: Op) -> Result<bool, Error> {
    let done = match op {
        Op::Insert(row) => accounts.insert(row).await.map(drop),
        Op::Update(row) => accounts.update(row).await.map(drop),
        Op::Upsert(row) => accounts.upsert(row).await.map(drop),
        Op::Modify(id, city) => accounts.modify(&id, move |row| row.city = city).await.map(drop),
        Op::Delete(id) => accounts.delete(&id).await.map(drop),
        Op::DeleteRange(from, to) => accounts.range(from..to).delete().await.map(drop),
        Op::Clear => accounts.clear().await.map(drop),
        Op::Snapshot => db.snapshot().await.map(drop),
        Op::Several(ops, gives_up) => {
            let several = db.transaction(move |tx| {
                let accounts = tx.table::<Account>()?;
                for op in ops {
                    // What is refused changes nothing, and the closure goes on.
                    let _ = match op {
                        Op::Insert(row) => accounts.insert(row).map(drop),
                        Op::Update(row) => accounts.update(row).map(drop),
                        Op::Upsert(row) => accounts.upsert(row).map(drop),
                        Op::Modify(id, city) => accounts.modify(&id, |row| row.city = city).map(drop),
                        Op::Delete(id) => accounts.delete(&id).map(drop),
                        Op::DeleteRange(from, to) => accounts.range(from..to).delete().map(drop),
                        Op::Clear => accounts.clear().map(drop),
                        _ => Ok(()),
                    };
                }
                if gives_up { Err(Error::abort(std::fmt::Error)) } else { Ok(()) }
            });
            several.await
        }
        Op::Close | Op::Cut(..) | Op::Fail(..) => Ok(()),
    };
    match done {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            ErrorKind::DuplicateKey | ErrorKind::UniqueConflict | ErrorKind::NotFound | ErrorKind::Aborted => Ok(false),
            _ => Err(error),
        },
    }
}

async fn compare(db: Db, accounts: Table<Account>, rows: &Rows) -> Result<(), Error> {
    let there = accounts.range(..).all().await?;
    assert!(there.iter().map(|row| &**row).eq(rows.values()), "{there:?} where {rows:?} was expected");
    assert!(db.is_consistent().await?, "an index says something else than the rows");
    for city in 0..5 {
        let found = accounts.by(Account::CITY, &city).all().await?;
        assert!(found.iter().map(|row| &**row).eq(rows.values().filter(|row| row.city == city)));
    }
    Ok(())
}
