//! The owner: the one shard that holds the tables, and how everybody else reaches it.
//!
//! A handle is a number and a shard. On the owner's thread the number finds the owner, and a call is a function call;
//! anywhere else the call is moved through the shard's door, is made between two fibers there, and its answer wakes the
//! caller. Calls never run at the same time, each is whole before the next begins, and nothing else touches the tables:
//! that is all there is to their isolation.
//!
//! An answer leaves when what it is based on is certain. A call that changed something, or has seen a change that is
//! not on the disk yet, waits in a queue, by the sequence it needs; `commit.rs` moves that queue on.

pub mod commit;
pub mod snapshots;
pub mod watchers;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use wo_runtime::error::OpKind;
use wo_runtime::fiber::oneshot::{Receiver, Sender, oneshot};
use wo_runtime::fiber::{self, Notify};
use wo_runtime::shard;

use crate::error::{Error, ErrorKind, Result};
use crate::log::{Log, Recovery};
use crate::owner::commit::Queue;
use crate::owner::snapshots::Snapshots;
use crate::owner::watchers::Watchers;
use crate::store::Store;
use crate::store::table::Sight;
use crate::transaction::Tx;

thread_local! {
    /// The owners on this thread, by number.
    static OWNERS: RefCell<Vec<Rc<Owner>>> = const { RefCell::new(Vec::new()) };
}

/// Where an owner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    number: u64,
    shard: u32,
    /// Changes are written to a log, so whoever makes them encodes them.
    pub(crate) is_durable: bool,
}

/// Told how a database was closed.
type Closed = Box<dyn FnOnce(Result<()>)>;

/// The tables, and who waits for what.
pub(crate) struct Owner {
    number: u64,
    log: RefCell<Option<Rc<Log>>>,
    pub(crate) recovery: Option<Recovery>,
    /// For the steps of the next transaction.
    pub(crate) buffer: Cell<Vec<u8>>,
    /// For a row on its way into it.
    pub(crate) scratch: Cell<Vec<u8>>,
    pub(crate) snapshots: Snapshots,
    pub(crate) store: RefCell<Store>,
    pub(crate) queue: RefCell<Queue>,
    pub(crate) watchers: RefCell<Watchers>,
    /// Wakes the fiber of `commit.rs`.
    pub(crate) attention: Notify,
    /// A closure of the program's runs.
    is_busy: Cell<bool>,
    /// Undoing panicked: the tables are no longer what they should be.
    is_broken: Cell<bool>,
    pub(crate) is_closing: Cell<bool>,
    /// Who wants to know when it is closed.
    pub(crate) closed: RefCell<Vec<Closed>>,
}

impl Owner {
    /// Makes the shard of this thread the owner of these tables.
    ///
    /// # Errors
    ///
    /// No shard runs here.
    pub(crate) fn open(
        store: Store,
        log: Option<Log>,
        recovery: Option<Recovery>,
        snapshot_bytes: u64,
    ) -> Result<Place> {
        static MADE: AtomicU64 = AtomicU64::new(1);
        let shard = shard::shard_index().and_then(|shard| u32::try_from(shard).ok()).ok_or_else(|| {
            Error::new(ErrorKind::Closed, "no shard runs on this thread to own a database")
                .remedy("open it in a program of wo: in `#[wo::main]`, or in a fiber")
        })?;
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let owner = Rc::new(Owner {
            number,
            log: RefCell::new(log.map(Rc::new)),
            recovery,
            buffer: Cell::default(),
            scratch: Cell::default(),
            snapshots: Snapshots::new(snapshot_bytes),
            store: RefCell::new(store),
            queue: RefCell::default(),
            watchers: RefCell::default(),
            attention: Notify::new(),
            is_busy: Cell::new(false),
            is_broken: Cell::new(false),
            is_closing: Cell::new(false),
            closed: RefCell::default(),
        });
        let is_durable = owner.log().is_some();
        OWNERS.with_borrow_mut(|owners| owners.push(Rc::clone(&owner)));
        let serving = Serving(number);
        drop(fiber::spawn_named("database", || async move {
            let _serving = serving;
            commit::serve(owner).await;
        }));
        Ok(Place { number, shard, is_durable })
    }

    /// The owner of that number, on its own thread.
    #[inline]
    pub(crate) fn here(place: Place) -> Option<Rc<Owner>> {
        OWNERS.with_borrow(|owners| owners.iter().find(|owner| owner.number == place.number).cloned())
    }

    /// The log, as long as there is one.
    #[inline]
    pub(crate) fn log(&self) -> Option<Rc<Log>> {
        self.log.borrow().clone()
    }

    pub(crate) fn take_log(&self) -> Option<Rc<Log>> {
        self.log.borrow_mut().take()
    }

    /// Whether a call may be made now. What could not be written is undone first.
    fn ready(self: &Rc<Owner>) -> Result<()> {
        let failed = self.log.borrow().as_ref().filter(|log| log.failure().is_some()).cloned();
        if let Some(log) = failed {
            self.heed_failure(&log);
        }
        if self.is_busy.get() {
            return Err(Error::busy());
        }
        if self.is_broken.get() {
            return Err(Error::new(ErrorKind::Poisoned, "undoing a transaction panicked in the program's own code")
                .remedy("open the database again; see that `Ord`, `Clone` and `Drop` of its records do not panic"));
        }
        if self.is_closing.get() {
            return Err(Error::closed());
        }
        Ok(())
    }

    /// Reads: what was found, and the sequence it waits for.
    #[inline]
    pub(crate) fn look<T>(self: &Rc<Owner>, work: &impl Fn(&Store, &Sight) -> Result<T>) -> (Result<T>, u64) {
        if let Err(error) = self.ready() {
            return (Err(error), 0);
        }
        let Ok(store) = self.store.try_borrow() else { return (Err(Error::busy()), 0) };
        let sight = Sight::of_reader();
        self.is_busy.set(true);
        let found = catch_unwind(AssertUnwindSafe(|| work(&store, &sight)));
        self.is_busy.set(false);
        (found.unwrap_or_else(|payload| Err(panicked(payload))), sight.newest())
    }

    /// Reads, and tells when what was seen is certain. If that never happened, it looks again.
    pub(crate) fn read<T: 'static>(
        self: &Rc<Owner>,
        work: impl Fn(&Store, &Sight) -> Result<T> + 'static,
        tell: impl FnOnce(Result<T>) + 'static,
    ) {
        let (found, needs) = self.look(&work);
        if needs <= self.durable() {
            return tell(found);
        }
        self.wait_for(needs, move |owner, failure| match failure {
            None => tell(found),
            Some(_) => owner.read(work, tell),
        });
    }

    /// Runs a transaction: its outcome, and the sequence it waits for. Whatever is not its success leaves nothing.
    pub(crate) fn attempt<T>(self: &Rc<Owner>, work: impl FnOnce(&Tx) -> Result<T>) -> (Result<T>, u64) {
        if let Err(error) = self.ready() {
            return (Err(error), 0);
        }
        let tx = Tx::begin(self);
        self.is_busy.set(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&tx)));
        self.is_busy.set(false);
        let seen = tx.sight.newest();
        let outcome = match outcome {
            Ok(Ok(value)) => match self.commit(&tx) {
                Ok(None) => return (Ok(value), seen),
                Ok(Some(sequence)) => return (Ok(value), sequence),
                Err(error) => Err(error),
            },
            Ok(Err(error)) => Err(error),
            Err(payload) => Err(panicked(payload)),
        };
        self.undo(tx.sequence);
        (outcome, seen)
    }

    /// Undoes every transaction from this sequence on.
    pub(crate) fn undo(&self, from: u64) {
        let undone = catch_unwind(AssertUnwindSafe(|| self.store.borrow_mut().rollback(from)));
        if let Err(payload) = undone {
            self.is_broken.set(true);
            discard(payload);
        }
    }

    /// Runs a transaction, and tells when its outcome is certain.
    pub(crate) fn write<T: 'static>(
        self: &Rc<Owner>,
        work: impl FnOnce(&Tx) -> Result<T>,
        tell: impl FnOnce(Result<T>) + 'static,
    ) {
        let (outcome, needs) = self.attempt(work);
        self.tell_at(needs, outcome, tell);
    }

    /// Tells an outcome when that sequence is certain; what a success is based on not becoming so is a failure.
    fn tell_at<T: 'static>(&self, needs: u64, outcome: Result<T>, tell: impl FnOnce(Result<T>) + 'static) {
        if needs <= self.durable() {
            return tell(outcome);
        }
        self.wait_for(needs, move |_, failure| match failure {
            None => tell(outcome),
            Some(error) => tell(outcome.and(Err(error.clone()))),
        });
    }

    pub(crate) fn durable(&self) -> u64 {
        self.store.borrow().durable
    }
}

/// Reads at the owner, from anywhere.
pub(crate) async fn read<T: Send + 'static>(
    place: Place,
    work: impl Fn(&Store, &Sight) -> Result<T> + Send + 'static,
) -> Result<T> {
    checkpoint().await?;
    if let Some(owner) = Owner::here(place) {
        let (found, needs) = owner.look(&work);
        if needs <= owner.durable() {
            return found;
        }
        let (sender, receiver) = oneshot();
        owner.read(work, |found| answer(sender, found));
        drop(owner);
        return answered(receiver).await;
    }
    let (sender, receiver) = oneshot();
    post(place, sender, |owner, sender| owner.read(work, |found| answer(sender, found)))?;
    answered(receiver).await
}

/// Runs a transaction at the owner, from anywhere.
pub(crate) async fn write<T: Send + 'static>(
    place: Place,
    work: impl FnOnce(&Tx) -> Result<T> + Send + 'static,
) -> Result<T> {
    checkpoint().await?;
    if let Some(owner) = Owner::here(place) {
        let (outcome, needs) = owner.attempt(work);
        if needs <= owner.durable() {
            return outcome;
        }
        drop(owner);
        return match commit::certain(place, needs).await? {
            Ok(()) => outcome,
            Err(failure) => outcome.and(Err(failure)),
        };
    }
    let (sender, receiver) = oneshot();
    post(place, sender, |owner, sender| owner.write(work, |outcome| answer(sender, outcome)))?;
    answered(receiver).await
}

/// Asks the owner for something that is no reading of the tables.
pub(crate) async fn ask<T: Send + 'static>(
    place: Place,
    work: impl FnOnce(&Rc<Owner>, Sender<Result<T>>) + Send + 'static,
) -> Result<T> {
    checkpoint().await?;
    let (sender, receiver) = oneshot();
    match Owner::here(place) {
        Some(owner) => work(&owner, sender),
        None => post(place, sender, work)?,
    }
    answered(receiver).await
}

/// Tells the owner something, from anywhere, without an answer. After its end nobody listens.
pub(crate) fn tell(place: Place, work: impl FnOnce(&Rc<Owner>) + Send + 'static) {
    match Owner::here(place) {
        Some(owner) => work(&owner),
        None => {
            let _ended = shard::post_to(place.shard as usize, move || {
                if let Some(owner) = Owner::here(place) {
                    contained(|| work(&owner));
                }
            });
        }
    }
}

fn post<T: Send + 'static>(
    place: Place,
    sender: Sender<Result<T>>,
    work: impl FnOnce(&Rc<Owner>, Sender<Result<T>>) + Send + 'static,
) -> Result<()> {
    let posted = shard::post_to(place.shard as usize, move || match Owner::here(place) {
        Some(owner) => contained(|| work(&owner, sender)),
        None => answer(sender, Err(Error::closed())),
    });
    if posted { Ok(()) } else { Err(Error::closed()) }
}

pub(crate) fn answer<T>(sender: Sender<Result<T>>, answer: Result<T>) {
    // A caller that has gone does not care.
    contained(|| drop(sender.send(answer)));
}

async fn answered<T>(receiver: Receiver<Result<T>>) -> Result<T> {
    receiver.recv().await.map_err(Error::from_wait)?
}

/// Costs a reduction, and answers a cancel: a loop over calls that need not park ends as well.
async fn checkpoint() -> Result<()> {
    fiber::park(OpKind::Receive, |_| Poll::Ready(Ok(()))).await.map_err(Error::from_wait)
}

/// The same for a call that has its answer already: that is dropped when the caller is cancelled.
pub(crate) async fn passing<T>(answer: Result<T>) -> Result<T> {
    checkpoint().await?;
    answer
}

/// A destructor of the program's that panics where nobody can be told ends nothing else; the panic hook has spoken.
pub(crate) fn contained(call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        discard(payload);
    }
}

/// Drops what a panic carried, which may panic once more.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}

pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> Error {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    discard(payload);
    Error::new(
        ErrorKind::Panicked,
        format!("the program's own code panicked at the owner: {}", text.as_deref().unwrap_or("without a text")),
    )
    .remedy("what it had changed is undone")
}

/// As long as it lives the owner can be reached; the fiber of `commit.rs` holds it, and is dropped with its shard.
struct Serving(u64);

impl Drop for Serving {
    fn drop(&mut self) {
        let owner = OWNERS.with_borrow_mut(|owners| {
            let at = owners.iter().position(|owner| owner.number == self.0)?;
            Some(owners.swap_remove(at))
        });
        if let Some(owner) = &owner {
            owner.abandon();
        }
        // Rows are dropped outside of the borrow: they are the program's.
        contained(|| drop(owner));
    }
}
