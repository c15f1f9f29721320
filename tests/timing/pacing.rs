//! Ticks on the real clock.

use std::time::Duration;

use wo::Ticker;

use crate::alone;
use crate::backends::on_real_backends;
use crate::process::thread_queued;

#[wo::fiber]
fn a_thousand_ticks() {
    let start = wo::now();
    let mut ticker = Ticker::new(Duration::from_millis(1));
    let mut ticks = 0;
    let mut others = Duration::ZERO;
    while ticks < 1000 {
        let queued = thread_queued();
        ticks += 1 + ticker.tick().expect("tick");
        others = thread_queued() - queued;
    }
    let took = wo::now().since(start);
    let ideal = Duration::from_millis(ticks);
    assert!(took >= ideal, "{ticks} ticks after {took:?}: early");
    // What the system gave to other programs at the last tick is not ours.
    assert!(took <= ideal + Duration::from_millis(10) + others, "{ticks} ticks after {took:?}: more than 1 % late");
}

#[test]
fn r40_interval_drift() {
    let _alone = alone();
    on_real_backends(a_thousand_ticks);
}

#[wo::fiber]
fn ticks_after_a_busy_core() {
    let start = wo::now();
    let mut ticker = Ticker::new(Duration::from_millis(1));
    // The core is busy for ten periods and some.
    while wo::now().since(start) < Duration::from_micros(10_500) {
        std::hint::spin_loop();
    }
    let skipped = ticker.tick().expect("tick");
    let periods = wo::now().since(start).as_millis() as u64;
    assert!(skipped >= 9 && skipped < periods + 1, "{skipped} skipped in {periods} periods");
    // No burst follows: the next tick is on the grid, and none is skipped.
    ticker.tick().expect("tick");
    let after = wo::now().since(start);
    assert!(after >= Duration::from_millis(skipped + 2), "a burst: {after:?} after {skipped} skipped");
}

#[test]
fn r40_missed_ticks_are_skipped() {
    let _alone = alone();
    on_real_backends(ticks_after_a_busy_core);
}
