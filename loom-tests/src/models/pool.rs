//! The pool for batch work: a parked worker is woken for the second of two tasks, and a batch is over when all is done.

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;

use crate::shard::pool::Worker;
use crate::weakened::{accepted, rejected};

/// Runs a batch: its root on this thread, the other workers on theirs. No worker looks around by itself here, since
/// loom's time stands still.
fn batch(workers: usize, root: impl FnOnce(&Worker<'static>)) {
    let mut workers = Worker::of_a_batch(workers).into_iter();
    let first = workers.next().expect("a batch has a worker");
    let others: Vec<_> = workers.map(|worker| thread::spawn(move || worker.serve())).collect();
    root(&first);
    first.serve();
    others.into_iter().for_each(|other| other.join().expect("no task panics"));
}

/// The root spawns two tasks and waits for one of them, which it cannot run itself.
fn two_tasks() {
    let ran = Arc::new((Mutex::new(0), Condvar::new()));
    let root = Arc::clone(&ran);
    batch(2, move |worker| {
        for _ in 0..2 {
            let ran = Arc::clone(&root);
            worker.spawn(move |_| {
                *ran.0.lock().unwrap() += 1;
                ran.1.notify_all();
            });
        }
        let mut count = root.0.lock().unwrap();
        while *count == 0 {
            count = root.1.wait(count).unwrap();
        }
    });
    assert_eq!(*ran.0.lock().unwrap(), 2);
}

/// A task spawns a task, and that one more; when every worker has heard of the end, all have run.
fn a_chain(workers: usize) {
    let ran = Arc::new(AtomicUsize::new(0));
    let (first, second) = (Arc::clone(&ran), Arc::clone(&ran));
    batch(workers, move |worker| {
        worker.spawn(move |worker| {
            worker.spawn(move |_| {
                second.fetch_add(1, Ordering::Relaxed);
            });
            first.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert_eq!(ran.load(Ordering::Relaxed), 2);
}

accepted!(a_parked_worker_is_woken, two_tasks);

accepted!(a_batch_ends_when_all_is_done, || a_chain(2));

rejected!(who_spawns_must_fence, "a task is spawned without a fence", two_tasks);

rejected!(who_parks_must_fence, "a worker parks without a fence", two_tasks);

rejected!(who_parks_must_look_again, "a worker parks without looking again", two_tasks);

rejected!(the_end_must_be_told, "the last to run dry tells nobody", || a_chain(2));
