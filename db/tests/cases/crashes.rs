//! What callers were told, and what is there after a crash.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use wo::db::{Builder, Db, Error, ErrorKind};
use wo_runtime::error::{OpKind, errno};
use wo_runtime::fiber;
use wo_runtime::plane::backend::sim::{Disk, SimHost};

use super::rig::{Account, SIMULATED, account, simulated};

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

#[test]
fn db29_no_answer_is_ahead_of_the_disk() {
    let host = SimHost::new(3);
    let known = Arc::new(Mutex::new(Known::default()));
    let crashes = Arc::new(Mutex::new(Vec::<(Disk, Known)>::new()));
    let (now, seen) = (Arc::clone(&known), Arc::clone(&crashes));
    host.before_disk_changes(move |disk| seen.lock().unwrap().push((disk, now.lock().unwrap().clone())));
    let program = Arc::clone(&known);
    simulated(&host, move || async move {
        let db = builder().open(SIMULATED).await?;
        let accounts = db.table::<Account>().await?;
        let mut running = Vec::new();
        for writer in 0..3 {
            let known = Arc::clone(&program);
            running.push(fiber::spawn(move || async move {
                for round in 0..6 {
                    let id = writer * 100 + round;
                    accounts.insert(account(id)).await?;
                    known.lock().unwrap().acknowledged.insert(id);
                }
                Ok::<_, Error>(())
            }));
        }
        for reader in 0..3 {
            let known = Arc::clone(&program);
            running.push(fiber::spawn(move || async move {
                for round in 0..12 {
                    let rows = match reader {
                        0 => accounts.range(..).all().await?,
                        1 => accounts.get(&(round / 2)).await?.into_iter().collect(),
                        _ => accounts.by(Account::CITY, "city 2").all().await?,
                    };
                    known.lock().unwrap().shown.extend(rows.iter().map(|row| row.id));
                    fiber::yield_now().await.map_err(|error| Error::abort(error.clone()))?;
                }
                Ok::<_, Error>(())
            }));
        }
        for fiber in running {
            fiber.join().await.expect("no fiber panics")?;
        }
        db.close().await
    })
    .unwrap();
    host.unwatch_disk();
    assert_eq!(known.lock().unwrap().acknowledged.len(), 18);
    let crashes = std::mem::take(&mut *crashes.lock().unwrap());
    assert!(crashes.len() > 15, "{}", crashes.len());
    assert!(crashes.iter().any(|(_, known)| !known.shown.is_empty()));
    for (number, (disk, known)) in crashes.into_iter().enumerate() {
        for left in disk.some_images(4, number as u64) {
            let host = SimHost::new(4);
            host.power_on(left).unwrap();
            let there: BTreeSet<u64> = simulated(&host, || async {
                let db = builder().open(SIMULATED).await?;
                assert!(db.is_consistent().await?);
                let rows = db.table::<Account>().await?.range(..).all().await?;
                Ok::<_, Error>(rows.iter().map(|row| row.id).collect())
            })
            .unwrap();
            assert!(there.is_superset(&known.acknowledged), "crash {number} lost something acknowledged");
            assert!(there.is_superset(&known.shown), "crash {number} lost something that was shown");
        }
    }
}

#[test]
fn a_full_disk_undoes_what_was_not_written_and_nothing_else() {
    let host = SimHost::new(3);
    let control = host.control();
    simulated(&host, move || async move {
        let db = builder().open(SIMULATED).await?;
        let accounts = db.table::<Account>().await?;
        accounts.insert(account(1)).await?;
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
        let db = builder().open(SIMULATED).await?;
        let ids = db.table::<Account>().await?.range(..).all().await?.iter().map(|row| row.id).collect::<Vec<_>>();
        assert_eq!(ids, [1, 3]);
        Ok::<_, Error>(())
    })
    .unwrap();
}

#[test]
fn after_an_unknown_commit_readings_go_on_from_what_is_certain() {
    let host = SimHost::new(3);
    let control = host.control();
    simulated(&host, move || async move {
        let db = builder().open(SIMULATED).await?;
        let accounts = db.table::<Account>().await?;
        accounts.insert(account(1)).await?;
        control.fail_next(OpKind::Write, errno::EIO);
        let refused = accounts.insert(account(2)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::CommitUnknown, "{refused}");
        assert!(refused.to_string().contains(SIMULATED), "{refused}");
        let refused = accounts.insert(account(3)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Poisoned, "{refused}");
        assert_eq!(accounts.range(..).count().await?, 1);
        assert!(db.is_consistent().await?);
        assert!(db.close().await.is_err());
        let db = builder().open(SIMULATED).await?;
        let count = db.table::<Account>().await?.range(..).count().await?;
        assert!((1..=2).contains(&count), "the second is there whole, or not at all");
        Ok::<_, Error>(())
    })
    .unwrap();
}
