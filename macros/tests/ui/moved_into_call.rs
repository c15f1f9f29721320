//! A value used after it moved into a fiber function.

#[wo::fiber]
fn consume(name: String) {
    drop(name);
}

#[wo::fiber]
fn caller(name: String) {
    consume(name);
    println!("{name}");
}

fn main() {}
