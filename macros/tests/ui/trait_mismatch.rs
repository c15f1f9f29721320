//! A method that parks, of a trait whose method does not; and one that gives another type than its trait says.

trait Plain {
    fn count(&self) -> usize;
}

trait Parking {
    #[wo::fiber]
    fn count_parked(&self) -> usize;
}

struct Names;

impl Plain for Names {
    #[wo::fiber]
    fn count(&self) -> usize {
        0
    }
}

impl Parking for Names {
    #[wo::fiber]
    fn count_parked(&self) -> String {
        String::new()
    }
}

fn main() {}
