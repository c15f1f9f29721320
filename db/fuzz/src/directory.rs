//! Directories with forged files, opened: never a panic, never a change by a refusal, and the same answer every time.

use std::collections::BTreeMap;
use std::path::Path;

use wo_db::log::copy::copy;
use wo_db::log::error::{OpenError, Undecodable};
use wo_db::log::examine::examine;
use wo_db::log::salvage::salvage;
use wo_db::log::{Entry, Log, LogOptions, Replay};
use wo_runtime::os::fs;
use wo_runtime::plane::backend::sim::{Disk, SimHost};
use wo_runtime::shard::Builder;

use crate::forge::{self, Bytes, Frame, SEGMENT, SNAPSHOT, Segment, put_entry, put_frame};

const DIR: &str = "/data";
const SEGMENT_BYTES: u64 = 4096;

type Files = BTreeMap<String, Vec<u8>>;

/// Fuzzes what segments may hold: raw bytes, or frames that prove themselves with anything in their headers.
pub fn frames(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let mut files = Files::new();
    if bytes.one_in(8) {
        for slot in 0..=bytes.below(2) {
            files.insert(format!("log.{slot}"), bytes.piece(8192).to_vec());
        }
    } else {
        put_log(&mut files, &mut bytes, 1, 1);
        if bytes.one_in(4) {
            spoil(&mut files, &mut bytes);
        }
    }
    open(files, bytes.one_in(16));
}

/// Fuzzes what a snapshot may hold, alone and with a log behind it.
pub fn snapshots(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let mut files = Files::new();
    let as_of = bytes.below(20);
    if bytes.one_in(8) {
        files.insert(format!("snapshot.{as_of}"), bytes.piece(8192).to_vec());
    } else {
        for _ in 0..=bytes.below(2) {
            let as_of = bytes.near(as_of);
            files.insert(format!("snapshot.{as_of}"), snapshot(as_of, &mut bytes));
        }
    }
    if bytes.one_in(2) {
        let first = bytes.near(1);
        put_log(&mut files, &mut bytes, first as u32, as_of.saturating_sub(2).max(1));
    }
    if bytes.one_in(4) {
        spoil(&mut files, &mut bytes);
    }
    open(files, bytes.one_in(16));
}

/// A log of some segments, mostly right.
fn put_log(files: &mut Files, bytes: &mut Bytes<'_>, first: u32, sequence: u64) {
    let (mut sequence, mut chain, mut generation) = (sequence, 0, 1);
    for slot in 0..=bytes.below(3) as u32 {
        let segment = first.wrapping_add(slot);
        let mut file = forge::segment_header(Segment {
            sequence: bytes.near(sequence),
            segment: bytes.near(segment.into()) as u32,
            generation: bytes.near(generation) as u32,
            previous: bytes.near(u64::from(chain)) as u32,
            bytes: length(bytes),
            recycled: bytes.one_in(8),
        });
        for _ in 0..bytes.below(5) {
            let mut body = Vec::new();
            let mut entries = 0;
            for _ in 0..=bytes.below(3) {
                put_some(&mut body, bytes);
                entries += 1;
            }
            generation = generation.max(bytes.near(generation) & 0xffff);
            let frame = Frame {
                sequence: bytes.near(sequence),
                entries: bytes.near(entries) as u32,
                generation: generation as u32,
                segment: bytes.near(segment.into()) as u32,
                schema: 0,
                previous: bytes.near(u64::from(chain)) as u32,
            };
            chain = put_frame(&mut file, SEGMENT, frame, &body);
            sequence = frame.sequence.wrapping_add(entries);
        }
        if !bytes.one_in(16) {
            file.resize(file.len().max(SEGMENT_BYTES as usize), 0);
        }
        let slot = bytes.near(slot.into()) as u32 % 8;
        files.insert(format!("log.{slot}"), file);
    }
}

/// The length of a segment: what it should be, a little more or less, or what nobody would make.
fn length(bytes: &mut Bytes<'_>) -> u64 {
    let length = bytes.near(SEGMENT_BYTES);
    if length > 1 << 20 { length | 1 << 60 } else { length }
}

/// An entry of a key and a value, or of anything.
fn put_some(body: &mut Vec<u8>, bytes: &mut Bytes<'_>) {
    match bytes.byte() {
        0..200 => {
            let mut row = u64::from(bytes.byte() % 16).to_le_bytes().to_vec();
            row.extend_from_slice(bytes.piece(64));
            put_entry(body, 1, &row);
        }
        200..220 => put_entry(body, 2, bytes.piece(32)),
        220..240 => put_entry(body, bytes.byte(), bytes.piece(32)),
        _ => body.extend_from_slice(bytes.piece(32)),
    }
}

fn snapshot(as_of: u64, bytes: &mut Bytes<'_>) -> Vec<u8> {
    let generation = bytes.near(1) as u32;
    let mut file = forge::snapshot_header(bytes.near(as_of), generation);
    let (mut chain, mut number, mut entries) = (0, 1, 0);
    for _ in 0..bytes.below(4) {
        let mut body = Vec::new();
        let mut count = 0;
        for _ in 0..=bytes.below(3) {
            put_some(&mut body, bytes);
            count += 1;
        }
        let frame = Frame {
            sequence: bytes.near(number),
            entries: bytes.near(count) as u32,
            generation: bytes.near(generation.into()) as u32,
            segment: 0,
            schema: 0,
            previous: bytes.near(u64::from(chain)) as u32,
        };
        chain = put_frame(&mut file, SNAPSHOT, frame, &body);
        number += 1;
        entries += count;
    }
    let end = forge::snapshot_end(bytes.near(as_of), bytes.near(1) as u32, bytes.near(entries));
    let frame = Frame { sequence: bytes.near(number), entries: 0, generation, segment: 0, schema: 0, previous: chain };
    put_frame(&mut file, SNAPSHOT, frame, &end);
    file
}

/// Does something to one of the files.
fn spoil(files: &mut Files, bytes: &mut Bytes<'_>) {
    let Some(name) = files.keys().nth(bytes.below(files.len().max(1) as u64) as usize).cloned() else { return };
    let file = files.get_mut(&name).expect("it is one of them");
    if file.is_empty() {
        return;
    }
    let at = bytes.long() as usize % file.len();
    match bytes.byte() % 4 {
        0 => file[at] ^= bytes.byte(),
        1 => file.truncate(at),
        2 => file[at..].iter_mut().take(600).for_each(|byte| *byte = 0),
        _ => {
            let piece = bytes.piece(64);
            file.truncate(at);
            file.extend_from_slice(piece);
        }
    }
}

/// What a log was found to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    rows: BTreeMap<u64, Vec<u8>>,
    last: u64,
}

impl Replay for Model {
    fn catalogue(&mut self, _bytes: &[u8]) -> Result<(), Undecodable> {
        Ok(())
    }

    fn snapshot_end(&mut self, as_of: u64) -> Result<(), Undecodable> {
        assert_eq!(self.last, if self.rows.is_empty() { self.last } else { as_of });
        self.last = as_of;
        Ok(())
    }

    fn transaction(&mut self, sequence: u64, body: &[u8]) -> Result<(), Undecodable> {
        assert!(sequence >= self.last, "{sequence} behind {}", self.last);
        self.last = sequence;
        let (key, value) = body.split_first_chunk().ok_or_else(|| Undecodable::new("no key"))?;
        self.rows.insert(u64::from_le_bytes(*key), value.to_vec());
        Ok(())
    }
}

/// Opens a directory with these files, in every way there is; salvaging takes long, for it makes segments of full size.
fn open(files: Files, salvages: bool) {
    let mut disk = Disk::new();
    disk.create_dir_all(DIR).expect("a new disk takes everything");
    for (name, bytes) in &files {
        disk.write(Path::new(DIR).join(name), bytes).expect("a new disk takes everything");
    }
    let host = SimHost::new(1);
    host.power_on(disk).expect("it is off");
    host.control().resize_disk(256 << 20);
    let ran = Builder::new().simulated(&host).run(|| async move { look_and_open(files, salvages).await });
    ran.unwrap_or_else(|error| panic!("{error}"));
}

async fn contents() -> Files {
    let mut files = Files::new();
    for entry in fs::read_dir(DIR).await.expect("it is there") {
        let name = entry.file_name().to_str().expect("a plain name").to_owned();
        files.insert(name, fs::read(entry.path()).await.expect("it is readable"));
    }
    files
}

async fn look_and_open(files: Files, salvages: bool) {
    let dir = Path::new(DIR);
    let options = LogOptions { segment_bytes: SEGMENT_BYTES, ..LogOptions::default() };
    let mut seen = Model::default();
    let looked = examine(dir, &mut seen, &mut |_, _| ()).await;
    assert!(contents().await == files, "a look changed something");
    let mut model = Model::default();
    match Log::open(dir, &options, &mut model).await {
        Err(error) => {
            assert!(contents().await == files, "a refusal changed something: {error}");
            let looked = looked.expect_err("it was refused");
            assert_eq!(looked.to_string(), error.to_string());
            assert!(!matches!(error, OpenError::Io { .. } | OpenError::AlreadyOpen { .. }), "{error}");
            assert!(copy(dir, Path::new("/copy"), &mut |_, _| ()).await.is_err() || undecodable(&error), "{error}");
            if salvages && let Ok(salvaged) = salvage(dir, Path::new("/salvaged"), &mut |_, _| ()).await {
                let opened = Log::open(&salvaged.dir, &options, &mut ()).await;
                drop(opened.expect("what was salvaged is whole"));
            }
        }
        Ok((log, recovery)) => {
            let looked = looked.expect("it was opened");
            assert_eq!(
                (looked.last_sequence, looked.torn_tail_bytes),
                (recovery.last_sequence, recovery.torn_tail_bytes)
            );
            assert_eq!(seen, model);
            let sequence = log.append(Entry::Transaction, &[1; 40]).expect("the disk is well");
            assert!(sequence > model.last, "numbers only grow");
            log.durable(sequence).await.expect("the disk is well");
            log.close().await.expect("the disk is well");
            let mut again = Model::default();
            let (log, _) = Log::open(dir, &options, &mut again).await.expect("it was opened a moment ago");
            model.transaction(sequence, &[1; 40]).expect("it has a key");
            assert_eq!(again, model);
            log.close().await.expect("the disk is well");
        }
    }
}

/// Whether the bytes are whole, so that they can be copied all the same.
fn undecodable(error: &OpenError) -> bool {
    matches!(error, OpenError::Undecodable { .. } | OpenError::CorruptMiddle { .. })
}
