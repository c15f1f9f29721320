//! The command as a script sees it: what it prints, what it answers, and what it leaves alone.

#![cfg(target_os = "linux")]

#[path = "../../../tests/support/segment.rs"]
mod segment;

mod serving;
mod terminal;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use wo_db::log::{Entry, Log, LogOptions};
use wo_runtime::shard::Builder;

/// The directory a first version left, as the crate keeps it for all later ones.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/v1")
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// A copy of the golden directory, with something done to it.
fn copy_with(change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) -> TempDir {
    let dir = TempDir::new().unwrap();
    let mut copied = files(&golden());
    change(&mut copied);
    for (name, bytes) in copied {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

/// Where the frames of a segment begin.
fn frames(segment: &[u8]) -> Vec<usize> {
    segment::frames(segment).into_iter().map(|(begin, _)| begin).collect()
}

fn wo_db(arguments: &[&str], dir: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wo-db"));
    command.args(arguments).arg(dir).output().unwrap()
}

fn said(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn b10_verify_tells_each_case_and_touches_nothing() {
    let segment = "log.0";
    let offsets = frames(&files(&golden())[segment]);
    let (middle, last) = (offsets[offsets.len() / 2], *offsets.last().unwrap());
    type Change = Box<dyn FnOnce(&mut BTreeMap<String, Vec<u8>>)>;
    let on_segment = |change: fn(&mut Vec<u8>, usize), at: usize| -> Change {
        Box::new(move |files| change(files.get_mut(segment).unwrap(), at))
    };
    let cases: Vec<(&str, i32, &str, Change)> = vec![
        ("whole", 0, "whole, up to transaction", Box::new(|_| {})),
        ("torn tail", 3, "torn tail", on_segment(|bytes, at| bytes[at + 42..].fill(0), last)),
        ("cut short", 3, "torn tail", on_segment(|bytes, at| bytes.truncate(at + 20), last)),
        ("flipped bit", 4, "broken at byte", on_segment(|bytes, at| bytes[at + 41] ^= 1, middle)),
        ("length of everything", 4, "broken at byte", on_segment(|bytes, at| bytes[at + 4..at + 8].fill(0xff), middle)),
        ("broken header", 4, "header is broken", on_segment(|bytes, _| bytes[33] ^= 1, 0)),
        (
            "somebody's notes",
            5,
            "not a file of this database",
            Box::new(|files| {
                files.retain(|name, _| name.starts_with("log."));
                files
                    .values_mut()
                    .for_each(|bytes| *bytes = b"my notes, not yours, and long enough to be a header".repeat(4));
            }),
        ),
        ("newer version", 6, "format version 2", on_segment(|bytes, _| bytes[8] = 2, 0)),
        (
            "broken snapshot",
            3,
            "not whole and not needed",
            Box::new(|files| {
                let snapshot = files.iter_mut().find(|(name, _)| name.starts_with("snapshot.")).unwrap().1;
                snapshot[90] ^= 1;
            }),
        ),
    ];
    for (name, status, words, change) in cases {
        let dir = copy_with(change);
        let before = files(dir.path());
        let (code, stdout, stderr) = said(&wo_db(&["verify"], dir.path()));
        assert_eq!(code, status, "{name}: {stdout}{stderr}");
        assert!(format!("{stdout}{stderr}").contains(words), "{name}: {stdout}{stderr}");
        assert!(files(dir.path()) == before, "{name}: the files were changed");
    }
    let nowhere = said(&wo_db(&["verify"], Path::new("/nowhere/at/all")));
    assert_eq!(nowhere.0, 1);
    assert!(nowhere.2.contains("/nowhere/at/all"), "{}", nowhere.2);
}

#[test]
fn b10_bytes_that_are_whole_and_make_no_sense_are_a_class_of_their_own() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().to_owned();
    let filled = Builder::new().shards(1).run(move || async move {
        let (log, _) = Log::open(&path, &LogOptions::default(), &mut ()).await.unwrap();
        log.append(Entry::Transaction, b"\xff\xff\xff").unwrap();
        log.close().await.unwrap();
    });
    filled.unwrap();
    let (code, _, stderr) = said(&wo_db(&["verify"], dir.path()));
    assert_eq!(code, 7, "{stderr}");
    assert!(stderr.contains("a transaction before any catalogue"), "{stderr}");
}

#[test]
fn rows_and_transactions_are_lines_of_json() {
    let (code, rows, stderr) = said(&wo_db(&["dump", "--table", "cities"], &golden()));
    assert_eq!(code, 0, "{stderr}");
    let rows: Vec<&str> = rows.lines().collect();
    assert_eq!(rows[0], r#"{"table":"cities","row":{"id":1,"name":"Roma","people":2748109}}"#);
    assert!(rows.iter().all(|row| row.starts_with(r#"{"table":"cities","row":{"id":"#)));

    let (code, all, _) = said(&wo_db(&["dump"], &golden()));
    assert!(code == 0 && all.lines().count() > rows.len());
    let (code, _, stderr) = said(&wo_db(&["dump", "--table", "towns"], &golden()));
    assert_eq!(code, 2);
    assert!(stderr.contains("no table towns; there are: cities"), "{stderr}");

    let (code, log, _) = said(&wo_db(&["log"], &golden()));
    let log: Vec<&str> = log.lines().collect();
    assert!(
        code == 0 && log[0].starts_with(r#"{"sequence":"#) && log[0].contains(r#""changes":[{"table":"#),
        "{log:?}"
    );
    let (_, none, _) = said(&wo_db(&["log", "--from", "1000000"], &golden()));
    assert_eq!(none, "");

    let (code, stats, _) = said(&wo_db(&["stats"], &golden()));
    assert_eq!(code, 0);
    assert!(stats.contains(&format!("table cities, version 1: {} rows", rows.len())), "{stats}");
}

#[test]
fn copies_salvage_and_compaction_keep_every_row() {
    let there = TempDir::new().unwrap();
    let wo_db_to = |verb: &str, dir: &Path, to: &Path| said(&wo_db(&[verb, "--quiet", dir.to_str().unwrap()], to));
    let dump = |dir: &Path| said(&wo_db(&["dump"], dir));
    let expected = dump(&golden());
    let (backup, restored) = (there.path().join("backup"), there.path().join("restored"));
    assert_eq!(wo_db_to("backup", &golden(), &backup).0, 0);
    assert_eq!(wo_db_to("restore", &backup, &restored).0, 0);
    assert_eq!(dump(&restored), expected);
    let again = wo_db_to("backup", &golden(), &backup);
    assert!(again.0 == 1 && again.2.contains("new directory"), "{again:?}");

    let (code, words, stderr) = said(&wo_db(&["compact"], &restored));
    assert_eq!(code, 0, "{stderr}");
    assert!(words.contains("rows") && words.contains("snapshot."), "{words}");
    assert_eq!(dump(&restored), expected);
    assert_eq!(said(&wo_db(&["verify"], &restored)).0, 0);

    let broken = copy_with(|files| {
        let segment = files.get_mut("log.0").unwrap();
        let offsets = frames(segment);
        segment[offsets[offsets.len() - 3] + 41] ^= 1;
    });
    let before = files(broken.path());
    let salvaged = there.path().join("salvaged");
    let (code, words, stderr) = wo_db_to("salvage", broken.path(), &salvaged);
    assert_eq!(code, 4, "{stderr}");
    assert!(words.contains("lost: ") && words.contains("log.0"), "{words}");
    assert!(files(broken.path()) == before);
    let rows = dump(&salvaged);
    assert!(rows.0 == 0 && rows.1.lines().count() + 2 > expected.1.lines().count(), "{rows:?}");
}

#[test]
fn usage_is_refused_with_a_status_of_its_own() {
    for arguments in [&["mend"][..], &["verify", "one", "two"], &["verify", "--loud"]] {
        let (code, _, stderr) = said(&wo_db(arguments, Path::new("x")));
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains("--help"), "{stderr}");
    }
}

/// A name with a slip in it led to a directory of other things, or of nothing: each command took that for a whole
/// database without a row, `restore` made one of it, and `compact` put a segment there.
#[test]
fn a_directory_without_a_database_is_none_and_stays_as_it_is() {
    let there = TempDir::new().unwrap();
    let (empty, notes) = (there.path().join("empty"), there.path().join("notes"));
    for dir in [&empty, &notes] {
        std::fs::create_dir(dir).unwrap();
    }
    std::fs::write(notes.join("todo.txt"), "milk").unwrap();
    for dir in [&empty, &notes] {
        let before = files(dir);
        for verb in ["verify", "stats", "dump", "log", "compact"] {
            let (code, stdout, stderr) = said(&wo_db(&[verb], dir));
            assert_eq!(code, 5, "{verb}: {stdout}{stderr}");
            assert!(
                stderr.contains(dir.to_str().unwrap()) && stderr.contains("no file of a database is there"),
                "{stderr}"
            );
            assert!(files(dir) == before, "{verb}: the files were changed");
        }
        for verb in ["backup", "restore", "salvage"] {
            let to = there.path().join("to");
            let (code, stdout, stderr) = said(&wo_db(&[verb, dir.to_str().unwrap()], &to));
            assert_eq!(code, 5, "{verb}: {stdout}{stderr}");
            assert!(!to.exists(), "{verb} made something of nothing");
        }
    }
}

/// What was said went nowhere, onto a full disk say, and the status was that of a command that had said it.
#[test]
fn what_cannot_be_said_is_a_failure_and_a_reader_that_has_gone_is_none() {
    for verb in ["verify", "stats", "dump", "log", "--help"] {
        let full = std::fs::File::create("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_wo-db"));
        let output = command.arg(verb).arg(golden()).stdout(full).output().unwrap();
        let (code, _, stderr) = said(&output);
        assert_eq!(code, 9, "{verb}: {stderr}");
        assert!(stderr.contains("standard output"), "{verb}: {stderr}");

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_wo-db"));
        let output = command.arg(verb).arg(golden()).stdout(writer).output().unwrap();
        assert_eq!(said(&output), (0, String::new(), String::new()), "{verb}");
    }
}
