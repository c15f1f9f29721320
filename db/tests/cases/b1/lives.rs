//! Databases that are opened again and again, and what one of them keeps another from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wo::db::{Db, Error, ErrorKind};
use wo_db::log::error::Undecodable;
use wo_db::log::{Entry, Log, LogOptions, Replay};
use wo_runtime::fiber;

use super::bytes::builder;
use crate::cases::rig::{Account, Machine, account, at, ids};
use crate::files::files;

#[derive(wo::Record, Clone, Debug, PartialEq)]
struct Blob {
    #[key]
    id: u64,
    bytes: Vec<u8>,
}

pub fn sizes(machine: &Machine) {
    machine.run(|dir| async move {
        const MAX: usize = 2 << 20;
        let builder = || Db::builder().table::<Blob>().segment_bytes(64 << 10).transaction_bytes_max(MAX as u32);
        // A step is the table, the kind, a length and the row: the key, a length and the bytes.
        const ROOM: usize = 1 + 1 + 3 + 1 + 3;
        let sizes = [0, (4 << 10) - 1, 4 << 10, (4 << 10) + 1, 1 << 20, MAX - ROOM - 1, MAX - ROOM];
        let db = builder().open(&dir).await?;
        let blobs = db.table::<Blob>().await?;
        for (id, size) in (0..).zip(sizes) {
            let row = Blob { id, bytes: vec![id as u8; size] };
            at(id as usize, move || async move { blobs.insert(row).await }).await?;
        }
        let before = files(&dir).await;
        for (size, table) in [(MAX - ROOM + 1, None), (MAX, Some("blob")), (3 * MAX, Some("blob"))] {
            let row = Blob { id: 99, bytes: vec![9; size] };
            let error = at(1, move || async move { blobs.insert(row).await }).await.unwrap_err();
            assert_eq!((error.kind(), error.table()), (ErrorKind::TooLarge, table), "{error}");
            assert!(error.to_string().contains("transaction_bytes_max"), "{error}");
        }
        assert!(files(&dir).await == before, "something of a refused row was written");
        assert!(blobs.get(&99).await?.is_none());
        db.close().await?;
        let db = builder().open(&dir).await?;
        let rows = db.table::<Blob>().await?.range(..).all().await?;
        assert!(rows.iter().map(|row| row.bytes.len()).eq(sizes));
        assert!(rows.iter().all(|row| row.bytes.iter().all(|byte| u64::from(*byte) == row.id)));
        Ok(())
    });
}

pub fn one_owner(machine: &Machine) {
    machine.run(|dir| async move {
        let db = builder().open(&dir).await?;
        let accounts = db.table::<Account>().await?;
        accounts.insert(account(1)).await?;
        let before = files(&dir).await;
        for shard in 0..3 {
            let place = dir.clone();
            let refused = at(shard, move || async move { builder().open(&place).await.map(|_| ()) }).await.unwrap_err();
            assert_eq!(refused.path(), Some(&*dir));
            assert_eq!(refused.kind(), ErrorKind::AlreadyOpen { pid: Some(std::process::id()) }, "{refused}");
            assert!(refused.to_string().contains("share its handle"), "{refused}");
        }
        assert!(files(&dir).await == before, "whoever was refused changed something");
        accounts.insert(account(2)).await?;
        db.close().await?;
        assert_eq!(ids(builder().open(&dir).await?).await?, [1, 2]);
        Ok(())
    });
}

/// Keeps every entry of a log.
#[derive(Default)]
struct Recorder(Vec<(Entry, Vec<u8>)>);

impl Replay for Recorder {
    fn catalogue(&mut self, bytes: &[u8]) -> Result<(), Undecodable> {
        self.0.push((Entry::Catalogue, bytes.to_vec()));
        Ok(())
    }

    fn snapshot_end(&mut self, _as_of: u64) -> Result<(), Undecodable> {
        Ok(())
    }

    fn transaction(&mut self, _sequence: u64, body: &[u8]) -> Result<(), Undecodable> {
        self.0.push((Entry::Transaction, body.to_vec()));
        Ok(())
    }
}

/// Changes of every kind: the same value again, rows that are not there, everything gone and there again.
pub async fn every_kind_of_change(db: Db) -> Result<(), Error> {
    let accounts = db.table::<Account>().await?;
    for id in 0..10 {
        accounts.insert(account(id)).await?;
    }
    accounts.update(account(3)).await?;
    assert!(accounts.delete(&77).await?.is_none());
    accounts.delete(&4).await?;
    accounts.delete(&4).await?;
    accounts.insert(account(4)).await?;
    // Two rows exchange a unique value.
    db.transaction(|tx| {
        let accounts = tx.table::<Account>()?;
        accounts.modify(&5, |five| five.email = "elsewhere".to_owned())?;
        accounts.modify(&6, |six| six.email = "5@example.org".to_owned())?;
        accounts.modify(&5, |five| five.email = "6@example.org".to_owned())?;
        Ok(())
    })
    .await?;
    accounts.clear().await?;
    for id in 5..15 {
        accounts.upsert(account(id)).await?;
    }
    accounts.range(12..).delete().await?;
    accounts.modify(&7, |seven| seven.balance = 7).await?;
    Ok(())
}

pub fn replayed_twice(machine: &Machine) {
    machine.run(|dir| async move {
        let db = builder().open(&dir).await?;
        every_kind_of_change(db).await?;
        let expected = db.table::<Account>().await?.range(..).all().await?;
        db.close().await?;
        let mut recorder = Recorder::default();
        let options = LogOptions { segment_bytes: 64 << 10, ..LogOptions::default() };
        let (log, _) = Log::open(&dir, &options, &mut recorder).await.expect("it is a log");
        // Every entry once more, and again from the middle: as a replay that was begun anew.
        let entries = recorder.0;
        for (entry, bytes) in entries.iter().chain(&entries[entries.len() / 2..]) {
            log.append(*entry, bytes).expect("there is room");
        }
        log.close().await.expect("there is room");
        for _ in 0..2 {
            let db = builder().open(&dir).await?;
            assert_eq!(db.table::<Account>().await?.range(..).all().await?, expected);
            assert!(db.is_consistent().await?);
            db.close().await?;
        }
        Ok(())
    });
}

pub fn five_lives(machine: &Machine) {
    machine.run(|dir| async move {
        for life in 0..6 {
            let db = builder().open(&dir).await?;
            assert!(ids(db).await?.into_iter().eq(0..life * 3), "life {life}");
            assert_eq!(u64::from(db.recovery().await?.expect("on a disk").generation), life + 1);
            let accounts = db.table::<Account>().await?;
            for id in life * 3..life * 3 + 3 {
                at(id as usize, move || async move { accounts.insert(account(id)).await }).await?;
            }
            db.close().await?;
        }
        Ok(())
    });
}

pub fn many_segments(machine: &Machine) {
    machine.run(|dir| async move {
        let sum = Arc::new(AtomicU64::new(0));
        for life in 0..100 {
            let db = Db::builder().table::<Account>().segment_bytes(4096).open(&dir).await?;
            let accounts = db.table::<Account>().await?;
            let rows = accounts.range(..).all().await?;
            assert_eq!(rows.len() as u64, life * 100);
            assert_eq!(rows.iter().map(|row| row.balance as u64).sum::<u64>(), sum.load(Ordering::Relaxed));
            // A hundred commits, four callers at a time.
            let mut callers = Vec::new();
            for caller in 0..4 {
                let sum = Arc::clone(&sum);
                callers.push(fiber::spawn(move || async move {
                    for id in (life * 100..life * 100 + 100).filter(|id| id % 4 == caller) {
                        accounts.insert(Account { balance: id as i64, ..account(id) }).await?;
                        sum.fetch_add(id, Ordering::Relaxed);
                    }
                    Ok::<_, Error>(())
                }));
            }
            for caller in callers {
                caller.join().await.expect("no caller panics")?;
            }
            db.close().await?;
        }
        assert_eq!(sum.load(Ordering::Relaxed), (0..10_000).sum::<u64>());
        Ok(())
    });
}
