//! What a log does while nothing goes wrong.

use std::rc::Rc;

use wo_db::log::error::CommitError;
use wo_db::log::{Entry, LogOptions};
use wo_runtime::fiber;

use super::rig::{commit, fails, keys, on_every_kernel, open, open_with, row, small};

#[test]
fn db22_every_life_adds_to_the_one_before() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        for life in 0..5u64 {
            let (log, recovery, model) = open(&dir).await?;
            assert_eq!(keys(&model), (0..life * 3).collect::<Vec<_>>());
            assert_eq!(recovery.created, life == 0);
            assert_eq!(u64::from(recovery.generation), life + 1);
            assert_eq!((recovery.last_sequence, recovery.torn_tail_bytes), (life * 3, 0));
            for key in life * 3..life * 3 + 3 {
                assert_eq!(commit(&log, key, b"value").await?, key + 1);
            }
            log.close().await?;
        }
        assert_eq!(open(&dir).await?.2.rows.len(), 15);
        Ok(())
    });
}

#[test]
fn db23_nothing_is_lost_where_segments_meet() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        let options = LogOptions { segment_bytes: 4096, ..LogOptions::default() };
        let mut sum = 0u64;
        for round in 0..100u64 {
            let (log, recovery, model) = open_with(&dir, &options).await?;
            assert_eq!(recovery.torn_tail_bytes, 0);
            assert_eq!(model.rows.len() as u64, round * 100);
            assert_eq!(model.sequences, (1..=round * 100).collect::<Vec<_>>());
            assert_eq!(model.rows.values().map(|value| value.len() as u64).sum::<u64>(), sum);
            let mut last = 0;
            for key in round * 100..round * 100 + 100 {
                let value = vec![7; (key % 50) as usize];
                sum += value.len() as u64;
                last = log.append(Entry::Transaction, &row(key, &value))?;
                if key % 25 == 0 {
                    log.durable(last).await?;
                }
            }
            log.durable(last).await?;
            log.close().await?;
        }
        Ok(())
    });
}

#[test]
fn db7_entries_of_every_size_come_back() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        let options = LogOptions { entry_bytes_max: 2 << 20, ..small() };
        let max = options.entry_bytes_max as usize;
        let sizes = [8, 8 + 4095, 8 + 4096, 8 + 4097, 16 << 10, 1 << 20, max - 1, max];
        let (log, ..) = open_with(&dir, &options).await?;
        for (key, size) in sizes.into_iter().enumerate() {
            commit(&log, key as u64, &vec![key as u8; size - 8]).await?;
        }
        let before = log.stats();
        let refused = fails(log.append(Entry::Transaction, &vec![0; max + 1]));
        assert_eq!(refused, CommitError::TooLarge { dir: dir.clone(), bytes: max as u64 + 1, bytes_max: max as u64 });
        assert_eq!(log.stats(), before, "nothing was appended");
        commit(&log, 99, b"small again").await?;
        log.close().await?;

        let (_log, _, model) = open_with(&dir, &options).await?;
        for (key, size) in sizes.into_iter().enumerate() {
            assert!(model.rows[&(key as u64)] == vec![key as u8; size - 8], "{size} bytes");
        }
        assert_eq!(model.rows[&99], b"small again");
        Ok(())
    });
}

#[test]
fn b4_sixty_four_callers_share_syncs() {
    on_every_kernel(|scratch| async move {
        let (log, ..) = open(&scratch.dir()).await?;
        let log = Rc::new(log);
        let callers: Vec<_> = (0..64u64)
            .map(|caller| {
                let log = Rc::clone(&log);
                fiber::spawn(move || async move {
                    for round in 0..10 {
                        let sequence = commit(&log, caller * 10 + round, b"").await?;
                        assert!(log.durable_sequence() >= sequence, "no answer before its sync");
                    }
                    Ok::<_, CommitError>(())
                })
            })
            .collect();
        for caller in callers {
            caller.join().await.expect("no caller panics")?;
        }
        let batches = log.stats().batches;
        assert!((10..=20).contains(&batches), "640 commits of 64 callers took {batches} syncs");
        Ok(())
    });
}

#[test]
fn b5_lone_commit_waits_for_nobody() {
    super::rig::in_a_world(|scratch, control| async move {
        let (log, ..) = open(&scratch.dir()).await?;
        for key in 0..20 {
            fiber::sleep(std::time::Duration::from_secs(1)).await?;
            let before = (control.now(), log.stats().batches);
            commit(&log, key, b"alone").await?;
            assert_eq!(log.stats().batches, before.1 + 1, "one write that is a sync");
            // The simulated disk's own time, and no timer on top.
            assert!(control.now().since(before.0) < std::time::Duration::from_millis(20));
        }
        Ok(())
    });
}
