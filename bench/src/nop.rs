//! `nop`: what a runtime adds to an operation that does nothing.
//!
//! Case 1 sends one NOP through the ring and waits for it, again and again; case `n` hands in `n` at once, then waits
//! for all. Quoted both as nanoseconds per operation and as operations per second.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Duration;

use crate::bench::positive;
use crate::executor::Nops;
use crate::failure::{Failure, Tried};
use crate::meter::Meter;
use crate::stats::{Sample, Unit};

/// Operations handed in at once.
pub const CASES: &[&str] = &["128", "1"];

/// Operations per look at the clock when they go one by one.
const LAP: u64 = 100;

/// One round on runtime `E`.
pub fn round<E: Nops>(case: &str, budget: Duration) -> Result<Vec<Sample>, Failure> {
    let batch = positive(case)?;
    let nanoseconds = E::run(move || async move {
        let port = E::port()?;
        let mut meter = Meter::start(budget);
        if batch == 1 {
            loop {
                for _ in 0..LAP {
                    E::nop(&port).await.tried("send a NOP through the ring")?;
                }
                if meter.lap(LAP) {
                    return Ok(meter.nanoseconds_each());
                }
            }
        }
        loop {
            let nops = (0..batch).map(|_| E::nop(&port)).collect();
            all(nops).await.tried("send NOPs through the ring")?;
            if meter.lap(batch as u64) {
                return Ok::<f64, Failure>(meter.nanoseconds_each());
            }
        }
    })??;
    Ok(samples(nanoseconds))
}

/// The samples of a round that took `nanoseconds` per operation.
pub fn samples(nanoseconds: f64) -> Vec<Sample> {
    vec![Sample::new("nop", nanoseconds, Unit::Nanoseconds), Sample::new("nops", 1e9 / nanoseconds, Unit::PerSecond)]
}

/// Starts all of `operations`, then waits for them in order.
///
/// Each is polled once to hand it in; after that only the first unfinished one is, so a runtime that wakes the task
/// for every single completion is not charged for polling the rest.
async fn all<F: Future<Output = io::Result<()>>>(operations: Vec<F>) -> io::Result<()> {
    let mut operations = Box::into_pin(operations.into_boxed_slice());
    let number = operations.len();
    let mut done = vec![false; number];
    let mut handed_in = false;
    let mut first = 0;
    poll_fn(|context| {
        if !handed_in {
            handed_in = true;
            for (index, done) in done.iter_mut().enumerate() {
                *done = element(operations.as_mut(), index).poll(context)?.is_ready();
            }
            if done.contains(&false) {
                return Poll::Pending;
            }
        }
        while first < number {
            if !done[first] {
                ready!(element(operations.as_mut(), first).poll(context)?);
            }
            first += 1;
        }
        Poll::Ready(Ok(()))
    })
    .await
}

fn element<F>(slice: Pin<&mut [F]>, index: usize) -> Pin<&mut F> {
    // SAFETY: an element of a pinned slice is pinned with it; nothing here moves elements out of the slice.
    unsafe { slice.map_unchecked_mut(|slice| &mut slice[index]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::task::{Context, Waker};

    #[test]
    fn all_hands_in_every_operation_before_it_waits_for_the_first() {
        let polls = [const { Cell::new(0) }; 3];
        let operations = polls
            .iter()
            .map(|polls| {
                poll_fn(|_| {
                    polls.set(polls.get() + 1);
                    if polls.get() == 2 { Poll::Ready(Ok(())) } else { Poll::Pending }
                })
            })
            .collect();
        let mut all = std::pin::pin!(all(operations));
        let mut context = Context::from_waker(Waker::noop());
        assert!(all.as_mut().poll(&mut context).is_pending());
        assert_eq!(polls.each_ref().map(Cell::get), [1, 1, 1]);
        assert!(matches!(all.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
        assert_eq!(polls.each_ref().map(Cell::get), [2, 2, 2]);
    }

    #[test]
    fn all_passes_a_failed_operation_on() {
        let operations = vec![poll_fn(|_| Poll::Ready(Err(io::Error::from_raw_os_error(libc::EIO))))];
        let mut all = std::pin::pin!(all(operations));
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Err(error)) = all.as_mut().poll(&mut context) else {
            panic!("the error was lost");
        };
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    }
}
