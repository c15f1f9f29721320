//! A fiber function called where nothing waits for it: in a plain function, and in a closure that is one.
#![deny(unused_must_use)]

#[wo::fiber]
fn pause() -> wo::IoResult<()> {
    wo::yield_now()
}

fn plain() {
    pause();
}

#[wo::fiber]
fn closure(times: Vec<u32>) {
    times.iter().for_each(|_| {
        pause();
    });
}

fn main() {}
