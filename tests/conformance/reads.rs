//! A read that is cancelled, by drop or by deadline, loses no byte of the stream.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use wo::net::UnixStream;

use crate::backends::on_every_backend;
use crate::poll;

/// The byte at `at` of the numbered stream: a prime's remainder, so that a lost byte shows at once.
fn numbered(at: usize) -> u8 {
    u8::try_from(at % 251).expect("below 251")
}

fn expect_numbered(delivered: &[u8], written: usize) {
    let wrong = delivered.iter().enumerate().find(|&(at, &byte)| byte != numbered(at));
    assert_eq!(wrong, None, "of {} bytes delivered, {written} written", delivered.len());
    assert_eq!(delivered.len(), written);
}

/// Writes 1 to 16 numbered bytes `rounds` times, each after a pause; then closes. Answers how many it wrote.
#[wo::fiber]
fn write_numbered(stream: UnixStream, rounds: usize, pause: std::ops::Range<u64>, seed: u64) -> usize {
    let mut random = Rng::with_seed(seed);
    let mut written = 0;
    for _ in 0..rounds {
        wo::sleep(Duration::from_micros(random.u64(pause.clone()))).expect("sleep");
        let count = random.usize(1..=16);
        let bytes: Vec<u8> = (written..written + count).map(numbered).collect();
        stream.write_all(&bytes).expect("write");
        written += count;
    }
    written
}

/// Reads on until the end of the stream.
#[wo::fiber]
fn read_the_rest(stream: UnixStream, into: &RefCell<Vec<u8>>) {
    loop {
        let (read, bytes) = stream.recv(Vec::with_capacity(4096));
        if read.expect("recv") == 0 {
            return;
        }
        into.borrow_mut().extend_from_slice(&bytes);
    }
}

async fn reads_dropped_half_way() {
    const ROUNDS: usize = 10_000;
    let (reader, writer) = UnixStream::pair().expect("pair");
    let writer = wo::spawn(move || write_numbered(writer, ROUNDS, 0..60, 3));
    let mut random = Rng::with_seed(33);
    let delivered = RefCell::new(Vec::new());
    let mut dropped = 0;
    for round in 0..ROUNDS {
        let span = Duration::from_micros(random.u64(0..60));
        // Owned and borrowed reads take different ways through the kernel.
        if round % 2 == 0 {
            match poll::at_most(span, reader.recv(Vec::with_capacity(64))).await {
                Some((read, bytes)) => {
                    read.expect("recv");
                    delivered.borrow_mut().extend_from_slice(&bytes);
                }
                None => dropped += 1,
            }
        } else {
            let mut bytes = [0; 64];
            match poll::at_most(span, reader.read(&mut bytes)).await {
                Some(read) => delivered.borrow_mut().extend_from_slice(&bytes[..read.expect("read")]),
                None => dropped += 1,
            }
        }
    }
    assert!(dropped > 0 && dropped < ROUNDS, "{dropped} of {ROUNDS} reads were dropped: the race was not run");
    read_the_rest(reader, &delivered).await;
    let written = writer.join().await.expect("the writer ended");
    expect_numbered(&delivered.borrow(), written);
}

#[test]
fn r3_cancel_read_keeps_bytes() {
    on_every_backend(reads_dropped_half_way);
}

/// One reader with a deadline of 1 ms against a writer that writes after 1 ms, 200 µs more or less.
#[wo::fiber]
fn reads_against_deadlines(rounds: usize, seed: u64) {
    let (reader, writer) = UnixStream::pair().expect("pair");
    let writer = wo::spawn(|| write_numbered(writer, rounds, 800..1200, seed));
    let delivered = RefCell::new(Vec::new());
    let mut timed_out = 0;
    for round in 0..rounds {
        let deadline = Duration::from_millis(1);
        if round % 2 == 0 {
            let (read, bytes) = reader.recv_by(Vec::with_capacity(64), deadline);
            match read.expect("recv_by") {
                Some(_) => delivered.borrow_mut().extend_from_slice(&bytes),
                None => timed_out += 1,
            }
        } else {
            let mut bytes = [0; 64];
            match reader.read_by(&mut bytes, deadline).expect("read_by") {
                Some(count) => delivered.borrow_mut().extend_from_slice(&bytes[..count]),
                None => timed_out += 1,
            }
        }
    }
    read_the_rest(reader, &delivered);
    let written = writer.join().expect("the writer ended");
    expect_numbered(&delivered.borrow(), written);
    assert!(timed_out > 0, "no read timed out in {rounds} rounds: the race was not run");
}

#[wo::fiber]
fn many_reads_against_deadlines() {
    // 10 000 rounds, ten pairs at a time.
    let mut lanes = Vec::new();
    for lane in 0..10 {
        lanes.push(wo::spawn(|| reads_against_deadlines(1000, lane)));
    }
    for lane in lanes {
        lane.join().expect("a lane ended");
    }
}

#[test]
fn r4_deadline_read_keeps_bytes() {
    on_every_backend(many_reads_against_deadlines);
}

#[wo::fiber]
fn exact_read_against_a_deadline() {
    let (reader, writer) = UnixStream::pair().expect("pair");
    writer.write_all(b"0123456789").expect("write");
    let mut all = [0; 64];
    let read = reader.read_exact_by(&mut all, Duration::from_millis(5)).expect("read_exact_by");
    assert!(read.is_none(), "64 bytes of 10: {read:?}");
    // The ten are still there, and nothing else is.
    let mut ten = [0; 64];
    let count = reader.read_by(&mut ten, Duration::from_millis(5)).expect("read_by");
    assert_eq!(count.map(|count| ten[..count].to_vec()).as_deref(), Some(b"0123456789".as_slice()));
    assert_eq!(reader.read_by(&mut ten, Duration::from_millis(5)).expect("read_by"), None);
    // And the stream goes on behind them.
    writer.write_all(&[b'x'; 64]).expect("write");
    assert!(reader.read_exact_by(&mut all, Duration::from_secs(60)).expect("read_exact_by").is_some());
    assert_eq!(all, [b'x'; 64]);
}

#[test]
fn r4_deadline_read_exact_keeps_the_part() {
    on_every_backend(exact_read_against_a_deadline);
}

/// Bytes a dropped read received come before those of every clone of the handle, whoever reads next.
#[wo::fiber]
fn a_clone_reads_on() {
    let (reader, writer) = UnixStream::pair().expect("pair");
    let other = reader.clone();
    let seen = Rc::new(RefCell::new(Vec::new()));
    for round in 0..100 {
        let bytes = [numbered(2 * round), numbered(2 * round + 1)];
        let mut buf = [0; 1];
        // The deadline has passed, so the read is cancelled while the byte may be on its way.
        writer.write_all(&bytes[..1]).expect("write");
        if let Some(count) = reader.read_by(&mut buf, wo::now()).expect("read_by") {
            seen.borrow_mut().extend_from_slice(&buf[..count]);
        }
        writer.write_all(&bytes[1..]).expect("write");
        while seen.borrow().len() < 2 * round + 2 {
            let count = other.read(&mut buf).expect("read");
            seen.borrow_mut().extend_from_slice(&buf[..count]);
        }
    }
    expect_numbered(&seen.borrow(), 200);
}

#[test]
fn r4_bytes_stay_with_the_descriptor() {
    on_every_backend(a_clone_reads_on);
}
