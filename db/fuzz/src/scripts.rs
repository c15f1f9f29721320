//! Any script of operations beside a plain sorted map, with closings, power cuts and failing disks in between.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use wo::db::{Builder, Db, Error, ErrorKind, Table};
use wo_runtime::error::{OpKind, errno};
use wo_runtime::plane::backend::sim::{SimControl, SimHost, Survival};
use wo_runtime::shard;

use crate::changes::{self, Change, Modelled};
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

impl Modelled for Account {
    fn conflicts(&self, other: &Account) -> bool {
        self.email.is_some() && self.email == other.email
    }

    fn change(&mut self, to: i64) {
        self.city = to as u8;
    }
}

#[derive(Clone, Debug)]
enum Op {
    Change(Change<Account>),
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

fn change(kind: u8, bytes: &mut Bytes<'_>) -> Change<Account> {
    match kind {
        0..6 => Change::Insert(account(bytes)),
        6..8 => Change::Update(account(bytes)),
        8..13 => Change::Upsert(account(bytes)),
        13..16 => Change::Modify(bytes.byte() % 24, bytes.byte().into()),
        20 => Change::DeleteRange(bytes.byte() % 24, bytes.byte() % 24),
        21 => Change::Clear,
        _ => Change::Delete(bytes.byte() % 24),
    }
}

fn op(bytes: &mut Bytes<'_>) -> Op {
    match bytes.byte() % 32 {
        22..25 => {
            let several = (0..=bytes.below(5)).map(|_| {
                let kind = bytes.byte() % 32;
                change(kind, bytes)
            });
            let several = several.collect();
            Op::Change(Change::Several(several, bytes.one_in(2)))
        }
        25 => Op::Change(Change::Snapshot),
        26 => Op::Close,
        27..30 => Op::Cut(bytes.byte(), bytes.long()),
        30 => Op::Fail(bytes.one_in(2), bytes.one_in(2)),
        kind => Op::Change(change(kind, bytes)),
    }
}

/// What the map makes of it; false when it is refused.
fn apply(rows: &mut Rows, op: &Op) -> bool {
    match op {
        Op::Change(change) => changes::apply(rows, change),
        Op::Close | Op::Cut(..) | Op::Fail(..) => true,
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
        ops.push(op(&mut bytes));
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
            Op::Change(change) => match changes::run(db, accounts, change.clone()).await {
                Ok(done) => done,
                // Nothing of it stays, and the disk has room again.
                Err(error) if matches!(error.kind(), ErrorKind::NoSpace) => {
                    known.lock().expect("no panic").under_way = None;
                    continue;
                }
                // A snapshot that was not made, or a wait behind one.
                Err(error)
                    if matches!(error.kind(), ErrorKind::CopyBusy | ErrorKind::Io)
                        && matches!(change, Change::Snapshot) =>
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
