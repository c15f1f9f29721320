//! A running program: its shards, as every one of them knows them.
//!
//! Shards share nothing but this: each one's door, the request to stop, and whether the end has come. The first
//! shard runs on the thread that started the program; it alone decides about the end. The others end when it says so,
//! and are joined before the program's run returns.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::IoError;
use crate::fiber::StopRequest;
use crate::fiber::home::{Home, Mail};
use crate::plane::backend::{Caps, Waker};
use crate::shard::blocking::BlockingThreads;

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// What a shard's thread knows of itself.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    pub(crate) program: Arc<Program>,
    pub(crate) index: usize,
    pub(crate) caps: Rc<Caps>,
}

/// Looks at the program of this thread; none outside a shard.
pub(crate) fn here<R>(look: impl FnOnce(&Here) -> R) -> Option<R> {
    HERE.try_with(|here| here.borrow().as_ref().map(look)).ok().flatten()
}

/// Says which program and shard this thread is; none takes it back.
pub(crate) fn set_here(here: Option<Here>) {
    HERE.set(here);
}

/// The same; answers what it was before.
pub(crate) fn replace_here(here: Option<Here>) -> Option<Here> {
    HERE.replace(here)
}

/// A shard's door: where to push to, and how to wake it for good.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    pub(crate) home: &'static Home,
    pub(crate) waker: Waker,
}

/// A running program.
#[derive(Debug)]
pub(crate) struct Program {
    doors: Box<[Door]>,
    stop: Arc<StopRequest>,
    ending: AtomicBool,
    next: AtomicUsize,
    failure: Mutex<Option<IoError>>,
    pub(crate) blocking: Arc<BlockingThreads>,
    /// Tells the programs of one process apart.
    number: u64,
    attached: Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Program {
    pub(crate) fn new(doors: Vec<Door>, stop: Arc<StopRequest>, blocking: Arc<BlockingThreads>) -> Program {
        Program {
            doors: doors.into(),
            stop,
            ending: AtomicBool::new(false),
            next: AtomicUsize::new(0),
            failure: Mutex::new(None),
            blocking,
            number: {
                static MADE: AtomicU64 = AtomicU64::new(1);
                MADE.fetch_add(1, Ordering::Relaxed)
            },
            attached: Mutex::new(BTreeMap::new()),
        }
    }

    /// A number no other program of this process has.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// What a floor above keeps for the whole program, one of a type.
    pub(crate) fn attached<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let mut attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
        let any = attached.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        Arc::clone(any).downcast().unwrap_or_else(|_| unreachable!("it was attached under its own type"))
    }

    /// The number of shards.
    pub(crate) fn shards(&self) -> usize {
        self.doors.len()
    }

    /// A shard's home.
    pub(crate) fn home(&self, index: usize) -> &'static Home {
        self.doors[index].home
    }

    /// Every shard's home.
    pub(crate) fn homes(&self) -> impl Iterator<Item = &'static Home> + '_ {
        self.doors.iter().map(|door| door.home)
    }

    /// Every shard's waker.
    pub(crate) fn wakers(&self) -> Arc<[Waker]> {
        self.doors.iter().map(|door| door.waker.clone()).collect()
    }

    /// The shard whose turn it is to take something new.
    pub(crate) fn next_shard(&self) -> usize {
        if self.doors.len() == 1 { 0 } else { self.next.fetch_add(1, Ordering::Relaxed) % self.doors.len() }
    }

    /// Has shard `index` make a call; false, and the call is dropped, when the program is ending or has no such shard.
    pub(crate) fn post(&self, index: usize, call: Box<dyn FnOnce() + Send>) -> bool {
        let Some(door) = self.doors.get(index) else { return false };
        if self.is_ending() {
            return false;
        }
        door.home.push(Mail::Call(call));
        true
    }

    /// Asks every shard to stop; see [`StopRequest`].
    pub(crate) fn ask_to_stop(&self) {
        self.stop.ask(0);
        self.doors.iter().for_each(|door| door.waker.wake());
    }

    /// The end has come: every shard unwinds its fibers and ends.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
        self.doors.iter().for_each(|door| door.waker.wake());
        self.blocking.close();
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    /// A shard's kernel gave out: the program stops, and its run answers this.
    pub(crate) fn fail(&self, error: IoError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.ask_to_stop();
    }

    pub(crate) fn take_failure(&self) -> Option<IoError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The last to know the program gives its homes back, to be used again.
impl Drop for Program {
    fn drop(&mut self) {
        self.doors.iter().for_each(|door| door.home.give_back());
    }
}

/// The number of shards of this program; 0 outside one.
///
/// # Examples
///
/// ```
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// // On two shards.
/// assert_eq!(wo::shards(), 2);
/// # Ok(())
/// # }
/// # wo::Builder::new().shards(2).run(example).unwrap().unwrap();
/// ```
pub fn shards() -> usize {
    here(|here| here.program.shards()).unwrap_or(0)
}

/// Has another shard make a call, soon, outside any fiber; it may start fibers there. The one explicit door between
/// shards: what goes through it is moved.
///
/// False when the program is ending, has no shard `index`, or none runs on this thread; the call is dropped then.
/// A call that panics is reported on stderr, and ends nothing else.
///
/// # Examples
///
/// ```
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// // On two shards.
/// let (sender, receiver) = wo::oneshot();
/// assert!(wo::post_to(1, move || drop(sender.send(40 + 2))));
/// assert_eq!(receiver.recv()?, 42);
/// # Ok(())
/// # }
/// # wo::Builder::new().shards(2).run(example).unwrap().unwrap();
/// ```
pub fn post_to(index: usize, call: impl FnOnce() + Send + 'static) -> bool {
    here(|here| here.program.post(index, Box::new(call))).unwrap_or(false)
}

/// The shard this thread is; none outside a program.
///
/// # Examples
///
/// ```
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// // On two shards.
/// let mut there = Vec::new();
/// for _ in 0..wo::shards() {
///     there.push(wo::spawn_anywhere(|| wo::shard_index()).join().expect("it does not panic"));
/// }
/// assert_eq!(there, [Some(0), Some(1)]);
/// # Ok(())
/// # }
/// # wo::Builder::new().shards(2).run(example).unwrap().unwrap();
/// ```
pub fn shard_index() -> Option<usize> {
    here(|here| here.index)
}
