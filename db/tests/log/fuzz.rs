//! Directories with anything done to them: opening never panics and never takes for ever, and what it opens is a state
//! that was.

use std::collections::BTreeMap;

use wo_db::log::copy::copy;
use wo_db::log::error::OpenError;
use wo_db::log::examine::examine;
use wo_db::log::salvage::salvage;
use wo_db::log::{Entry, LogOptions};

use super::rig::{
    Failure, Files, Model, commit, exists, files, frames, on_every_kernel, on_real_kernels, open, open_with, put,
    put_files, remove, small, written,
};

/// A directory with a snapshot, segments in front of and behind it, and files ready; and the states it went through.
async fn directory(dir: &std::path::Path) -> Result<(Files, Vec<BTreeMap<u64, Vec<u8>>>), Failure> {
    let options = LogOptions { segment_bytes: 4096, ..small() };
    let (log, ..) = open_with(dir, &options).await?;
    let mut rows = BTreeMap::new();
    let mut states = vec![rows.clone()];
    for key in 0..40u64 {
        let value = vec![key as u8; (key * 7 % 300) as usize];
        commit(&log, key % 13, &value).await?;
        rows.insert(key % 13, value);
        states.push(rows.clone());
        if key == 20 {
            let mut all = rows.clone().into_iter();
            log.snapshot(b"tables", log.durable_sequence(), |body| put(&mut all, body)).await?;
        }
    }
    log.append(Entry::Catalogue, b"other tables")?;
    log.close().await?;
    Ok((files(dir).await, states))
}

/// One thing done to one file.
fn damage(files: &mut Files, dice: &mut fastrand::Rng) {
    let names: Vec<String> = files.keys().cloned().collect();
    let name = dice.choice(&names).expect("there are files").clone();
    let bytes = files.get_mut(&name).expect("it is one of them");
    if bytes.is_empty() {
        return;
    }
    // Where something is, rather than in the zeros behind.
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(bytes.len(), |last| last + 1);
    let at = dice.usize(..used);
    let end = (at + dice.usize(1..600)).min(bytes.len());
    match dice.u8(..9) {
        0 => bytes[at] ^= 1 << dice.u8(..8),
        1 => bytes[at..end].fill(0),
        2 => dice.fill(&mut bytes[at..end]),
        3 => bytes.truncate(at),
        4 => drop(files.remove(&name)),
        5 => {
            let piece = bytes[at..end].to_vec();
            let to = dice.usize(..bytes.len() - piece.len() + 1);
            bytes[to..to + piece.len()].copy_from_slice(&piece);
        }
        6 => bytes[at / 4 * 4..].iter_mut().take(4).for_each(|byte| *byte = 0xff),
        7 => {
            let other = dice.choice(&names).expect("there are files").clone();
            let copied = files[&name].clone();
            files.insert(other, copied);
        }
        _ => bytes.extend(std::iter::repeat_with(|| dice.u8(..)).take(100)),
    }
}

#[test]
fn b2_anything_done_to_a_directory_gives_a_state_that_was_or_a_typed_refusal() {
    on_every_kernel(|scratch| async move {
        let (whole, states) = directory(&scratch.dir()).await?;
        let mut dice = fastrand::Rng::with_seed(11);
        let (mut opened, mut refused) = (0, 0);
        for turn in 0..60 {
            let dir = scratch.join("damaged");
            let mut damaged = whole.clone();
            for _ in 0..dice.u32(1..4) {
                damage(&mut damaged, &mut dice);
            }
            put_files(&dir, &damaged).await;
            let mut looked = Model::default();
            let looked_at = examine(&dir, &mut looked, &mut |_, _| ()).await;
            assert!(files(&dir).await == damaged, "turn {turn}: looking changed something");
            match open(&dir).await {
                Ok((log, recovery, model)) => {
                    opened += 1;
                    assert!(states.contains(&model.rows), "turn {turn}: a state that never was: {recovery:?}");
                    assert_eq!(looked.rows, model.rows, "turn {turn}");
                    commit(&log, 1000, b"and on").await?;
                    log.close().await?;
                    let (_log, _, again) = open(&dir).await?;
                    assert_eq!(again.rows.len(), model.rows.len() + 1, "turn {turn}");
                }
                Err(error) => {
                    refused += 1;
                    assert!(files(&dir).await == damaged, "turn {turn}: the refusal changed something: {error}");
                    assert!(!matches!(error, OpenError::Io { .. } | OpenError::NoSpace { .. }), "turn {turn}: {error}");
                    assert_eq!(looked_at.expect_err("it was refused").to_string(), error.to_string());
                    let saved = scratch.join("salvaged");
                    remove(&saved).await;
                    // Segments of full size take their time.
                    if turn % 6 == 0
                        && let Ok(salvaged) = salvage(&dir, &saved, &mut |_, _| ()).await
                    {
                        open_with(&salvaged.dir, &LogOptions::default()).await?.0.close().await?;
                    }
                    let copied = scratch.join("copied");
                    assert!(copy(&dir, &copied, &mut |_, _| ()).await.is_err() && !exists(&copied).await);
                }
            }
        }
        assert!(opened > 10 && refused > 10, "{opened} opened, {refused} refused");
        Ok(())
    });
}

#[test]
fn db6_no_length_is_trusted() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        let whole = written(&dir, 5).await?;
        let all = frames(&whole["log.0"]);
        let (last, size) = all[4];
        let remaining = (whole["log.0"].len() - last) as u32;
        for length in [0, 1, u32::MAX, remaining + 1, remaining - 43, (1 << 30) + 1, size as u32, 12345] {
            for (number, middle) in [(4, false), (2, true)] {
                let mut broken = whole.clone();
                let at = all[number].0 + 4;
                broken.get_mut("log.0").expect("it is there")[at..at + 4].copy_from_slice(&length.to_le_bytes());
                put_files(&dir, &broken).await;
                match open(&dir).await {
                    Ok((log, recovery, model)) => {
                        assert!(!middle, "a length of {length}");
                        assert!(recovery.torn_tail_bytes > 0 && model.rows.len() == 4, "a length of {length}");
                        log.close().await?;
                    }
                    Err(OpenError::CorruptMiddle { offset, .. }) => {
                        assert!(middle && offset == all[2].0 as u64, "a length of {length}");
                        assert!(files(&dir).await == broken);
                    }
                    Err(other) => panic!("a length of {length}: {other}"),
                }
            }
        }
        Ok(())
    });
}

fn open_rows() -> impl Iterator<Item = (u64, Vec<u8>)> {
    (0..200).map(|key| (key, vec![7; 300]))
}

#[test]
fn db32_no_file_of_the_log_is_mapped() {
    // While it is written, snapshotted and replayed, the system's own list of what is mapped names no file of it.
    on_real_kernels(|scratch| async move {
        let dir = scratch.dir();
        let mapped = || {
            let maps = std::fs::read_to_string("/proc/self/maps").expect("the system tells");
            assert!(maps.contains("/"), "files are named there");
            maps.lines().filter(|line| line.contains(dir.to_str().expect("a plain name"))).count()
        };
        for _ in 0..2 {
            let (log, ..) = open(&dir).await?;
            for key in 0..200 {
                commit(&log, key, &[7; 300]).await?;
                assert_eq!(mapped(), 0);
            }
            let mut rows = open_rows();
            log.snapshot(b"tables", log.durable_sequence(), |body| {
                assert_eq!(mapped(), 0);
                put(&mut rows, body)
            })
            .await?;
            log.close().await?;
        }
        Ok(())
    });
}
