//! Benchmarks of `wo` beside its peers.

fn main() {}
