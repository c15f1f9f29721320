//! Backups and snapshots of tables that are being changed.

use std::time::Duration;

use wo::db::{Db, Error, ErrorKind};
use wo_runtime::scope::Outcome;
use wo_runtime::{fiber, shard};

use super::rig::{Account, Machine, account, at, everywhere};
use crate::files::remove;

pub fn backup_under_load(machine: &Machine) {
    machine.run(|dir| async move {
        let copy = dir.with_extension("copy");
        let db = Db::builder().table::<Account>().segment_bytes(16 << 10).open(&dir).await?;
        let accounts = db.table::<Account>().await?;
        for id in 0..20 {
            accounts.insert(account(id)).await?;
        }
        let writer = fiber::spawn(move || async move {
            for id in 20..80 {
                // Two rows at once: a copy has both or neither.
                db.transaction(move |tx| {
                    let accounts = tx.table::<Account>()?;
                    accounts.insert(account(id))?;
                    accounts.insert(account(1000 + id))?;
                    Ok(())
                })
                .await?;
                if id == 50 {
                    // One copy is made at a time.
                    let made = db.snapshot().await.map(drop).map_err(|error| error.kind());
                    assert!(matches!(made, Ok(()) | Err(ErrorKind::CopyBusy)), "{made:?}");
                }
            }
            Ok::<_, Error>(())
        });
        let made = db.backup(&copy).await?;
        assert_eq!(made.dir, copy);
        assert!(db.backup(&copy).await.is_err(), "there is a copy already");
        writer.join().await.expect("it does not panic")?;
        db.snapshot().await?;
        db.close().await?;

        let db = Db::builder().table::<Account>().open(&copy).await?;
        let accounts = db.table::<Account>().await?;
        let first = accounts.range(..1000).count().await? as u64;
        assert!((20..=80).contains(&first), "{first}");
        let ids: Vec<u64> = accounts.range(..).all().await?.iter().map(|row| row.id).collect();
        assert!(ids.iter().copied().eq((0..first).chain(1020..1000 + first)), "{ids:?}");
        db.close().await?;
        remove(&copy).await;

        let db = Db::builder().table::<Account>().open(&dir).await?;
        assert_eq!(db.table::<Account>().await?.range(..).count().await?, 20 + 2 * 60);
        assert!(db.recovery().await?.is_some_and(|recovery| recovery.snapshot.is_some()));
        Ok(())
    });
}

#[test]
fn closing_waits_for_a_copy_that_is_being_made() {
    everywhere(|dir| async move {
        for _ in 0..3 {
            let db = Db::builder().table::<Account>().segment_bytes(16 << 10).open(&dir).await?;
            let accounts = db.table::<Account>().await?;
            for id in 0..20 {
                accounts.upsert(account(id)).await?;
            }
            let copying = fiber::spawn(move || db.snapshot());
            fiber::yield_now().await.map_err(|error| Error::abort(error.clone()))?;
            db.close().await?;
            // The directory is free: the next round opens it.
            copying.join().await.expect("it does not panic")?;
        }
        Ok(())
    });
}

/// A `main` that leaves its loop at SIGTERM and closes its database as its last act was told ECANCELED instead, and
/// ended with status 1 over a database in which nothing was wrong.
#[test]
fn closing_is_a_clean_up_and_not_cancelled() {
    everywhere(|dir| async move {
        for shard in 0..shard::shards() {
            let db = Db::builder().table::<Account>().open(&dir).await?;
            db.table::<Account>().await?.upsert(account(1)).await?;
            let closing = move || fiber::with_deadline(Duration::ZERO, async move || db.close().await);
            let closed: Outcome<(), Error> = at(shard, closing).await;
            closed.expect("there is nothing to cancel");
        }
        let db = Db::builder().table::<Account>().open(&dir).await?;
        shard::stop();
        while fiber::yield_now().await.is_ok() {}
        db.close().await
    });
}
