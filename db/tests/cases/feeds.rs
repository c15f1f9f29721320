//! Change feeds.

use std::time::Duration;

use wo::db::{Db, Error, ErrorKind};
use wo_runtime::fiber;

use super::rig::{Account, Machine, account, at, everywhere};

#[test]
fn b9_a_watch_goes_on_after_a_reopening_and_a_slow_one_is_told() {
    everywhere(|dir| async move {
        let db = Db::builder().table::<Account>().open(&dir).await?;
        let accounts = db.table::<Account>().await?;
        let mut sequences = Vec::new();
        for id in 0..20 {
            accounts.insert(account(id)).await?;
            sequences.push(db.sequence().await?);
        }
        db.close().await?;

        let builder = Db::builder().table::<Account>().changes_kept(30);
        let db = builder.clone().open(&dir).await?;
        let accounts = db.table::<Account>().await?;
        let mut changes = db.watch::<Account>(.., sequences[9]).await?;
        for id in 10..20 {
            let change = changes.next().await?;
            assert_eq!((change.key, change.sequence), (id, sequences[id as usize]));
            assert_eq!(change.row.as_deref(), Some(&account(id)));
            assert_eq!(changes.sequence(), change.sequence);
        }
        // Nothing more, until there is.
        let later = fiber::spawn(move || async move { (changes.next().await, changes) });
        fiber::sleep(Duration::from_millis(1)).await.map_err(|error| Error::abort(error.clone()))?;
        assert!(!later.is_finished());
        let together = db
            .transaction(|tx| {
                let accounts = tx.table::<Account>()?;
                accounts.modify(&3, |three| three.balance = 7)?;
                accounts.delete(&4)?;
                accounts.insert(account(40))?;
                Ok(tx.sequence())
            })
            .await?;
        let (change, mut changes) = later.join().await.expect("it does not panic");
        let change = change?;
        assert!((change.key, change.row.map(|row| row.balance)) == (3, Some(7)) && change.sequence > together);
        assert!(changes.sequence() < change.sequence, "of a transaction that is not handed out whole, nothing counts");
        let gone = changes.next().await?;
        assert!(gone.key == 4 && gone.row.is_none() && gone.sequence == change.sequence);
        assert_eq!(changes.next().await?.key, 40);
        assert_eq!(changes.sequence(), change.sequence);

        // From another shard, over a part of the keys.
        let part = at(1, move || async move {
            let mut part = db.watch::<Account>(..=4, together).await?;
            Ok::<_, Error>([part.next().await?.key, part.next().await?.key])
        });
        assert_eq!(part.await?, [3, 4]);

        // One that does not keep up is told where to go on.
        let mut slow = db.watch::<Account>(.., together).await?;
        for id in 100..150 {
            accounts.insert(account(id)).await?;
        }
        let lagged = slow.next().await.unwrap_err();
        let ErrorKind::Lagged { resume } = lagged.kind() else { panic!("{lagged}") };
        assert_eq!(lagged.table(), Some("account"));
        assert!(slow.next().await.is_err(), "it stays so");
        let mut resumed = db.watch::<Account>(.., resume).await?;
        assert_eq!(resumed.next().await?.key, 120);
        assert_eq!(db.watch::<Account>(.., together).await.unwrap_err().kind(), lagged.kind());
        Ok(())
    });
}

#[test]
fn a_change_that_was_undone_is_told_to_nobody() {
    everywhere(|_| async {
        let db = Db::builder().table::<Account>().in_memory().await?;
        let accounts = db.table::<Account>().await?;
        let mut changes = db.watch::<Account>(.., 0).await?;
        let _ = db
            .transaction(|tx| {
                tx.table::<Account>()?.insert(account(1))?;
                Err::<(), _>(Error::abort(std::fmt::Error))
            })
            .await;
        accounts.insert(account(2)).await?;
        accounts.clear().await?;
        assert_eq!(changes.next().await?.key, 2);
        assert!(changes.next().await?.row.is_none());
        Ok(())
    });
}

#[derive(wo::Record, Clone)]
struct Large {
    #[key]
    id: u64,
    bytes: Vec<u8>,
}

pub fn still_watcher(machine: &Machine) {
    machine.run(|_| async {
        let db = Db::builder().table::<Large>().in_memory().await?;
        let rows = db.table::<Large>().await?;
        let mut still = db.watch::<Large>(.., 0).await?;
        rows.insert(Large { id: 1, bytes: vec![] }).await?;
        assert_eq!(still.next().await?.key, 1);
        let stood_at = still.sequence();
        // A gibibyte, as its rows would count it: the same megabyte over and over.
        for round in 0..1024_u64 {
            rows.upsert(Large { id: round % 3, bytes: vec![round as u8; 1 << 20] }).await?;
        }
        let stats = db.stats().await?;
        assert_eq!((stats.watchers, stats.slowest_watcher), (1, Some(stood_at)));
        assert_eq!(stats.durable_sequence - stood_at, 1024, "its age, in transactions");
        assert!(stats.tables[0].changes_kept <= 64, "{} megabytes are held", stats.tables[0].changes_kept);
        assert!(matches!(still.next().await.unwrap_err().kind(), ErrorKind::Lagged { .. }));
        drop(still);
        assert_eq!(db.stats().await?.watchers, 0);
        Ok(())
    });
}
