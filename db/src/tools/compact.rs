//! Making a snapshot without the program whose rows they are.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::log::error::CopyError;
use crate::log::{Log, LogOptions};
use crate::schema::catalogue::{Catalogue, Step};
use crate::schema::wire::Output;
use crate::tools::look::is_database;
use crate::tools::rows::Rows;

/// Bytes of rows in one step of the snapshot, about.
const PAGE_BYTES: usize = 64 << 10;

/// What came of it.
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
/// # let dir = std::env::temp_dir().join(format!("wo-db-compacted-{}", std::process::id()));
/// # let db = wo::db::Db::builder().table::<City>().open(dir.join("cities"))?;
/// # db.table::<City>()?.insert(City { name: "Rome".to_owned() })?;
/// # db.close()?;
/// # let cities = dir.join("cities");
///
/// let compacted = wo::db::tools::compact(&cities)?;
/// assert_eq!(compacted.rows, 1);
/// let snapshot = compacted.snapshot.as_ref().expect("there was something to compact");
/// assert_eq!(std::fs::metadata(snapshot)?.len(), compacted.bytes);
/// print!("{compacted}");
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// The snapshot; none where there was nothing to make one of.
    pub snapshot: Option<PathBuf>,
    /// Rows in it.
    pub rows: u64,
    /// Its size, in bytes.
    pub bytes: u64,
    /// Segments it made needless.
    pub segments_freed: u32,
}

impl fmt::Display for Compacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.snapshot {
            Some(file) => writeln!(
                f,
                "{}: {} rows, {} bytes; {} segments needed no more",
                file.display(),
                self.rows,
                self.bytes,
                self.segments_freed
            ),
            None => writeln!(f, "nothing to compact"),
        }
    }
}

pub(crate) async fn compact(dir: &Path) -> Result<Compacted, CopyError> {
    // Not to be made: a database is compacted, not begun.
    is_database(dir).await?;
    let mut rows = Rows::default();
    let (log, _) = Log::open(dir, &LogOptions::default(), &mut rows).await?;
    let made = make(dir, &log, &rows).await;
    let closed = log.close().await;
    let made = made?;
    closed?;
    Ok(made)
}

async fn make(dir: &Path, log: &Log, rows: &Rows) -> Result<Compacted, CopyError> {
    let Some(catalogue) = &rows.catalogue else {
        return Ok(Compacted { snapshot: None, rows: 0, bytes: 0, segments_freed: 0 });
    };
    let refuse = |reason: &str| CopyError::Refused {
        dir: dir.to_owned(),
        reason: reason.to_owned(),
        remedy: "open it once with its program, which makes one form of them",
    };
    if rows.has_changed {
        return Err(refuse("tables were changed since the last snapshot, so rows of several forms are in the log"));
    }
    let mut catalogue = Catalogue::clone(catalogue);
    for table in &mut catalogue.tables {
        if let Some((_, key)) = rows.last_keys.get(&table.number) {
            table.last_key = Some(key.to_vec());
        }
    }
    let catalogue = catalogue.encode().map_err(refuse)?;
    let mut stored =
        rows.tables.iter().flat_map(|(number, rows)| rows.values().map(move |row| (*number, &row.bytes))).peekable();
    let page = |body: &mut Vec<u8>| {
        if stored.peek().is_none() {
            return false;
        }
        let mut output = Output::over(std::mem::take(body));
        while output.len() < PAGE_BYTES
            && let Some((number, row)) = stored.next()
        {
            Step::Put(row).encode(number, &mut output);
        }
        // Rows that were read back can be.
        *body = output.finish().unwrap_or_else(|(bytes, _)| bytes);
        true
    };
    let snapshot = log.snapshot(&catalogue, log.last_sequence(), page).await?;
    Ok(Compacted {
        snapshot: Some(snapshot.file),
        rows: rows.count(),
        bytes: snapshot.bytes,
        segments_freed: snapshot.segments_freed,
    })
}
