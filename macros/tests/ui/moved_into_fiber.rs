//! A value used after it moved into a fiber.

#[wo::fiber]
fn caller() {
    let name = String::from("ada");
    let fiber = wo::spawn(|| {
        println!("{name}");
    });
    println!("{name}");
    fiber.join().ok();
}

fn main() {}
