//! Snapshots while the log goes on, what they make needless, and what opening makes of broken ones.

use std::path::Path;

use wo_db::log::error::{CopyError, OpenError};
use wo_db::log::{Entry, Log, Snapshot};
use wo_runtime::os::fs;

use super::rig::{
    Failure, Model, commit, exists, fails, files, keys, on_every_kernel, open, put, put_files, refusal, row,
};

/// A snapshot of a model.
async fn snapshot(log: &Log, model: &Model) -> Result<Snapshot, CopyError> {
    let mut rows = model.rows.clone().into_iter();
    log.snapshot(b"tables", log.durable_sequence(), |body| put(&mut rows, body)).await
}

/// Rows up to a key, in a log and in a model.
async fn fill(log: &Log, model: &mut Model, keys: std::ops::Range<u64>) -> Result<(), Failure> {
    for key in keys {
        let value = vec![key as u8; 200];
        log.append(Entry::Transaction, &row(key, &value))?;
        model.rows.insert(key, value);
        if key % 10 == 0 {
            log.durable(log.last_sequence()).await?;
        }
    }
    log.durable(log.last_sequence()).await?;
    Ok(())
}

async fn log_bytes(dir: &Path) -> usize {
    files(dir).await.iter().filter(|(name, _)| name.starts_with("log.")).map(|(_, bytes)| bytes.len()).sum()
}

#[test]
fn snapshot_makes_segments_needless_and_replaces_the_one_before() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        let (log, ..) = open(&dir).await?;
        let mut model = Model::default();
        fill(&log, &mut model, 0..1000).await?;
        let full = log_bytes(&dir).await;
        let first = snapshot(&log, &model).await?;
        assert_eq!((first.as_of, &first.file), (1000, &dir.join("snapshot.1000")));
        assert!(first.segments_freed > 5);
        let left = log_bytes(&dir).await;
        assert!(left < full / 2, "{left} of {full}");
        fill(&log, &mut model, 1000..1100).await?;
        snapshot(&log, &model).await?;
        let names: Vec<_> = files(&dir).await.into_keys().filter(|name| name.starts_with("snap")).collect();
        assert_eq!(names, ["snapshot.1100"]);
        // Freed files are used again, so the directory does not grow with what was ever written.
        for round in 0..10 {
            fill(&log, &mut model, 0..500).await?;
            snapshot(&log, &model).await?;
            assert!(log_bytes(&dir).await < full, "round {round}");
        }
        fill(&log, &mut model, 2000..2010).await?;
        log.close().await?;

        let (_log, recovery, replayed) = open(&dir).await?;
        assert_eq!(replayed.rows, model.rows);
        assert_eq!(replayed.catalogues, [b"tables"]);
        assert_eq!(replayed.snapshot, Some(6100));
        assert_eq!(replayed.sequences, (6101..=6110).collect::<Vec<_>>());
        assert_eq!(recovery.snapshot, Some((dir.join("snapshot.6100"), 6100)));
        assert_eq!((recovery.transactions, recovery.last_sequence), (10, 6110));
        Ok(())
    });
}

#[test]
fn snapshot_goes_on_with_commits_between_its_rows() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        let (log, ..) = open(&dir).await?;
        for key in 0..3000 {
            log.append(Entry::Transaction, &row(key, &[1; 300]))?;
        }
        log.durable(3000).await?;
        // Rows change while they are handed out: each comes in its state of that moment.
        let mut next = 0;
        let rows = |body: &mut Vec<u8>| {
            let key = next;
            next += 1;
            if key == 3000 {
                return false;
            }
            log.append(Entry::Transaction, &row(key, b"changed")).expect("the log goes on");
            body.extend_from_slice(&row(key, b"changed"));
            true
        };
        let made = log.snapshot(b"tables", 3000, rows).await?;
        assert_eq!(made.as_of, 3000);
        assert!(log.durable_sequence() >= 6000, "what is in it is on the disk");
        log.close().await?;
        let (_log, _, model) = open(&dir).await?;
        assert_eq!(keys(&model), (0..3000).collect::<Vec<_>>());
        assert!(model.rows.values().all(|value| value == b"changed"));
        Ok(())
    });
}

#[test]
fn one_copy_is_made_at_a_time_and_none_of_a_closed_log() {
    on_every_kernel(|scratch| async move {
        let (log, ..) = open(&scratch.dir()).await?;
        commit(&log, 1, b"one").await?;
        let mut first = Box::pin(log.snapshot(b"", 1, |_| false));
        // The first one has begun once it parks.
        std::future::poll_fn(|cx| {
            assert!(first.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        let refused = fails(log.snapshot(b"", 1, |_| false).await);
        first.await?;
        log.snapshot(b"", 1, |_| false).await?;
        assert!(matches!(refused, CopyError::Busy { .. }), "{refused}");
        Ok(())
    });
}

#[test]
fn db19_newest_whole_snapshot_wins_whatever_lies_beside_it() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        let (log, ..) = open(&dir).await?;
        let mut model = Model::default();
        fill(&log, &mut model, 0..20).await?;
        snapshot(&log, &model).await?;
        let older = files(&dir).await;
        fill(&log, &mut model, 20..40).await?;
        log.close().await?;
        let tail = files(&dir).await;
        let (log, ..) = open(&dir).await?;
        snapshot(&log, &model).await?;
        log.close().await?;
        let newer = files(&dir).await["snapshot.40"].clone();
        let mut broken = newer.clone();
        let middle = newer.len() / 2;
        broken[middle] ^= 4;

        let drafts = [&[][..], &newer[..middle], &broken, &newer, &[0; 5000]];
        for draft in drafts {
            // Under the draft's name it counts for nothing, even when it is whole.
            let mut beside = tail.clone();
            beside.insert("snapshot.tmp".to_owned(), draft.to_vec());
            put_files(&dir, &beside).await;
            let (log, recovery, replayed) = open(&dir).await?;
            assert_eq!(replayed.rows, model.rows);
            assert_eq!(recovery.snapshot, Some((dir.join("snapshot.20"), 20)));
            assert!(recovery.snapshots_passed_over.is_empty());
            log.close().await?;
            assert!(!exists(&dir.join("snapshot.tmp")).await);
        }
        for draft in [&[][..], &newer[..middle], &broken, &[0; 5000]] {
            // Under its own name it is passed over, and that is told.
            let mut beside = tail.clone();
            beside.insert("snapshot.40".to_owned(), draft.to_vec());
            put_files(&dir, &beside).await;
            let (log, recovery, replayed) = open(&dir).await?;
            assert_eq!(replayed.rows, model.rows);
            assert_eq!(recovery.snapshot, Some((dir.join("snapshot.20"), 20)));
            assert_eq!(recovery.snapshots_passed_over[0].0, dir.join("snapshot.40"));
            log.close().await?;
        }
        let mut beside = tail.clone();
        beside.insert("snapshot.40".to_owned(), newer.clone());
        put_files(&dir, &beside).await;
        let (log, recovery, replayed) = open(&dir).await?;
        assert_eq!((replayed.rows, recovery.transactions), (model.rows.clone(), 0));
        log.close().await?;

        // None whole, but the log is there from its beginning.
        let mut complete = older.clone();
        complete.insert("log.0".to_owned(), tail["log.0"].clone());
        complete.insert("snapshot.20".to_owned(), broken.clone());
        put_files(&dir, &complete).await;
        let (log, recovery, replayed) = open(&dir).await?;
        assert_eq!((replayed.rows, recovery.snapshot), (model.rows, None));
        log.close().await?;
        Ok(())
    });
}

#[test]
fn log_that_lacks_what_its_snapshot_had_is_refused_untouched() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        let (log, ..) = open(&dir).await?;
        let mut model = Model::default();
        fill(&log, &mut model, 0..300).await?;
        let made = snapshot(&log, &model).await?;
        assert!(made.segments_freed > 0);
        fill(&log, &mut model, 300..400).await?;
        log.close().await?;
        let mut broken = files(&dir).await;
        for bytes in broken.iter_mut().filter(|(name, _)| name.starts_with("snap")).map(|(_, bytes)| bytes) {
            bytes[100] ^= 1;
        }
        put_files(&dir, &broken).await;
        match refusal(&dir).await {
            OpenError::Missing { what, .. } => assert!(what.contains("snapshot.300"), "{what}"),
            other => panic!("{other}"),
        }
        assert!(files(&dir).await == broken);
        Ok(())
    });
}

#[test]
fn db18_snapshot_of_an_older_life_is_not_published() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        let (log, ..) = open(&dir).await?;
        let mut model = Model::default();
        fill(&log, &mut model, 0..10).await?;
        // As where locks are not shared: another owner opened the same files, and has written.
        let other = scratch.join("other");
        put_files(&other, &files(&dir).await).await;
        let (newer, ..) = open(&other).await?;
        for key in 0..200 {
            commit(&newer, key, &[3; 200]).await?;
        }
        newer.close().await?;
        let theirs = files(&other).await;
        for (name, bytes) in &theirs {
            fs::write(dir.join(name), bytes).await?;
        }
        match fails(snapshot(&log, &model).await) {
            CopyError::OtherGeneration { ours, found, .. } => assert_eq!((ours, found), (1, 2)),
            other => panic!("{other}"),
        }
        let left: Vec<_> = files(&dir).await.into_keys().filter(|name| name.starts_with("snapshot")).collect();
        assert!(left.is_empty() || left == ["snapshot.tmp"], "{left:?}");
        drop(log);
        let (_log, recovery, replayed) = open(&dir).await?;
        assert_eq!((recovery.snapshot, replayed.rows.len()), (None, 200));
        Ok(())
    });
}

#[test]
fn closed_log_takes_nothing() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        let (log, ..) = open(&dir).await?;
        let sequence = log.append(Entry::Transaction, &row(7, b"written by the closing"))?;
        assert_eq!(log.outcome(sequence), None);
        log.close().await?;
        let (log, _, model) = open(&dir).await?;
        assert_eq!(keys(&model), [7]);
        log.append(Entry::Transaction, &row(8, b"written after the handle is gone"))?;
        drop(log);
        // The writer has it still, and lets the directory go once it is written.
        let mut tries = 0;
        let model = loop {
            match open(&dir).await {
                Ok((_, _, model)) => break model,
                Err(OpenError::AlreadyOpen { .. }) if tries < 100_000 => tries += 1,
                Err(other) => return Err(other.into()),
            }
        };
        assert_eq!(keys(&model), [7, 8]);
        Ok(())
    });
}
