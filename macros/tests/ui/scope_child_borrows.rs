//! A child of a scope that borrows from the scope's body, or from the fiber that opens it.

#[wo::fiber]
fn from_the_body() -> wo::IoResult<()> {
    wo::scope(|s| {
        let name = String::from("ada");
        let borrowed = &name;
        s.spawn(|| {
            println!("{borrowed}");
            wo::yield_now()
        });
        wo::yield_now()
    })?;
    Ok(())
}

#[wo::fiber]
fn from_outside(names: &[String]) -> wo::IoResult<()> {
    wo::scope(|s| {
        s.spawn(|| {
            println!("{names:?}");
            wo::yield_now()
        });
        wo::yield_now()
    })?;
    Ok(())
}

fn main() {}
