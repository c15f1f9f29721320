//! `?` on an error that the function's error type cannot be made from, and in a function that returns nothing.

struct Odd;

#[wo::fiber]
fn number(text: &str) -> Result<u32, Odd> {
    Ok(text.parse()?)
}

#[wo::fiber]
fn pause() {
    wo::yield_now()?;
}

fn main() {}
