//! Good code raises no lint for what the macros make of it; the lint gate reads this file, the compiler does anyway.
#![deny(warnings)]

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Mutex;

fn give_up(why: &str) -> ! {
    panic!("gave up: {why}")
}

fn nothing() {}

/// Calls that never come back, where such calls stand.
#[wo::fiber]
fn diverging(n: Option<u32>) -> u32 {
    let Some(n) = n else { give_up("nothing") };
    if n > 100 {
        give_up("large");
    }
    match n {
        0 => give_up("zero"),
        1 => std::process::exit(1),
        2 => unreachable!("{}", n.pow(2)),
        3 => forever(),
        n => n,
    }
}

/// A loop without an end.
#[wo::fiber]
fn forever() -> ! {
    loop {
        nothing();
    }
}

/// A body of one expression, and one of a call that gives nothing.
#[wo::fiber]
fn unfinished(flag: &Mutex<bool>) {
    nothing();
    let mut flag = flag.lock().unwrap();
    nothing();
    *flag = true;
}

/// A type that is just simple enough.
#[wo::fiber]
fn table() -> Result<Option<(HashMap<String, Vec<u8>>, SocketAddr)>, Box<dyn Error>> {
    Ok(None)
}

/// A future as a value.
#[wo::fiber]
fn future(future: impl Future<Output = u8>) -> impl Future<Output = u8> {
    future
}

/// Parameters that are used, and changed.
#[wo::fiber]
fn extended(first: &[u8], mut second: Vec<u8>) -> Vec<u8> {
    second.extend(first);
    second
}

struct Owner(u8);

impl Owner {
    /// By value.
    #[wo::fiber]
    fn value(self) -> u8 {
        self.0
    }
    /// By value, and changed.
    #[wo::fiber]
    fn next(mut self) -> Self {
        self.0 += 1;
        self
    }
    /// With an attribute of its own.
    #[wo::fiber]
    #[must_use]
    fn is_one(&self) -> bool {
        self.0 == 1
    }
}

#[wo::fiber]
fn everything() -> usize {
    let flag = Mutex::new(false);
    unfinished(&flag);
    let fiber = wo::spawn(|| {
        nothing();
        diverging(Some(5))
    });
    let other = wo::spawn(|| nothing());
    let owner = Owner(fiber.join().map_or(0, |n| n as u8)).next();
    let _ = other.join();
    let table = table().map_or(0, |table| table.map_or(1, |(table, _)| table.len()));
    let future = future(std::future::ready(2));
    let length = extended(&[1], vec![2]).len() + usize::from(wo::wait(future));
    length + table + usize::from(owner.is_one()) + usize::from(owner.value())
}

#[test]
fn the_code_runs_too() {
    assert_eq!(wo::Builder::new().run(everything).expect("the program runs"), 11);
}
