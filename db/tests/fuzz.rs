//! The fuzzers of `db/fuzz`, bounded and seeded: the same bodies over bytes drawn by lot, so that every run of the
//! tests goes through them, and no compiler but the stable one is needed. What a fuzzer finds is kept in `fuzz/kept`.

#![cfg(target_os = "linux")]

#[path = "../fuzz/src/changes.rs"]
mod changes;
#[path = "../fuzz/src/directory.rs"]
mod directory;
#[path = "../fuzz/src/forge.rs"]
mod forge;
#[path = "../fuzz/src/rows.rs"]
mod rows;
#[path = "../fuzz/src/scripts.rs"]
mod scripts;

use std::path::Path;

/// Runs a body over what was kept, and over bytes drawn by lot.
fn fuzz(name: &str, body: fn(&[u8]), inputs: u64, bytes_max: usize) {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/kept").join(name);
    for entry in std::fs::read_dir(&kept).into_iter().flatten() {
        let path = entry.expect("it can be listed").path();
        println!("{}", path.display());
        body(&std::fs::read(&path).expect("it is readable"));
    }
    for seed in 0..inputs {
        println!("seed {seed}");
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut bytes = vec![0; dice.usize(1..bytes_max)];
        dice.fill(&mut bytes);
        // Small numbers are more often something than large ones.
        if dice.bool() {
            bytes.iter_mut().for_each(|byte| *byte &= if dice.bool() { 0x1f } else { 0xff });
        }
        body(&bytes);
    }
}

#[test]
fn segments_of_any_bytes_are_opened_or_refused() {
    fuzz("frames", directory::frames, 100, 700);
}

#[test]
fn snapshots_of_any_bytes_are_taken_or_passed_over() {
    fuzz("snapshots", directory::snapshots, 100, 700);
}

#[test]
fn catalogues_and_transactions_of_any_bytes_are_read_or_refused() {
    fuzz("rows", rows::rows, 600, 700);
}

#[test]
fn any_script_of_operations_is_that_of_a_sorted_map() {
    fuzz("scripts", scripts::scripts, 150, 500);
}
