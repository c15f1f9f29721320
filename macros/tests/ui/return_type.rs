//! A last expression, and a `return`, of another type than the function's.

#[wo::fiber]
fn length(text: &str) -> usize {
    if text.is_empty() {
        return "nothing";
    }
    text.to_string()
}

#[wo::fiber]
fn unit() {
    5
}

fn main() {}
