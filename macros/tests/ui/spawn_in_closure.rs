//! A fiber that is started in a plain closure owns what it captures, as one that is started in a loop does.

#[wo::fiber]
fn moved(count: usize) {
    let greeting = String::from("hello");
    (0..count).for_each(|n| {
        wo::spawn(|| println!("{greeting} {n}"));
    });
}

#[wo::fiber]
fn borrowed(names: Vec<String>) {
    names.iter().for_each(|name| {
        wo::spawn(|| println!("hello {name}"));
    });
}

fn main() {}
