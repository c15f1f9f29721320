//! Cells between two lives, by the type of their messages.
//!
//! Each thread keeps some of its own; what it has too much of, and all when it ends, goes to a store that every thread
//! takes from. So an actor that is spawned on one shard and ends on another leaves no cell behind unused.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::actor::mailbox::Mailbox;

/// The most cells of one type a thread keeps to itself.
const KEPT_MAX: usize = 64;
/// How many go to or come from the common store at once.
const BATCH: usize = KEPT_MAX / 2;

type Cells = Vec<&'static (dyn Any + Sync)>;

struct Unused(BTreeMap<TypeId, Cells>);

thread_local! {
    static OWN: RefCell<Unused> = const { RefCell::new(Unused(BTreeMap::new())) };
}

static COMMON: Mutex<Unused> = Mutex::new(Unused(BTreeMap::new()));
/// How many cells lie in the common store, give or take what moves right now: spares a look into an empty one.
static STORED: AtomicUsize = AtomicUsize::new(0);

fn common() -> MutexGuard<'static, Unused> {
    COMMON.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An unused cell for messages of type `M`, if there is one.
pub(super) fn take<M: Send + 'static>() -> Option<&'static Mailbox<M>> {
    let cell = OWN.try_with(|own| {
        let mut own = own.borrow_mut();
        let cells = own.0.entry(TypeId::of::<M>()).or_default();
        if cells.is_empty()
            && STORED.load(Ordering::Relaxed) > 0
            && let Some(stored) = common().0.get_mut(&TypeId::of::<M>())
        {
            cells.extend(stored.drain(stored.len().saturating_sub(BATCH)..));
            STORED.fetch_sub(cells.len(), Ordering::Relaxed);
        }
        cells.pop()
    });
    (cell.ok().flatten()? as &dyn Any).downcast_ref()
}

/// The cell is between two lives.
pub(super) fn give_back<M: Send + 'static>(cell: &'static Mailbox<M>) {
    let kept = OWN.try_with(|own| {
        let mut own = own.borrow_mut();
        let cells = own.0.entry(TypeId::of::<M>()).or_default();
        cells.push(cell);
        if cells.len() > KEPT_MAX {
            store(TypeId::of::<M>(), cells.drain(..BATCH));
        }
    });
    if kept.is_err() {
        store(TypeId::of::<M>(), [cell as &'static (dyn Any + Sync)].into_iter());
    }
}

fn store(id: TypeId, cells: impl ExactSizeIterator<Item = &'static (dyn Any + Sync)>) {
    STORED.fetch_add(cells.len(), Ordering::Relaxed);
    common().0.entry(id).or_default().extend(cells);
}

impl Drop for Unused {
    fn drop(&mut self) {
        for (id, cells) in std::mem::take(&mut self.0) {
            store(id, cells.into_iter());
        }
    }
}
