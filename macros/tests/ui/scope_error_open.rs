//! A scope of which nothing tells the type of its errors.

#[wo::fiber]
fn silent() {
    let _ = wo::scope(|s| {
        s.spawn(|| println!("a child"));
    });
}

fn main() {}
