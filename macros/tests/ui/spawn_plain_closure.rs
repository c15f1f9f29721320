//! A closure that is not written where it is given to `spawn` is a plain one, and so is one in a plain function.

#[wo::fiber]
fn caller() {
    let body = || 5;
    let _ = wo::spawn(body);
}

fn plain() {
    let _ = wo::spawn(|| 5);
}

fn main() {}
