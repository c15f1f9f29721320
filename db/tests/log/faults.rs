//! Writes that fall short and syncs that fail: nothing is acknowledged that is not on the disk, ever.

use std::rc::Rc;
use std::time::Duration;

use wo_db::log::error::CommitError;
use wo_db::log::{Entry, LogOptions};
use wo_runtime::error::{OpKind, errno};
use wo_runtime::fiber::{self, Scope};

use super::rig::{commit, fails, in_a_world, keys, open, open_with, row};

#[test]
fn db11_short_write_is_continued_and_synced_before_anybody_hears() {
    let bytes = row(2, &[7; 500]);
    let frame = (40 + 3 + bytes.len() + 4usize).next_multiple_of(8);
    for short in [1, frame / 2, frame - 1] {
        in_a_world(move |scratch, control| async move {
            let dir = scratch.dir();
            let (log, ..) = open(&dir).await?;
            commit(&log, 1, b"before").await?;
            control.hold_kind(OpKind::Sync);
            control.short_next(OpKind::Write, short);
            let sequence = log.append(Entry::Transaction, &row(2, &[7; 500]))?;
            for _ in 0..100 {
                fiber::sleep(Duration::from_millis(1)).await?;
            }
            assert_eq!(control.held().len(), 1, "the rest is written, and the sync of all of it is on its way");
            assert_eq!(log.outcome(sequence), None, "nobody heard");
            control.release_all();
            log.durable(sequence).await?;
            log.close().await?;
            assert_eq!(keys(&open(&dir).await?.2), [1, 2]);
            Ok(())
        });
    }
}

#[test]
fn db2_failed_sync_is_final_even_when_the_next_one_would_succeed() {
    in_a_world(|scratch, control| async move {
        let dir = scratch.dir();
        let (log, ..) = open(&dir).await?;
        let log = Rc::new(log);
        commit(&log, 1, b"one").await?;
        commit(&log, 2, b"two").await?;
        control.fail_next(OpKind::Sync, errno::EIO);
        let third = log.append(Entry::Transaction, &row(3, b"three"))?;
        // While that batch is in flight the next one fills.
        let waiting = Rc::clone(&log);
        let waiting = fiber::spawn(move || async move { waiting.durable(third).await });
        while log.stats().batches < 2 || log.outcome(third).is_some() {
            fiber::yield_now().await?;
        }
        fiber::yield_now().await?;
        let fourth = log.append(Entry::Transaction, &row(4, b"four"))?;
        let unknown = fails(waiting.join().await.expect("it does not panic"));
        assert!(matches!(unknown, CommitError::CommitUnknown { .. }) && !unknown.is_undone(), "{unknown}");
        let refused = fails(log.durable(fourth).await);
        assert!(matches!(refused, CommitError::Poisoned { .. }) && refused.is_undone(), "{refused}");
        log.rolled_back();
        for _ in 0..3 {
            let refused = fails(log.append(Entry::Transaction, &row(5, b"five")));
            assert!(matches!(refused, CommitError::Poisoned { .. }), "{refused}");
        }
        assert!(matches!(log.progress(2).await, Err(CommitError::Poisoned { .. })));
        assert_eq!(log.durable_sequence(), 2);
        let log = Rc::into_inner(log).expect("the waiting fiber has ended");
        assert!(matches!(log.close().await, Err(CommitError::CommitUnknown { .. } | CommitError::Poisoned { .. })));
        let (_log, _, model) = open(&dir).await?;
        assert!([&[1, 2][..], &[1, 2, 3]].contains(&&keys(&model)[..]), "{:?}", keys(&model));
        Ok(())
    });
}

#[test]
fn r57_failed_write_is_final_too() {
    for (kind, error) in [(OpKind::Write, errno::EIO), (OpKind::Write, errno::EBADF), (OpKind::Sync, errno::EIO)] {
        in_a_world(move |scratch, control| async move {
            let (log, ..) = open(&scratch.dir()).await?;
            commit(&log, 1, b"one").await?;
            control.fail_next(kind, error);
            let unknown = fails(commit(&log, 2, b"two").await);
            assert!(matches!(unknown, CommitError::CommitUnknown { .. }), "{kind} {error}: {unknown}");
            assert!(log.poison().is_some());
            Ok(())
        });
    }
}

#[test]
fn db13_commit_survives_the_scope_of_who_asked_for_it() {
    in_a_world(|scratch, control| async move {
        let dir = scratch.dir();
        let (log, ..) = open(&dir).await?;
        let log = Rc::new(log);
        control.hold_kind(OpKind::Write);
        let committing = Rc::clone(&log);
        let outcome = fiber::scope(|scope: Scope<CommitError>| async move {
            let child = scope.fork(move || async move { commit(&committing, 1, &[0x55; 5000]).await });
            fiber::sleep(Duration::from_millis(5)).await.map_err(|_| CommitError::Cancelled)?;
            scope.cancel();
            let ended = child.join().await;
            assert!(ended.is_err() || ended.is_ok_and(|outcome| outcome == 1));
            Ok::<(), CommitError>(())
        })
        .await;
        drop(outcome);
        assert_eq!(log.outcome(1), None, "it is still on its way");
        // Memory that was given up would be given out again, and overwritten.
        let poison: Vec<Vec<u8>> = (0..64).map(|_| vec![0xaa; 5100]).collect();
        control.release_all();
        log.durable(1).await?;
        drop(poison);
        Rc::into_inner(log).expect("the child has ended").close().await?;
        assert_eq!(open(&dir).await?.2.rows[&1], [0x55; 5000]);
        Ok(())
    });
}

#[test]
fn db28_clocks_decide_nothing() {
    in_a_world(|scratch, _control| async move {
        let dir = scratch.dir();
        let options = LogOptions::default();
        // A simulated clock stands still or jumps by years between two commits; numbers go on by one.
        for life in 0..3u64 {
            let (log, ..) = open_with(&dir, &options).await?;
            for key in 0..3 {
                assert_eq!(commit(&log, life * 3 + key, b"").await?, life * 3 + key + 1);
                fiber::sleep(Duration::from_secs(key * 315_360_000)).await?;
            }
            log.close().await?;
        }
        let (_log, recovery, model) = open_with(&dir, &options).await?;
        assert_eq!(model.sequences, (1..=9).collect::<Vec<_>>());
        assert_eq!(recovery.generation, 4);
        Ok(())
    });
}
