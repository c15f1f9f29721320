//! A fiber that borrows from the one that starts it.

#[wo::fiber]
fn caller(name: &str) {
    wo::spawn(|| {
        println!("{name}");
    })
    .join()
    .ok();
}

#[wo::fiber]
fn owner() {
    let name = String::from("ada");
    let borrowed = &name;
    wo::spawn(|| {
        println!("{borrowed}");
    })
    .join()
    .ok();
}

fn main() {}
