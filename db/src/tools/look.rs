//! Looking: verify, stats, dump, transactions.

use std::fmt;
use std::path::Path;
use std::rc::Rc;

use wo_runtime::error::errno;
use wo_runtime::os::fs::OpenOptions;

use crate::log::Replay;
use crate::log::error::{OpenError, Undecodable};
use crate::log::examine::{Contents, examine, has_snapshot};
use crate::schema::catalogue::{Catalogue, Change};
use crate::schema::value::Value;
use crate::tools::rows::{Rows, Stored, compare, known, read_catalogue, undecodable};
use crate::tools::{Told, unseen};

/// Reads every value, and keeps none.
#[derive(Default)]
struct Reader {
    catalogue: Option<Rc<Catalogue>>,
}

impl Replay for Reader {
    fn catalogue(&mut self, bytes: &[u8]) -> Result<(), Undecodable> {
        self.catalogue = Some(read_catalogue(bytes)?);
        Ok(())
    }

    fn snapshot_end(&mut self, _as_of: u64) -> Result<(), Undecodable> {
        Ok(())
    }

    fn transaction(&mut self, _sequence: u64, body: &[u8]) -> Result<(), Undecodable> {
        let catalogue = known(self.catalogue.as_ref())?;
        catalogue.changes(body).map(drop).map_err(|error| undecodable(&error, None))
    }
}

/// How often a directory that somebody writes to is looked at anew, when its files changed under the look.
const TRIES: u32 = 8;

/// Looks, and looks again while what it found may only be that whoever has the directory open took files into use
/// again.
async fn settled<T>(dir: &Path, mut look: impl AsyncFnMut() -> Result<T, OpenError>) -> Result<T, OpenError> {
    let mut tries = 1;
    loop {
        match look().await {
            Err(error) if tries < TRIES && may_be_change(&error) && holder(dir).await?.is_some() => tries += 1,
            looked => return looked,
        }
    }
}

fn may_be_change(error: &OpenError) -> bool {
    match error {
        OpenError::CorruptMiddle { .. } | OpenError::Missing { .. } | OpenError::Undecodable { .. } => true,
        OpenError::Io { error, .. } => matches!(error.errno(), errno::ENOENT | errno::ENODATA),
        _ => false,
    }
}

/// The process that has a directory open, where the system tells.
pub(crate) async fn holder(dir: &Path) -> Result<Option<u32>, OpenError> {
    let opened = OpenOptions::new().read(true).directory(true).open(dir).await;
    Ok(opened.map_err(|error| OpenError::io(dir, error))?.lock_holder().await)
}

pub(crate) async fn verify(dir: &Path, progress: Told<'_>) -> Result<Contents, OpenError> {
    settled(dir, async || examine(dir, &mut Reader::default(), progress).await).await
}

async fn rows_of(dir: &Path, progress: Told<'_>) -> Result<(Contents, Rows), OpenError> {
    settled(dir, async || {
        let mut rows = Rows::default();
        Ok((examine(dir, &mut rows, progress).await?, rows))
    })
    .await
}

/// What is in a data directory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Its files.
    pub contents: Contents,
    /// Its tables, by their numbers.
    pub tables: Vec<TableStats>,
}

/// What is in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStats {
    /// Its name.
    pub table: String,
    /// The version of its record.
    pub version: u32,
    /// Its rows.
    pub rows: u64,
    /// Their bytes, without what frames and snapshots add.
    pub bytes: u64,
}

pub(crate) async fn stats(dir: &Path, progress: Told<'_>) -> Result<Stats, OpenError> {
    let (contents, rows) = rows_of(dir, progress).await?;
    let catalogue = rows.catalogue.clone().unwrap_or_default();
    let tables = catalogue.tables.iter().map(|table| {
        let stored = rows.tables.get(&table.number);
        TableStats {
            table: table.table.clone(),
            version: table.version,
            rows: stored.map_or(0, |rows| rows.len() as u64),
            bytes: stored.map_or(0, |rows| rows.values().map(|row| row.bytes.len() as u64).sum()),
        }
    });
    Ok(Stats { contents, tables: tables.collect() })
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let contents = &self.contents;
        for table in &self.tables {
            let TableStats { table, version, rows, bytes } = table;
            writeln!(f, "table {table}, version {version}: {rows} rows, {bytes} bytes")?;
        }
        match &contents.snapshot {
            Some((file, as_of)) => {
                writeln!(f, "snapshot as of {as_of}: {} bytes in {}", contents.snapshot_bytes, file.display())?
            }
            None => writeln!(f, "no snapshot")?,
        }
        writeln!(
            f,
            "log: {} transactions in {} frames, {} bytes in {} segments; {} files ready",
            contents.transactions, contents.frames, contents.log_bytes, contents.segments, contents.spares
        )?;
        writeln!(
            f,
            "last sequence {}, generation {}, {} bytes on the disk",
            contents.last_sequence, contents.generation, contents.file_bytes
        )?;
        if contents.torn_tail_bytes > 0 {
            writeln!(f, "torn tail: {} bytes", contents.torn_tail_bytes)?;
        }
        if let Some(pid) = contents.open_in {
            writeln!(f, "open in process {pid}")?;
        }
        Ok(())
    }
}

pub(crate) async fn dump(dir: &Path, table: Option<&str>, line: &mut dyn FnMut(&str) -> bool) -> Result<(), OpenError> {
    let (_, rows) = rows_of(dir, &mut unseen()).await?;
    let catalogue = rows.catalogue.clone().unwrap_or_default();
    if let Some(table) = table
        && !catalogue.tables.iter().any(|known| known.table == table)
    {
        let known = catalogue.tables.iter().map(|known| known.table.clone()).collect();
        return Err(OpenError::UnknownTable { dir: dir.to_owned(), table: table.to_owned(), known });
    }
    for (number, stored) in &rows.tables {
        let name = catalogue.table(*number).map(|table| table.table.as_str());
        let Some(name) = name.filter(|name| table.is_none_or(|table| table == *name)) else { continue };
        let name = Value::Text(name.to_owned()).to_json();
        for row in in_order(*number, stored.values()) {
            if !line(&format!("{{\"table\":{name},\"row\":{row}}}")) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The rows of a table in the order of their keys. All of them were read once, so they can be read again.
fn in_order<'a>(number: u32, stored: impl Iterator<Item = &'a Stored>) -> impl Iterator<Item = Value> {
    let read = |stored: &Stored| {
        let table = stored.catalogue.table(number)?;
        let row = table.row(&stored.bytes).ok()?;
        let Value::Fields(fields) = &row else { return None };
        let keys = table.columns.iter().zip(fields).filter(|(column, _)| column.role.key);
        Some((Value::List(keys.map(|(_, (_, value))| value.clone()).collect()), row))
    };
    let mut rows: Vec<(Value, Value)> = stored.filter_map(read).collect();
    rows.sort_by(|(one, _), (other, _)| compare(one, other));
    rows.into_iter().map(|(_, row)| row)
}

/// Tells every transaction.
struct Teller<'a> {
    catalogue: Option<Rc<Catalogue>>,
    in_snapshot: bool,
    from: u64,
    line: &'a mut dyn FnMut(&str) -> bool,
    more: bool,
}

impl Replay for Teller<'_> {
    fn catalogue(&mut self, bytes: &[u8]) -> Result<(), Undecodable> {
        self.catalogue = Some(read_catalogue(bytes)?);
        Ok(())
    }

    fn snapshot_end(&mut self, _as_of: u64) -> Result<(), Undecodable> {
        self.in_snapshot = false;
        Ok(())
    }

    fn transaction(&mut self, sequence: u64, body: &[u8]) -> Result<(), Undecodable> {
        if self.in_snapshot || sequence < self.from || !self.more {
            return Ok(());
        }
        let catalogue = known(self.catalogue.as_ref())?;
        let changes = catalogue.changes(body).map_err(|error| undecodable(&error, None))?;
        let changes: Vec<String> = changes
            .into_iter()
            .map(|(table, change)| {
                let name = Value::Text(table.table.clone()).to_json();
                match change {
                    Change::Put(row) => format!("{{\"table\":{name},\"put\":{row}}}"),
                    Change::Delete(key) => format!("{{\"table\":{name},\"delete\":{key}}}"),
                    Change::Clear => format!("{{\"table\":{name},\"clear\":true}}"),
                }
            })
            .collect();
        self.more = (self.line)(&format!("{{\"sequence\":{sequence},\"changes\":[{}]}}", changes.join(",")));
        // A second look begins behind what was told.
        self.from = sequence + 1;
        Ok(())
    }
}

pub(crate) async fn transactions(dir: &Path, from: u64, line: &mut dyn FnMut(&str) -> bool) -> Result<(), OpenError> {
    let mut teller = Teller { catalogue: None, in_snapshot: false, from, line, more: true };
    settled(dir, async || {
        teller.in_snapshot = has_snapshot(dir).await?;
        examine(dir, &mut teller, &mut unseen()).await.map(drop)
    })
    .await
}
