//! What callers were told, and what is there after a crash.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use wo::db::{Builder, Db, Error, ErrorKind, Table};
use wo_runtime::error::{OpKind, errno};
use wo_runtime::fiber;
use wo_runtime::plane::backend::sim::{Disk, SimControl};

use super::b1::faults::every_moment;
use super::rig::{Account, Machine, SIMULATED, account, at, ids, stopped};

fn builder() -> Builder {
    Db::builder().table::<Account>().segment_bytes(16 << 10)
}

/// What somebody outside may know.
#[derive(Clone, Default)]
struct Known {
    acknowledged: BTreeSet<u64>,
    /// Rows that a reading has shown.
    shown: BTreeSet<u64>,
}

/// Callers and readers on every shard, while the power may go at every moment between a change and its answer.
pub fn answers(machine: &Machine) {
    let known = Arc::new(Mutex::new(Known::default()));
    let program = Arc::clone(&known);
    let moments = every_moment(machine, &known, |dir| async move {
        let db = builder().open(&dir).await?;
        let accounts = db.table::<Account>().await?;
        let mut running = Vec::new();
        for writer in 0..3_u64 {
            let known = Arc::clone(&program);
            let write = move || async move {
                for round in 0..6 {
                    let id = writer * 100 + round;
                    accounts.insert(account(id)).await?;
                    known.lock().unwrap().acknowledged.insert(id);
                }
                Ok::<_, Error>(())
            };
            running.push(fiber::spawn(move || at(writer as usize, write)));
        }
        for reader in 0..3_usize {
            let known = Arc::clone(&program);
            let read = move || async move {
                for round in 0..12 {
                    let rows = match reader {
                        0 => accounts.range(..).all().await?,
                        1 => accounts.get(&(round / 2)).await?.into_iter().collect(),
                        _ => accounts.by(Account::CITY, "city 2").all().await?,
                    };
                    known.lock().unwrap().shown.extend(rows.iter().map(|row| row.id));
                    fiber::yield_now().await.map_err(stopped)?;
                }
                Ok::<_, Error>(())
            };
            running.push(fiber::spawn(move || at(reader + 1, read)));
        }
        for fiber in running {
            fiber.join().await.expect("no fiber panics")?;
        }
        db.close().await
    });
    assert_eq!(known.lock().unwrap().acknowledged.len(), 18);
    assert!(moments.len() > 15, "{}", moments.len());
    assert!(moments.iter().any(|(_, known)| !known.shown.is_empty()));
    for (number, (disk, known)) in moments.into_iter().enumerate() {
        for left in disk.some_images(4, number as u64) {
            let there: BTreeSet<u64> = found(left).into_iter().collect();
            assert!(there.is_superset(&known.acknowledged), "moment {number} lost something acknowledged");
            assert!(there.is_superset(&known.shown), "moment {number} lost something that was shown");
        }
    }
}

/// The accounts on a disk that was left.
pub fn found(disk: Disk) -> Vec<u64> {
    Machine::after(disk, 1).run(|dir| async move {
        let db = builder().open(&dir).await?;
        assert!(db.is_consistent().await?);
        ids(db).await
    })
}

/// A program on a simulated host, with one account stored and the means to make its disk fail.
fn with_one_account<F>(program: impl FnOnce(Db, Table<Account>, SimControl) -> F + Send + 'static)
where
    F: Future<Output = Result<(), Error>> + 'static,
{
    let machine = Machine::simulated(1);
    let control = machine.control();
    machine.run(move |dir| async move {
        let db = builder().open(&dir).await?;
        let accounts = db.table::<Account>().await?;
        accounts.insert(account(1)).await?;
        program(db, accounts, control).await
    });
}

#[test]
fn a_full_disk_undoes_what_was_not_written_and_nothing_else() {
    with_one_account(|db, accounts, control| async move {
        control.fail_next(OpKind::Write, errno::ENOSPC);
        // A write that fails, another behind it, and readings that have seen both: they look again.
        let first = fiber::spawn(move || accounts.insert(account(2)));
        let second = fiber::spawn(move || accounts.modify(&1, |one| one.balance = 0));
        let all = fiber::spawn(move || accounts.range(..).all());
        let one = fiber::spawn(move || async move { accounts.get(&1).await });
        let refused = first.join().await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
        let refused = second.join().await.unwrap();
        let all = all.join().await.unwrap()?;
        assert_eq!(all.iter().map(|row| row.id).collect::<Vec<_>>(), [1]);
        if let Err(refused) = refused {
            assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
            assert_eq!(one.join().await.unwrap()?.map(|row| row.balance), Some(100));
        }
        assert!(db.is_consistent().await?);
        accounts.insert(account(3)).await?;
        db.close().await?;
        assert_eq!(ids(builder().open(SIMULATED).await?).await?, [1, 3]);
        Ok(())
    });
}

#[test]
fn after_an_unknown_commit_readings_go_on_from_what_is_certain() {
    with_one_account(|db, accounts, control| async move {
        control.fail_next(OpKind::Write, errno::EIO);
        let refused = accounts.insert(account(2)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::CommitUnknown, "{refused}");
        assert!(refused.to_string().contains(SIMULATED), "{refused}");
        let refused = accounts.insert(account(3)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Poisoned, "{refused}");
        assert_eq!(accounts.range(..).count().await?, 1);
        assert!(db.is_consistent().await?);
        assert!(db.close().await.is_err());
        let count = ids(builder().open(SIMULATED).await?).await?.len();
        assert!((1..=2).contains(&count), "the second is there whole, or not at all");
        Ok(())
    });
}
