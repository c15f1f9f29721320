//! Tables, queries and transactions as programs use them.

use wo::db::{Db, ErrorKind, Result};

#[derive(wo::Record, Clone, Debug, PartialEq)]
#[record(table = "accounts")]
struct Account {
    #[key]
    id: u64,
    #[unique]
    email: String,
    #[index]
    city: String,
    balance: i64,
}

#[test]
fn a_table_is_read_changed_and_left_as_it_was_when_refused() {
    wo::Builder::new()
        .run(|| async {
            let db = Db::builder().table::<Account>().in_memory().await.unwrap();
            let accounts = db.table::<Account>().await.unwrap();
            for id in 0..10 {
                let row = Account { id, email: format!("{id}@x"), city: format!("c{}", id % 3), balance: 0 };
                assert_eq!(accounts.insert(row).await.unwrap(), id);
            }
            assert_eq!(accounts.get(&7).await.unwrap().unwrap().email, "7@x");
            assert_eq!(accounts.by(Account::CITY, "c1").count().await.unwrap(), 3);
            let refused: Result<()> = db
                .transaction(|tx| {
                    let accounts = tx.table::<Account>()?;
                    accounts.delete(&1)?;
                    accounts.modify(&2, |two| two.email = "3@x".to_owned())?;
                    Ok(())
                })
                .await;
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::UniqueConflict);
            assert_eq!(accounts.range(..).count().await.unwrap(), 10);
            assert!(db.is_consistent().await.unwrap());
        })
        .unwrap();
}
