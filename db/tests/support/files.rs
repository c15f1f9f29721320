//! Data directories as a test sees them from behind: read and written through the kernel the test runs on.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::path::Path;

use wo_runtime::os::fs;

/// The files of a directory, by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Every file of a directory with its bytes.
pub async fn files(dir: &Path) -> Files {
    let mut files = Files::new();
    for entry in fs::read_dir(dir).await.expect("the directory is there") {
        let name = entry.file_name().to_str().expect("plain names").to_owned();
        files.insert(name, fs::read(entry.path()).await.expect("it is readable"));
    }
    files
}

/// Puts these files, and no others, into a directory.
pub async fn put_files(dir: &Path, files: &Files) {
    fs::create_dir_all(dir).await.expect("it can be made");
    for entry in fs::read_dir(dir).await.expect("the directory is there") {
        if !files.contains_key(entry.file_name().to_str().expect("plain names")) {
            fs::remove_file(entry.path()).await.expect("it can be removed");
        }
    }
    for (name, bytes) in files {
        fs::write(dir.join(name), bytes).await.expect("it can be written");
    }
}

/// Takes a directory away with its files, if it is there.
pub async fn remove(dir: &Path) {
    if exists(dir).await {
        put_files(dir, &Files::new()).await;
        fs::remove_dir(dir).await.expect("it is empty");
    }
}

/// Whether something is there.
pub async fn exists(path: &Path) -> bool {
    fs::exists(path).await.expect("it can be told")
}
