//! What a power cut leaves of files.

use wo_runtime::plane::backend::sim::{Disk, SimHost, Survival};

use super::{host_with, open, outcomes, run, synced};

#[test]
fn what_was_synced_stays() {
    let host = host_with(b"");
    run(&host, || async {
        let file = open("/tmp/file").await?;
        file.write_all_at(b"synced".to_vec(), 0).await.0?;
        file.sync_data().await
    });
    assert_eq!(outcomes(&host.disk(), "/tmp/file"), [Some(b"synced".to_vec())]);
    assert_eq!(host.disk().unsynced(), []);
}

/// Any of the blocks of 512 bytes may be there or not, in a file whose length does not change: 2 to the 4.
#[test]
fn db10_every_subset_of_the_unsynced_blocks_may_survive() {
    let host = host_with(&[1; 2048]);
    run(&host, || async {
        let file = open("/tmp/file").await?;
        file.write_all_at(vec![2; 2048], 0).await.0
    });
    let disk = host.disk();
    assert_eq!((disk.unsynced(), disk.image_count()), (vec![2; 4], 16));
    let outcomes = outcomes(&disk, "/tmp/file");
    assert_eq!(outcomes.len(), 16);
    for outcome in outcomes {
        let outcome = outcome.unwrap();
        assert!(outcome.chunks(512).all(|block| block == [1; 512] || block == [2; 512]));
    }
    assert_eq!(disk.after_power_cut(Survival::Nothing).read("/tmp/file").unwrap(), [1; 2048]);
    assert_eq!(disk.after_power_cut(Survival::Everything).read("/tmp/file").unwrap(), [2; 2048]);
    // Drawn ones are a function of their seed, and differ.
    let drawn = |seed| disk.after_power_cut(Survival::Seeded(seed)).read("/tmp/file").unwrap();
    assert_eq!(drawn(3), drawn(3));
    assert!((0..20).any(|seed| drawn(seed) != drawn(3)));
    assert_eq!(disk.some_images(5, 9).count(), 5);
    assert_eq!(disk.some_images(16, 9).count(), 16);
}

/// The same block written again and again may be in any of its states, the one before included.
#[test]
fn a_block_may_be_in_any_state_it_went_through() {
    let host = host_with(b"0");
    run(&host, || async {
        let file = open("/tmp/file").await?;
        for state in b"123" {
            file.write_all_at(vec![*state], 0).await.0?;
        }
        Ok(())
    });
    let states: Vec<Option<Vec<u8>>> = [b"0", b"1", b"2", b"3"].iter().map(|state| Some(state.to_vec())).collect();
    assert_eq!(outcomes(&host.disk(), "/tmp/file"), states);
}

/// What grows a file may leave the old length, or the new one with the bytes or with zeros.
#[test]
fn length_and_bytes_are_lost_apart() {
    let host = host_with(b"ab");
    run(&host, || async { open("/tmp/file").await?.write_all_at(b"cd".to_vec(), 2).await.0 });
    let expected: Vec<Option<Vec<u8>>> =
        [&b"ab"[..], b"ab\0\0", b"abcd"].iter().map(|bytes| Some(bytes.to_vec())).collect();
    assert_eq!(outcomes(&host.disk(), "/tmp/file"), expected);
}

/// Once the disk knows the cut, nothing of before is found behind it, however the file grows again.
#[test]
fn what_was_cut_off_does_not_come_back() {
    let host = host_with(&[7; 1024]);
    run(&host, || async {
        let file = open("/tmp/file").await?;
        file.set_len(100).await?;
        file.set_len(1024).await
    });
    let mut cut = vec![0; 1024];
    cut[..100].fill(7);
    assert_eq!(outcomes(&host.disk(), "/tmp/file"), [Some(vec![7; 100]), Some(cut), Some(vec![7; 1024])]);
}

/// A sync covers what had completed when it was issued; a write in flight beside it may be lost.
#[test]
fn a_sync_does_not_cover_a_write_in_flight() {
    let host = host_with(b"old");
    run(&host, || async {
        let file = open("/tmp/file").await?;
        let write = wo_runtime::fiber::spawn({
            let file = file.clone();
            move || async move { file.write_all_at(b"new".to_vec(), 0).await.0 }
        });
        wo_runtime::fiber::yield_now().await?;
        file.sync_data().await?;
        write.join().await.unwrap()
    });
    assert_eq!(outcomes(&host.disk(), "/tmp/file"), [Some(b"new".to_vec()), Some(b"old".to_vec())]);
    run(&host, || async { open("/tmp/file").await?.sync_data().await });
    assert_eq!(synced(&host).read("/tmp/file").unwrap(), b"new");
}

/// What was reserved is there for writing after a sync, and takes its space after a power cut.
#[test]
fn reserved_space_survives_a_sync() {
    let host = SimHost::new(1);
    let mut disk = Disk::new();
    disk.write("/tmp/file", b"").unwrap();
    disk.resize(8192);
    host.power_on(disk).unwrap();
    run(&host, || async {
        let file = open("/tmp/file").await?;
        file.allocate(0, 8192).await?;
        file.sync_all().await
    });
    let image = synced(&host);
    assert_eq!(image.read("/tmp/file").unwrap().len(), 8192);
    host.power_on(image).unwrap();
    run(&host, || async { open("/tmp/file").await?.write_all_at(vec![1; 8192], 0).await.0 });
}

/// A durable write is on the disk when it completes, with the length it needs; and nothing else is.
#[test]
fn a_durable_write_covers_itself() {
    let host = host_with(&[1; 1024]);
    run(&host, || async {
        let file = open("/tmp/file").await?;
        file.write_all_at(vec![2; 512], 0).await.0?;
        file.write_durable_at(vec![3; 512], 1024).await.0.map(drop)
    });
    let expected = |first: u8| {
        let blocks = [[first; 512], [1; 512], [3; 512]];
        Some(blocks.concat())
    };
    assert_eq!(outcomes(&host.disk(), "/tmp/file"), [expected(1), expected(2)]);
}

/// Until it completes any part of it may be there, whatever it is told afterwards.
#[test]
fn a_durable_write_is_lost_in_parts_until_it_completes() {
    let host = host_with(&[1; 1024]);
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let disks = std::sync::Arc::clone(&seen);
    host.before_disk_changes(move |disk| disks.lock().unwrap().push(disk));
    run(&host, || async { open("/tmp/file").await?.write_durable_at(vec![2; 1024], 0).await.0.map(drop) });
    // Opening, which might have made the file; the write; and the end of its sync.
    let counts: Vec<u128> = seen.lock().unwrap().iter().map(Disk::image_count).collect();
    assert_eq!(counts, [1, 1, 4]);
    assert_eq!(host.disk().image_count(), 1);
}
