//! Scripts of file verbs: a few names, a few open files, and everything that can be done to them.

use std::io::SeekFrom;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use wo::fs::{self, File, OpenOptions};

use super::{refusal, shown, some_bytes, told};

const FILES_OPEN_MAX: usize = 2;

#[derive(Debug, Clone)]
enum Step {
    WriteWhole(&'static str, u8, usize),
    ReadWhole(&'static str),
    Stat(&'static str),
    Exists(&'static str),
    Rename(&'static str, &'static str),
    RenameNoReplace(&'static str, &'static str),
    RemoveFile(&'static str),
    RemoveDir(&'static str),
    CreateDir(&'static str),
    CreateDirAll(&'static str),
    List(&'static str),
    SyncDir(&'static str),
    Open(usize, &'static str, Flags),
    ReadAt(usize, usize, u64),
    WriteAt(usize, u8, usize, u64),
    ReadVectoredAt(usize, [usize; 2], u64),
    Read(usize, usize),
    Write(usize, u8, usize),
    Seek(usize, SeekFrom),
    SetLen(usize, u64),
    Allocate(usize, u64, u64),
    Sync(usize, bool),
    StatOpen(usize),
    Close(usize),
}

#[derive(Debug, Clone, Copy)]
struct Flags {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
}

fn name(random: &mut Rng) -> &'static str {
    const NAMES: [&str; 9] = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "none/a", "a/under"];
    NAMES[random.usize(..NAMES.len())]
}

/// A name for a directory: the one the files want, mostly.
fn directory(random: &mut Rng) -> &'static str {
    const NAMES: [&str; 8] = ["d", "d", "d", "d/e", "d/e", "d/e/f", "none/a", "a"];
    NAMES[random.usize(..NAMES.len())]
}

fn next_step(random: &mut Rng) -> Step {
    let file = random.usize(..FILES_OPEN_MAX);
    let length = random.usize(..300);
    let offset = random.u64(..250);
    match random.u32(..40) {
        0..=3 => Step::WriteWhole(name(random), random.u8(..), length),
        4..=6 => Step::ReadWhole(name(random)),
        7 => Step::Stat(name(random)),
        8 => Step::Exists(name(random)),
        9 => Step::Rename(name(random), name(random)),
        10 => Step::RenameNoReplace(name(random), name(random)),
        11 => Step::RemoveFile(name(random)),
        12 => Step::RemoveDir(directory(random)),
        13 => Step::CreateDir(directory(random)),
        14 => Step::CreateDirAll(directory(random)),
        15 => Step::List(["", "d", "d/e", "a", "none"][random.usize(..5)]),
        16 => Step::SyncDir(["", "d", "none"][random.usize(..3)]),
        17..=22 => Step::Open(file, name(random), flags(random)),
        23 | 24 => Step::ReadAt(file, length, offset),
        25 | 26 => Step::WriteAt(file, random.u8(..), length, offset),
        27 => Step::ReadVectoredAt(file, [length, 7], offset),
        28..=30 => Step::Read(file, length),
        31..=33 => Step::Write(file, random.u8(..), length),
        34 => Step::Seek(file, seek(random)),
        35 => Step::SetLen(file, offset),
        36 => Step::Allocate(file, offset, random.u64(..300)),
        37 => Step::Sync(file, random.bool()),
        38 => Step::StatOpen(file),
        _ => Step::Close(file),
    }
}

fn flags(random: &mut Rng) -> Flags {
    let mut one_in = |chance: u32| random.u32(..chance) == 0;
    Flags {
        read: !one_in(4),
        write: !one_in(3),
        append: one_in(6),
        truncate: one_in(6),
        create: one_in(2),
        create_new: one_in(8),
    }
}

fn seek(random: &mut Rng) -> SeekFrom {
    match random.u32(..3) {
        0 => SeekFrom::Start(random.u64(..400)),
        1 => SeekFrom::Current(random.i64(-200..200)),
        _ => SeekFrom::End(random.i64(-300..100)),
    }
}

/// What a script did and what each step answered.
#[wo::fiber]
pub fn account(root: PathBuf, seed: u64, steps: usize) -> Vec<String> {
    let mut random = Rng::with_seed(seed);
    let mut open: Vec<Option<File>> = Vec::new();
    open.resize_with(FILES_OPEN_MAX, || None);
    let mut lines = Vec::new();
    for _ in 0..steps {
        let step = next_step(&mut random);
        let answer = perform(&root, &mut open, step.clone());
        lines.push(format!("{step:?} -> {answer}"));
    }
    lines
}

#[wo::fiber]
fn perform(root: &Path, open: &mut [Option<File>], step: Step) -> String {
    match step {
        Step::WriteWhole(path, byte, count) => told(fs::write(root.join(path), some_bytes(byte, count))),
        Step::ReadWhole(path) => told(fs::read(root.join(path)).map(|bytes| shown(&bytes))),
        Step::Stat(path) => {
            let metadata = fs::metadata(root.join(path));
            told(metadata.map(|metadata| (metadata.is_dir(), metadata.is_file().then_some(metadata.len()))))
        }
        Step::Exists(path) => told(fs::exists(root.join(path))),
        Step::Rename(from, to) => told(fs::rename(root.join(from), root.join(to))),
        Step::RenameNoReplace(from, to) => told(fs::rename_noreplace(root.join(from), root.join(to))),
        Step::RemoveFile(path) => told(fs::remove_file(root.join(path))),
        Step::RemoveDir(path) => told(fs::remove_dir(root.join(path))),
        Step::CreateDir(path) => told(fs::create_dir(root.join(path))),
        Step::CreateDirAll(path) => told(fs::create_dir_all(root.join(path))),
        Step::List(path) => {
            let listed = fs::read_dir(root.join(path));
            told(listed.map(|entries| entries.iter().map(|entry| entry.file_name().to_owned()).collect::<Vec<_>>()))
        }
        Step::SyncDir(path) => told(fs::sync_dir(root.join(path))),
        Step::Open(slot, path, flags) => {
            let mut options = OpenOptions::new();
            options.read(flags.read).write(flags.write).append(flags.append);
            options.truncate(flags.truncate).create(flags.create).create_new(flags.create_new);
            match options.open(root.join(path)) {
                Ok(file) => {
                    open[slot] = Some(file);
                    String::from("opened")
                }
                Err(error) => refusal(&error),
            }
        }
        Step::Close(slot) => match open[slot].take() {
            Some(file) => told(file.close()),
            None => String::from("not open"),
        },
        step => match open.get_mut(slot_of(&step)).and_then(Option::as_mut) {
            Some(file) => perform_on(file, step),
            None => String::from("not open"),
        },
    }
}

fn slot_of(step: &Step) -> usize {
    match *step {
        Step::ReadAt(slot, ..)
        | Step::WriteAt(slot, ..)
        | Step::ReadVectoredAt(slot, ..)
        | Step::Read(slot, ..)
        | Step::Write(slot, ..)
        | Step::Seek(slot, ..)
        | Step::SetLen(slot, ..)
        | Step::Allocate(slot, ..)
        | Step::Sync(slot, ..)
        | Step::StatOpen(slot) => slot,
        _ => usize::MAX,
    }
}

#[wo::fiber]
fn perform_on(file: &mut File, step: Step) -> String {
    match step {
        Step::ReadAt(_, count, offset) => {
            let (read, bytes) = file.read_at(Vec::with_capacity(count.max(1)), offset);
            format!("{} {}", told(read), shown(&bytes))
        }
        Step::WriteAt(_, byte, count, offset) => {
            let (written, _bytes) = file.write_at(some_bytes(byte, count), offset);
            told(written)
        }
        Step::ReadVectoredAt(_, [first, second], offset) => {
            let bufs = vec![vec![0; first.max(1)], vec![0; second]];
            let (read, bufs) = file.read_vectored_at(bufs, offset);
            let all: Vec<u8> = bufs.concat();
            match read {
                Ok(count) => format!("{count} {}", shown(&all[..count])),
                Err(error) => refusal(&error),
            }
        }
        Step::Read(_, count) => {
            let (read, bytes) = file.read(Vec::with_capacity(count.max(1)));
            format!("{} {}", told(read), shown(&bytes))
        }
        Step::Write(_, byte, count) => {
            let (written, _bytes) = file.write(some_bytes(byte, count));
            told(written)
        }
        // Where a directory ends is each file system's own business.
        Step::Seek(_, SeekFrom::End(_)) if file.metadata().is_ok_and(|metadata| metadata.is_dir()) => {
            String::from("a directory")
        }
        Step::Seek(_, to) => told(file.seek(to)),
        Step::SetLen(_, len) => told(file.set_len(len)),
        Step::Allocate(_, offset, len) => told(file.allocate(offset, len)),
        Step::Sync(_, true) => told(file.sync_data()),
        Step::Sync(_, false) => told(file.sync_all()),
        Step::StatOpen(_) => {
            let metadata = file.metadata();
            told(metadata.map(|metadata| metadata.is_file().then_some(metadata.len())))
        }
        step => unreachable!("{step:?} is for no open file"),
    }
}
