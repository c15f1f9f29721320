//! Segments are written in whole blocks past the system's cache, where that can be done: nobody who reads them sees
//! anything of it, and where it is refused the log goes on through the cache.

use wo_db::log::LogOptions;
use wo_db::log::error::CommitError;
use wo_runtime::error::{OpKind, errno};
use wo_runtime::fiber;
use wo_runtime::os::fs;

use super::rig::{commit, fails, frames, in_a_world, keys, on_every_kernel, open, open_with};

/// Sizes of which some end a block, some begin one, and some have several.
const SIZES: [usize; 12] = [0, 1, 700, 3900, 8, 4096, 4040, 4041, 12_000, 5, 9000, 63];

#[test]
fn every_frame_is_there_for_readers_as_soon_as_it_is_acknowledged_and_those_before_it_still_are() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        let options = LogOptions { segment_bytes: 64 << 10, ..LogOptions::default() };
        let (mut log, ..) = open_with(&dir, &options).await?;
        let mut before = vec![0; 64];
        for (key, size) in (0..).zip(SIZES) {
            commit(&log, key, &vec![key as u8 + 1; size]).await?;
            let segment = fs::read(dir.join("log.0")).await?;
            let all = frames(&segment);
            assert_eq!(all.len(), key as usize + 1);
            let (begin, size) = all[key as usize];
            assert!(segment[64..begin] == before[64..begin], "what was there is as it was");
            assert!(segment[begin + size..].iter().all(|byte| *byte == 0), "and nothing behind it");
            before = segment[..begin + size].to_vec();
            if key % 4 == 3 {
                // A life that goes on in the middle of a block.
                log.close().await?;
                log = open_with(&dir, &options).await?.0;
            }
        }
        log.close().await?;
        let (_log, recovery, model) = open_with(&dir, &options).await?;
        assert_eq!((recovery.torn_tail_bytes, model.rows.len()), (0, SIZES.len()));
        for (key, size) in (0..).zip(SIZES) {
            assert_eq!(model.rows[&key], vec![key as u8 + 1; size]);
        }
        Ok(())
    });
}

#[test]
fn a_write_past_the_cache_that_is_refused_goes_through_it() {
    // The first write of all fills a segment; later ones are frames, one of them behind others in its block.
    for frames_before in [None, Some(0), Some(3)] {
        in_a_world(move |scratch, control| async move {
            let dir = scratch.dir();
            if frames_before.is_none() {
                control.fail_next(OpKind::Write, errno::EINVAL);
            }
            let (log, ..) = open(&dir).await?;
            for key in 0..frames_before.unwrap_or(0) {
                commit(&log, key, &[1; 300]).await?;
            }
            if frames_before.is_some() {
                control.fail_next(OpKind::Write, errno::EINVAL);
            }
            // Through several segments.
            for key in 100..180 {
                commit(&log, key, &[2; 700]).await?;
            }
            assert!(log.stats().segments > 2 && log.failure().is_none());
            log.close().await?;
            let (_log, recovery, model) = open(&dir).await?;
            assert_eq!(recovery.torn_tail_bytes, 0);
            assert_eq!(keys(&model), (0..frames_before.unwrap_or(0)).chain(100..180).collect::<Vec<_>>());
            Ok(())
        });
    }
}

#[test]
fn an_opening_past_the_cache_that_is_refused_is_made_again_through_it() {
    in_a_world(|scratch, control| async move {
        let dir = scratch.dir();
        let (log, ..) = open(&dir).await?;
        // The next file that is opened is the next segment's.
        control.fail_next(OpKind::Open, errno::EINVAL);
        for key in 0..80 {
            commit(&log, key, &[3; 700]).await?;
        }
        assert!(log.stats().segments > 2 && log.failure().is_none());
        log.close().await?;
        assert_eq!(keys(&open(&dir).await?.2), (0..80).collect::<Vec<_>>());
        Ok(())
    });
}

#[test]
fn a_write_that_is_refused_through_the_cache_too_is_a_failure() {
    in_a_world(|scratch, control| async move {
        let dir = scratch.dir();
        let (log, ..) = open(&dir).await?;
        commit(&log, 1, b"one").await?;
        control.fail_next(OpKind::Write, errno::EINVAL);
        control.fail_next(OpKind::Write, errno::EINVAL);
        let unknown = fails(commit(&log, 2, b"two").await);
        assert!(matches!(unknown, CommitError::CommitUnknown { .. }), "{unknown}");
        drop(log);
        fiber::yield_now().await?;
        assert_eq!(keys(&open(&dir).await?.2), [1]);
        Ok(())
    });
}
