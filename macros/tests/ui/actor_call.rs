//! Calls on an address, checked as calls are.

mod counters {
    pub struct Counter(pub u64);

    #[wo::actor]
    impl Counter {
        #[message]
        pub fn add(&mut self, more: u64) -> u64 {
            self.0 += more;
            self.0
        }

        #[message(send)]
        fn reset(&mut self) {
            self.0 = 0;
        }
    }
}

#[wo::fiber]
fn called() -> Result<u64, wo::actor::AskError> {
    let counter = wo::spawn(counters::Counter(0));
    counter.add("one")?;
    counter.add()?;
    counter.ad(1)?;
    counter.reset();
    counter.add(1)
}

fn main() {}
