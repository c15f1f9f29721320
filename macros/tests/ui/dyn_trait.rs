//! A trait whose methods park cannot be made an object.

trait Source {
    #[wo::fiber]
    fn next(&mut self) -> Option<u32>;
}

#[wo::fiber]
fn caller(source: &mut dyn Source) -> Option<u32> {
    source.next()
}

fn main() {}
