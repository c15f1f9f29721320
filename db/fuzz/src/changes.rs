//! Changes of a table beside a plain sorted map: what the map makes of one, and what the database does with it. Whoever
//! draws them says what is in a row.

use std::collections::BTreeMap;
use std::fmt::Debug;

use wo::db::{Db, Error, ErrorKind, Record, Table};

/// A record that a map can be a model of.
pub trait Modelled: Record + Clone + Debug {
    /// Whether a unique field keeps the two from being rows of one table.
    fn conflicts(&self, other: &Self) -> bool;

    /// Gives another value to a field that may have any.
    fn change(&mut self, to: i64);
}

/// What may be done to a table.
#[derive(Clone, Debug)]
pub enum Change<R: Record> {
    Insert(R),
    Update(R),
    Upsert(R),
    Modify(R::Key, i64),
    Delete(R::Key),
    DeleteRange(R::Key, R::Key),
    Clear,
    /// Several changes, given up at the end or not.
    Several(Vec<Change<R>>, bool),
    Snapshot,
}

/// What the map makes of it; false when it is refused.
pub fn apply<R: Modelled>(rows: &mut BTreeMap<R::Key, R>, change: &Change<R>) -> bool {
    let conflicts =
        |rows: &BTreeMap<R::Key, R>, row: &R| rows.iter().any(|(key, other)| *key != row.key() && row.conflicts(other));
    match change {
        Change::Insert(row) if rows.contains_key(&row.key()) => false,
        Change::Update(row) if !rows.contains_key(&row.key()) => false,
        Change::Insert(row) | Change::Update(row) | Change::Upsert(row) if conflicts(rows, row) => false,
        Change::Insert(row) | Change::Update(row) | Change::Upsert(row) => {
            rows.insert(row.key(), row.clone());
            true
        }
        Change::Modify(key, to) => rows.get_mut(key).map(|row| row.change(*to)).is_some(),
        Change::Delete(key) => {
            rows.remove(key);
            true
        }
        Change::DeleteRange(from, to) => {
            rows.retain(|key, _| !(from..to).contains(&key));
            true
        }
        Change::Clear => {
            rows.clear();
            true
        }
        Change::Several(changes, gives_up) => {
            let mut changed = rows.clone();
            for change in changes {
                apply(&mut changed, change);
            }
            if !gives_up {
                *rows = changed;
            }
            !gives_up
        }
        Change::Snapshot => true,
    }
}

/// What the database makes of it; false when it refuses.
pub async fn run<R: Modelled>(db: Db, table: Table<R>, change: Change<R>) -> Result<bool, Error> {
    let done = match change {
        Change::Insert(row) => table.insert(row).await.map(drop),
        Change::Update(row) => table.update(row).await.map(drop),
        Change::Upsert(row) => table.upsert(row).await.map(drop),
        Change::Modify(key, to) => table.modify(&key, move |row| row.change(to)).await.map(drop),
        Change::Delete(key) => table.delete(&key).await.map(drop),
        Change::DeleteRange(from, to) => table.range(from..to).delete().await.map(drop),
        Change::Clear => table.clear().await.map(drop),
        Change::Snapshot => db.snapshot().await.map(drop),
        Change::Several(changes, gives_up) => {
            let several = db.transaction(move |tx| {
                let table = tx.table::<R>()?;
                for change in changes {
                    // What is refused changes nothing, and the closure goes on.
                    let _ = match change {
                        Change::Insert(row) => table.insert(row).map(drop),
                        Change::Update(row) => table.update(row).map(drop),
                        Change::Upsert(row) => table.upsert(row).map(drop),
                        Change::Modify(key, to) => table.modify(&key, |row| row.change(to)).map(drop),
                        Change::Delete(key) => table.delete(&key).map(drop),
                        Change::DeleteRange(from, to) => table.range(from..to).delete().map(drop),
                        Change::Clear => table.clear().map(drop),
                        Change::Several(..) | Change::Snapshot => Ok(()),
                    };
                }
                if gives_up { Err(Error::abort(std::fmt::Error)) } else { Ok(()) }
            });
            several.await
        }
    };
    match done {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            ErrorKind::DuplicateKey | ErrorKind::UniqueConflict | ErrorKind::NotFound | ErrorKind::Aborted => Ok(false),
            _ => Err(error),
        },
    }
}
