//! What is refused says why, and leaves everything as it was.

use wo::db::{Db, Error, ErrorKind, Row};

use super::rig::{Account, account, everywhere};
use crate::files::files;

#[test]
fn b3_a_unique_conflict_rolls_the_transaction_back() {
    everywhere(|dir| async move {
        let db = Db::builder().table::<Account>().open(&dir).await?;
        let accounts = db.table::<Account>().await?;
        accounts.insert(account(1)).await?;
        accounts.insert(account(2)).await?;
        let error = db
            .transaction(|tx| {
                let accounts = tx.table::<Account>()?;
                accounts.insert(account(3))?;
                accounts.modify(&1, |one| one.balance = 0)?;
                accounts.modify(&2, |two| two.email = "1@example.org".to_owned())?;
                Ok(())
            })
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.table(), error.field()),
            (ErrorKind::UniqueConflict, Some("account"), Some("email"))
        );
        let rows: Vec<Account> = accounts.range(..).all().await?.into_iter().map(Row::into_record).collect();
        assert_eq!(rows, [account(1), account(2)]);
        assert!(db.is_consistent().await?);

        // A closure may go on after a refusal, and what it did otherwise counts.
        db.transaction(|tx| {
            let accounts = tx.table::<Account>()?;
            assert_eq!(accounts.insert(account(1)).unwrap_err().kind(), ErrorKind::DuplicateKey);
            accounts.insert(account(4))?;
            Ok(())
        })
        .await?;
        db.close().await?;
        let db = Db::builder().table::<Account>().open(&dir).await?;
        assert_eq!(db.table::<Account>().await?.range(..).count().await?, 3);
        Ok(())
    });
}

#[test]
fn a_transaction_that_gives_up_or_panics_leaves_nothing() {
    everywhere(|dir| async move {
        let db = Db::builder().table::<Account>().open(&dir).await?;
        let accounts = db.table::<Account>().await?;
        for id in 0..5 {
            accounts.insert(account(id)).await?;
        }
        let change = |tx: &wo::db::Tx| {
            let accounts = tx.table::<Account>()?;
            accounts.delete(&0)?;
            accounts.clear()?;
            accounts.insert(Account { email: "4@example.org".to_owned(), ..account(9) })?;
            assert_eq!(accounts.range(..).count()?, 1, "a transaction sees what it has done");
            Ok::<_, Error>(())
        };
        let given_up: Error = db
            .transaction(move |tx| {
                change(tx)?;
                Err::<(), _>(Error::abort("x".parse::<u8>().unwrap_err()))
            })
            .await
            .unwrap_err();
        assert_eq!(given_up.kind(), ErrorKind::Aborted);
        assert!(given_up.reason::<std::num::ParseIntError>().is_some());
        let panicked = db
            .transaction(move |tx| {
                change(tx)?;
                if tx.sequence() > 0 {
                    panic!("on purpose");
                }
                Ok(())
            })
            .await
            .unwrap_err();
        assert_eq!(panicked.kind(), ErrorKind::Panicked);
        assert!(panicked.to_string().contains("on purpose"), "{panicked}");
        assert_eq!(accounts.range(..).count().await?, 5);
        assert_eq!(accounts.find(Account::EMAIL, "4@example.org").await?.map(|row| row.id), Some(4));
        assert!(db.is_consistent().await?);
        db.close().await?;
        let db = Db::builder().table::<Account>().open(&dir).await?;
        assert_eq!(db.table::<Account>().await?.range(..).count().await?, 5);
        Ok(())
    });
}

#[test]
fn refusals_name_table_field_and_remedy() {
    everywhere(|_| async {
        let db = Db::builder().table::<Account>().in_memory().await?;
        let accounts = db.table::<Account>().await?;
        accounts.insert(account(1)).await?;
        let told = |error: &Error, kind: ErrorKind| {
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(error.table(), Some("account"), "{error}");
            assert!(!error.what_to_do().is_empty(), "{error}");
        };
        told(&accounts.insert(account(1)).await.unwrap_err(), ErrorKind::DuplicateKey);
        told(&accounts.update(account(2)).await.unwrap_err(), ErrorKind::NotFound);
        told(&accounts.modify(&2, |_| {}).await.unwrap_err(), ErrorKind::NotFound);
        told(&accounts.modify(&1, |one| one.id = 7).await.unwrap_err(), ErrorKind::KeyChanged);
        let conflict = Account { email: "1@example.org".to_owned(), ..account(2) };
        told(&accounts.upsert(conflict).await.unwrap_err(), ErrorKind::UniqueConflict);

        #[derive(wo::Record)]
        #[record(table = "elsewhere")]
        struct Elsewhere {
            #[key]
            id: u64,
        }
        let unknown = db.table::<Elsewhere>().await.unwrap_err();
        assert_eq!((unknown.kind(), unknown.table()), (ErrorKind::UnknownTable, Some("elsewhere")));
        let twice = Db::builder().table::<Account>().table::<Account>().in_memory().await.unwrap_err();
        told(&twice, ErrorKind::Schema);
        let memory = db.snapshot().await.unwrap_err();
        assert_eq!(memory.kind(), ErrorKind::NotDurable);

        db.close().await?;
        assert_eq!(accounts.get(&1).await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(accounts.insert(account(3)).await.unwrap_err().kind(), ErrorKind::Closed);
        Ok(())
    });
}

#[test]
fn a_refusal_changes_no_byte_on_the_disk() {
    everywhere(|dir| async move {
        let db = Db::builder().table::<Account>().transaction_bytes_max(4096).open(&dir).await?;
        let accounts = db.table::<Account>().await?;
        for id in 1..=3 {
            accounts.insert(account(id)).await?;
        }
        let before = files(&dir).await;
        let conflict = |id| Account { email: "1@example.org".to_owned(), ..account(id) };
        let large = |id| Account { city: "far away ".repeat(1000), ..account(id) };
        let mut refusals = vec![
            (accounts.insert(account(1)).await.map(drop), ErrorKind::DuplicateKey),
            (accounts.insert(conflict(4)).await.map(drop), ErrorKind::UniqueConflict),
            (accounts.update(conflict(2)).await.map(drop), ErrorKind::UniqueConflict),
            (accounts.upsert(conflict(2)).await.map(drop), ErrorKind::UniqueConflict),
            (accounts.update(account(9)).await.map(drop), ErrorKind::NotFound),
            (accounts.modify(&9, |_| {}).await.map(drop), ErrorKind::NotFound),
            (accounts.modify(&1, |one| one.id = 7).await.map(drop), ErrorKind::KeyChanged),
            (accounts.insert(large(4)).await.map(drop), ErrorKind::TooLarge),
            (accounts.update(large(1)).await.map(drop), ErrorKind::TooLarge),
            (accounts.modify(&2, |two| two.city = "far away ".repeat(1000)).await.map(drop), ErrorKind::TooLarge),
        ];
        let several = db.transaction(move |tx| {
            let accounts = tx.table::<Account>()?;
            accounts.clear()?;
            accounts.insert(account(1))?;
            accounts.insert(conflict(2)).map(drop)
        });
        refusals.push((several.await, ErrorKind::UniqueConflict));
        let abandoned = db.transaction(|tx| {
            tx.table::<Account>()?.clear()?;
            Err::<(), _>(Error::abort(std::fmt::Error))
        });
        refusals.push((abandoned.await, ErrorKind::Aborted));
        for (number, (outcome, kind)) in refusals.into_iter().enumerate() {
            let refused = outcome.expect_err("it is refused");
            assert_eq!(refused.kind(), kind, "{number}: {refused}");
            assert!(kind == ErrorKind::Aborted || !refused.what_to_do().is_empty(), "{number}: {refused}");
            let field = (kind == ErrorKind::UniqueConflict).then_some("email");
            assert_eq!(refused.field(), field, "{number}: {refused}");
        }
        assert!(files(&dir).await == before, "something of what was refused was written");
        assert!(db.is_consistent().await?);
        db.close().await?;
        let db = Db::builder().table::<Account>().open(&dir).await?;
        let rows: Vec<Account> =
            db.table::<Account>().await?.range(..).all().await?.into_iter().map(Row::into_record).collect();
        assert_eq!(rows, [account(1), account(2), account(3)]);
        Ok(())
    });
}

#[test]
fn a_handle_outlives_its_program_and_says_so() {
    let accounts = super::rig::on(wo_runtime::plane::backend::Selection::Sim, 1, || async {
        let db = Db::builder().table::<Account>().in_memory().await?;
        db.table::<Account>().await
    })
    .unwrap();
    super::rig::on(wo_runtime::plane::backend::Selection::Sim, 1, move || async move {
        assert_eq!(accounts.get(&1).await.unwrap_err().kind(), ErrorKind::Closed);
    });
}

/// A row that cannot be compared with a certain other.
#[derive(wo::Field, Clone, Debug, PartialEq, Eq)]
struct Brittle(u32);

impl PartialOrd for Brittle {
    fn partial_cmp(&self, other: &Brittle) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Brittle {
    fn cmp(&self, other: &Brittle) -> std::cmp::Ordering {
        assert!(self.0 != 13 && other.0 != 13, "13 is not comparable");
        self.0.cmp(&other.0)
    }
}

#[derive(wo::Record, Clone, Debug)]
struct Fragile {
    #[key]
    id: u64,
    #[unique]
    first: u32,
    #[index]
    second: Brittle,
}

#[test]
fn a_panic_in_the_middle_of_a_change_undoes_it_with_its_indexes() {
    everywhere(|_| async {
        let db = Db::builder().table::<Fragile>().in_memory().await?;
        let rows = db.table::<Fragile>().await?;
        for id in 0..5 {
            rows.insert(Fragile { id, first: id as u32, second: Brittle(id as u32) }).await?;
        }
        let panicked = rows.insert(Fragile { id: 9, first: 9, second: Brittle(13) }).await.unwrap_err();
        assert_eq!(panicked.kind(), ErrorKind::Panicked);
        let panicked = rows.modify(&2, |two| (two.first, two.second) = (20, Brittle(13))).await.unwrap_err();
        assert_eq!(panicked.kind(), ErrorKind::Panicked);
        assert!(db.is_consistent().await?);
        assert_eq!(rows.range(..).count().await?, 5);
        assert!(rows.find(Fragile::FIRST, &20).await?.is_none());
        assert_eq!(rows.find(Fragile::FIRST, &2).await?.map(|row| row.id), Some(2));
        rows.insert(Fragile { id: 9, first: 9, second: Brittle(9) }).await?;
        Ok(())
    });
}
