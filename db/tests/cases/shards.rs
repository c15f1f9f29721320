//! The same answers wherever the caller is.

use std::sync::Arc;

use wo::db::{Db, Error, Table};
use wo_runtime::fiber::oneshot::oneshot;
use wo_runtime::{fiber, shard};

use super::rig::{Account, account, everywhere};

/// Runs `body` in a fiber on this shard, and waits for it.
pub async fn at<T, F>(index: usize, body: impl FnOnce() -> F + Send + 'static) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let (sender, receiver) = oneshot();
    let posted = shard::post_to(index % shard::shards(), move || {
        drop(fiber::spawn(move || async move {
            let _ = sender.send(body().await);
        }));
    });
    assert!(posted);
    receiver.recv().await.expect("the fiber ends")
}

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
    everywhere(|_| async {
        let db = Db::builder().table::<Account>().in_memory().await?;
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
    });
}
