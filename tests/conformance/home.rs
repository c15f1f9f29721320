//! A future is polled and dropped on its home thread only, whoever wakes it and whoever drops the last handle:
//! invariant 2. And a program may be described on one thread and run on another.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use wo::Builder;

use crate::backends::{EVERY, REAL, Watch, run, those_of};

/// A future that notes the thread of each poll and of its drop, and is ready at its second poll.
struct Homebound {
    polled: u32,
    waker: Arc<Mutex<Option<Waker>>>,
    seen: Arc<Mutex<Vec<ThreadId>>>,
}

impl Homebound {
    fn note(&self) {
        self.seen.lock().expect("nobody panicked").push(thread::current().id());
    }
}

impl Future for Homebound {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.note();
        self.polled += 1;
        if self.polled == 2 {
            return Poll::Ready(());
        }
        *self.waker.lock().expect("nobody panicked") = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Homebound {
    fn drop(&mut self) {
        self.note();
    }
}

async fn woken_and_let_go_elsewhere(seen: Arc<Mutex<Vec<ThreadId>>>) {
    const FIBERS: usize = 100;
    let mut joined = Vec::new();
    for _ in 0..FIBERS {
        let waker = Arc::new(Mutex::new(None::<Waker>));
        let future = Homebound { polled: 0, waker: Arc::clone(&waker), seen: Arc::clone(&seen) };
        joined.push(wo::spawn(move || future));
        wo::yield_now().await.expect("yield");
        // Woken from a thread that also drops the last waker there is.
        thread::spawn(move || {
            loop {
                if let Some(waker) = waker.lock().expect("nobody panicked").take() {
                    return waker.wake();
                }
                thread::yield_now();
            }
        });
    }
    for (number, handle) in joined.into_iter().enumerate() {
        // Every other handle is dropped instead; its fiber goes on.
        if number % 2 == 0 {
            handle.join().await.expect("the fiber ended");
        }
    }
    // One that is parked when the program ends.
    let future = Homebound { polled: 0, waker: Arc::default(), seen };
    wo::spawn(move || future);
    wo::yield_now().await.expect("yield");
}

#[test]
fn invariant_2_futures_live_and_die_at_home() {
    // Threads are no part of a simulated world.
    for backend in those_of(REAL) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        run(backend, |builder| builder, move || woken_and_let_go_elsewhere(noted));
        let seen = seen.lock().expect("nobody panicked");
        assert!(seen.len() >= 100 * 2, "on {backend}: {} polls and drops", seen.len());
        let home = thread::current().id();
        let strays = seen.iter().filter(|id| **id != home).count();
        assert_eq!(strays, 0, "on {backend}: of {} polls and drops away from home", seen.len());
    }
}

#[wo::fiber]
fn where_am_i() -> ThreadId {
    wo::sleep(std::time::Duration::from_millis(1)).expect("sleep");
    thread::current().id()
}

#[test]
fn r38_build_here_run_there() {
    for (backend, shards) in those_of(EVERY).into_iter().flat_map(|backend| [(backend, 1), (backend, 2)]) {
        let _watch = Watch::new(format!("a run on {backend}"));
        let builder = Builder::new().io(backend).shards(shards).seed(7);
        let there = thread::spawn(move || {
            let ran_on = builder.run(where_am_i).unwrap_or_else(|error| panic!("on {backend}: {error}"));
            assert_eq!(ran_on, thread::current().id());
        });
        there.join().expect("it runs where it was taken to");
    }
}
