//! What is put in front of a store that makes its callers wait for a sync one after the other: a crowd of writers, each
//! with one row at a time and waiting for that one, and a thread of its own that commits what they have sent.
//!
//! The writers are tasks of tokio on one thread. A row goes to the store's thread by a channel, its answer comes back
//! by another of its own. The store's thread sleeps while nothing is there, takes all that is, commits it as one, and
//! answers each. So nobody waits for a row that is not written yet, and whoever is ready shares the next sync. Having
//! the store's thread yield before it takes the next rows, or look for up to 30 microseconds whether all have come,
//! gained the log 2 and 6 percent, within the spread of its rounds, and the engines nothing.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;

use crate::db::{Row, Store, commits};
use crate::failure::{Failure, Tried};
use crate::meter::Meter;
use crate::stats::Sample;

/// A row, and whom to tell that it is on the disk.
struct Asked {
    row: Row,
    done: oneshot::Sender<()>,
}

/// Lets so many writers insert rows until the time is up.
pub fn crowd<S: Store>(dir: &Path, writers: u64, budget: Duration) -> Result<Vec<Sample>, Failure> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let dir = dir.to_owned();
    let store = thread::Builder::new().name("store".to_owned());
    let store = store.spawn(move || serve::<S>(dir, receiver, writers as usize)).tried("start the store's thread")?;
    let asking = ask(sender, writers, budget);
    // A writer that hears nothing more is told why by the store's thread.
    store.join().map_err(|_| Failure::new("join the store's thread", "it panicked"))??;
    asking
}

/// The store's thread: it ends when the last writer has.
fn serve<S: Store>(dir: PathBuf, mut asked: mpsc::UnboundedReceiver<Asked>, at_once: usize) -> Result<(), Failure> {
    let mut store = S::open(&dir)?;
    let mut batch = Vec::with_capacity(at_once);
    let mut answers = Vec::with_capacity(at_once);
    while asked.blocking_recv_many(&mut batch, at_once) > 0 {
        let rows = batch.drain(..).map(|Asked { row, done }| {
            answers.push(done);
            row
        });
        store.commit(rows)?;
        for done in answers.drain(..) {
            // A writer that has ended does not care.
            let _ended = done.send(());
        }
    }
    Ok(())
}

fn ask(sender: mpsc::UnboundedSender<Asked>, writers: u64, budget: Duration) -> Result<Vec<Sample>, Failure> {
    let runtime = Builder::new_current_thread().build_local(LocalOptions::default()).tried("start tokio")?;
    let meter = Rc::new(RefCell::new(Meter::start(budget)));
    let shared = Rc::clone(&meter);
    runtime.block_on(async move {
        let tasks: Vec<_> = (0..writers)
            .map(|writer| spawn_local(write(sender.clone(), writer, writers, Rc::clone(&shared))))
            .collect();
        drop(sender);
        for task in tasks {
            task.await.map_err(|error| Failure::new("join a writer", error))??;
        }
        Ok::<(), Failure>(())
    })?;
    Ok(commits(&meter.borrow()))
}

async fn write(
    sender: mpsc::UnboundedSender<Asked>,
    writer: u64,
    writers: u64,
    meter: Rc<RefCell<Meter>>,
) -> Result<(), Failure> {
    let mut number = writer;
    loop {
        let (done, answer) = oneshot::channel();
        let sent = sender.send(Asked { row: Row::numbered(number), done });
        sent.map_err(|_| Failure::new("send a row to the store", "its thread has ended"))?;
        answer.await.map_err(|error| Failure::new("hear from the store", error))?;
        number += writers;
        if meter.borrow_mut().lap(1) {
            return Ok(());
        }
    }
}
