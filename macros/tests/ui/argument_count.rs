//! A call of a fiber method with an argument too few.

struct Counter(u64);

impl Counter {
    #[wo::fiber]
    fn add(&mut self, n: u64) {
        self.0 += n;
    }
}

#[wo::fiber]
fn caller(counter: &mut Counter) {
    counter.add();
}

fn main() {}
