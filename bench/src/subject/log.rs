//! A file and a map: each commit one pwrite(2) and one fdatasync(2) into a file of zeros, each record with a checksum.
//! It is what the machine allows a log, and no store.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use crate::bench::Bench;
use crate::db::{self, Row, Store};
use crate::failure::{Failure, Tried};
use crate::stats::Sample;

use super::{Round, Subject};

/// The bare log.
#[derive(Debug)]
pub struct Log;

const ZEROS_BYTES: u64 = 16 << 20;

struct Bare {
    file: File,
    at: u64,
    zeroed: u64,
    buf: Vec<u8>,
    rows: BTreeMap<u64, (String, i64)>,
}

impl Bare {
    /// A file grows by sixteen MiB of zeros at a time.
    fn zero_until(&mut self, end: u64) -> Result<(), Failure> {
        while self.zeroed < end {
            let zeros = vec![0; 1 << 20];
            for piece in 0..ZEROS_BYTES >> 20 {
                self.file.write_all_at(&zeros, self.zeroed + (piece << 20)).tried("fill with zeros")?;
            }
            self.file.sync_all().tried("sync the zeros")?;
            self.zeroed += ZEROS_BYTES;
        }
        Ok(())
    }
}

impl Store for Bare {
    fn open(dir: &Path) -> Result<Bare, Failure> {
        let path = dir.join("log");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.tried(format!("open {}", path.display()))?;
        let bytes = std::fs::read(&path).tried("read the log")?;
        let mut rows = BTreeMap::new();
        let mut rest = &bytes[..];
        // Length, checksum, key, number, name.
        while let [l0, l1, l2, l3, c0, c1, c2, c3, ..] = *rest {
            let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
            let Some(record) = rest.get(8..8 + length).filter(|_| length >= 16) else { break };
            if crc32c::crc32c(record) != u32::from_le_bytes([c0, c1, c2, c3]) {
                break;
            }
            let (id, value) = (record[..8].try_into(), record[8..16].try_into());
            let (Ok(id), Ok(value)) = (id, value) else { break };
            let name = String::from_utf8_lossy(&record[16..]).into_owned();
            rows.insert(u64::from_le_bytes(id), (name, i64::from_le_bytes(value)));
            rest = &rest[8 + length..];
        }
        let at = (bytes.len() - rest.len()) as u64;
        Ok(Bare { file, at, zeroed: bytes.len() as u64, buf: Vec::new(), rows })
    }

    fn commit(&mut self, rows: impl Iterator<Item = Row>) -> Result<(), Failure> {
        self.buf.clear();
        for row in rows {
            let start = self.buf.len();
            self.buf.extend_from_slice(&((16 + row.name.len()) as u32).to_le_bytes());
            self.buf.extend_from_slice(&[0; 4]);
            self.buf.extend_from_slice(&row.id.to_le_bytes());
            self.buf.extend_from_slice(&row.value.to_le_bytes());
            self.buf.extend_from_slice(row.name.as_bytes());
            let checksum = crc32c::crc32c(&self.buf[start + 8..]);
            self.buf[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
            self.rows.insert(row.id, (row.name, row.value));
        }
        self.zero_until(self.at + self.buf.len() as u64)?;
        self.file.write_all_at(&self.buf, self.at).tried("write the log")?;
        self.file.sync_data().tried("sync the log")?;
        self.at += self.buf.len() as u64;
        Ok(())
    }

    fn get(&mut self, id: u64) -> Result<Option<i64>, Failure> {
        Ok(self.rows.get(&id).map(|(_, value)| *value))
    }

    fn scan(&mut self) -> Result<(u64, i64), Failure> {
        Ok(self.rows.values().fold((0, 0), |(count, sum), (_, value)| (count + 1, sum + value)))
    }
}

fn round(case: &str, budget: Duration) -> Result<Vec<Sample>, Failure> {
    db::round::<Bare>("log", case, budget)
}

impl Subject for Log {
    fn name(&self) -> &'static str {
        "log"
    }

    fn about(&self) -> &'static str {
        "pwrite and fdatasync into a file of zeros, and a BTreeMap"
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        (bench == Bench::Db).then_some(round as Round)
    }
}
