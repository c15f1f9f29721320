//! Backups of a log that goes on, bringing them back, and taking out of broken directories what is whole.

use std::rc::Rc;

use wo_db::log::copy::copy;
use wo_db::log::error::{CommitError, CopyError, OpenError};
use wo_db::log::salvage::salvage;
use wo_runtime::fiber;

use super::rig::{commit, exists, fails, files, frames, keys, on_every_kernel, open, put_files, refusal};

fn quiet(_done: u64, _total: u64) {}

#[test]
fn db33_backup_under_load_is_a_state_that_was() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        let (log, ..) = open(&dir).await?;
        let log = Rc::new(log);
        for key in 0..200 {
            commit(&log, key, &[5; 100]).await?;
        }
        let writer = Rc::clone(&log);
        let load = fiber::spawn(move || async move {
            for key in 200..600 {
                commit(&writer, key, &[6; 100]).await?;
            }
            Ok::<_, CommitError>(())
        });
        let mut backups = Vec::new();
        for number in 0..3 {
            let acked = log.durable_sequence();
            let mut seen = (0, 0);
            let to = scratch.join(&format!("backup{number}"));
            let backup = log.backup(&to, &mut |done, total| seen = (done, total)).await?;
            assert!(backup.last_sequence >= acked && seen.0 == seen.1 && seen.0 == backup.bytes);
            backups.push(backup);
        }
        load.join().await.expect("the load does not panic")?;
        for backup in backups {
            let (copy, recovery, model) = open(&backup.dir).await?;
            assert_eq!(keys(&model), (0..backup.last_sequence).collect::<Vec<_>>(), "whole up to one transaction");
            assert_eq!(recovery.torn_tail_bytes, 0);
            // It is a database like any other.
            commit(&copy, 10_000, b"goes its own way").await?;
            copy.close().await?;
        }
        let taken = fails(log.backup(&scratch.join("backup0"), &mut quiet).await);
        assert!(matches!(taken, CopyError::NotEmpty { .. }), "{taken}");
        Ok(())
    });
}

#[test]
fn copy_of_a_served_directory_and_back() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        let (log, ..) = open(&dir).await?;
        for key in 0..300 {
            commit(&log, key, &[5; 100]).await?;
        }
        // Another process would see the same files.
        let backup = copy(&dir, &scratch.join("backup"), &mut quiet).await?;
        assert_eq!(backup.last_sequence, 300);
        log.close().await?;
        copy(&backup.dir, &scratch.join("restored"), &mut quiet).await?;
        assert_eq!(open(&scratch.join("restored")).await?.2.rows.len(), 300);

        let mut broken = files(&dir).await;
        broken.get_mut("log.0").expect("it is there")[200] ^= 1;
        put_files(&dir, &broken).await;
        let refused = fails(copy(&dir, &scratch.join("no"), &mut quiet).await);
        assert!(matches!(refused, CopyError::Source(OpenError::CorruptMiddle { .. })), "{refused}");
        assert!(!exists(&scratch.join("no")).await && !exists(&scratch.join("no.unfinished")).await);
        Ok(())
    });
}

#[test]
fn db5_salvage_takes_out_what_is_before_and_behind_the_gap() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        let (log, ..) = open(&dir).await?;
        for key in 0..350 {
            commit(&log, key, &[key as u8; 100]).await?;
        }
        log.close().await?;
        let mut broken = files(&dir).await;
        let segment = broken.get_mut("log.0").expect("it is there");
        let (begin, size) = frames(segment)[20];
        segment[begin + 50] ^= 1;
        put_files(&dir, &broken).await;
        assert!(matches!(refusal(&dir).await, OpenError::CorruptMiddle { .. }));
        let salvaged = salvage(&dir, &scratch.join("salvaged"), &mut quiet).await?;
        assert_eq!(salvaged.log_entries, 349);
        let gaps: Vec<_> = salvaged.gaps.iter().map(|gap| (gap.from, gap.to)).collect();
        assert_eq!(gaps, [(begin as u64, (begin + size) as u64)]);
        assert!(files(&dir).await == broken, "the old directory is only read");
        let (_log, _, model) = open(&salvaged.dir).await?;
        assert_eq!(keys(&model), (0..350).filter(|key| *key != 20).collect::<Vec<_>>());

        // A broken header loses the header, and a missing file what was in it.
        broken.get_mut("log.1").expect("it is there")[3] ^= 1;
        let lost = frames(&broken.remove("log.2").expect("it is there")).len();
        put_files(&dir, &broken).await;
        let salvaged = salvage(&dir, &scratch.join("again"), &mut quiet).await?;
        assert_eq!(salvaged.log_entries, 349 - lost as u64);
        assert_eq!(salvaged.gaps.len(), 3, "{:?}", salvaged.gaps);
        assert!(salvaged.gaps.iter().any(|gap| gap.reason.contains("segments 3 to 3 are missing")));
        Ok(())
    });
}
