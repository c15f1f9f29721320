//! `#[wo::main]`: this program is its own test. It runs itself once per part it can play, and looks at how that ended.

use std::error::Error;
use std::process::{Command, ExitCode, Output};

const PART: &str = "WO_TEST_PART";

#[wo::main(shards = 1, reductions = 1_000, io = "auto", seed = 0x2a)]
fn main() -> Result<ExitCode, Box<dyn Error>> {
    match std::env::var(PART).as_deref() {
        Ok("value") => {
            let fiber = wo::spawn(|| {
                wo::yield_now()?;
                Ok::<_, wo::IoError>(7)
            });
            Ok(ExitCode::from(fiber.join()??))
        }
        Ok("error") => {
            wo::yield_now()?;
            "seven".parse::<u8>()?;
            Ok(ExitCode::SUCCESS)
        }
        Ok("panic") => {
            wo::yield_now()?;
            panic!("on purpose");
        }
        Ok("outcome") => {
            let outcome = wo::scope(|s: wo::Scope| {
                s.spawn(|| Err::<(), _>(std::io::Error::from_raw_os_error(32).into()));
                s.spawn(|| wo::sleep(std::time::Duration::MAX));
            });
            Ok(outcome.map(|()| ExitCode::SUCCESS)?)
        }
        Ok("late") => {
            let outcome: wo::Outcome<()> = wo::timeout(std::time::Duration::ZERO, || wo::yield_now());
            Ok(outcome.map(|()| ExitCode::SUCCESS)?)
        }
        Ok("environment") => Ok(ExitCode::SUCCESS),
        _ => {
            check();
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Plays every part in a process of its own. It blocks this fiber, but there is no other.
fn check() {
    let value = play("value", &[]);
    assert_eq!(value.status.code(), Some(7), "the value is the status: {value:?}");

    let error = play("error", &[]);
    assert_eq!(error.status.code(), Some(1), "an error is told as a plain main tells it: {error:?}");
    assert_eq!(stderr(&error), "Error: ParseIntError { kind: InvalidDigit }\n");

    let outcome = play("outcome", &[]);
    assert_eq!(outcome.status.code(), Some(1), "{outcome:?}");
    assert!(stderr(&outcome).starts_with("Error: failed: "), "an outcome is told as a sentence: {outcome:?}");
    assert!(stderr(&outcome).contains("Broken pipe"), "{outcome:?}");

    let late = play("late", &[]);
    assert_eq!(late.status.code(), Some(1), "{late:?}");
    assert_eq!(stderr(&late), "Error: interrupted: out of time\n");

    let panic = play("panic", &[]);
    assert_eq!(panic.status.code(), Some(101), "a panic is a plain main's: {panic:?}");
    assert!(stderr(&panic).contains("on purpose"), "{panic:?}");

    let bad = play("environment", &[("WO_REDUCTIONS", "many")]);
    assert_eq!(bad.status.code(), Some(1), "a bad environment stops it at the start: {bad:?}");
    assert!(stderr(&bad).contains("WO_REDUCTIONS") && stderr(&bad).contains("many"), "{bad:?}");

    let misspelt = play("environment", &[("WO_SHARD", "2"), ("WO_ID", "of the program's own")]);
    assert_eq!(misspelt.status.code(), Some(0), "another's variable stops nobody: {misspelt:?}");
    assert_eq!(stderr(&misspelt), "wo: WO_SHARD is set, which wo does not know: is WO_SHARDS meant?\n");
}

fn play(part: &str, environment: &[(&str, &str)]) -> Output {
    let program = std::env::current_exe().expect("this program's path");
    let mut command = Command::new(program);
    command.env(PART, part).envs(environment.iter().copied());
    command.output().expect("this program starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
