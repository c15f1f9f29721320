//! Methods, functions and variables that do not exist.

#[wo::fiber]
fn caller(text: &str) {
    text.shout();
    whisper(text);
    println!("{nobody}");
}

fn main() {}
