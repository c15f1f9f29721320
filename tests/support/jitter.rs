//! Moments of no fixed length.

use std::hint;

/// Waits a moment, of a length that is another one every time.
#[derive(Debug)]
pub struct Jitter(pub u64);

impl Jitter {
    pub fn wait(&mut self) {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // From nothing to longer than a shard looks around before it sleeps.
        for _ in 0..self.0 % 64 * (self.0 >> 8) % 512 {
            hint::spin_loop();
        }
    }
}
