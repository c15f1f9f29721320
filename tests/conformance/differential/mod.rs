//! The same script of verbs on every kernel gives the same results and the same errnos.
//!
//! A script is a function of its seed. Each kernel runs it as a program of its own, one verb after the other, and
//! writes down what each answered; the three accounts are compared line by line. The results of one kernel never steer
//! the script. `WO_SEED` names the first of the seeds.

mod files;
mod network;

use std::path::PathBuf;

use wo_runtime::error::{IoError, IoResult};
use wo_runtime::plane::backend::Selection;

use crate::backends::{EVERY, run, those_of};

const SEEDS: u64 = 10;
const STEPS: usize = 250;

/// What every kernel agreed on, or the first line on which they did not.
fn compare(seed: u64, accounts: &[(Selection, Vec<String>)]) {
    let Some(((first, expected), others)) = accounts.split_first() else { return };
    for (other, account) in others {
        let differs = expected.iter().zip(account).position(|(left, right)| left != right);
        let Some(line) = differs.or((expected.len() != account.len()).then_some(expected.len().min(account.len())))
        else {
            continue;
        };
        let nothing = String::from("nothing");
        let line_of = |account: &Vec<String>| account.get(line).unwrap_or(&nothing).clone();
        panic!(
            "seed {seed}, step {line}:\n  {first}: {}\n  {other}: {}\nbefore it:\n  {}",
            line_of(expected),
            line_of(account),
            expected[line.saturating_sub(120)..line].join("\n  ")
        );
    }
}

/// A result as it stands in the account: an error by op and errno, since its words may name a path or a port.
fn told<T: std::fmt::Debug>(result: IoResult<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => refusal(&error),
    }
}

fn refusal(error: &IoError) -> String {
    format!("{} refused with {}", error.op(), error.errno())
}

/// Bytes as they stand in the account.
fn shown(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(17_u32, |sum, &byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("{} bytes {sum:08x}", bytes.len())
}

/// `count` bytes that depend on `seed`.
fn some_bytes(seed: u8, count: usize) -> Vec<u8> {
    (0..count).map(|at| seed.wrapping_add((at % 251) as u8)).collect()
}

fn seeds() -> std::ops::Range<u64> {
    let first = std::env::var("WO_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    first..first + SEEDS
}

#[test]
fn r58_backend_differential_of_files() {
    for seed in seeds() {
        let mut accounts = Vec::new();
        for backend in those_of(EVERY) {
            let (_dir, root) = crate::files::folder(backend);
            accounts.push((backend, run(backend, |builder| builder, || files::account(root, seed, STEPS))));
        }
        compare(seed, &accounts);
    }
}

#[test]
fn r58_backend_differential_of_the_network() {
    for seed in seeds() {
        let mut accounts = Vec::new();
        for backend in those_of(EVERY) {
            accounts.push((backend, run(backend, |builder| builder, || network::account(seed, STEPS))));
        }
        compare(seed, &accounts);
    }
}

/// Files in a directory of their own, then sockets over the loopback.
#[wo::fiber]
fn both(root: PathBuf, seed: u64) -> Vec<String> {
    let mut told = files::account(root, seed, STEPS / 2);
    let more = network::account(seed, STEPS / 2);
    told.extend(more);
    told
}

#[test]
fn m7_one_body_on_the_simulated_kernel_and_on_a_real_one_gives_equal_results() {
    let seed = seeds().end;
    let mut accounts = Vec::new();
    for backend in those_of(EVERY) {
        let (_dir, root) = crate::files::folder(backend);
        accounts.push((backend, run(backend, |builder| builder, || both(root, seed))));
    }
    compare(seed, &accounts);
}
