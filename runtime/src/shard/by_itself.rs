//! A call that runs as a program of its own, where a process or a test wants its exit status.

use std::panic::resume_unwind;
use std::process::{ExitCode, Termination};

use crate::error::say;
use crate::fiber::Call;
use crate::shard::builder::{Builder, RunError};

/// Runs the call as the main fiber of a program: [`Builder::new`], and what the environment says. So a fiber function
/// may be a test, under `#[test]`: the harness asks what a test returns for its exit status.
///
/// # Panics
///
/// When the call does, with its payload.
///
/// # Examples
///
/// ```
/// use std::process::{ExitCode, Termination};
/// use wo_runtime::error::IoError;
/// use wo_runtime::fiber::{self, Call};
///
/// let call = Call::new(async { Ok::<_, IoError>(fiber::yield_now().await?) });
/// assert_eq!(format!("{:?}", call.report()), format!("{:?}", ExitCode::SUCCESS));
/// ```
impl<F> Termination for Call<F>
where
    F: Future + 'static,
    F::Output: Termination,
{
    fn report(self) -> ExitCode {
        let builder = match Builder::new().env() {
            Ok(builder) => builder,
            Err(error) => {
                say(format_args!("{error}"));
                return ExitCode::FAILURE;
            }
        };
        match builder.run(self) {
            Ok(value) => value.report(),
            Err(RunError::Panicked(payload)) => resume_unwind(payload),
            Err(error) => {
                say(format_args!("{error}"));
                ExitCode::FAILURE
            }
        }
    }
}
