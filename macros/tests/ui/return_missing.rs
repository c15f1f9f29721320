//! A body that ends in a semicolon where a value is due.

#[wo::fiber]
fn length(text: &str) -> usize {
    text.len();
}

fn main() {}
