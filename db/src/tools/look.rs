//! Looking: verify, stats, dump, transactions.

use std::fmt;
use std::path::Path;
use std::rc::Rc;

use wo_runtime::error::errno;
use wo_runtime::os::fs::OpenOptions;

use crate::log::error::{OpenError, Undecodable};
use crate::log::examine::{Contents, examine, has_snapshot};
use crate::log::{Replay, names};
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

/// How often the same trouble is met in a directory that somebody writes to before it is taken for one.
const SAME_MAX: u32 = 8;

/// How often such a directory is looked at, while each look meets other files that changed under it.
const LOOKS_MAX: u32 = 200;

/// Looks, and looks again while what it found may only be that whoever has the directory open took files into use
/// again. Whoever had it when the look began counts, too: a process that ended during the look wrote until then.
async fn settled<T>(dir: &Path, mut look: impl AsyncFnMut() -> Result<T, OpenError>) -> Result<T, OpenError> {
    let (mut before, mut same) = (String::new(), 0);
    for _ in 1..LOOKS_MAX {
        let is_held = holder(dir).await?.is_some();
        let error = match look().await {
            Err(error) if may_be_change(&error) && (is_held || holder(dir).await?.is_some()) => error,
            looked => return looked,
        };
        let now = error.to_string();
        same = if now == before { same + 1 } else { 1 };
        before = now;
        if same == SAME_MAX {
            return Err(error);
        }
    }
    look().await
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

/// Refuses a directory in which no file is a database's: to opening it is a new one, to whoever looks a slip.
pub(crate) async fn is_database(dir: &Path) -> Result<(), OpenError> {
    if names::list(dir).await?.is_database() {
        return Ok(());
    }
    Err(OpenError::NotDatabase { dir: dir.to_owned() })
}

pub(crate) async fn verify(dir: &Path, progress: Told<'_>) -> Result<Contents, OpenError> {
    is_database(dir).await?;
    settled(dir, async || examine(dir, &mut Reader::default(), progress).await).await
}

async fn rows_of(dir: &Path, progress: Told<'_>) -> Result<(Contents, Rows), OpenError> {
    is_database(dir).await?;
    settled(dir, async || {
        let mut rows = Rows::default();
        Ok((examine(dir, &mut rows, progress).await?, rows))
    })
    .await
}

/// What is in a data directory.
///
/// # Examples
///
/// ```
/// # #[derive(wo::Record, Clone)]
/// # struct City {
/// #     #[key]
/// #     name: String,
/// # }
/// # #[wo::main]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = std::env::temp_dir().join(format!("wo-db-toolstats-{}", std::process::id()));
/// # let db = wo::db::Db::builder().table::<City>().open(dir.join("cities"))?;
/// # db.table::<City>()?.insert(City { name: "Rome".to_owned() })?;
/// # db.close()?;
/// # let cities = dir.join("cities");
///
/// let stats = wo::db::tools::stats(&cities, |_, _| ())?;
/// assert_eq!(stats.tables.len(), 1);
/// assert!(stats.contents.file_bytes > 0);
/// print!("{stats}");
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Its files.
    pub contents: Contents,
    /// Its tables, by their numbers.
    pub tables: Vec<TableStats>,
}

/// What is in a table.
///
/// # Examples
///
/// ```
/// # #[derive(wo::Record, Clone)]
/// # struct City {
/// #     #[key]
/// #     name: String,
/// # }
/// # #[wo::main]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = std::env::temp_dir().join(format!("wo-db-tablestats-{}", std::process::id()));
/// # let db = wo::db::Db::builder().table::<City>().open(dir.join("cities"))?;
/// # db.table::<City>()?.insert(City { name: "Rome".to_owned() })?;
/// # db.close()?;
/// # let cities = dir.join("cities");
///
/// let stats = wo::db::tools::stats(&cities, |_, _| ())?;
/// let cities_stats = &stats.tables[0];
/// assert_eq!((cities_stats.table.as_str(), cities_stats.rows), ("city", 1));
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok(())
/// # }
/// ```
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
    is_database(dir).await?;
    settled(dir, async || {
        teller.in_snapshot = has_snapshot(dir).await?;
        examine(dir, &mut teller, &mut unseen()).await.map(drop)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use wo_runtime::shard::Builder;

    use super::*;
    use crate::log::directory::Directory;

    fn broken(file: &Path) -> OpenError {
        OpenError::CorruptMiddle { file: file.to_owned(), offset: 0, reason: "it was being begun".to_owned() }
    }

    /// Looks at a directory that one writer has, who lets it go during the look of this number, if ever. The first
    /// look met files that changed; answers how many looks there were, and whether the last of them was whole.
    async fn looks_beside_a_writer(dir: &Path, ends_in: u32) -> (u32, bool) {
        let writer = RefCell::new((ends_in > 0).then_some(Directory::open(dir).await.expect("it is free")));
        let looks = Cell::new(0);
        let looked = settled(dir, async || {
            looks.set(looks.get() + 1);
            if looks.get() == ends_in {
                writer.take();
            }
            if looks.get() == 1 { Err(broken(dir)) } else { Ok(()) }
        });
        let looked = looked.await.is_ok();
        (looks.get(), looked)
    }

    /// How many looks there are at a directory that somebody has, when the first `troubles` of them meet trouble
    /// with the file that `file` names, and whether the last was whole.
    async fn looks_beside_a_busy_writer(dir: &Path, troubles: u32, file: impl Fn(u32) -> String) -> (u32, bool) {
        let _writer = Directory::open(dir).await.expect("it is free");
        let looks = Cell::new(0);
        let looked = settled(dir, async || {
            looks.set(looks.get() + 1);
            if looks.get() <= troubles { Err(broken(&dir.join(file(looks.get())))) } else { Ok(()) }
        });
        let looked = looked.await.is_ok();
        (looks.get(), looked)
    }

    /// A `verify` beside a writer of small segments gave up after eight looks, each of which had met another of them
    /// that was gone.
    #[test]
    fn what_changes_all_the_time_is_looked_at_until_a_look_is_whole() {
        let there = tempfile::tempdir().unwrap();
        let dir = there.path().to_owned();
        let run = Builder::new().shards(1).run(move || async move {
            let other = |look| format!("log.{look}");
            assert_eq!(looks_beside_a_busy_writer(&dir, 40, other).await, (41, true));
            assert_eq!(looks_beside_a_busy_writer(&dir, u32::MAX, other).await, (LOOKS_MAX, false));
            // What stays broken is.
            assert_eq!(looks_beside_a_busy_writer(&dir, u32::MAX, |_| "log.1".into()).await, (SAME_MAX, false));
        });
        run.unwrap();
    }

    /// A dump met a segment whose header was being written, and the writer was killed before the dump asked whether
    /// anybody writes: it called a whole database broken.
    #[test]
    fn files_that_changed_are_looked_at_again_though_their_writer_has_ended_since() {
        let there = tempfile::tempdir().unwrap();
        let dir = there.path().to_owned();
        let run = Builder::new().shards(1).run(move || async move {
            assert_eq!(looks_beside_a_writer(&dir, 1).await, (2, true), "it ended during the look");
            assert_eq!(looks_beside_a_writer(&dir, 2).await, (2, true), "it was there all the time");
            // What nobody writes to is what it is.
            assert_eq!(looks_beside_a_writer(&dir, 0).await, (1, false));
        });
        run.unwrap();
    }
}
