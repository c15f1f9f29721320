//! What is in a data directory, by name.
//!
//! Segments are `log.N`: a place with a fixed number, whose file is used again and again. Snapshots are `snapshot.N`,
//! `N` being the last transaction in it; one that is being written is `snapshot.tmp`. Other names are nobody's
//! business.

use std::path::{Path, PathBuf};

use wo_runtime::os::fs;

use crate::log::error::OpenError;

/// The name of a snapshot that is being written.
pub(crate) const SNAPSHOT_DRAFT: &str = "snapshot.tmp";

/// The segment file with this number.
pub(crate) fn segment(dir: &Path, slot: u32) -> PathBuf {
    dir.join(format!("log.{slot}"))
}

/// The snapshot as of this transaction.
pub(crate) fn snapshot(dir: &Path, as_of: u64) -> PathBuf {
    dir.join(format!("snapshot.{as_of}"))
}

/// What is there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    /// Numbers of segment files, ascending.
    pub(crate) slots: Vec<u32>,
    /// Snapshots by the transaction they are as of, newest first.
    pub(crate) snapshots: Vec<u64>,
    /// A snapshot nobody finished.
    pub(crate) draft: bool,
}

impl Listing {
    /// Whether something there has the name of a database's file.
    pub(crate) fn is_database(&self) -> bool {
        !self.slots.is_empty() || !self.snapshots.is_empty() || self.draft
    }
}

/// Lists a data directory.
pub(crate) async fn list(dir: &Path) -> Result<Listing, OpenError> {
    let mut listing = Listing::default();
    for entry in fs::read_dir(dir).await.map_err(|error| OpenError::io(dir, error))? {
        let Some(name) = entry.file_name().to_str() else { continue };
        if name == SNAPSHOT_DRAFT {
            listing.draft = true;
        } else if let Some(slot) = number(name, "log.") {
            listing.slots.push(slot);
        } else if let Some(as_of) = number(name, "snapshot.") {
            listing.snapshots.push(as_of);
        }
    }
    listing.slots.sort_unstable();
    listing.snapshots.sort_unstable_by(|a, b| b.cmp(a));
    Ok(listing)
}

/// The number behind a prefix, written the one way we write it.
fn number<N: std::str::FromStr + ToString>(name: &str, prefix: &str) -> Option<N> {
    let digits = name.strip_prefix(prefix)?;
    digits.parse::<N>().ok().filter(|number| number.to_string() == digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        assert_eq!(number::<u32>("log.0", "log."), Some(0));
        assert_eq!(number::<u32>("log.17", "log."), Some(17));
        for name in ["log.", "log.01", "log.+1", "log.1.bak", "log", "log.4294967296", "snapshot.1"] {
            assert_eq!(number::<u32>(name, "log."), None, "{name}");
        }
    }
}
