//! Snapshots: the tables written down as they are, so that the log behind may go.
//!
//! One is made when it is asked for, and by itself when the log has grown by so much since the last one. Rows are
//! handed out a page at a time between other work; what changes meanwhile is in the log as well, and steps say what is,
//! not what changes, so replaying the log over the pages comes to the same.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use wo_runtime::fiber;

use crate::error::{Error, Result};
use crate::log::copy::Backup;
use crate::log::{Log, Snapshot};
use crate::owner::{Owner, contained};
use crate::schema::wire::Output;
use crate::store::Cursor;

/// Bytes of a page, about: nothing else runs while one is encoded.
const PAGE_BYTES: usize = 16 << 10;

pub(crate) struct Snapshots {
    /// The log grows by so much before one is made by itself.
    after_bytes: u64,
    /// The size of the last one.
    last_bytes: Cell<u64>,
    is_making: Cell<bool>,
    /// Why the last one was not made.
    pub(crate) trouble: RefCell<Option<Error>>,
}

impl Snapshots {
    pub(crate) fn new(after_bytes: u64) -> Snapshots {
        Snapshots { after_bytes, last_bytes: Cell::new(0), is_making: Cell::new(false), trouble: RefCell::default() }
    }
}

impl Owner {
    /// Makes a snapshot in a fiber of its own, and tells what came of it.
    pub(crate) fn snapshot(self: &Rc<Owner>, log: Rc<Log>, tell: impl FnOnce(Result<Snapshot>) + 'static) {
        let owner = Rc::clone(self);
        drop(fiber::spawn_named("database snapshot", || async move {
            let made = fiber::protect(|| owner.make_snapshot(&log)).await;
            drop(log);
            *owner.snapshots.trouble.borrow_mut() = made.as_ref().err().cloned();
            owner.attention.notify_one();
            contained(|| tell(made));
        }));
    }

    /// Copies the log to a new directory in a fiber of its own, and tells what came of it.
    pub(crate) fn backup(self: &Rc<Owner>, log: Rc<Log>, to: PathBuf, tell: impl FnOnce(Result<Backup>) + 'static) {
        let owner = Rc::clone(self);
        drop(fiber::spawn_named("database backup", || async move {
            let made = fiber::protect(|| async { log.backup(&to, &mut |_, _| {}).await }).await;
            drop(log);
            owner.attention.notify_one();
            contained(|| tell(made.map_err(Error::from)));
        }));
    }

    /// Makes a snapshot.
    pub(crate) async fn make_snapshot(&self, log: &Log) -> Result<Snapshot> {
        let catalogue = self.store.borrow().catalogue()?;
        let mut cursor = Cursor::default();
        let page = |page: &mut Vec<u8>| {
            // Nothing of the program's runs between two fibers, so the tables are not being changed.
            let Ok(store) = self.store.try_borrow() else { return false };
            let mut output = Output::over(std::mem::take(page));
            let more = store.dump(&mut cursor, &mut output, PAGE_BYTES);
            *page = output.finish().unwrap_or_else(|(bytes, _)| bytes);
            more
        };
        let made = log.snapshot(&catalogue, log.last_sequence(), page).await?;
        self.snapshots.last_bytes.set(made.bytes);
        Ok(made)
    }

    /// Makes a snapshot if the log has grown enough: by the size of the last one at least, so that they never take more
    /// writing than what they are of.
    pub(crate) fn think_of_snapshot(self: &Rc<Owner>, log: &Rc<Log>) {
        let snapshots = &self.snapshots;
        let enough = snapshots.after_bytes.max(snapshots.last_bytes.get());
        if self.is_closing.get() || snapshots.is_making.get() || log.stats().bytes_since_snapshot < enough {
            return;
        }
        snapshots.is_making.set(true);
        let owner = Rc::clone(self);
        self.snapshot(Rc::clone(log), move |made| {
            // After a failure the log has to grow as much again before the next attempt.
            if made.is_err() {
                let grown = owner.log().map_or(0, |log| log.stats().bytes_since_snapshot);
                owner.snapshots.last_bytes.set(grown.saturating_add(owner.snapshots.after_bytes));
            }
            owner.snapshots.is_making.set(false);
        });
    }
}
