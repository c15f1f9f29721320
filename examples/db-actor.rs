//! A parcel office: clerks are actors on every shard, and all of them use one database as if it stood beside them.
//!
//! `cargo run --release --example db-actor`; with `WO_DATA=some/dir`, run it twice.
//!
//! The tables are on the shard that opened them. A clerk elsewhere calls them alike: the call parks until the owner has
//! answered. What it prints is the same, byte for byte, at one shard and at many.

use std::error::Error;

use wo::actor::Addr;
use wo::db::{Db, Row, Table};

mod command_line;

const CLERKS: u64 = 4;
const PARCELS_EACH: u64 = 25;
const CITIES: [&str; 3] = ["Bergen", "Lagos", "Quito"];

#[derive(wo::Record, Clone, Debug)]
#[record(table = "parcels")]
struct Parcel {
    #[key]
    id: u64,
    #[unique]
    code: String,
    #[index]
    city: String,
    grams: u64,
}

struct Clerk {
    db: Db,
    parcels: Table<Parcel>,
}

#[wo::actor]
impl Clerk {
    /// Takes parcels in, one after the other, and answers how many.
    #[message]
    fn take_in(&mut self, first: u64, count: u64) -> wo::db::Result<u64> {
        for id in first..first + count {
            let city = CITIES[id as usize % CITIES.len()].to_owned();
            self.parcels.insert(Parcel { id, code: format!("P{id:05}"), city, grams: 100 + id * 37 % 900 })?;
        }
        Ok(count)
    }

    #[message]
    fn look_up(&mut self, code: String) -> wo::db::Result<Option<Row<Parcel>>> {
        self.parcels.find(Parcel::CODE, &code)
    }

    /// The heaviest parcels for a city.
    #[message]
    fn heaviest(&mut self, city: String, count: usize) -> wo::db::Result<Vec<Row<Parcel>>> {
        self.parcels.by(Parcel::CITY, &city).order_by(|parcel| parcel.grams).reverse().limit(count).all()
    }

    /// Moves the content of one parcel into another: both change, or neither does.
    #[message]
    fn repack(&mut self, from: u64, into: u64) -> wo::db::Result<u64> {
        self.db.transaction(move |tx| {
            let parcels = tx.table::<Parcel>()?;
            let gone = parcels.delete(&from)?.map_or(0, |parcel| parcel.grams);
            Ok(parcels.modify(&into, |parcel| parcel.grams += gone)?.grams)
        })
    }
}

#[wo::main]
fn main() -> Result<(), Box<dyn Error>> {
    command_line::read("db-actor", "takes no arguments; WO_DATA names the directory to keep", |_| Ok(()));
    let db = Db::builder().table::<Parcel>().open_env()?;
    let parcels = db.table::<Parcel>()?;
    let there = parcels.range(..).reverse().first()?.map_or(0, |last| last.id + 1);
    println!("{} parcels were there", parcels.range(..).count()?);

    let clerks: Vec<Addr<ClerkMessage>> = (0..CLERKS).map(|_| wo::spawn(Clerk { db, parcels })).collect();
    // All of them at once.
    let mut working = Vec::new();
    for (number, clerk) in clerks.iter().copied().enumerate() {
        let first = there + number as u64 * PARCELS_EACH;
        working.push(wo::spawn(|| clerk.take_in(first, PARCELS_EACH)));
    }
    for (number, clerk) in working.into_iter().enumerate() {
        println!("clerk {number} took {} in", clerk.join()???);
    }

    for (number, clerk) in clerks.iter().enumerate() {
        let code = format!("P{:05}", there + 30 + number as u64);
        match clerk.look_up(code.clone())?? {
            Some(parcel) => println!("clerk {number} found {code}: {} g for {}", parcel.grams, parcel.city),
            None => println!("clerk {number} found no {code}"),
        }
    }
    for (clerk, city) in clerks.iter().zip(CITIES) {
        let heaviest: Vec<String> = clerk
            .heaviest(city.to_owned(), 3)??
            .iter()
            .map(|parcel| format!("{} ({} g)", parcel.code, parcel.grams))
            .collect();
        println!("the heaviest for {city}: {}", heaviest.join(", "));
    }

    println!("repacked: {} g", clerks[1].repack(there, there + 1)??);
    match clerks[2].repack(there + 2, u64::MAX)? {
        Ok(grams) => println!("repacked: {grams} g"),
        Err(refused) => println!("refused: {refused}"),
    }
    if let Err(refused) = clerks[3].take_in(there + 5, 1)? {
        println!("refused: {refused}");
    }
    println!("{} parcels are there", parcels.range(..).count()?);
    db.close()?;
    Ok(())
}
