//! A scope's body, or a child, that gives a plain value.

#[wo::fiber]
fn body() {
    let _ = wo::scope(|_s: wo::Scope| 5);
}

#[wo::fiber]
fn child() {
    let _ = wo::scope(|s: wo::Scope| {
        s.spawn(|| 5);
    });
}

fn main() {}
