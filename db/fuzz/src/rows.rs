//! Catalogues and transactions of any bytes: read without a program and with one, never a panic, never more memory or
//! time than the bytes are worth, and a refusal that changes nothing.

use std::path::Path;
use std::sync::OnceLock;

use wo::db::stored::Catalogue;
use wo::db::{Db, Error, ErrorKind};
use wo_db::log::error::Undecodable;
use wo_db::log::{Log, LogOptions, Replay};
use wo_runtime::os::fs;
use wo_runtime::plane::backend::sim::{Disk, SimHost};
use wo_runtime::shard::Builder;

use crate::forge::{self, Bytes, Frame, SEGMENT, Segment, put_entry, put_frame};

const DIR: &str = "/data";

#[derive(wo::Field, Clone, Debug, PartialEq)]
enum Shape {
    Point,
    Circle { radius: f64 },
    Group(Vec<Shape>),
}

#[derive(wo::Record, Clone, Debug, PartialEq)]
#[record(table = "drawings")]
struct Drawing {
    #[key(auto)]
    id: u64,
    #[unique]
    name: Option<String>,
    #[index]
    tags: Vec<String>,
    shape: Shape,
    sizes: [u16; 2],
    bytes: Vec<u8>,
    counts: std::collections::BTreeMap<String, i64>,
}

#[derive(wo::Record, Clone, Debug, PartialEq)]
#[record(table = "visits")]
struct Visit {
    #[key]
    drawing: u64,
    #[key]
    day: char,
    note: (bool, Option<Box<Shape>>),
}

/// Fuzzes a catalogue and transactions behind it.
pub fn rows(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let catalogue = if bytes.one_in(2) { known_catalogue().to_vec() } else { bytes.piece(400).to_vec() };
    let bodies: Vec<&[u8]> = (0..=bytes.below(3)).map(|_| bytes.piece(300)).collect();
    if let Ok(known) = Catalogue::decode(&catalogue) {
        for body in &bodies {
            for (_, change) in known.changes(body).unwrap_or_default() {
                if let wo::db::stored::Change::Put(value) | wo::db::stored::Change::Delete(value) = change {
                    assert!(!value.to_json().is_empty());
                }
            }
        }
    }
    open(log_of(&catalogue, &bodies));
}

/// The catalogue of the tables above.
fn known_catalogue() -> &'static [u8] {
    static KNOWN: OnceLock<Vec<u8>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let host = SimHost::new(1);
        let program = || async {
            builder().open(DIR).await?.close().await?;
            let mut first = First::default();
            let opened = Log::open(Path::new(DIR), &LogOptions::default(), &mut first).await;
            drop(opened.expect("it was closed a moment ago"));
            Ok::<_, Error>(first.0)
        };
        Builder::new().simulated(&host).run(program).expect("it ends").expect("it opens")
    })
}

fn builder() -> wo::db::Builder {
    Db::builder().table::<Drawing>().table::<Visit>().segment_bytes(16 << 10)
}

/// The first catalogue of a log.
#[derive(Default)]
struct First(Vec<u8>);

impl Replay for First {
    fn catalogue(&mut self, bytes: &[u8]) -> Result<(), Undecodable> {
        self.0 = bytes.to_vec();
        Ok(())
    }

    fn snapshot_end(&mut self, _as_of: u64) -> Result<(), Undecodable> {
        Ok(())
    }

    fn transaction(&mut self, _sequence: u64, _body: &[u8]) -> Result<(), Undecodable> {
        Ok(())
    }
}

fn log_of(catalogue: &[u8], bodies: &[&[u8]]) -> Vec<u8> {
    let mut file = forge::segment_header(Segment {
        sequence: 1,
        segment: 1,
        generation: 1,
        previous: 0,
        bytes: 16 << 10,
        recycled: false,
    });
    let mut frame = Frame { sequence: 1, entries: 1, generation: 1, segment: 1, ..Frame::default() };
    let mut body = Vec::new();
    put_entry(&mut body, 2, catalogue);
    frame.previous = put_frame(&mut file, SEGMENT, frame, &body);
    for transaction in bodies {
        frame.sequence += 1;
        body.clear();
        put_entry(&mut body, 1, transaction);
        frame.previous = put_frame(&mut file, SEGMENT, frame, &body);
    }
    file.resize(file.len().max(16 << 10), 0);
    file
}

fn open(log: Vec<u8>) {
    let file = Path::new(DIR).join("log.0");
    let mut disk = Disk::new();
    disk.write(&file, &log).expect("a new disk takes everything");
    let host = SimHost::new(1);
    host.power_on(disk).expect("it is off");
    let program = || async move {
        let looked = wo::db::tools::stats(DIR, |_, _| ()).await;
        match builder().open(DIR).await {
            Err(error) => {
                let kinds =
                    [ErrorKind::Schema, ErrorKind::NewerVersion, ErrorKind::Undecodable, ErrorKind::UniqueConflict];
                assert!(kinds.contains(&error.kind()), "{error}");
                assert!(fs::read(&file).await.expect("it is there") == log, "a refusal changed something: {error}");
            }
            Ok(db) => {
                looked.expect("what the program reads the tools read");
                assert!(db.is_consistent().await?);
                let (drawings, visits) = (db.table::<Drawing>().await?, db.table::<Visit>().await?);
                let before = (drawings.range(..).all().await?, visits.range(..).all().await?);
                // Rows that were read can be written, and are read again as they were.
                db.snapshot().await?;
                db.close().await?;
                let db = builder().open(DIR).await?;
                let (drawings, visits) = (db.table::<Drawing>().await?, db.table::<Visit>().await?);
                let after = (drawings.range(..).all().await?, visits.range(..).all().await?);
                // Numbers that are none are not even equal to themselves.
                assert_eq!(format!("{before:?}"), format!("{after:?}"));
            }
        }
        Ok::<_, Error>(())
    };
    Builder::new().simulated(&host).run(program).expect("it ends").unwrap_or_else(|error| panic!("{error}"));
}
