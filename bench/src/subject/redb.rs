//! redb, durable at every commit, as by default.

use std::path::Path;
use std::time::Duration;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::bench::Bench;
use crate::db::{self, Row, Store};
use crate::failure::Failure;
use crate::stats::Sample;

use super::{Round, Subject};

/// redb.
#[derive(Debug)]
pub struct Redb;

const ROWS: TableDefinition<'_, u64, (&str, i64)> = TableDefinition::new("rows");

struct Open(Database);

fn refused(error: impl Into<redb::Error>) -> Failure {
    Failure::new("use redb", error.into())
}

impl Store for Open {
    fn open(dir: &Path) -> Result<Open, Failure> {
        let database = Database::create(dir.join("store.redb")).map_err(refused)?;
        let begin = database.begin_write().map_err(refused)?;
        begin.open_table(ROWS).map_err(refused)?;
        begin.commit().map_err(refused)?;
        Ok(Open(database))
    }

    fn commit(&mut self, rows: impl Iterator<Item = Row>) -> Result<(), Failure> {
        let write = self.0.begin_write().map_err(refused)?;
        {
            let mut table = write.open_table(ROWS).map_err(refused)?;
            for row in rows {
                table.insert(row.id, (row.name.as_str(), row.value)).map_err(refused)?;
            }
        }
        write.commit().map_err(refused)
    }

    fn get(&mut self, id: u64) -> Result<Option<i64>, Failure> {
        let read = self.0.begin_read().map_err(refused)?;
        let table = read.open_table(ROWS).map_err(refused)?;
        let found = table.get(id).map_err(refused)?;
        Ok(found.map(|row| row.value().1))
    }

    fn scan(&mut self) -> Result<(u64, i64), Failure> {
        let read = self.0.begin_read().map_err(refused)?;
        let table = read.open_table(ROWS).map_err(refused)?;
        let (mut count, mut sum) = (0, 0);
        for row in table.iter().map_err(refused)? {
            let (_, row) = row.map_err(refused)?;
            let (name, value) = row.value();
            std::hint::black_box(name);
            sum += value;
            count += 1;
        }
        Ok((count, sum))
    }
}

fn round(case: &str, budget: Duration) -> Result<Vec<Sample>, Failure> {
    db::round::<Open>("redb", case, budget)
}

impl Subject for Redb {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn about(&self) -> &'static str {
        "redb, immediate durability"
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        (bench == Bench::Db).then_some(round as Round)
    }
}
