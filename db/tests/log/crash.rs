//! Power cuts at every moment: whatever the disk kept of what was not synced, opening finds every acknowledged entry,
//! and of the others whole ones in order, or none.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use wo_db::log::error::{CommitError, CopyError, OpenError};
use wo_db::log::{Entry, Log, LogOptions};
use wo_runtime::error::errno;
use wo_runtime::plane::backend::sim::{Disk, SimHost, Survival};
use wo_runtime::shard::Builder;

use super::rig::{Failure, Model, commit, frames, open, open_with, put, row, small};

const DIR: &str = "/data/base";

/// What a client of the log knows: how many entries were acknowledged, and what each one was.
#[derive(Clone, Debug, Default)]
struct Known {
    acked: usize,
    entries: Vec<(u64, Vec<u8>)>,
}

impl Known {
    /// The state after some entries.
    fn after(&self, count: usize) -> BTreeMap<u64, Vec<u8>> {
        self.entries[..count].iter().cloned().collect()
    }
}

/// Runs a program on a host.
fn run<F: Future<Output = Result<(), Failure>> + 'static>(host: &SimHost, body: impl FnOnce() -> F + 'static) {
    Builder::new().simulated(host).run(body).expect("the program runs to its end").expect("it succeeds");
}

/// Opens what a crash left; answers the rows.
fn recovered(host: &SimHost, disk: Disk) -> Result<Model, OpenError> {
    host.power_on(disk).expect("the host is off");
    Builder::new()
        .simulated(host)
        .run(|| async {
            let (log, _, model) = open(Path::new(DIR)).await?;
            log.close().await.expect("nothing is written");
            Ok(model)
        })
        .expect("the program runs to its end")
}

/// Runs `body` and looks at the disk before each of its changes, with what was acknowledged by then.
fn every_crash<F: Future<Output = Result<(), Failure>> + 'static>(
    seed: u64,
    body: impl FnOnce(Arc<Mutex<Known>>) -> F + 'static,
) -> (Vec<(Disk, usize)>, Known) {
    let host = SimHost::new(seed);
    let known = Arc::new(Mutex::new(Known::default()));
    let crashes = Arc::new(Mutex::new(Vec::new()));
    {
        let (known, crashes) = (Arc::clone(&known), Arc::clone(&crashes));
        host.before_disk_changes(move |disk: Disk| {
            let acked = known.lock().expect("no panic").acked;
            crashes.lock().expect("no panic").push((disk, acked));
        });
    }
    let theirs = Arc::clone(&known);
    run(&host, move || body(theirs));
    let known = known.lock().expect("no panic").clone();
    let mut crashes = std::mem::take(&mut *crashes.lock().expect("no panic"));
    crashes.push((host.disk(), known.acked));
    (crashes, known)
}

/// Checks every crash of a run, each with up to `images_max` of what the disk may have kept.
fn check(crashes: Vec<(Disk, usize)>, known: &Known, images_max: usize) {
    let mut opened = 0;
    for (number, (disk, acked)) in crashes.into_iter().enumerate() {
        for (image, disk) in disk.some_images(images_max, number as u64).enumerate() {
            let host = SimHost::new(1);
            let model = recovered(&host, disk)
                .unwrap_or_else(|error| panic!("crash {number}, image {image}, {acked} acknowledged: {error}"));
            let prefix = (acked..=known.entries.len()).find(|count| known.after(*count) == model.rows);
            assert!(
                prefix.is_some(),
                "crash {number}, image {image}: {} rows are no prefix with the {acked} acknowledged ones",
                model.rows.len()
            );
            opened += 1;
        }
    }
    assert!(opened > 50, "{opened} crashes looked at");
}

/// Appends an entry and waits for it, as a client that keeps books.
async fn tell(log: &Log, known: &Arc<Mutex<Known>>, key: u64, value: Vec<u8>) -> Result<(), CommitError> {
    known.lock().expect("no panic").entries.push((key, value.clone()));
    commit(log, key, &value).await?;
    let mut known = known.lock().expect("no panic");
    known.acked = known.entries.len();
    Ok(())
}

/// The directory is made, segments are begun, the log is closed and opened, and goes on; snapshots are given names.
async fn three_lives(known: Arc<Mutex<Known>>) -> Result<(), Failure> {
    for life in 0..3u64 {
        let (log, ..) = open(Path::new(DIR)).await?;
        for key in 0..25 {
            tell(&log, &known, life * 10 + key, vec![(life * 25 + key) as u8; 300]).await?;
        }
        if life > 0 {
            snapshot(&log, &known).await?;
        }
        log.close().await?;
    }
    Ok(())
}

#[test]
fn r57_every_acknowledged_entry_survives_every_power_cut() {
    let (crashes, known) = every_crash(3, three_lives);
    check(crashes, &known, 6);
}

#[test]
fn db8_names_that_were_not_synced_are_none_anybody_builds_upon() {
    let (crashes, known) = every_crash(3, three_lives);
    // The directory, its segments, and the snapshots: each is at some moment a name alone.
    let is_in_doubt = |(disk, _): &&(Disk, usize)| {
        let left = disk.after_power_cut(Survival::Nothing).files();
        disk.files().iter().any(|file| file.starts_with(DIR) && !left.contains(file))
    };
    assert!(crashes.iter().filter(is_in_doubt).count() >= 5, "no name was ever in doubt");
    for (number, (disk, acked)) in crashes.into_iter().enumerate() {
        let left = disk.after_power_cut(Survival::Nothing);
        let model = recovered(&SimHost::new(1), left).unwrap_or_else(|error| panic!("crash {number}: {error}"));
        // What was acknowledged, and at most the one that was about to be: no more was synced.
        let next = known.entries.len().min(acked + 1);
        assert!([acked, next].iter().any(|count| model.rows == known.after(*count)), "crash {number}");
    }
}

/// A snapshot of everything that is known.
async fn snapshot(log: &Log, known: &Arc<Mutex<Known>>) -> Result<(), CopyError> {
    let mut rows = {
        let known = known.lock().expect("no panic");
        known.after(known.entries.len()).into_iter()
    };
    log.snapshot(b"tables", log.durable_sequence(), |body| put(&mut rows, body)).await?;
    Ok(())
}

#[test]
fn db18_every_step_of_a_snapshot_may_be_the_last() {
    let (crashes, known) = every_crash(4, |known| async move {
        let (log, ..) = open(Path::new(DIR)).await?;
        for round in 0..3u64 {
            for key in 0..20 {
                tell(&log, &known, key, vec![(round * 20 + key) as u8; 600]).await?;
            }
            snapshot(&log, &known).await?;
        }
        log.close().await?;
        Ok(())
    });
    check(crashes, &known, 6);
}

#[test]
fn db10_any_blocks_of_the_last_batch_may_be_missing() {
    let disks = Rc::new(RefCell::new(Vec::new()));
    let (crashes, known) = every_crash(5, |known| async move {
        let (log, ..) = open(Path::new(DIR)).await?;
        tell(&log, &known, 1, vec![1; 100]).await?;
        // One batch of several entries over about six blocks, not acknowledged.
        for key in 2..6u64 {
            let value = vec![key as u8; 600];
            known.lock().expect("no panic").entries.push((key, value.clone()));
            log.append(Entry::Transaction, &row(key, &value))?;
        }
        log.durable(log.last_sequence()).await?;
        Ok(())
    });
    disks.borrow_mut().extend(crashes);
    let mut all = 0;
    for (disk, acked) in disks.take() {
        if acked == 0 || disk.image_count() < 16 {
            continue;
        }
        for image in disk.images() {
            let model = recovered(&SimHost::new(1), image).expect("a torn write is no broken middle");
            let rows = model.rows.len();
            assert!([1, 5].contains(&rows), "{rows} rows: a part of what was not acknowledged");
            assert_eq!(model.rows, known.after(rows));
            all += 1;
        }
    }
    assert!(all >= 64, "{all} subsets");
}

#[test]
fn db10_a_sync_that_lied_leaves_a_state_that_was_or_a_refusal() {
    // The disk says that the fourth commit is on it, and has nothing of it; what comes behind is really there.
    let mut outcomes = [0, 0];
    for lied in 1..8u64 {
        let host = SimHost::new(12);
        let control = host.control();
        run(&host, move || async move {
            let (log, ..) = open(Path::new(DIR)).await?;
            for key in 0..8 {
                if key == lied {
                    control.lie_about_sync();
                }
                commit(&log, key, &[key as u8; 700]).await?;
            }
            Ok(())
        });
        for image in host.disk().images() {
            match recovered(&SimHost::new(1), image) {
                Ok(model) => {
                    let keys: Vec<u64> = model.rows.into_keys().collect();
                    assert_eq!(keys, (0..keys.len() as u64).collect::<Vec<_>>(), "a hole, and nobody was told");
                    outcomes[0] += 1;
                }
                Err(OpenError::CorruptMiddle { .. }) => outcomes[1] += 1,
                Err(other) => panic!("commit {lied} was lied about: {other}"),
            }
        }
    }
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?} opened and refused");
}

#[test]
fn db2_sync_that_fails_and_drops_its_pages() {
    let host = SimHost::new(6);
    let control = host.control();
    run(&host, move || async move {
        let (log, ..) = open(Path::new(DIR)).await?;
        commit(&log, 1, b"one").await?;
        commit(&log, 2, b"two").await?;
        control.fail_sync(errno::EIO, Survival::Nothing);
        let third = commit(&log, 3, b"three").await;
        assert!(matches!(third, Err(CommitError::CommitUnknown { .. })), "{third:?}");
        // Until the memory is undone the log says the same; from then on that nothing is taken, though a sync would
        // succeed by now.
        assert_eq!(log.failure(), third.err());
        log.rolled_back();
        for key in 4..6 {
            assert!(matches!(commit(&log, key, b"later").await, Err(CommitError::Poisoned { .. })));
        }
        Ok(())
    });
    for image in host.disk().images() {
        let model = recovered(&SimHost::new(1), image).expect("it opens");
        let keys: Vec<u64> = model.rows.into_keys().collect();
        assert!([&[1, 2][..], &[1, 2, 3]].contains(&&keys[..]), "{keys:?}");
    }
}

#[test]
fn db15_replay_that_a_crash_ends_is_begun_anew() {
    // A tail to cut, so that opening itself writes.
    let host = SimHost::new(7);
    run(&host, || async {
        let (log, ..) = open(Path::new(DIR)).await?;
        for key in 0..60 {
            commit(&log, key % 7, &[key as u8; 300]).await?;
        }
        log.close().await?;
        Ok(())
    });
    let mut disk = host.disk();
    disk.sync();
    let segments = disk.files();
    let last: PathBuf = segments.into_iter().filter(|file| file.starts_with(DIR)).max().expect("one");
    let bytes = disk.read(&last).expect("it is there");
    let (begin, size) = *frames(&bytes).last().expect("a frame");
    let mut torn = bytes[..begin + size].to_vec();
    torn.truncate(begin + size / 2);
    disk.write(&last, &torn).expect("it is there");
    let expected = recovered(&SimHost::new(1), disk.clone()).expect("it opens");
    // Again, looking at the disk before each change the opening makes.
    let host = SimHost::new(8);
    host.power_on(disk).expect("it is off");
    let crashes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&crashes);
    host.before_disk_changes(move |disk: Disk| seen.lock().expect("no panic").push(disk));
    run(&host, || async {
        open(Path::new(DIR)).await?.0.close().await?;
        Ok(())
    });
    let crashes = std::mem::take(&mut *crashes.lock().expect("no panic"));
    assert!(!crashes.is_empty());
    for disk in crashes {
        for image in disk.some_images(8, 1) {
            let model = recovered(&SimHost::new(1), image).expect("it opens");
            assert_eq!(model.rows, expected.rows);
            assert_eq!(model.sequences, expected.sequences);
        }
    }
}

#[test]
fn r57_random_faults_of_the_disk_never_make_an_acknowledgement_a_lie() {
    for seed in 0..40 {
        let host = SimHost::new(seed);
        let control = host.control();
        let known = Arc::new(Mutex::new(Known::default()));
        let theirs = Arc::clone(&known);
        control.disk_faults(wo_runtime::plane::backend::sim::DiskFaults {
            short_write: 0.2,
            sync_error: 0.02,
            write_error: 0.01,
            ..Default::default()
        });
        let options = LogOptions { segment_bytes: 8192, ..small() };
        run(&host, move || async move {
            let Ok((log, ..)) = open_with(Path::new(DIR), &options).await else { return Ok(()) };
            for key in 0..60 {
                match tell(&log, &theirs, key, vec![key as u8; 150]).await {
                    Ok(()) => {}
                    Err(CommitError::NoSpace { .. }) => unreachable!("there is room"),
                    Err(_) => break,
                }
            }
            Ok(())
        });
        let known = known.lock().expect("no panic").clone();
        for image in host.disk().some_images(4, seed) {
            let model = recovered(&SimHost::new(1), image).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let rows = model.rows.len();
            assert!(rows >= known.acked, "seed {seed}: {rows} of {} acknowledged", known.acked);
            assert_eq!(model.rows, known.after(rows), "seed {seed}");
        }
    }
}

#[test]
fn db22_what_a_killed_process_left_in_the_cache_is_made_durable_before_it_is_built_upon() {
    // The program ends, by itself or by kill -9, at some moment of its first life; the system's cache stays. The second
    // life commits, and then the power goes with everything that was not synced.
    let whole = SimHost::new(9);
    let first = || async {
        let (log, ..) = open(Path::new(DIR)).await?;
        for key in 0..12 {
            commit(&log, key, &[key as u8; 900]).await?;
        }
        Ok(())
    };
    run(&whole, first);
    let disks = Arc::new(Mutex::new(Vec::new()));
    let host = SimHost::new(9);
    let seen = Arc::clone(&disks);
    host.before_disk_changes(move |disk: Disk| seen.lock().expect("no panic").push(disk));
    run(&host, first);
    let disks = std::mem::take(&mut *disks.lock().expect("no panic"));
    assert!(disks.len() > 20);
    for (moment, disk) in disks.into_iter().enumerate() {
        let host = SimHost::new(10);
        // As the cache has it, which is not as the disk has it.
        host.power_on(disk).expect("it is off");
        let before = Arc::new(Mutex::new(Vec::new()));
        let found = Arc::clone(&before);
        run(&host, move || async move {
            let (log, _, model) = open(Path::new(DIR)).await?;
            commit(&log, 100, b"the second life").await?;
            found.lock().expect("no panic").extend(model.rows.into_keys());
            Ok(())
        });
        let after = recovered(&SimHost::new(1), host.disk().after_power_cut(Survival::Nothing))
            .unwrap_or_else(|error| panic!("moment {moment}: {error}"));
        let mut expected = before.lock().expect("no panic").clone();
        expected.push(100);
        let found: Vec<u64> = after.rows.into_keys().collect();
        assert_eq!(found, expected, "moment {moment}: what was seen is gone");
    }
}
