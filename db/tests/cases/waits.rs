//! Callers who do not wait for the end of their commit: cancelled, out of time or gone, on the owner's shard and on
//! another. They are told that nobody can say, the commit is done or not done as a whole, and nobody else notices.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use wo::db::{Db, Error, ErrorKind, Result, Table};
use wo_runtime::error::{OpKind, errno};
use wo_runtime::fiber;
use wo_runtime::plane::backend::sim::{SimControl, Survival};
use wo_runtime::scope::Outcome;

use super::b1::bytes::builder;
use super::rig::{Account, Machine, account, at, ids, on_simulated_machines, stopped};

/// A database with one account, whose next writes stay on their way until they are released.
async fn held(control: &SimControl, dir: &std::path::Path) -> Result<(Db, Table<Account>)> {
    let db = builder().open(dir).await?;
    let accounts = db.table::<Account>().await?;
    accounts.insert(account(1)).await?;
    control.hold_kind(OpKind::Write);
    Ok((db, accounts))
}

/// Waits until a write is on its way.
async fn on_its_way(control: &SimControl) -> Result<()> {
    while control.held().is_empty() {
        fiber::yield_now().await.map_err(stopped)?;
    }
    Ok(())
}

fn is_told_that_nobody_knows(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    assert!(error.is_cancelled() && error.to_string().contains("a write may be done all the same"), "{error}");
    assert!(error.what_to_do().contains("wo::protect"), "{error}");
}

fn left_on_the_disk(machine: &Machine) -> Vec<u64> {
    let disk = machine.host().disk().after_power_cut(Survival::Nothing);
    Machine::after(disk, 1).run(|dir| async move { ids(builder().open(&dir).await?).await })
}

#[test]
fn db13_a_caller_that_is_cancelled_on_the_owners_shard_or_another_takes_nothing_along() {
    on_simulated_machines(|machine| {
        let control = machine.control();
        let shards = machine.shards();
        machine.run(move |dir| async move {
            let (db, accounts) = held(&control, &dir).await?;
            for shard in 0..shards {
                let id = 10 + shard as u64;
                let hear = control.clone();
                let heard = at(shard, move || async move {
                    let caller = fiber::spawn(move || async move { accounts.insert(account(id)).await });
                    on_its_way(&hear).await?;
                    caller.cancel().await.expect("it ends with what it returned").map(drop)
                })
                .await;
                is_told_that_nobody_knows(&heard.unwrap_err());
                assert_eq!(control.held().len(), 1, "the write is still on its way");
                control.release_all();
                assert_eq!(accounts.get(&id).await?.map(|row| row.id), Some(id), "what was on its way arrives");
                control.hold_kind(OpKind::Write);
            }
            control.release_all();
            assert!(db.is_consistent().await?);
            accounts.insert(account(2)).await?;
            Ok(())
        });
        let all = [1, 2].into_iter().chain((0..shards as u64).map(|shard| 10 + shard));
        assert!(left_on_the_disk(machine).into_iter().eq(all));
    });
}

#[test]
fn db13_whoever_waits_beside_a_cancelled_caller_hears_of_its_own_commit() {
    on_simulated_machines(|machine| {
        let control = machine.control();
        machine.run(|dir| async move {
            let (db, accounts) = held(&control, &dir).await?;
            let first = fiber::spawn(move || async move { accounts.insert(account(2)).await });
            on_its_way(&control).await?;
            // These fill the next batch, and the one in the middle gives up.
            let [third, fourth, fifth] =
                [3, 4, 5].map(|id| fiber::spawn(move || async move { accounts.insert(account(id)).await }));
            let reader = fiber::spawn(move || async move { accounts.get(&4).await });
            let given_up = fiber::spawn(move || async move { accounts.get(&4).await });
            fiber::yield_now().await.map_err(stopped)?;
            is_told_that_nobody_knows(&fourth.cancel().await.expect("it ends").unwrap_err());
            assert!(given_up.cancel().await.expect("it ends").unwrap_err().is_cancelled());
            assert!(![&first, &third, &fifth].iter().any(|caller| caller.is_finished()) && !reader.is_finished());
            control.release_all();
            for caller in [first, third, fifth] {
                caller.join().await.expect("it ends")?;
            }
            assert_eq!(reader.join().await.expect("it ends")?.map(|row| row.id), Some(4));
            assert_eq!(ids(db).await?, [1, 2, 3, 4, 5]);
            db.close().await
        });
        assert_eq!(left_on_the_disk(machine), [1, 2, 3, 4, 5]);
    });
}

#[test]
fn db13_time_that_runs_out_during_a_commit_ends_the_wait_and_not_the_commit() {
    on_simulated_machines(|machine| {
        let control = machine.control();
        machine.run(|dir| async move {
            let (db, _accounts) = held(&control, &dir).await?;
            let mut heard = None;
            let late: Outcome<(), Error> = fiber::with_deadline(Duration::from_millis(3), async || {
                let several = db.transaction(|tx| {
                    let accounts = tx.table::<Account>()?;
                    accounts.insert(account(2))?;
                    accounts.delete(&1).map(drop)
                });
                heard = Some(several.await);
            })
            .await;
            assert!(late.unwrap_err().is_timeout());
            is_told_that_nobody_knows(&heard.expect("the verb answers").unwrap_err());
            control.release_all();
            assert_eq!(ids(db).await?, [2], "all of it");
            assert!(db.is_consistent().await?);
            db.close().await
        });
        assert_eq!(left_on_the_disk(machine), [2]);
    });
}

#[test]
fn db13_a_commit_that_is_protected_is_waited_for() {
    on_simulated_machines(|machine| {
        let control = machine.control();
        machine.run(|dir| async move {
            let (db, accounts) = held(&control, &dir).await?;
            let caller = fiber::spawn(move || async move {
                fiber::protect(|| async move { accounts.insert(account(2)).await }).await
            });
            on_its_way(&control).await?;
            caller.interrupt();
            fiber::sleep(Duration::from_millis(5)).await.map_err(stopped)?;
            assert!(!caller.is_finished());
            control.release_all();
            caller.join().await.expect("it ends")?;
            db.close().await
        });
        assert_eq!(left_on_the_disk(machine), [1, 2]);
    });
}

/// Begins a future, and drops it.
async fn given_up<F: Future>(future: F) {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| {
        assert!(future.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[test]
fn db13_a_call_that_is_dropped_is_done_as_a_whole() {
    on_simulated_machines(|machine| {
        let control = machine.control();
        machine.run(|dir| async move {
            let (db, accounts) = held(&control, &dir).await?;
            given_up(accounts.insert(account(2))).await;
            given_up(accounts.get(&2)).await;
            control.release_all();
            assert_eq!(ids(db).await?, [1, 2]);
            db.close().await
        });
        assert_eq!(left_on_the_disk(machine), [1, 2]);
    });
}

#[test]
fn db13_a_commit_that_fails_behind_its_callers_back_is_undone_as_for_anybody() {
    for (error, next) in [(errno::ENOSPC, None), (errno::EIO, Some(ErrorKind::Poisoned))] {
        on_simulated_machines(|machine| {
            let control = machine.control();
            machine.run(|dir| async move {
                let (db, accounts) = held(&control, &dir).await?;
                control.fail_next(OpKind::Write, error);
                let caller = fiber::spawn(move || async move { accounts.insert(account(2)).await });
                let waiting = fiber::spawn(move || async move { accounts.insert(account(3)).await });
                on_its_way(&control).await?;
                given_up(accounts.get(&2)).await;
                is_told_that_nobody_knows(&caller.cancel().await.expect("it ends").unwrap_err());
                control.release_all();
                let told = waiting.join().await.expect("it ends").unwrap_err();
                assert_eq!(told.kind(), if next.is_some() { ErrorKind::CommitUnknown } else { ErrorKind::NoSpace });
                assert_eq!(ids(db).await?, [1], "{told}");
                assert!(db.is_consistent().await?);
                match next {
                    None => accounts.insert(account(2)).await.map(drop)?,
                    Some(kind) => assert_eq!(accounts.insert(account(2)).await.unwrap_err().kind(), kind),
                }
                Ok(())
            });
            let left = left_on_the_disk(machine);
            assert!(left == [1] && next.is_some() || left == [1, 2] && next.is_none(), "{left:?}");
        });
    }
}
