//! Virtual time: months at once, deadlines to the instant.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wo::actor::AskError;
use wo::sim::World;
use wo::{Builder, RunError, Selection};

#[test]
fn m2_a_month_passes_in_no_time() {
    let begun = Instant::now();
    let mut world = World::new(1);
    let host = world.host("sleeper");
    let slept = world.start(&host, sleep_for(Duration::from_secs(30 * 86_400)));
    world.finish(slept).unwrap().unwrap();
    assert_eq!(world.elapsed(), Duration::from_secs(30 * 86_400));
    let taken = begun.elapsed();
    assert!(taken < Duration::from_millis(50), "{taken:?}");
}

#[wo::fiber]
fn sleep_for(span: Duration) -> wo::IoResult<()> {
    wo::sleep(span)
}

/// What happened to the sleeper, and when.
type Notes = Arc<Mutex<Vec<(String, Duration)>>>;

fn age() -> Duration {
    wo::now() - wo::Instant::ORIGIN
}

struct Sleeper(Notes);

#[wo::actor]
impl Sleeper {
    #[message]
    fn work(&mut self) {
        let slept = wo::sleep(Duration::from_secs(1));
        let word = if slept.is_err_and(|error| error.is_cancelled()) { "cancelled" } else { "slept" };
        self.0.lock().unwrap().push((word.to_owned(), age()));
    }

    #[message]
    fn next(&mut self) {
        self.0.lock().unwrap().push(("next".to_owned(), age()));
    }

    fn on_cancel(&mut self) {
        self.0.lock().unwrap().push(("on_cancel".to_owned(), age()));
    }
}

#[wo::fiber]
fn ask_with_a_deadline(notes: Notes) -> (Option<AskError>, Duration) {
    let sleeper = wo::spawn(Sleeper(notes));
    let begun = age();
    let answer = sleeper.work_by(Duration::from_millis(50));
    let refused = answer.err();
    let taken = age() - begun;
    sleeper.next().expect("it goes on");
    (refused, taken)
}

/// The deadline of an ask is its handler's, to the instant.
#[test]
fn a5_a_deadline_of_an_ask_cancels_its_handler_on_time() {
    for shards in [1, 2] {
        let mut world = World::new(5);
        let host = world.host("actors");
        let notes = Notes::default();
        let program = world.start_with(&host, Builder::new().shards(shards), ask_with_a_deadline(Arc::clone(&notes)));
        let (refused, taken) = world.finish(program).unwrap();
        assert!(matches!(refused, Some(AskError::Deadline)), "{refused:?}");
        assert_eq!(taken, Duration::from_millis(50));
        let notes = notes.lock().unwrap();
        let words: Vec<&str> = notes.iter().map(|(word, _)| word.as_str()).collect();
        assert_eq!(words, ["cancelled", "on_cancel", "next"]);
        assert!(notes.iter().all(|(_, at)| *at >= Duration::from_millis(50) && *at < Duration::from_millis(51)));
    }
}

/// A fiber that never parks keeps the clock nearly still; a stop ends all the same, soon.
#[test]
fn a_stop_ends_a_hot_loop() {
    for shards in [1, 3] {
        let begun = Instant::now();
        let ended = Builder::new().io(Selection::Sim).shards(shards).run(|| async {
            wo::stop();
            loop {
                let _ = wo::yield_now().await;
            }
        });
        assert!(matches!(ended, Err(RunError::Stopped { signal: None })), "{ended:?}");
        let taken = begun.elapsed();
        assert!(taken < Duration::from_secs(20), "{taken:?}");
    }
}

/// A wall clock jumps a year ahead and ten back, while one sleeps: nobody who waits is early or late for it, files are
/// stamped with the day it says, and other hosts have theirs.
#[test]
fn a_wall_clock_that_jumps_moves_no_timer() {
    const YEAR: Duration = Duration::from_secs(365 * 86_400);
    let mut world = World::new(3);
    let (jumping, steady) = (world.host("jumping"), world.host("steady"));
    assert_eq!(jumping.wall_clock().duration_since(UNIX_EPOCH).unwrap().as_secs(), 1_704_067_200);
    for (second, ahead) in [(1, true), (2, false)] {
        let host = jumping.clone();
        world.at(Duration::from_secs(second), move |_| {
            let now = host.wall_clock();
            host.set_wall_clock(if ahead { now + YEAR } else { now - 10 * YEAR });
        });
    }
    let programs = [&jumping, &steady].map(|host| world.start(host, look_at_the_clock()));
    let [jumped, stayed] = programs.map(|program| world.finish(program).unwrap().unwrap());
    for looks in [&jumped, &stayed] {
        let ages: Vec<u64> = looks.iter().map(|look| look.age.as_millis() as u64).collect();
        assert_eq!(ages, [500, 1500, 2500], "the timers are the world's");
        assert!(looks.iter().all(|look| look.late < Duration::from_millis(1)), "{looks:?}");
        assert!(looks.iter().all(|look| look.stamp.duration_since(look.wall).unwrap() < Duration::from_millis(1)));
    }
    let at = |millis| UNIX_EPOCH + Duration::from_secs(1_704_067_200) + Duration::from_millis(millis);
    let close = |look: &Look, wall: SystemTime| look.wall.duration_since(wall).is_ok_and(|off| off.as_millis() < 1);
    assert!(close(&jumped[0], at(500)) && close(&jumped[1], at(1500) + YEAR) && close(&jumped[2], at(2500) - 9 * YEAR));
    assert!(close(&stayed[0], at(500)) && close(&stayed[1], at(1500)) && close(&stayed[2], at(2500)));
}

#[derive(Debug)]
struct Look {
    age: Duration,
    late: Duration,
    wall: SystemTime,
    stamp: SystemTime,
}

#[wo::fiber]
fn look_at_the_clock() -> wo::IoResult<Vec<Look>> {
    let mut looks = Vec::new();
    for millis in [500, 1500, 2500] {
        let due = wo::Instant::ORIGIN + Duration::from_millis(millis);
        wo::sleep_until(due)?;
        let late = wo::now() - due;
        let (age, wall) = (age(), wo::wall_clock());
        wo::fs::write("/tmp/stamped", "now")?;
        let stamp = wo::fs::metadata("/tmp/stamped")?.modified();
        looks.push(Look { age, late, wall, stamp });
    }
    Ok(looks)
}

/// A program that never asks a wall clock runs the same whatever it says.
#[test]
fn a_wall_clock_is_part_of_the_trace() {
    let run = |jump: Option<Duration>| {
        let mut world = World::new(3);
        let host = world.host("sleeper");
        if let Some(jump) = jump {
            let jumping = host.clone();
            world.at(Duration::from_secs(1), move |_| jumping.set_wall_clock(UNIX_EPOCH + jump));
        }
        let slept = world.start(&host, sleep_for(Duration::from_secs(2)));
        world.finish(slept).unwrap().unwrap();
        (world.elapsed(), world.digest())
    };
    let (plain, jumped) = (run(None), run(Some(Duration::from_secs(5))));
    assert_eq!(plain.0, jumped.0);
    assert_ne!(plain.1, jumped.1);
    assert_eq!(jumped, run(Some(Duration::from_secs(5))));
}

#[wo::fiber]
fn nest(outer: u64, inner: u64, notes: Notes) -> (bool, bool, Duration) {
    let millis = Duration::from_millis;
    let mut inner_out_of_time = false;
    let outcome: wo::Outcome<()> = wo::with_deadline(millis(outer), || {
        let within: wo::Outcome<(), wo::Cause> = wo::with_deadline(millis(inner), || {
            wo::scope(|s| {
                s.spawn(|| {
                    // A child that tidies up after it was cancelled: the scope waits for it.
                    let slept = wo::sleep(Duration::MAX);
                    let _ = wo::protect(|| wo::sleep(millis(30)));
                    notes.lock().unwrap().push(("tidied up".to_owned(), age()));
                    slept
                });
                wo::sleep(Duration::MAX)
            })
        });
        inner_out_of_time = within.is_err_and(|cause| cause.is_timeout());
        wo::yield_now()
    });
    (outcome.is_err_and(|cause| cause.is_timeout()), inner_out_of_time, age())
}

/// Of nested deadlines the nearest wins, to the instant; what is protected goes on, and the scope ends after it.
#[test]
fn r42_nested_deadlines_end_on_time() {
    for (outer, inner, expected) in [(50, 100, (true, true, 80)), (100, 10, (false, true, 40))] {
        let mut world = World::new(42);
        let host = world.host("nested");
        let notes = Notes::default();
        let program = world.start(&host, nest(outer, inner, Arc::clone(&notes)));
        let (outer_late, inner_late, at) = world.finish(program).unwrap();
        assert_eq!((outer_late, inner_late, at.as_millis()), (expected.0, expected.1, expected.2), "{outer} {inner}");
        let tidied: Vec<u128> = notes.lock().unwrap().iter().map(|(_, at)| at.as_millis()).collect();
        assert_eq!(tidied, [expected.2]);
    }
}

/// A world with a fiber that never parks runs for as long as it is told, and no longer.
#[test]
fn a_hot_loop_does_not_hold_the_test_up() {
    let mut world = World::new(1);
    let host = world.host("hot");
    let hot = world.start(&host, spin());
    world.run_for(Duration::from_millis(20));
    assert!(!hot.has_ended());
    let taken = world.elapsed();
    assert!((Duration::from_millis(20)..Duration::from_millis(21)).contains(&taken), "{taken:?}");
    assert!(world.kill(&hot));
}

#[wo::fiber]
fn spin() {
    loop {
        std::hint::spin_loop();
    }
}
