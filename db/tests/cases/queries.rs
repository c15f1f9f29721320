//! What queries answer, beside a plain sorted map.

use std::collections::BTreeMap;

use wo::db::{Db, Error, ErrorKind, Row};

use super::rig::{Account, Machine, account, everywhere};

fn ids(rows: &[Row<Account>]) -> Vec<u64> {
    rows.iter().map(|row| row.id).collect()
}

#[test]
fn every_kind_of_query_answers_what_a_sorted_map_would() {
    everywhere(|_| async {
        let db = Db::builder().table::<Account>().in_memory().await?;
        let accounts = db.table::<Account>().await?;
        for id in (0..50).rev() {
            accounts.insert(Account { balance: (id as i64 * 37) % 50, ..account(id) }).await?;
        }
        assert_eq!(ids(&accounts.range(..).all().await?), (0..50).collect::<Vec<_>>());
        assert_eq!(ids(&accounts.range(10..13).all().await?), [10, 11, 12]);
        assert_eq!(ids(&accounts.range(10..=13).reverse().all().await?), [13, 12, 11, 10]);
        assert_eq!(ids(&accounts.range(45..).limit(2).all().await?), [45, 46]);
        assert_eq!(ids(&accounts.range(..).reverse().skip(3).limit(2).all().await?), [46, 45]);
        assert_eq!(ids(&accounts.range(..).limit(0).all().await?), [] as [u64; 0]);
        #[expect(clippy::reversed_empty_ranges, reason = "what a program may compute")]
        let backwards = accounts.range(9..3).all().await?;
        assert_eq!(ids(&backwards), [] as [u64; 0]);
        assert_eq!(ids(&accounts.range(7..7).all().await?), [] as [u64; 0]);

        let poorest = accounts.range(..).order_by(|account| account.balance).limit(3).all().await?;
        assert_eq!(poorest.iter().map(|account| account.balance).collect::<Vec<_>>(), [0, 1, 2]);
        let richest = accounts.range(..).order_by(|account| account.balance).reverse().first().await?;
        assert_eq!(richest.map(|account| account.balance), Some(49));

        let least = 30;
        let rich = accounts.range(..).filter(move |account| account.balance >= least);
        assert_eq!(rich.filter(|account| account.id % 2 == 0).count().await?, 10);
        assert_eq!(accounts.range(..).count().await?, 50);
        assert_eq!(accounts.range(..).skip(45).count().await?, 5);

        assert_eq!(ids(&accounts.by(Account::CITY, "city 3").all().await?), [3, 10, 17, 24, 31, 38, 45]);
        assert_eq!(ids(&accounts.by(Account::CITY, "city 3").reverse().limit(2).all().await?), [45, 38]);
        assert_eq!(accounts.by_range(Account::CITY, "city 2".to_owned().."city 4".to_owned()).count().await?, 14);
        assert_eq!(accounts.by_prefix(Account::CITY, "city").count().await?, 50);
        assert_eq!(ids(&accounts.by_prefix(Account::EMAIL, "4@").all().await?), [4]);
        assert_eq!(accounts.find(Account::EMAIL, "12@example.org").await?.map(|row| row.id), Some(12));
        assert!(accounts.find(Account::EMAIL, "nobody").await?.is_none());
        assert!(accounts.contains(&3).await? && !accounts.contains(&50).await?);
        assert_eq!(accounts.range(40..).delete().await?, 10);
        assert_eq!(accounts.by(Account::CITY, "city 3").count().await?, 6);
        assert!(db.is_consistent().await?);
        assert_eq!(accounts.clear().await?, 40);
        assert_eq!(accounts.by_range(Account::CITY, ..).count().await?, 0);
        Ok(())
    });
}

#[derive(wo::Record, Clone, Debug, PartialEq)]
struct Line {
    #[key]
    room: String,
    #[key]
    number: u64,
    text: String,
}

#[derive(wo::Record, Clone, Debug)]
struct Ticket {
    #[key(auto)]
    id: u8,
    #[unique]
    code: Option<String>,
}

#[test]
fn composite_keys_sort_by_their_parts_and_have_prefixes() {
    everywhere(|_| async {
        let db = Db::builder().table::<Line>().in_memory().await?;
        let lines = db.table::<Line>().await?;
        for room in ["b", "a", "ab"] {
            for number in 0..3 {
                lines.insert(Line { room: room.to_owned(), number, text: format!("{room}{number}") }).await?;
            }
        }
        let texts = |rows: Vec<Row<Line>>| rows.iter().map(|row| row.text.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(texts(lines.range(..).all().await?), "a0 a1 a2 ab0 ab1 ab2 b0 b1 b2");
        assert_eq!(texts(lines.prefix(&"a".to_owned()).reverse().limit(2).all().await?), "a2 a1");
        let key = ("ab".to_owned(), 1);
        assert_eq!(lines.get(&key).await?.map(|row| row.text.clone()).as_deref(), Some("ab1"));
        assert_eq!(texts(lines.range(key..).all().await?), "ab1 ab2 b0 b1 b2");
        Ok(())
    });
}

#[test]
fn automatic_keys_count_up_never_come_back_and_end_with_an_error() {
    everywhere(|dir| async move {
        let db = Db::builder().table::<Ticket>().open(&dir).await?;
        let tickets = db.table::<Ticket>().await?;
        let ticket = |id| Ticket { id, code: None };
        assert_eq!(tickets.insert(ticket(0)).await?, 1);
        assert_eq!(tickets.insert(ticket(0)).await?, 2);
        assert_eq!(tickets.insert(ticket(250)).await?, 250);
        tickets.delete(&250).await?;
        assert_eq!(tickets.insert(ticket(0)).await?, 251);
        assert_eq!(tickets.upsert(ticket(0)).await?.map(|row| row.id), None);
        tickets.delete(&251).await?;
        tickets.delete(&252).await?;
        db.snapshot().await?;
        db.close().await?;
        let db = Db::builder().table::<Ticket>().open(&dir).await?;
        let tickets = db.table::<Ticket>().await?;
        assert_eq!(tickets.insert(ticket(0)).await?, 253, "keys of rows that are gone, too, are not given again");
        tickets.insert(ticket(255)).await?;
        let error = tickets.insert(ticket(0)).await.unwrap_err();
        assert_eq!((error.kind(), error.table()), (ErrorKind::KeysExhausted, Some("ticket")));
        assert_eq!(tickets.range(..).count().await?, 4, "rows without a code do not conflict");
        Ok(())
    });
}

pub fn failing_cursor(machine: &Machine) {
    machine.run(|_| async {
        let db = Db::builder().table::<Account>().in_memory().await?;
        let accounts = db.table::<Account>().await?;
        for id in 0..1000 {
            accounts.insert(account(id)).await?;
        }
        let mut all = accounts.range(..).filter(|account| account.id % 3 > 0).skip(1).limit(500).rows();
        let mut seen = BTreeMap::new();
        while let Some(row) = all.next().await? {
            seen.insert(row.id, row);
        }
        assert_eq!((seen.len(), seen.keys().next(), all.next().await?.is_none()), (500, Some(&2), true));

        let mut backwards = accounts.range(..).reverse().rows();
        for id in (0..1000).rev() {
            assert_eq!(backwards.next().await?.map(|row| row.id), Some(id));
        }
        assert!(backwards.next().await?.is_none());

        // Row 700 cannot be read: the filter panics on it.
        let mut broken = accounts.range(..).filter(|account| account.id != 700 || panic!("row 700")).rows();
        let mut read = 0;
        let error = loop {
            match broken.next().await {
                Ok(Some(row)) => {
                    assert_eq!(row.id, read);
                    read += 1;
                }
                Ok(None) => panic!("the end after {read} rows, as if there were no more"),
                Err(error) => break error,
            }
        };
        assert!(read <= 700, "{read}");
        for _ in 0..3 {
            let again: Error = broken.next().await.expect_err("an error stays");
            assert_eq!((again.kind(), again.to_string()), (ErrorKind::Panicked, error.to_string()));
        }
        assert_eq!(accounts.range(..).count().await?, 1000, "the owner goes on");
        Ok(())
    });
}
