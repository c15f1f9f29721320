//! Futures against the clock and against each other.
//!
//! Both take turns in one fiber: whatever wakes it, everybody is asked again. Who loses is dropped, which cancels its
//! op; what that op still brings is closed or kept by the op itself.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use wo_runtime::error::{IoError, IoResult};
use wo_runtime::fiber;
use wo_runtime::plane::Instant;

/// What `future` answers, or none when `at` comes first. Without a moment it is the future alone; one that has passed
/// still lets a future through that is ready at once, since it asks it first.
pub(crate) async fn by<T>(at: Option<Instant>, future: impl Future<Output = IoResult<T>>) -> IoResult<Option<T>> {
    let Some(at) = at else { return future.await.map(Some) };
    let mut future = pin!(future);
    let mut deadline = pin!(fiber::sleep_until(at));
    poll_fn(|cx| {
        if let Poll::Ready(answer) = future.as_mut().poll(cx) {
            return Poll::Ready(answer.map(Some));
        }
        deadline.as_mut().poll(cx).map(|slept| slept.map(|()| None))
    })
    .await
}

/// Starts attempts one after the other, the next when `stagger` has passed or the last has failed, and answers the
/// first success. When all have failed, the answer is their errors in the order of the starts. A cancelled attempt
/// ends the whole: the cancel was meant for the fiber.
pub(crate) async fn first_success<T, F>(attempts: impl Iterator<Item = F>, stagger: Duration) -> Result<T, Vec<IoError>>
where
    F: Future<Output = IoResult<T>>,
{
    let mut attempts = attempts.peekable();
    let mut running = Running { attempts: Vec::new(), failures: Vec::new() };
    loop {
        match attempts.next() {
            Some(attempt) => running.attempts.push(Some(Box::pin(attempt))),
            None if running.is_any_left() => {}
            None => return Err(running.failures.into_iter().map(|(_, error)| error).collect()),
        }
        let more = attempts.peek().is_some();
        let mut pause = pin!(fiber::sleep(stagger));
        let turn = poll_fn(|cx| match running.poll(cx) {
            Poll::Ready(turn) => Poll::Ready(turn),
            // After the last start there is nobody to make room for.
            Poll::Pending if !more => Poll::Pending,
            Poll::Pending => pause.as_mut().poll(cx).map(|slept| match slept {
                Ok(()) => Turn::Next,
                Err(cancelled) => Turn::Cancelled(cancelled),
            }),
        })
        .await;
        match turn {
            Turn::Won(value) => return Ok(value),
            Turn::Next => {}
            Turn::Cancelled(error) => return Err(vec![error]),
        }
    }
}

enum Turn<T> {
    Won(T),
    Next,
    Cancelled(IoError),
}

struct Running<F> {
    attempts: Vec<Option<Pin<Box<F>>>>,
    failures: Vec<(usize, IoError)>,
}

impl<F> Running<F> {
    fn is_any_left(&self) -> bool {
        self.attempts.iter().any(Option::is_some)
    }

    fn poll<T>(&mut self, cx: &mut Context<'_>) -> Poll<Turn<T>>
    where
        F: Future<Output = IoResult<T>>,
    {
        let mut failed = false;
        for (number, place) in self.attempts.iter_mut().enumerate() {
            let Some(attempt) = place else { continue };
            match attempt.as_mut().poll(cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(value)) => return Poll::Ready(Turn::Won(value)),
                Poll::Ready(Err(error)) if error.is_cancelled() => return Poll::Ready(Turn::Cancelled(error)),
                Poll::Ready(Err(error)) => {
                    *place = None;
                    failed = true;
                    let at = self.failures.partition_point(|(earlier, _)| *earlier < number);
                    self.failures.insert(at, (number, error));
                }
            }
        }
        if failed { Poll::Ready(Turn::Next) } else { Poll::Pending }
    }
}
