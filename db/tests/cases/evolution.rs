//! DB17: rows of earlier versions. The matrix of B1 runs these.

use std::path::Path;

use wo::db::{Builder, Db, Error, ErrorKind};

use super::rig::Machine;
use crate::files::files;

mod v1 {
    #[derive(wo::Record, Clone, Debug, PartialEq)]
    #[record(table = "people")]
    pub struct Person {
        #[key]
        pub id: u64,
        pub name: String,
        pub age: u8,
        pub note: String,
    }
}

/// One field is new, one is gone, one has another name; the order is another, and an index is new.
mod v2 {
    #[derive(wo::Record, Clone, Debug, PartialEq)]
    #[record(table = "people", version = 2)]
    pub struct Person {
        #[renamed("name")]
        #[index]
        pub full_name: String,
        #[key]
        pub id: u64,
        #[default("nowhere".to_owned())]
        pub city: String,
        #[default]
        pub friends: Vec<u64>,
        pub age: u8,
    }
}

/// A type has changed, and the key with it: functions make these rows.
mod v3 {
    use wo::db::{OldRow, Result};

    #[derive(wo::Record, Clone, Debug, PartialEq)]
    #[record(table = "people", version = 3, upgrade(1 = from_1, 2 = from_2))]
    pub struct Person {
        #[key]
        pub name: String,
        #[unique]
        pub id: u64,
        pub age: Option<u32>,
    }

    fn from_1(old: &OldRow<'_>) -> Result<Person> {
        Ok(Person { name: old.get("name")?, id: old.get("id")?, age: Some(old.get::<u8>("age")?.into()) })
    }

    fn from_2(old: &OldRow<'_>) -> Result<Person> {
        Ok(Person { name: old.get("full_name")?, id: old.get("id")?, age: Some(old.get::<u8>("age")?.into()) })
    }
}

/// `derive(Default)` takes `#[default]` for itself, so the default of stored rows is said otherwise.
mod with_default {
    #[derive(wo::Record, Clone, Debug, Default, PartialEq)]
    #[record(table = "people", version = 2)]
    pub struct Person {
        #[key]
        pub id: u64,
        pub name: String,
        #[record(default)]
        pub friends: Vec<u64>,
        #[record(default = 7)]
        pub luck: u32,
        pub age: u8,
        pub note: String,
    }
}

/// What must be refused, each for its own reason.
mod refused {
    #[derive(wo::Record)]
    #[record(table = "people")]
    pub struct SameVersion {
        #[key]
        pub id: u64,
        pub name: String,
        pub age: u8,
    }

    #[derive(wo::Record)]
    #[record(table = "people", version = 2)]
    pub struct OtherType {
        #[key]
        pub id: u64,
        pub name: String,
        pub age: u16,
        pub note: String,
    }

    #[derive(wo::Record)]
    #[record(table = "people", version = 2)]
    pub struct NoDefault {
        #[key]
        pub id: u64,
        pub name: String,
        pub age: u8,
        pub city: String,
    }

    #[derive(wo::Record)]
    #[record(table = "people", version = 2)]
    pub struct OtherKey {
        #[key]
        pub name: String,
        pub id: u64,
        pub age: u8,
    }

    #[derive(wo::Record)]
    #[record(table = "people")]
    pub struct NowUnique {
        #[key]
        pub id: u64,
        #[unique]
        pub name: String,
        pub age: u8,
        pub note: String,
    }

    #[derive(wo::Record)]
    #[record(table = "people", version = 2, upgrade(1 = never))]
    pub struct Unwilling {
        #[key]
        pub id: u64,
        pub age: u8,
    }

    fn never(old: &wo::db::OldRow<'_>) -> wo::db::Result<Unwilling> {
        let age: u32 = old.get("age")?;
        Ok(Unwilling { id: old.get("id")?, age: age as u8 })
    }

    #[derive(wo::Record)]
    #[record(table = "animals")]
    pub struct Undeclared {
        #[key]
        pub id: u64,
    }
}

async fn store_v1(dir: &Path) -> Result<(), Error> {
    let db = Db::builder().table::<v1::Person>().open(dir).await?;
    let people = db.table::<v1::Person>().await?;
    for (id, name) in [(1, "Ada"), (2, "Bob"), (3, "Bob"), (4, "Eve")] {
        people.insert(v1::Person { id, name: name.to_owned(), age: 30 + id as u8, note: "?".to_owned() }).await?;
    }
    people.delete(&4).await?;
    db.close().await
}

pub fn fields(machine: &Machine) {
    machine.run(|dir| async move {
        store_v1(&dir).await?;
        for opening in 0..3 {
            let db = Db::builder().table::<v2::Person>().open(&dir).await?;
            let people = db.table::<v2::Person>().await?;
            let bob = people.get(&2).await?.expect("he is there");
            let (full_name, city) = ("Bob".to_owned(), "nowhere".to_owned());
            assert_eq!(*bob, v2::Person { full_name, id: 2, city, friends: vec![], age: 32 });
            assert_eq!(people.by(v2::Person::FULL_NAME, "Bob").count().await?, 2);
            assert_eq!(people.range(..).count().await?, 3 + opening);
            let (full_name, city) = (format!("new {opening}"), "somewhere".to_owned());
            people.insert(v2::Person { full_name, id: 10 + opening as u64, city, friends: vec![1], age: 0 }).await?;
            db.close().await?;
        }
        // The way back is closed.
        let before = files(&dir).await;
        let error = Db::builder().table::<v1::Person>().open(&dir).await.unwrap_err();
        assert_eq!((error.kind(), error.table()), (ErrorKind::NewerVersion, Some("people")));
        assert_eq!(files(&dir).await, before);
        Ok(())
    });
}

/// Of `derive(Default)` and of stored rows, each its own default.
pub fn defaults(machine: &Machine) {
    machine.run(|dir| async move {
        store_v1(&dir).await?;
        let db = Db::builder().table::<with_default::Person>().open(&dir).await?;
        let people = db.table::<with_default::Person>().await?;
        let bob = people.get(&2).await?.expect("he is there");
        assert_eq!((bob.luck, bob.friends.len(), bob.age), (7, 0, 32));
        people.insert(with_default::Person { id: 9, ..Default::default() }).await?;
        assert_eq!(people.get(&9).await?.map(|nine| nine.luck), Some(0));
        Ok(())
    });
}

pub fn functions(machine: &Machine) {
    machine.run(|dir| async move {
        store_v1(&dir).await?;
        // Two rows would have the same key: the later one has it.
        let db = Db::builder().table::<v2::Person>().open(&dir).await?;
        db.table::<v2::Person>().await?.modify(&3, |third| third.full_name = "Third".to_owned()).await?;
        db.close().await?;
        for _ in 0..2 {
            let db = Db::builder().table::<v3::Person>().open(&dir).await?;
            let people = db.table::<v3::Person>().await?;
            let names: Vec<String> = people.range(..).all().await?.iter().map(|row| row.name.clone()).collect();
            assert_eq!(names, ["Ada", "Bob", "Third"]);
            assert_eq!(people.find(v3::Person::ID, &3).await?.and_then(|row| row.age), Some(33));
            db.close().await?;
        }
        Ok(())
    });
}

pub fn refusals(machine: &Machine) {
    machine.run(|dir| async move {
        store_v1(&dir).await?;
        let before = files(&dir).await;
        let cases: [(Builder, ErrorKind, Option<&str>, &[&str]); 7] = [
            (Db::builder().table::<refused::SameVersion>(), ErrorKind::Schema, Some("note"), &["version = 2"]),
            (
                Db::builder().table::<refused::OtherType>(),
                ErrorKind::Schema,
                Some("age"),
                &["`u8`", "`u16`", "version 1", "version 2", "upgrade(1 ="],
            ),
            (
                Db::builder().table::<refused::NoDefault>(),
                ErrorKind::Schema,
                Some("city"),
                &["#[default]", "version 2"],
            ),
            (Db::builder().table::<refused::OtherKey>(), ErrorKind::Schema, None, &["key", "upgrade(1 ="]),
            (Db::builder().table::<refused::NowUnique>(), ErrorKind::UniqueConflict, Some("name"), &["2", "3"]),
            (Db::builder().table::<refused::Unwilling>(), ErrorKind::Schema, Some("age"), &["`u8`", "`u32`"]),
            (Db::builder().table::<refused::Undeclared>(), ErrorKind::Schema, None, &["people", "drop_table"]),
        ];
        for (builder, kind, field, words) in cases {
            let error = builder.open(&dir).await.unwrap_err();
            assert_eq!((error.kind(), error.table(), error.field()), (kind, Some("people"), field), "{error}");
            for word in words {
                assert!(error.to_string().contains(word), "{error} does not say {word}");
            }
            assert_eq!(files(&dir).await, before, "{error}");
        }
        let db = Db::builder().table::<v1::Person>().open(&dir).await?;
        assert_eq!(db.table::<v1::Person>().await?.range(..).count().await?, 3);
        db.close().await?;
        let db = Db::builder().table::<refused::Undeclared>().drop_table("people").open(&dir).await?;
        db.table::<refused::Undeclared>().await?.insert(refused::Undeclared { id: 1 }).await?;
        db.close().await?;
        let db = Db::builder().table::<refused::Undeclared>().open(&dir).await?;
        assert_eq!(db.table::<refused::Undeclared>().await?.range(..).count().await?, 1);
        Ok(())
    });
}
