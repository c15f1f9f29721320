//! A call of a fiber function with an argument of the wrong type.

#[wo::fiber]
fn double(n: u64) -> u64 {
    n * 2
}

#[wo::fiber]
fn caller() -> u64 {
    double("four")
}

fn main() {}
