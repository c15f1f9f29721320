//! DB6: a length that is not what was written asks for no memory beyond what the file has, whatever it says.

#![cfg(target_os = "linux")]

#[path = "../../tests/support/backends.rs"]
mod backends;
#[path = "../../tests/support/counting.rs"]
mod counting;
#[path = "support/files.rs"]
mod files;
#[path = "support/segment.rs"]
mod segment;

use std::sync::atomic::Ordering;

use backends::on_every_backend;
use counting::{Counting, LARGEST};
use files::{files, put_files};
use wo_db::log::{Entry, Log, LogOptions};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What is read at once, and what is made zero at once.
const PIECE_BYTES: i64 = 1 << 20;

#[test]
fn db6_no_length_asks_for_memory_beyond_the_file() {
    on_every_backend(|| async {
        let scratch = tempfile::tempdir().expect("it can be made");
        let dir = scratch.path().join("base");
        let options = LogOptions { segment_bytes: 16 << 10, ..LogOptions::default() };
        let (log, _) = Log::open(&dir, &options, &mut ()).await.expect("a new log");
        for byte in 0..5 {
            log.append(Entry::Transaction, &[byte; 100]).expect("there is room");
            log.durable(log.last_sequence()).await.expect("there is room");
        }
        log.snapshot(b"tables", log.durable_sequence(), |_| false).await.expect("there is room");
        for byte in 5..10 {
            log.append(Entry::Transaction, &[byte; 100]).expect("there is room");
            log.durable(log.last_sequence()).await.expect("there is room");
        }
        log.close().await.expect("there is room");
        let whole = files(&dir).await;
        let snapshot = whole.keys().find(|name| name.starts_with("snapshot.")).expect("it was made").clone();
        for name in ["log.0", &snapshot] {
            let all = segment::frames(&whole[name]);
            for (begin, _) in [all[0], all[all.len() / 2], *all.last().expect("frames")] {
                for length in [0, 1, u32::MAX, u32::MAX - 7, (1 << 30) + 1, 1 << 30, 16 << 10, 100_000_000] {
                    let mut broken = whole.clone();
                    let bytes = broken.get_mut(name).expect("it is there");
                    bytes[begin + 4..begin + 8].copy_from_slice(&u32::to_le_bytes(length));
                    put_files(&dir, &broken).await;
                    LARGEST.store(0, Ordering::Relaxed);
                    let opened = Log::open(&dir, &options, &mut ()).await;
                    let largest = LARGEST.load(Ordering::Relaxed);
                    assert!(largest <= PIECE_BYTES, "{name}, a length of {length}: {largest} bytes at once");
                    if let Ok((log, _)) = opened {
                        log.close().await.expect("the disk is well");
                    }
                }
            }
        }
    });
}
