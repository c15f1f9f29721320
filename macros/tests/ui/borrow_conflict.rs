//! A value changed while it is borrowed.

#[wo::fiber]
fn caller(mut names: Vec<String>) {
    let first = &names[0];
    names.push(String::from("ada"));
    println!("{first}");
}

#[wo::fiber]
fn dangling() -> usize {
    let text: &str;
    {
        let owned = String::from("ada");
        text = owned.as_str();
    }
    text.len()
}

fn main() {}
