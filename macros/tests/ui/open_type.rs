//! A call whose whole type is open where it stands: it wants the type there.

fn decode<T: Default>(_bytes: &[u8]) -> T {
    T::default()
}

#[wo::fiber]
fn caller(bytes: &[u8]) -> u64 {
    let n: u64 = decode(bytes);
    n
}

fn main() {}
