//! The same answers wherever the caller is.

use std::sync::Arc;
use std::time::Duration;

use wo::db::{Db, Error, Table};
use wo_runtime::error::OpKind;
use wo_runtime::{fiber, shard};

use super::rig::{Account, account, at, everywhere, on_every_machine, on_simulated_machines, stopped};

async fn script(accounts: Table<Account>) -> Result<String, Error> {
    let mut said = Vec::new();
    for id in [5, 3, 9] {
        said.push(format!("{:?}", accounts.insert(account(id)).await));
    }
    said.push(format!("{:?}", accounts.insert(account(3)).await));
    said.push(format!("{:?}", accounts.get(&9).await?));
    said.push(format!("{:?}", accounts.range(..).reverse().all().await?));
    said.push(format!("{:?}", accounts.modify(&5, |five| five.balance -= 1).await));
    said.push(format!("{:?}", accounts.delete(&3).await?));
    said.push(format!("{:?}", accounts.by(Account::CITY, "city 5").all().await?));
    said.push(format!("{:?}", accounts.update(account(3)).await));
    Ok(said.join("\n"))
}

#[test]
fn answers_are_the_same_from_every_shard() {
    everywhere(|dir| async move {
        let mut all = Vec::new();
        for index in 0..shard::shards() {
            let db = Db::builder().table::<Account>().open(&dir).await?;
            let accounts = db.table::<Account>().await?;
            all.push(at(index, move || script(accounts)).await?);
            accounts.clear().await?;
            db.close().await?;
        }
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{all:#?}");
        Ok(())
    });
}

#[test]
fn b8_a_scan_sees_a_transaction_whole_or_not_at_all() {
    everywhere(|dir| async move {
        scans_beside_transactions(Db::builder().table::<Account>().in_memory().await?).await?;
        scans_beside_transactions(Db::builder().table::<Account>().open(&dir).await?).await
    });
}

async fn scans_beside_transactions(db: Db) -> Result<(), Error> {
    let accounts = db.table::<Account>().await?;
    let fill = move |balance: i64| {
        db.transaction(move |tx| {
            let accounts = tx.table::<Account>()?;
            for id in 0..100 {
                accounts.upsert(Account { balance, ..account(id) })?;
            }
            Ok(())
        })
    };
    fill(0).await?;
    let writer = fiber::spawn(move || async move {
        for round in 1..50 {
            fill(round).await?;
            fiber::yield_now().await.map_err(|error| Error::abort(error.clone()))?;
        }
        Ok::<_, Error>(())
    });
    for round in 0..100 {
        let read = move || async move { accounts.range(..).all().await };
        let rows = at(round, read).await?;
        let balances: Arc<[i64]> = rows.iter().map(|row| row.balance).collect();
        assert_eq!(balances.len(), 100);
        assert!(balances.iter().all(|balance| *balance == balances[0]), "{balances:?}");
    }
    writer.join().await.expect("it does not panic")?;
    Ok(())
}

/// However many wait: at least one sync, at most one for each, and nobody hears before the one that covers theirs.
#[test]
fn b4_sixty_four_callers_share_syncs_and_hear_after_theirs() {
    on_every_machine(|machine| {
        machine.run(|dir| async move {
            let db = Db::builder().table::<Account>().open(&dir).await?;
            let accounts = db.table::<Account>().await?;
            accounts.insert(account(1000)).await?;
            let before = db.stats().await?.log.expect("it is on a disk").batches;
            let mut callers = Vec::new();
            for id in 0..64 {
                callers.push(fiber::spawn(move || {
                    at(id as usize, move || async move {
                        accounts.insert(account(id)).await?;
                        // What was just answered is on the disk.
                        let certain = db.sequence().await?;
                        let log = db.stats().await?.log.expect("it is on a disk");
                        Ok::<_, Error>(accounts.contains(&id).await? && log.durable >= certain)
                    })
                }));
            }
            for caller in callers {
                assert!(caller.join().await.expect("it does not panic")?);
            }
            let batches = db.stats().await?.log.expect("it is on a disk").batches - before;
            assert!((1..=64).contains(&batches), "{batches} syncs for 64 commits");
            db.close().await
        });
    });
    on_simulated_machines(|machine| {
        let control = machine.control();
        machine.run(|dir| async move {
            let db = Db::builder().table::<Account>().open(&dir).await?;
            let accounts = db.table::<Account>().await?;
            accounts.insert(account(1000)).await?;
            control.hold_kind(OpKind::Write);
            let mut callers = Vec::new();
            for id in 0..64 {
                let call = move || async move { accounts.insert(account(id)).await };
                callers.push(fiber::spawn(move || at(id as usize, call)));
            }
            // One write after the other is let through; those it was for hear, and nobody else.
            let heard = |callers: &[fiber::JoinHandle<_>]| callers.iter().filter(|caller| caller.is_finished()).count();
            let mut rounds = 0;
            while heard(&callers) < 64 {
                fiber::sleep(Duration::from_millis(10)).await.map_err(stopped)?;
                let heard = heard(&callers) as u64;
                let durable = db.stats().await?.log.expect("it is on a disk").durable;
                // The catalogue and the first account are there as well.
                assert!(heard + 2 <= durable, "{heard} heard, {durable} durable");
                control.release_one(0);
                rounds += 1;
            }
            control.release_all();
            assert!(rounds <= 80, "{rounds} writes");
            for caller in callers {
                caller.join().await.expect("it does not panic")?;
            }
            db.close().await
        });
    });
}
