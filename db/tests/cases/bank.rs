//! B7: money goes around, crashes come, and none of it is made or lost.

use wo::db::{Db, Error};
use wo_runtime::fiber;
use wo_runtime::plane::backend::sim::{SimHost, Survival};

use super::rig::{Account, SIMULATED, account, at, everywhere, simulated};

const ACCOUNTS: u64 = 1000;

/// One transfer, refused when there is not enough.
async fn transfer(db: Db, from: u64, to: u64, amount: i64) -> Result<(), Error> {
    db.transaction(move |tx| {
        let accounts = tx.table::<Account>()?;
        let left = accounts.modify(&from, |from| from.balance -= amount)?.balance;
        if left < 0 {
            return Err(Error::abort(std::fmt::Error));
        }
        accounts.modify(&to, |to| to.balance += amount)?;
        Ok(())
    })
    .await
}

async fn clients(db: Db, clients: u64, transfers: u64, seed: u64) {
    let mut running = Vec::new();
    for client in 0..clients {
        running.push(fiber::spawn(move || {
            at(client as usize, move || async move {
                let mut dice = fastrand::Rng::with_seed(seed ^ (client << 32));
                for _ in 0..transfers {
                    let (from, to) = (dice.u64(0..ACCOUNTS), dice.u64(0..ACCOUNTS));
                    let _ = transfer(db, from, to, dice.i64(0..70)).await;
                }
            })
        }));
    }
    for client in running {
        client.join().await.expect("a client does not panic");
    }
}

async fn check(db: Db) -> Result<(), Error> {
    let rows = db.table::<Account>().await?.range(..).all().await?;
    assert_eq!(rows.len() as u64, ACCOUNTS);
    assert_eq!(rows.iter().map(|row| row.balance).sum::<i64>(), 100 * ACCOUNTS as i64);
    assert!(rows.iter().all(|row| row.balance >= 0), "somebody owes");
    assert!(db.is_consistent().await?);
    Ok(())
}

async fn fill(db: Db) -> Result<(), Error> {
    db.transaction(|tx| {
        let accounts = tx.table::<Account>()?;
        (0..ACCOUNTS).try_for_each(|id| accounts.insert(account(id)).map(drop))
    })
    .await
}

#[test]
fn b7_transfers_keep_the_sum_on_every_kernel() {
    everywhere(|dir| async move {
        let db = Db::builder().table::<Account>().open(&dir).await?;
        fill(db).await?;
        clients(db, 8, 50, 7).await;
        check(db).await?;
        db.close().await?;
        check(Db::builder().table::<Account>().open(&dir).await?).await
    });
}

#[test]
fn b7_transfers_keep_the_sum_through_a_hundred_crashes() {
    let host = SimHost::new(11);
    simulated(&host, || async {
        let db = Db::builder().table::<Account>().segment_bytes(1 << 18).open(SIMULATED).await?;
        fill(db).await?;
        db.close().await
    })
    .unwrap();
    for crash in 0..100_u64 {
        // Every round goes on from what the crash before left, and itself crashes at a step drawn by lot.
        let mut dice = fastrand::Rng::with_seed(crash);
        let steps = host.steps();
        host.cut_power_at(steps + dice.u64(5..300));
        let ran = wo_runtime::shard::Builder::new().simulated(&host).run(move || async move {
            let db = Db::builder().table::<Account>().segment_bytes(1 << 18).open(SIMULATED).await?;
            check(db).await?;
            clients(db, 8, 40, crash).await;
            Ok::<_, Error>(())
        });
        if let Ok(Err(error)) = ran {
            assert!(host.is_cut(), "crash {crash}: {error}");
        }
        let disk = host.disk();
        let left = disk.after_power_cut(Survival::Seeded(crash));
        host.power_on(left).unwrap();
    }
    simulated(&host, || async { check(Db::builder().table::<Account>().open(SIMULATED).await?).await }).unwrap();
}
