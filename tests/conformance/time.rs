//! Time: its far end, its zero, and exact pacing where the clock is virtual.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use wo::net::UnixStream;
use wo::{IoError, Outcome, Ticker};
use wo_runtime::fiber::MissedTicks;
use wo_runtime::plane::Instant;
use wo_runtime::plane::backend::Selection;

use crate::backends::{on_every_backend, run, those_of};
use crate::poll;

async fn is_still_waiting<F: Future>(future: F) -> bool {
    poll::at_most(Duration::from_millis(2), future).await.is_none()
}

async fn far_end_of_time() {
    assert!(is_still_waiting(wo::sleep(Duration::MAX)).await);
    assert!(is_still_waiting(wo::sleep_until(Instant::NEVER)).await);
    assert!(is_still_waiting(Ticker::new(Duration::MAX).tick()).await);

    // A deadline that never comes changes nothing.
    let (reader, writer) = UnixStream::pair().expect("pair");
    writer.write_all(b"here").await.expect("write");
    let mut buf = [0; 8];
    assert_eq!(reader.read_by(&mut buf, Duration::MAX).await.expect("read_by"), Some(4));
    assert!(is_still_waiting(reader.read_by(&mut buf, Duration::MAX)).await);
    assert!(is_still_waiting(reader.read_by(&mut buf, Instant::NEVER)).await);

    // Nor does a deadline of zero, or of none: that is the plain verb.
    writer.write_all(b"also").await.expect("write");
    assert_eq!(reader.read_by(&mut buf, Duration::ZERO).await.expect("read_by"), Some(4));
    assert!(is_still_waiting(reader.read_by(&mut buf, Duration::ZERO)).await);
    assert!(is_still_waiting(reader.read_by(&mut buf, None)).await);

    // One that has passed gives nothing, and takes nothing.
    writer.write_all(b"kept").await.expect("write");
    let passed = wo::now();
    assert_eq!(reader.read_by(&mut buf, passed).await.expect("read_by"), None);
    assert_eq!(reader.read(&mut buf).await.expect("read"), 4);
    assert_eq!(&buf[..4], b"kept");
}

async fn far_end_of_deadlines() {
    // A scope's deadline that never comes changes nothing, and is not there early.
    let ready: Outcome<u32> = wo::timeout(Duration::MAX, async || Ok(7)).await;
    assert_eq!(ready.expect("it was ready"), 7);
    let rested: Outcome<()> = wo::with_deadline(Duration::MAX, || wo::sleep(Duration::from_millis(1))).await;
    rested.expect("the deadline is far away");
    assert!(is_still_waiting(wo::with_deadline::<IoError, _>(Duration::MAX, || wo::sleep(Duration::MAX))).await);
    assert!(is_still_waiting(wo::with_deadline_at::<IoError, _>(Instant::NEVER, || wo::sleep(Duration::MAX))).await);

    // One that has passed cancels before the first verb is with the kernel: nothing is sent.
    let (reader, writer) = UnixStream::pair().expect("pair");
    for passed in [Instant::ORIGIN, wo::now()] {
        let late: Outcome<()> = wo::with_deadline_at(passed, async || writer.write_all(b"late").await).await;
        assert!(late.expect_err("it is too late").is_timeout());
    }
    writer.write_all(b"in time").await.expect("write");
    let (read, bytes) = reader.recv(Vec::with_capacity(64)).await;
    assert_eq!((read.expect("recv"), bytes.as_slice()), (7, b"in time".as_slice()));
}

#[test]
fn r39_duration_max() {
    on_every_backend(far_end_of_time);
    on_every_backend(far_end_of_deadlines);
}

async fn sleep_of_zero() {
    let trace = Rc::new(RefCell::new(Vec::new()));
    let siblings = Rc::clone(&trace);
    let sibling = wo::spawn(move || async move { siblings.borrow_mut().push("sibling") });
    wo::sleep(Duration::ZERO).await.expect("sleep");
    trace.borrow_mut().push("slept");
    assert_eq!(*trace.borrow(), ["sibling", "slept"]);
    sibling.join().await.expect("the sibling ended");
    let mut sleep = pin!(wo::sleep(Duration::ZERO));
    assert!(poll::once(sleep.as_mut()).await.is_none(), "it yields");
    assert!(poll::once(sleep.as_mut()).await.is_some(), "and yields once");
}

#[test]
fn r39_sleep_zero_yields_once() {
    on_every_backend(sleep_of_zero);
}

#[wo::fiber]
fn exact_pacing() {
    let start = wo::now();
    let mut ticker = Ticker::new(Duration::from_millis(1));
    for number in 1..=1000 {
        assert_eq!(ticker.tick().expect("tick"), 0);
        assert_eq!(wo::now().since(start), Duration::from_millis(number));
    }
}

/// Ten and a half periods late: what the next four ticks say, and at which microsecond they come.
#[wo::fiber]
fn ticks_when_late(missed: MissedTicks) -> Vec<(u64, u128)> {
    let start = wo::now();
    let mut ticker = Ticker::with_missed(Duration::from_millis(1), missed);
    wo::sleep(Duration::from_micros(10_500)).expect("sleep");
    let mut ticks = Vec::new();
    for _ in 0..4 {
        let skipped = ticker.tick().expect("tick");
        ticks.push((skipped, wo::now().since(start).as_micros()));
    }
    ticks
}

#[wo::fiber]
fn documented_counts() {
    // Ticks 1 to 10 were due. Skip: one answers and says that nine more were, then the pace is as it was.
    assert_eq!(ticks_when_late(MissedTicks::Skip), [(9, 10_500), (0, 11_000), (0, 12_000), (0, 13_000)]);
    // Delay: one answers, and the pace starts anew from there.
    assert_eq!(ticks_when_late(MissedTicks::Delay), [(0, 10_500), (0, 11_500), (0, 12_500), (0, 13_500)]);
    // Burst: each answers, one after the other.
    assert_eq!(ticks_when_late(MissedTicks::Burst), [(0, 10_500); 4]);
}

#[wo::fiber]
fn ties_in_order_of_creation() {
    let trace = Rc::new(RefCell::new(Vec::new()));
    // Far enough away that all of them are asleep by then.
    let at = wo::now() + Duration::from_millis(100);
    let mut sleepers = Vec::new();
    for number in 0..100 {
        let trace = trace.clone();
        sleepers.push(wo::spawn(|| {
            wo::sleep_until(at).expect("sleep");
            trace.borrow_mut().push(number);
        }));
    }
    for sleeper in sleepers {
        sleeper.join().expect("a sleeper ended");
    }
    assert_eq!(*trace.borrow(), (0..100).collect::<Vec<_>>());
}

#[test]
fn r40_interval_drift_in_virtual_time() {
    for backend in those_of(&[Selection::Sim]) {
        run(backend, |builder| builder, exact_pacing);
        run(backend, |builder| builder, documented_counts);
    }
}

#[test]
fn r40_ties_in_order_of_creation() {
    on_every_backend(ties_in_order_of_creation);
}
