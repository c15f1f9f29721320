//! fjall: a batch per commit, its journal synced.

use std::path::Path;
use std::time::Duration;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::bench::Bench;
use crate::db::{self, Row, Store};
use crate::failure::Failure;
use crate::stats::Sample;

use super::{Round, Subject};

/// fjall.
#[derive(Debug)]
pub struct Fjall;

struct Open {
    database: Database,
    rows: Keyspace,
}

fn refused(error: fjall::Error) -> Failure {
    Failure::new("use fjall", error)
}

fn number(value: &[u8]) -> Result<i64, Failure> {
    let bytes = value.get(..8).and_then(|bytes| bytes.try_into().ok());
    bytes.map(i64::from_le_bytes).ok_or_else(|| Failure::new("read a row of fjall", "it is too short"))
}

impl Store for Open {
    fn open(dir: &Path) -> Result<Open, Failure> {
        let database = Database::builder(dir.join("store")).open().map_err(refused)?;
        let rows = database.keyspace("rows", KeyspaceCreateOptions::default).map_err(refused)?;
        Ok(Open { database, rows })
    }

    fn commit(&mut self, rows: impl Iterator<Item = Row>) -> Result<(), Failure> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for row in rows {
            let value = [&row.value.to_le_bytes()[..], row.name.as_bytes()].concat();
            batch.insert(&self.rows, row.id.to_be_bytes(), value);
        }
        batch.commit().map_err(refused)
    }

    fn get(&mut self, id: u64) -> Result<Option<i64>, Failure> {
        let found = self.rows.get(id.to_be_bytes()).map_err(refused)?;
        found.map(|value| number(&value)).transpose()
    }

    fn scan(&mut self) -> Result<(u64, i64), Failure> {
        let (mut count, mut sum) = (0, 0);
        for row in self.rows.iter() {
            sum += number(&row.value().map_err(refused)?)?;
            count += 1;
        }
        Ok((count, sum))
    }
}

fn round(case: &str, budget: Duration) -> Result<Vec<Sample>, Failure> {
    db::round::<Open>("fjall", case, budget)
}

impl Subject for Fjall {
    fn name(&self) -> &'static str {
        "fjall"
    }

    fn about(&self) -> &'static str {
        "fjall, a synced batch per commit"
    }

    fn round(&self, bench: Bench) -> Option<Round> {
        (bench == Bench::Db).then_some(round as Round)
    }
}
