//! A generic fiber function that uses what its bounds do not promise, and a call that breaks a bound.

use std::fmt::Display;

#[wo::fiber]
fn show<T>(value: T) -> String {
    format!("{}", value.to_string())
}

#[wo::fiber]
fn print(value: impl Display) {
    println!("{value}");
}

struct Plain;

#[wo::fiber]
fn caller() {
    print(Plain);
}

fn main() {}
