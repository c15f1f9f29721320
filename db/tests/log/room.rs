//! Full disks: what was acknowledged stays, what was not is undone, and room makes it work again.

use wo_db::log::error::{CommitError, OpenError};
use wo_db::log::{Entry, LogOptions};
use wo_runtime::error::{OpKind, errno};
use wo_runtime::os::fs;

use super::rig::{commit, fails, in_a_world, keys, open, open_with, refusal, row, small};

#[test]
fn db3_full_disk_undoes_the_commit_and_room_makes_the_next_one_work() {
    in_a_world(|scratch, control| async move {
        let dir = scratch.dir();
        let (log, ..) = open(&dir).await?;
        let mut acked = Vec::new();
        // The first segment is there; the next one meets a disk that is full.
        control.resize_disk(20 << 10);
        let failure = loop {
            let key = acked.len() as u64;
            match commit(&log, key, &[9; 500]).await {
                Ok(_) => acked.push(key),
                Err(failure) => break failure,
            }
        };
        assert!(matches!(failure, CommitError::NoSpace { .. }), "{failure}");
        assert!(failure.is_undone() && acked.len() > 20, "{} commits", acked.len());
        assert_eq!(log.failure(), Some(failure.clone()));
        assert_eq!(fails(log.append(Entry::Transaction, &row(0, b""))), failure, "until the memory is undone");
        log.rolled_back();
        assert!(matches!(commit(&log, 777, &[9; 500]).await, Err(CommitError::NoSpace { .. })), "still full");
        log.rolled_back();

        control.resize_disk(1 << 20);
        for key in 1000..1040 {
            commit(&log, key, &[8; 500]).await?;
            acked.push(key);
        }
        log.close().await?;
        let (_log, recovery, model) = open(&dir).await?;
        assert_eq!(keys(&model), acked);
        assert_eq!(recovery.torn_tail_bytes, 0);
        Ok(())
    });
}

#[test]
fn db3_frame_that_was_refused_half_way_never_comes_back() {
    // What one write meets: nothing written, half of it written, all of it written and then no room for the sync.
    for half in [None, Some(0.5), Some(1.0)] {
        in_a_world(move |scratch, control| async move {
            let dir = scratch.dir();
            let (log, ..) = open(&dir).await?;
            commit(&log, 1, b"before").await?;
            let bytes = row(2, &[7; 3000]);
            match half {
                None => control.fail_next(OpKind::Write, errno::ENOSPC),
                Some(part) if part < 1.0 => {
                    control.short_next(OpKind::Write, 1500);
                    control.fail_next(OpKind::Write, errno::ENOSPC);
                }
                Some(_) => {
                    control.short_next(OpKind::Write, 1500);
                    control.short_next(OpKind::Write, usize::MAX);
                    control.fail_next(OpKind::Sync, errno::ENOSPC);
                }
            }
            let refused = log.append(Entry::Transaction, &bytes)?;
            let behind = log.append(Entry::Transaction, &row(3, b"behind it"))?;
            assert!(matches!(log.durable(refused).await, Err(CommitError::NoSpace { .. })));
            assert!(matches!(log.durable(behind).await, Err(CommitError::NoSpace { .. })));
            log.rolled_back();
            // A crash now would find nothing of it.
            let segment = fs::read(dir.join("log.0")).await?;
            assert_eq!(super::rig::frames(&segment).len(), 1, "{half:?}");
            let next = commit(&log, 4, b"after").await?;
            assert!(next > behind, "numbers are not given out twice");
            assert!(matches!(log.outcome(refused), Some(Err(CommitError::NoSpace { .. }))));
            log.close().await?;
            let (_log, _, model) = open(&dir).await?;
            assert_eq!(keys(&model), [1, 4]);
            assert_eq!(model.sequences, [1, next]);
            Ok(())
        });
    }
}

#[test]
fn disk_without_room_for_a_log_is_told_at_the_opening() {
    in_a_world(|scratch, control| async move {
        let dir = scratch.dir();
        control.resize_disk(1 << 20);
        match open_with(&dir, &LogOptions::default()).await {
            Err(OpenError::NoSpace { error, .. }) => assert_eq!(error.errno(), errno::ENOSPC),
            other => panic!("{:?}", other.map(|(log, ..)| log)),
        }
        assert!(fs::read_dir(&dir).await?.is_empty(), "what was of no use is removed");
        let (log, ..) = open_with(&dir, &small()).await?;
        commit(&log, 1, b"smaller segments fit").await?;
        drop(log);
        assert!(matches!(refusal(&scratch.join("data/log.0")).await, OpenError::Io { .. }));
        Ok(())
    });
}
