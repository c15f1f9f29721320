//! What to do with a schedule: try again, or do again.

use crate::scope::body::Finish;
use crate::scope::cause::{Cause, Interrupt, Outcome};
use crate::scope::executor::Executor;
use crate::scope::now;
use crate::scope::schedule::Schedule;

/// Runs `work` until it succeeds, again after each delay of `policy` while it fails. The last failure is the outcome's
/// cause. What was interrupted is not tried again, and a panic passes through.
pub async fn retry<X, S, R, E>(executor: X, policy: S, mut work: impl AsyncFnMut() -> R) -> Outcome<R::Value, E>
where
    X: Executor,
    S: Schedule,
    R: Finish<E>,
{
    let mut run = policy.start();
    loop {
        let cause = match work().await.finish() {
            Ok(value) => return Ok(value),
            Err(cause) => cause,
        };
        if now::is_cancelled() {
            return Err(interrupted());
        }
        if cause.error().is_none() {
            return Err(cause);
        }
        let Some(delay) = policy.next(&mut run) else { return Err(cause) };
        if executor.sleep(delay).await.is_err() {
            return Err(interrupted());
        }
    }
}

/// Runs `work` until it fails or `policy` ends, again after each delay while it succeeds; answers the last value.
pub async fn repeat<X, S, R, E>(executor: X, policy: S, mut work: impl AsyncFnMut() -> R) -> Outcome<R::Value, E>
where
    X: Executor,
    S: Schedule,
    R: Finish<E>,
{
    let mut run = policy.start();
    loop {
        let value = work().await.finish()?;
        if now::is_cancelled() {
            return Err(interrupted());
        }
        let Some(delay) = policy.next(&mut run) else { return Ok(value) };
        if executor.sleep(delay).await.is_err() {
            return Err(interrupted());
        }
    }
}

fn interrupted<E>() -> Cause<E> {
    Cause::interrupted(now::interrupt().unwrap_or(Interrupt::Shutdown))
}
