//! A disk that fails, by order and by chance.

use wo_runtime::error::{OpKind, errno};
use wo_runtime::os::fs;
use wo_runtime::plane::backend::sim::{DiskFaults, SimHost, Survival};

use super::{host_with, open, outcomes, run, synced};

/// The trap databases fell into: the sync fails and drops the pages, the next one answers 0, and the bytes are gone.
#[test]
fn db2_a_failed_sync_drops_its_pages_and_the_next_one_succeeds() {
    for (survival, left) in [(Survival::Nothing, b"old"), (Survival::Everything, b"new")] {
        let host = host_with(b"old");
        host.control().fail_sync(errno::EIO, survival);
        run(&host, move || async move {
            let file = open("/tmp/file").await?;
            file.write_all_at(b"new".to_vec(), 0).await.0?;
            let error = file.sync_data().await.unwrap_err();
            assert_eq!((error.errno(), error.op()), (errno::EIO, OpKind::Sync));
            assert_eq!(fs::read("/tmp/file").await?, left, "programs read what the disk holds");
            file.sync_data().await
        });
        assert_eq!(outcomes(&host.disk(), "/tmp/file"), [Some(left.to_vec())]);
    }
}

#[test]
fn a_sync_that_lies_stores_nothing() {
    let host = host_with(b"old");
    host.control().lie_about_sync();
    run(&host, || async {
        let file = open("/tmp/file").await?;
        file.write_all_at(b"new".to_vec(), 0).await.0?;
        file.sync_data().await
    });
    assert_eq!(synced(&host).read("/tmp/file").unwrap(), b"old");
    run(&host, || async { open("/tmp/file").await?.sync_data().await });
    assert_eq!(synced(&host).read("/tmp/file").unwrap(), b"new");
}

/// A durable write meets the same fates as a sync.
#[test]
fn db2_a_durable_write_fails_and_lies_like_a_sync() {
    let host = host_with(b"old");
    host.control().fail_sync(errno::EIO, Survival::Nothing);
    host.control().lie_about_sync();
    run(&host, || async {
        let file = open("/tmp/file").await?;
        let (refused, _) = file.write_durable_at(b"bad".to_vec(), 0).await;
        assert_eq!(refused.unwrap_err().errno(), errno::EIO);
        assert_eq!(fs::read("/tmp/file").await?, b"old");
        let (written, _) = file.write_durable_at(b"lie".to_vec(), 0).await;
        assert_eq!(written?, 3);
        assert_eq!(fs::read("/tmp/file").await?, b"lie");
        Ok(())
    });
    assert_eq!(outcomes(&host.disk(), "/tmp/file"), [Some(b"lie".to_vec()), Some(b"old".to_vec())]);
}

#[test]
fn db3_a_full_disk_takes_the_first_part_and_then_nothing() {
    let host = host_with(&[1; 4096]);
    let control = host.control();
    control.resize_disk(8192);
    run(&host, move || async move {
        let file = open("/tmp/file").await?;
        let (answer, _) = file.write_at(vec![2; 8192], 4096).await;
        assert_eq!(answer?, 4096);
        let (answer, _) = file.write_at(vec![2; 1], 8192).await;
        assert_eq!(answer.unwrap_err().errno(), errno::ENOSPC);
        control.resize_disk(1 << 20);
        file.write_all_at(vec![2; 1], 8192).await.0
    });
    assert_eq!(host.disk().read("/tmp/file").unwrap().len(), 8193);
}

#[test]
fn bits_flip_and_bytes_go_bad() {
    let host = host_with(b"abc");
    host.control().flip_bit("/tmp/file", 8).unwrap();
    assert_eq!(synced(&host).read("/tmp/file").unwrap(), b"acc");
    assert_eq!(host.control().flip_bit("/tmp/file", 24).unwrap_err().errno(), errno::EINVAL);
    assert_eq!(host.control().flip_bit("/tmp/none", 0).unwrap_err().errno(), errno::ENOENT);
    host.control().damage("/tmp/file", 1..2).unwrap();
    run(&host, || async {
        let file = open("/tmp/file").await?;
        let (count, bytes) = file.read_at(vec![0; 3], 0).await;
        assert_eq!((count?, bytes[0]), (1, b'a'));
        let (refused, _) = file.read_at(vec![0; 1], 1).await;
        assert_eq!(refused.unwrap_err().errno(), errno::EIO);
        file.write_all_at(b"B".to_vec(), 1).await.0?;
        assert_eq!(fs::read("/tmp/file").await?, b"aBc");
        Ok(())
    });
}

/// What a write, a sync and a read answered, and what was read.
type Round = (Result<usize, i32>, Result<(), i32>, Result<usize, i32>, Vec<u8>);

/// Chance is the seed's: the same faults at the same places for one seed, others for another.
#[test]
fn m1_faults_by_chance_are_the_seeds() {
    let history = |seed| {
        let host = SimHost::new(seed);
        host.control().disk_faults(DiskFaults {
            short_read: 0.3,
            short_write: 0.3,
            read_error: 0.1,
            write_error: 0.1,
            sync_error: 0.3,
            bit_flip: 0.1,
        });
        run(&host, || async {
            let file = open("/tmp/file").await?;
            let mut history = Vec::new();
            for round in 0..200_u64 {
                let (written, _) = file.write_at(vec![round as u8; 600], round * 600).await;
                let synced = file.sync_data().await;
                let (read, bytes) = file.read_at(vec![0; 600], round * 600).await;
                let errno = |error: wo_runtime::error::IoError| error.errno();
                history.push((written.map_err(errno), synced.map_err(errno), read.map_err(errno), bytes));
            }
            Ok(history)
        })
    };
    let (one, again, other) = (history(1), history(1), history(2));
    assert_eq!(one, again);
    assert_ne!(one, other);
    let count = |pick: fn(&Round) -> bool| one.iter().filter(|round| pick(round)).count();
    assert!((30..90).contains(&count(|round| matches!(round.0, Ok(count) if count < 600))));
    assert!((5..45).contains(&count(|round| round.0 == Err(errno::EIO))));
    assert!((30..90).contains(&count(|round| round.1 == Err(errno::EIO))));
    assert!((5..45).contains(&count(|round| round.2 == Err(errno::EIO))));
}
