//! A child whose error is another than the scope's.

#[wo::fiber]
fn mixed() {
    let _ = wo::scope(|s: wo::Scope<String>| {
        s.spawn(|| wo::yield_now());
    });
}

fn main() {}
