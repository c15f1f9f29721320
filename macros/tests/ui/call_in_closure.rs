//! The value of a call in a plain closure is the call, not what it will give.

#[wo::fiber]
fn double(n: u32) -> u32 {
    n * 2
}

#[wo::fiber]
fn largest(numbers: Vec<u32>) -> u32 {
    let doubled: Vec<u32> = numbers.iter().map(|n| double(*n)).collect();
    doubled.into_iter().fold(0, |largest, n| largest.max(n))
}

#[wo::fiber]
fn shown(numbers: Vec<u32>) -> Vec<String> {
    numbers.iter().map(|n| format!("{}", double(*n))).collect()
}

fn main() {}
