//! B2 and DB27: a random life of a table beside a plain sorted map, with crashes in between.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use wo::db::{Builder, Db, Error, Table};
use wo_runtime::plane::backend::sim::{Disk, SimHost, Survival};

use super::b1::faults::every_moment;
use super::rig::{Account, Machine, SIMULATED, account, at, on_simulated_machines};
use crate::changes::{Change, Modelled, apply, run};

const OPS: usize = 10_000;
const OPS_PER_LIFE: usize = 50;
const KEYS: u64 = 60;

type Rows = BTreeMap<u64, Account>;

type Op = Change<Account>;

impl Modelled for Account {
    fn conflicts(&self, other: &Account) -> bool {
        self.email == other.email
    }

    fn change(&mut self, to: i64) {
        self.balance = to;
    }
}

fn draw(dice: &mut Rng, nested: bool) -> Op {
    let id = dice.u64(0..KEYS);
    // Some share an address, so some conflict.
    let row = Account {
        email: format!("{}@example.org", if dice.u8(0..10) == 0 { dice.u64(0..KEYS) } else { id }),
        city: format!("city {}", dice.u8(0..5)),
        balance: dice.i64(-1000..1000),
        ..account(id)
    };
    match dice.u8(0..100) {
        0..25 => Op::Insert(row),
        25..30 => Op::Update(row),
        30..55 => Op::Upsert(row),
        55..70 => Op::Modify(id, dice.i64(..)),
        70..84 => Op::Delete(id),
        84 => Op::DeleteRange(id, id + dice.u64(0..5)),
        85 => Op::Clear,
        86 if !nested => Op::Snapshot,
        _ if !nested => Op::Several((0..dice.usize(1..6)).map(|_| draw(dice, true)).collect(), dice.bool()),
        _ => Op::Delete(id),
    }
}

async fn compare(db: Db, accounts: Table<Account>, rows: &Rows, dice: &mut Rng) -> Result<(), Error> {
    let (from, to) = (dice.u64(0..KEYS), dice.u64(0..KEYS));
    let expected: Vec<&Account> =
        if from <= to { rows.range(from..to).map(|(_, row)| row).collect() } else { Vec::new() };
    let found = accounts.range(from..to).all().await?;
    assert!(found.iter().map(|row| &**row).eq(expected.iter().copied()), "{found:?} where {expected:?} was expected");
    let id = dice.u64(0..KEYS);
    assert_eq!(accounts.get(&id).await?.as_deref(), rows.get(&id));
    let email = format!("{id}@example.org");
    let by_email = rows.values().find(|row| row.email == email);
    assert_eq!(accounts.find(Account::EMAIL, email.as_str()).await?.as_deref(), by_email);
    let city = format!("city {}", dice.u8(0..5));
    let by_city = rows.values().filter(|row| row.city == city);
    let found = accounts.by(Account::CITY, city.as_str()).all().await?;
    assert!(found.iter().map(|row| &**row).eq(by_city));
    assert_eq!(accounts.range(..).count().await?, rows.len());
    assert!(db.is_consistent().await?, "an index says something else than the rows");
    Ok(())
}

fn builder() -> Builder {
    Db::builder().table::<Account>().segment_bytes(16 << 10).snapshot_after(64 << 10)
}

/// What is acknowledged, and what may be there beyond that: the op that was under way.
#[derive(Clone, Default)]
struct Model {
    rows: Rows,
    under_way: Option<Op>,
    ops: usize,
}

#[test]
fn b2_a_random_life_with_crashes_is_that_of_a_sorted_map() {
    let host = SimHost::new(17);
    let model = Arc::new(Mutex::new(Model::default()));
    let mut lives = 0;
    let mut under_way_survived = 0;
    while model.lock().unwrap().ops < OPS {
        lives += 1;
        let mut dice = Rng::with_seed(lives);
        // A life of about fifty ops, cut somewhere.
        host.cut_power_at(host.steps() + dice.u64(1..OPS_PER_LIFE as u64 * 12));
        let now = Arc::clone(&model);
        let ended = wo_runtime::shard::Builder::new().simulated(&host).run(move || async move {
            let db = builder().open(SIMULATED).await?;
            let accounts = db.table::<Account>().await?;
            let mut there = Rows::new();
            for row in accounts.range(..).all().await? {
                there.insert(row.id, row.into_record());
            }
            let mut model = now.lock().unwrap().clone();
            let mut survived = 0;
            if there != model.rows {
                let op = model.under_way.clone().expect("everything was acknowledged, and something else is there");
                apply(&mut model.rows, &op);
                assert_eq!(there, model.rows, "what was under way is there neither whole nor not at all: {op:?}");
                survived = 1;
            }
            loop {
                model.under_way = None;
                *now.lock().unwrap() = model.clone();
                compare(db, accounts, &model.rows, &mut dice).await?;
                let op = draw(&mut dice, false);
                model.under_way = Some(op.clone());
                *now.lock().unwrap() = model.clone();
                let done = run(db, accounts, op.clone()).await?;
                assert_eq!(done, apply(&mut model.rows, &op), "{op:?}");
                model.ops += 1;
                if model.ops >= OPS {
                    *now.lock().unwrap() = model;
                    return Ok::<u64, Error>(survived);
                }
            }
        });
        match ended {
            Ok(Ok(survived)) => under_way_survived += survived,
            Ok(Err(error)) => assert!(host.is_cut(), "life {lives}: {error}"),
            Err(error) => assert!(host.is_cut(), "life {lives}: {error}"),
        }
        let left = host.disk().after_power_cut(Survival::Seeded(lives));
        host.power_on(left).unwrap();
    }
    assert!(lives > 50, "{lives} lives, {under_way_survived}");
}

/// Ten thousand changes, and every hundred of them a comparison.
pub fn indexes(machine: &Machine) {
    machine.run(|_| async {
        let db = Db::builder().table::<Account>().in_memory().await?;
        let accounts = db.table::<Account>().await?;
        let mut dice = Rng::with_seed(6);
        let mut rows = Rows::new();
        for op in 0..10_000 {
            let drawn = match draw(&mut dice, false) {
                Op::Snapshot => Op::Clear,
                drawn => drawn,
            };
            let done = run(db, accounts, drawn.clone()).await?;
            assert_eq!(done, apply(&mut rows, &drawn), "{drawn:?}");
            if op % 100 == 0 {
                compare(db, accounts, &rows, &mut dice).await?;
            }
        }
        Ok(())
    });
    // And from a log, a snapshot and both.
    machine.run(|dir| async move {
        let mut dice = Rng::with_seed(5);
        let mut rows = Rows::new();
        for _ in 0..4 {
            let db = builder().open(&dir).await?;
            let accounts = db.table::<Account>().await?;
            compare(db, accounts, &rows, &mut dice).await?;
            for _ in 0..50 {
                let drawn = draw(&mut dice, false);
                let done = run(db, accounts, drawn.clone()).await?;
                assert_eq!(done, apply(&mut rows, &drawn), "{drawn:?}");
            }
            compare(db, accounts, &rows, &mut dice).await?;
            db.close().await?;
        }
        Ok(())
    });
}

/// The power goes between two of a hundred changes; what the replay makes of it has its indexes right.
pub fn indexes_after_crashes(machine: &Machine) {
    let known = Arc::new(Mutex::new(Model::default()));
    let theirs = Arc::clone(&known);
    let moments = every_moment(machine, &known, |dir| async move {
        let db = builder().open(&dir).await?;
        let accounts = db.table::<Account>().await?;
        let mut dice = Rng::with_seed(8);
        for _ in 0..100 {
            let op = draw(&mut dice, false);
            theirs.lock().unwrap().under_way = Some(op.clone());
            run(db, accounts, op.clone()).await?;
            let mut known = theirs.lock().unwrap();
            apply(&mut known.rows, &op);
            known.under_way = None;
        }
        db.close().await
    });
    every_event(moments, machine.shards(), 2);
}

/// B2: whatever the disk kept, at whatever moment, is what was acknowledged, and of what was under way all or nothing.
fn every_event(moments: Vec<(Disk, Model)>, shards: usize, images_max: usize) {
    assert!(moments.len() > 100, "{} moments", moments.len());
    for (number, (disk, known)) in moments.into_iter().enumerate() {
        for image in disk.some_images(images_max, number as u64) {
            let mut with = known.rows.clone();
            if let Some(op) = &known.under_way {
                apply(&mut with, op);
            }
            let there = Machine::after(image, shards).run(|dir| async move {
                let db = builder().open(&dir).await?;
                let accounts = db.table::<Account>().await?;
                let mut there = Rows::new();
                for row in accounts.range(..).all().await? {
                    there.insert(row.id, row.into_record());
                }
                compare(db, accounts, &there, &mut Rng::with_seed(9)).await?;
                Ok(there)
            });
            assert!(
                there == known.rows || there == with,
                "moment {number}: neither before nor after {:?}",
                known.under_way
            );
        }
    }
}

#[test]
fn b2_a_crash_at_every_event_leaves_what_was_acknowledged() {
    on_simulated_machines(|machine| {
        for seed in 0..3 {
            let machine = Machine::simulated(machine.shards());
            let known = Arc::new(Mutex::new(Model::default()));
            let theirs = Arc::clone(&known);
            let moments = every_moment(&machine, &known, |dir| async move {
                let mut dice = Rng::with_seed(seed);
                // Closed and opened in between, so that openings are among the events.
                for _ in 0..3 {
                    let db = builder().open(&dir).await?;
                    for _ in 0..40 {
                        let op = draw(&mut dice, false);
                        theirs.lock().unwrap().under_way = Some(op.clone());
                        let asked = op.clone();
                        let call = move || async move { run(db, db.table::<Account>().await?, asked).await };
                        let done = at(dice.usize(0..3), call).await?;
                        let mut known = theirs.lock().unwrap();
                        assert_eq!(done, apply(&mut known.rows, &op), "{op:?}");
                        known.under_way = None;
                    }
                    db.close().await?;
                }
                Ok(())
            });
            every_event(moments, machine.shards(), 3);
        }
    });
}
