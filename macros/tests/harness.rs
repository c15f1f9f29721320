//! Fiber functions as tests: each runs in a program of its own, and ends as any test does.

use std::process::{ExitCode, Termination};
use std::time::Duration;

#[test]
#[wo::fiber]
fn under_test() {
    wo::sleep(Duration::from_millis(1)).expect("sleep");
    assert_eq!(wo::spawn(|| wo::shards()).join().expect("it ended"), wo::shards());
}

#[wo::fiber]
#[test]
fn over_test() {
    wo::sleep(Duration::from_millis(1)).expect("sleep");
    assert_eq!(wo::shard_index(), Some(0));
}

#[test]
#[wo::fiber]
fn with_a_result() -> wo::IoResult<()> {
    wo::yield_now()?;
    Ok(())
}

#[test]
#[wo::fiber]
#[should_panic(expected = "with these words")]
fn a_panic_is_the_tests() {
    wo::yield_now().expect("nothing cancels it");
    panic!("with these words");
}

#[test]
#[should_panic(expected = "of a verb's refusal")]
#[wo::fiber]
fn a_panic_after_a_verb_is_the_tests() {
    wo::net::TcpStream::connect("no port").expect("of a verb's refusal");
}

#[wo::fiber]
fn fails() -> wo::IoResult<()> {
    wo::net::TcpStream::connect("127.0.0.1:1")?;
    Ok(())
}

#[wo::fiber]
fn answers(status: u8) -> ExitCode {
    wo::yield_now().expect("nothing cancels it");
    ExitCode::from(status)
}

/// What a test harness asks of what a test returns.
#[test]
fn what_the_program_came_to_is_its_status() {
    let status = |code: ExitCode| format!("{code:?}");
    assert_eq!(status(fails().report()), status(ExitCode::FAILURE));
    assert_eq!(status(answers(0).report()), status(ExitCode::SUCCESS));
    assert_eq!(status(answers(7).report()), status(ExitCode::from(7)));
}
