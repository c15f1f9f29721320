//! The gate of the example `walk`: whatever the tree and the number of threads, it counts what a plain walk counts.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Output;

#[path = "support/example.rs"]
mod example;

const DEPTH: usize = 200;

/// A tree with everything a directory may hold, the same each time.
fn grow(root: &Path) {
    let mut random = fastrand::Rng::with_seed(20);
    let mut directories = vec![root.to_owned()];
    for number in 0..400 {
        let parent = &directories[random.usize(..directories.len())];
        let directory = parent.join(format!("d{number}"));
        fs::create_dir(&directory).expect("create a directory");
        for file in 0..random.usize(..8) {
            fs::write(directory.join(format!("f{file}")), vec![0; random.usize(..5000)]).expect("write a file");
        }
        directories.push(directory);
    }
    let mut deep = root.to_owned();
    for _ in 0..DEPTH {
        deep.push("deep");
        fs::create_dir(&deep).expect("create a directory");
    }
    let wide = root.join("wide");
    for number in 0..500 {
        fs::create_dir_all(wide.join(number.to_string())).expect("create a directory");
    }
    fs::write(root.join(OsStr::from_bytes(b"no \xff UTF-8\n")), b"123").expect("write a file");
    fs::create_dir(root.join(OsStr::from_bytes(b"\xfe"))).expect("create a directory");
    symlink(root, root.join("loop")).expect("link");
    symlink("nowhere", root.join("dangling")).expect("link");
    drop(UnixListener::bind(root.join("socket")).expect("bind"));
}

/// Files, directories and bytes, by a plain walk.
fn count(directory: &Path) -> (u64, u64, u64) {
    let mut total = (0, 1, 0);
    for entry in fs::read_dir(directory).expect("read a directory") {
        let entry = entry.expect("read a directory");
        let about = entry.metadata().expect("an entry's metadata");
        let below = if about.is_dir() { count(&entry.path()) } else { (1, 0, about.len()) };
        total = (total.0 + below.0, total.1 + below.1, total.2 + below.2);
    }
    total
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn it_counts_what_a_plain_walk_counts() {
    let tree = tempfile::tempdir().expect("a folder for the tree");
    grow(tree.path());
    let (files, directories, bytes) = count(tree.path());
    assert!(files > 500 && directories > 1000, "{files} files, {directories} directories");
    let expected = (format!("files {files}\ndirectories {directories}\nbytes {bytes}\n"), String::new());
    let path = tree.path().to_str().expect("a path in UTF-8");
    for io in ["uring", "epoll"] {
        for shards in [Some("1"), None] {
            let mut environment = vec![("WO_IO", io)];
            environment.extend(shards.map(|shards| ("WO_SHARDS", shards)));
            for threads in [None, Some("1"), Some("2"), Some("8")] {
                let mut arguments = vec![path];
                arguments.extend(threads.into_iter().flat_map(|threads| ["--threads", threads]));
                let output = example::run("walk", &environment, &arguments);
                assert_eq!(said(&output), expected, "{environment:?} {arguments:?}");
                assert!(output.status.success());
            }
        }
    }
}

#[test]
fn what_cannot_be_walked_is_named() {
    let tree = tempfile::tempdir().expect("a folder for the tree");
    let file = tree.path().join("file");
    fs::write(&file, b"").expect("write a file");
    let path = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
    for (arguments, names) in [
        ([path(&tree.path().join("absent"))].as_slice(), "absent"),
        (&[path(&file)], "file: not a directory"),
        (&["--threads".to_owned(), "0".to_owned()], "--threads"),
        (&["--threads".to_owned(), "many".to_owned()], "--threads"),
        (&[path(tree.path()), "more".to_owned()], "more: unknown; usage: walk"),
        (&["--thread".to_owned(), "2".to_owned()], "walk: --thread: unknown; usage: walk"),
        (&["--threads=some".to_owned()], "--threads takes a number, at least 1, not \"some\""),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = example::run("walk", &[], &arguments);
        let (wrote, complained) = said(&output);
        assert!(!output.status.success() && wrote.is_empty(), "{arguments:?}: {wrote}");
        assert!(complained.contains(names), "{arguments:?}: {complained}");
    }
}

/// A path longer than the system takes: what lies above it is counted, and the directory that was not read is named.
#[test]
fn a_directory_that_cannot_be_read_is_named_and_the_others_are_counted() {
    let tree = tempfile::tempdir().expect("a folder for the tree");
    let name = "n".repeat(200);
    let before = std::env::current_dir().expect("a working directory");
    std::env::set_current_dir(tree.path()).expect("enter the tree");
    for _ in 0..25 {
        fs::create_dir(&name).expect("create a directory");
        fs::write("file", b"1").expect("write a file");
        std::env::set_current_dir(&name).expect("enter the tree");
    }
    std::env::set_current_dir(before).expect("leave the tree");
    let output = example::run("walk", &[], &[tree.path().to_str().expect("a path in UTF-8")]);
    let (wrote, complained) = said(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(complained.contains(&name) && complained.lines().count() == 1, "{complained}");
    let readable = complained.matches(&name).count();
    assert_eq!(wrote, format!("files {readable}\ndirectories {}\nbytes {readable}\n", readable + 1));
}
