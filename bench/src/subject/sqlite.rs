//! SQLite by rusqlite: write-ahead log, synchronous FULL, prepared statements.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};

use crate::bench::Bench;
use crate::db::{self, Row, Store};
use crate::failure::Failure;
use crate::stats::Sample;

use super::{Round, Subject};

/// SQLite.
#[derive(Debug)]
pub struct Sqlite;

struct Open(Connection);

fn refused(error: rusqlite::Error) -> Failure {
    Failure::new("use SQLite", error)
}

impl Store for Open {
    fn open(dir: &Path) -> Result<Open, Failure> {
        let connection = Connection::open(dir.join("store.sqlite")).map_err(refused)?;
        let setup = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE IF NOT EXISTS rows \
                     (id INTEGER PRIMARY KEY, name TEXT NOT NULL, value INTEGER NOT NULL)";
        connection.execute_batch(setup).map_err(refused)?;
        Ok(Open(connection))
    }

    fn commit(&mut self, rows: impl Iterator<Item = Row>) -> Result<(), Failure> {
        let transaction = self.0.transaction().map_err(refused)?;
        {
            let mut insert =
                transaction.prepare_cached("INSERT INTO rows (id, name, value) VALUES (?, ?, ?)").map_err(refused)?;
            for row in rows {
                insert.execute(params![row.id.cast_signed(), row.name, row.value]).map_err(refused)?;
            }
        }
        transaction.commit().map_err(refused)
    }

    fn get(&mut self, id: u64) -> Result<Option<i64>, Failure> {
        let mut select = self.0.prepare_cached("SELECT name, value FROM rows WHERE id = ?").map_err(refused)?;
        let mut rows = select.query(params![id.cast_signed()]).map_err(refused)?;
        let Some(row) = rows.next().map_err(refused)? else { return Ok(None) };
        std::hint::black_box(row.get_ref(0).map_err(refused)?);
        row.get(1).map(Some).map_err(refused)
    }

    fn scan(&mut self) -> Result<(u64, i64), Failure> {
        let mut select = self.0.prepare_cached("SELECT name, value FROM rows ORDER BY id").map_err(refused)?;
        let mut rows = select.query([]).map_err(refused)?;
        let (mut count, mut sum) = (0, 0);
        while let Some(row) = rows.next().map_err(refused)? {
            std::hint::black_box(row.get_ref(0).map_err(refused)?);
            sum += row.get::<_, i64>(1).map_err(refused)?;
            count += 1;
        }
        Ok((count, sum))
    }
}

fn round(case: &str, budget: Duration) -> Result<Vec<Sample>, Failure> {
    db::round::<Open>("sqlite", case, budget)
}

impl Subject for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn about(&self) -> &'static str {
        "SQLite by rusqlite, WAL, synchronous FULL"
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        (bench == Bench::Db).then_some(round as Round)
    }
}
