//! A directory that the first version of the format left, kept in `golden/v1` for every later version to open.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};

use wo::db::{Db, Result};
use wo_db::tools;

#[derive(wo::Record, Clone, Debug, PartialEq)]
#[record(table = "cities")]
struct City {
    #[key(auto)]
    id: u64,
    #[unique]
    name: String,
    people: u64,
}

#[derive(wo::Record, Clone, Debug, PartialEq)]
#[record(table = "visits")]
struct Visit {
    #[key]
    city: u64,
    #[key]
    day: u32,
    note: Option<String>,
}

const CITIES: [(&str, u64); 6] = [
    ("Roma", 2_748_109),
    ("Milano", 1_354_196),
    ("Napoli", 908_082),
    ("Torino", 841_600),
    ("Palermo", 625_956),
    ("Genova", 558_745),
];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1")
}

async fn open(dir: &Path) -> Result<Db> {
    Db::builder().table::<City>().table::<Visit>().open(dir).await
}

fn city(name: &str, people: u64) -> City {
    City { id: 0, name: name.to_owned(), people }
}

/// Makes what the golden directory holds.
async fn make(dir: &Path) -> Result<()> {
    let db = open(dir).await?;
    let (cities, visits) = (db.table::<City>().await?, db.table::<Visit>().await?);
    for (name, people) in CITIES {
        let id = cities.insert(city(name, people)).await?;
        visits.insert(Visit { city: id, day: 1, note: None }).await?;
    }
    db.snapshot().await?;
    // Behind the snapshot: a row more, a row changed, a row gone, many in one.
    let bari = cities.insert(city("Bari", 316_140)).await?;
    cities.upsert(City { id: 1, name: "Roma".to_owned(), people: 2_748_109 }).await?;
    visits.insert(Visit { city: bari, day: 2, note: Some("hot".to_owned()) }).await?;
    visits.delete(&(2, 1)).await?;
    db.transaction(move |tx| {
        let visits = tx.table::<Visit>()?;
        (3..6).try_for_each(|day| visits.insert(Visit { city: 1, day, note: None }).map(drop))
    })
    .await?;
    cities.insert(city("Catania", 298_762)).await?;
    db.close().await
}

/// Opens such a directory, twice, and looks whether all of it is there.
async fn check(dir: &Path) -> Result<()> {
    for life in 0..2 {
        let db = open(dir).await?;
        let (cities, visits) = (db.table::<City>().await?, db.table::<Visit>().await?);
        let names: Vec<String> = cities.range(..).all().await?.iter().map(|city| city.name.clone()).collect();
        let expected: Vec<&str> = CITIES.iter().map(|(name, _)| *name).chain(["Bari", "Catania"]).collect();
        assert_eq!(names[..8], expected);
        assert_eq!(visits.range(..).count().await?, 5 + 1 + 3);
        assert!(visits.get(&(2, 1)).await?.is_none());
        assert_eq!(visits.get(&(7, 2)).await?.unwrap().note.as_deref(), Some("hot"));
        // It goes on from there.
        assert_eq!(cities.insert(city(&format!("new {life}"), 1)).await?, 9 + life);
        assert!(db.is_consistent().await?);
        db.close().await?;
    }
    Ok(())
}

/// The golden directory was made by this, once for its version of the format, with `WO_MAKE_GOLDEN=1`; one that is
/// there is not touched.
#[test]
fn b11_a_directory_made_today_holds_the_same() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().to_owned();
    wo::Builder::new()
        .run(move || async move {
            make(&dir).await?;
            if std::env::var_os("WO_MAKE_GOLDEN").is_some() {
                tools::copy(&dir, golden(), |_, _| ()).await.unwrap();
            }
            check(&dir).await
        })
        .unwrap()
        .unwrap();
}

#[test]
fn b11_golden_v1_opens_and_holds_what_it_held() {
    let scratch = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(golden()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), scratch.path().join(entry.file_name())).unwrap();
    }
    let dir = scratch.path().to_owned();
    wo::Builder::new().run(move || async move { check(&dir).await }).unwrap().unwrap();
}
