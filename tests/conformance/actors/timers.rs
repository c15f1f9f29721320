//! Messages after a delay and at an interval.

use std::time::Duration;

use wo::actor::{Reply, Timer, counters, this};

use super::{everywhere, simulated};

const MS: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Clock {
    ticks: Vec<Duration>,
    timer: Option<Timer>,
}

enum Tell {
    /// Ticks, each of which takes so long to handle.
    Every(Duration, Duration),
    Tick(Duration),
    Once,
    Cancel,
    Ticks(Reply<Vec<Duration>>),
}

#[wo::actor]
impl Clock {
    fn receive(&mut self, message: Tell) {
        let own = this::<Tell>().expect("inside the actor");
        match message {
            Tell::Every(period, takes) => {
                self.timer = Some(own.send_every(period, move || Tell::Tick(takes)));
            }
            Tell::Tick(takes) => {
                self.ticks.push(wo::now().since(wo::Instant::ORIGIN));
                if !takes.is_zero() {
                    wo::sleep(takes).expect("sleep");
                }
            }
            Tell::Once => self.ticks.push(wo::now().since(wo::Instant::ORIGIN)),
            Tell::Cancel => self.timer = None,
            Tell::Ticks(reply) => drop(reply.send(self.ticks.clone())),
        }
    }
}

fn offsets(ticks: &[Duration], start: Duration) -> Vec<u128> {
    ticks.iter().map(|tick| (*tick - start).as_millis()).collect()
}

#[test]
fn a18_ticks() {
    simulated(|| async {
        let start = wo::now().since(wo::Instant::ORIGIN);
        let clock = wo::spawn(Clock::default());
        clock.send(Tell::Every(100 * MS, Duration::ZERO)).await.expect("send");
        wo::sleep(1000 * MS + MS).await.expect("sleep");
        let ticks = clock.ask(Tell::Ticks).await.expect("ticks");
        assert_eq!(offsets(&ticks, start), [100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]);
        let before = counters();
        clock.stop();
        clock.ended().await.expect("ended");
        wo::sleep(10_000 * MS).await.expect("sleep");
        assert_eq!(counters(), before, "none after the stop");
    });
}

#[test]
fn a18_a_slow_handler_skips_and_never_bursts() {
    simulated(|| async {
        let start = wo::now().since(wo::Instant::ORIGIN);
        let clock = wo::spawn(Clock::default());
        clock.send(Tell::Every(100 * MS, 250 * MS)).await.expect("send");
        wo::sleep(2000 * MS + MS).await.expect("sleep");
        let ticks = clock.ask(Tell::Ticks).await.expect("ticks");
        assert_eq!(offsets(&ticks, start), [100, 400, 700, 1000, 1300, 1600, 1900]);
    });
}

/// Taken back by its own handler, a timer sends no more.
#[test]
fn a_timer_taken_back_sends_no_more() {
    simulated(|| async {
        let clock = wo::spawn(Clock::default());
        clock.send(Tell::Every(100 * MS, 30 * MS)).await.expect("send");
        wo::sleep(310 * MS).await.expect("sleep");
        clock.send(Tell::Cancel).await.expect("send");
        wo::sleep(1000 * MS).await.expect("sleep");
        assert_eq!(clock.ask(Tell::Ticks).await.expect("ticks").len(), 3);
        // Taken back while the tick waits behind a slow message: it is not handled.
        let before = counters();
        let slow = wo::spawn(Clock::default());
        slow.send(Tell::Tick(500 * MS)).await.expect("send");
        let timer = slow.send_every(100 * MS, || Tell::Tick(Duration::ZERO));
        wo::sleep(250 * MS).await.expect("sleep");
        timer.cancel();
        assert_eq!(slow.ask(Tell::Ticks).await.expect("ticks").len(), 1);
        assert_eq!(counters().expired - before.expired, 1);
    });
}

#[test]
fn messages_after_a_delay() {
    simulated(|| async {
        let start = wo::now().since(wo::Instant::ORIGIN);
        let clock = wo::spawn(Clock::default());
        clock.send_after(300 * MS, Tell::Once).detach();
        clock.send_after(100 * MS, Tell::Once).detach();
        let taken_back = clock.send_after(200 * MS, Tell::Once);
        let kept = clock.send_after(Duration::MAX, Tell::Once);
        wo::sleep(150 * MS).await.expect("sleep");
        drop(taken_back);
        wo::sleep(1000 * MS).await.expect("sleep");
        let ticks = clock.ask(Tell::Ticks).await.expect("ticks");
        assert_eq!(offsets(&ticks, start), [100, 300]);
        drop(kept);
    });
}

#[test]
fn timers_on_every_kernel_and_shard() {
    everywhere(|| async {
        for shard in 0..3 {
            let start = wo::now();
            let clock = wo::actor::Options::new().shard(shard).spawn(Clock::default());
            clock.send_after(5 * MS, Tell::Once).detach();
            clock.send(Tell::Every(2 * MS, Duration::ZERO)).await.expect("send");
            while clock.ask(Tell::Ticks).await.expect("ticks").len() < 10 {
                wo::sleep(MS).await.expect("sleep");
            }
            assert!(wo::now() - start >= 10 * MS);
            clock.stop();
            clock.ended().await.expect("ended");
        }
    });
}
