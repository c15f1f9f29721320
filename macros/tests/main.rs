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

    let panic = play("panic", &[]);
    assert_eq!(panic.status.code(), Some(101), "a panic is a plain main's: {panic:?}");
    assert!(stderr(&panic).contains("on purpose"), "{panic:?}");

    let bad = play("environment", &[("WO_REDUCTIONS", "many")]);
    assert_eq!(bad.status.code(), Some(1), "a bad environment stops it at the start: {bad:?}");
    assert!(stderr(&bad).contains("WO_REDUCTIONS") && stderr(&bad).contains("many"), "{bad:?}");
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
