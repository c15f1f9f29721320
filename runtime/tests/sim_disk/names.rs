//! What a power cut leaves of names.

use std::path::PathBuf;

use wo_runtime::os::fs;
use wo_runtime::plane::backend::sim::{Disk, SimHost};

use super::{open, outcomes, run, synced};

fn host() -> SimHost {
    SimHost::new(1)
}

/// The sets of files that may be left, each once.
fn trees(disk: &Disk) -> Vec<Vec<PathBuf>> {
    let mut trees: Vec<Vec<PathBuf>> = disk.images().map(|image| image.files()).collect();
    trees.sort();
    trees.dedup();
    trees
}

fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

#[test]
fn db8_a_new_name_is_lost_unless_its_directory_was_synced() {
    let host = host();
    run(&host, || async {
        let file = open("/tmp/file").await?;
        file.write_all_at(b"bytes".to_vec(), 0).await.0?;
        file.sync_all().await
    });
    assert_eq!(outcomes(&host.disk(), "/tmp/file"), [None, Some(b"bytes".to_vec())]);
    run(&host, || async { fs::sync_dir("/tmp").await });
    assert_eq!(outcomes(&host.disk(), "/tmp/file"), [Some(b"bytes".to_vec())]);
}

#[test]
fn db8_a_new_directory_is_lost_with_all_it_holds() {
    let host = host();
    run(&host, || async {
        fs::create_dir("/tmp/data").await?;
        open("/tmp/data/log").await?.sync_all().await?;
        fs::sync_dir("/tmp/data").await
    });
    assert_eq!(trees(&host.disk()), [paths(&[]), paths(&["/tmp/data/log"])]);
    run(&host, || async { fs::sync_dir("/tmp").await });
    assert_eq!(trees(&host.disk()), [paths(&["/tmp/data/log"])]);
}

/// A rename over a file leaves the one or the other under the name, and never neither.
#[test]
fn db8_a_rename_is_whole() {
    let host = host();
    let mut disk = Disk::new();
    disk.write("/tmp/a", b"old").unwrap();
    disk.write("/tmp/b", b"new").unwrap();
    host.power_on(disk).unwrap();
    run(&host, || async { fs::rename("/tmp/b", "/tmp/a").await });
    assert_eq!(trees(&host.disk()), [paths(&["/tmp/a"]), paths(&["/tmp/a", "/tmp/b"])]);
    assert_eq!(outcomes(&host.disk(), "/tmp/a"), [Some(b"new".to_vec()), Some(b"old".to_vec())]);
    run(&host, || async { fs::sync_dir("/tmp").await });
    assert_eq!(outcomes(&host.disk(), "/tmp/a"), [Some(b"new".to_vec())]);
}

/// A snapshot written beside, synced, renamed: after the rename it may be the old one, the new one, and without the
/// file's own sync a torn one.
#[test]
fn a_rename_does_not_sync_the_file() {
    let host = host();
    let mut disk = Disk::new();
    disk.write("/tmp/now", b"old").unwrap();
    host.power_on(disk).unwrap();
    run(&host, || async {
        fs::write("/tmp/next", "new").await?;
        fs::rename("/tmp/next", "/tmp/now").await?;
        fs::sync_dir("/tmp").await
    });
    let expected = [Some(vec![]), Some(vec![0; 3]), Some(b"new".to_vec())];
    assert_eq!(outcomes(&host.disk(), "/tmp/now"), expected);
}

/// A rename cannot have reached the disk without what made the file it moves, nor a file have two names by it.
#[test]
fn changes_about_one_file_stay_in_order() {
    let host = host();
    run(&host, || async {
        open("/tmp/a").await?;
        fs::rename("/tmp/a", "/tmp/b").await?;
        fs::rename("/tmp/b", "/tmp/c").await
    });
    assert_eq!(trees(&host.disk()), [paths(&[]), paths(&["/tmp/a"]), paths(&["/tmp/b"]), paths(&["/tmp/c"])]);
}

#[test]
fn a_removed_file_comes_back_until_the_directory_is_synced() {
    let host = host();
    let mut disk = Disk::new();
    disk.write("/tmp/file", b"bytes").unwrap();
    host.power_on(disk).unwrap();
    run(&host, || async { fs::remove_file("/tmp/file").await });
    assert_eq!(outcomes(&host.disk(), "/tmp/file"), [None, Some(b"bytes".to_vec())]);
    assert!(host.disk().read("/tmp/file").is_err());
    run(&host, || async { fs::sync_dir("/tmp").await });
    assert_eq!(outcomes(&host.disk(), "/tmp/file"), [None]);
}

/// Syncing the directory a file moved to makes the whole move stay.
#[test]
fn a_move_between_directories_is_synced_by_either() {
    for synced_by in ["/tmp/from", "/tmp/to"] {
        let host = host();
        let mut disk = Disk::new();
        disk.write("/tmp/from/file", b"bytes").unwrap();
        disk.create_dir_all("/tmp/to").unwrap();
        host.power_on(disk).unwrap();
        run(&host, move || async move {
            fs::rename("/tmp/from/file", "/tmp/to/file").await?;
            fs::sync_dir(synced_by).await
        });
        assert_eq!(synced(&host).files(), paths(&["/tmp/to/file"]));
        assert_eq!(host.disk().image_count(), 1);
    }
}
