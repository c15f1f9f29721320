//! Virtual time: months at once, deadlines to the instant.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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
        assert_eq!(words, ["cancelled", "next"]);
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
