//! What the runtime's files find in the place of `std::sync`, `std::cell` and `thread_local!`.

pub use std::sync::{Arc, OnceLock, PoisonError};

pub use loom::sync::{Condvar, Mutex, MutexGuard};

pub mod atomic {
    pub use loom::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

pub mod cell {
    pub use std::cell::{Cell, RefCell};

    /// A cell with std's face. Each look at it is an access that loom checks: two that nothing orders are a data race.
    #[derive(Debug)]
    pub struct UnsafeCell<T> {
        accesses: loom::cell::UnsafeCell<()>,
        value: std::cell::UnsafeCell<T>,
    }

    impl<T> UnsafeCell<T> {
        pub fn new(value: T) -> UnsafeCell<T> {
            UnsafeCell { accesses: loom::cell::UnsafeCell::new(()), value: std::cell::UnsafeCell::new(value) }
        }

        pub fn get(&self) -> *mut T {
            self.accesses.with_mut(|_| ());
            self.value.get()
        }
    }

    /// A plain cell of one thread's. Loom checks that it is: accesses from two threads that nothing orders are a race.
    pub struct Tracked<T> {
        accesses: loom::cell::UnsafeCell<()>,
        value: Cell<T>,
    }

    impl<T> Tracked<T> {
        pub fn new(value: T) -> Tracked<T> {
            Tracked { accesses: loom::cell::UnsafeCell::new(()), value: Cell::new(value) }
        }

        pub fn set(&self, value: T) {
            drop(self.replace(value));
        }

        pub fn replace(&self, value: T) -> T {
            self.accesses.with_mut(|_| ());
            self.value.replace(value)
        }
    }

    impl<T: Copy> Tracked<T> {
        pub fn get(&self) -> T {
            self.accesses.with(|_| ());
            self.value.get()
        }
    }

    impl<T: Default> Tracked<T> {
        pub fn take(&self) -> T {
            self.replace(T::default())
        }
    }
}

/// The allocator, as loom watches it: what is freed twice or never is an error.
pub mod alloc {
    pub use loom::alloc::{alloc, dealloc};
    pub use std::alloc::{Layout, handle_alloc_error};
}

/// A deque of tasks as `crossbeam-deque`'s, which does not run on loom: its owner at one end, thieves at the other.
/// Whether it is empty is seen as late as the memory model lets it be.
pub mod deque {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use loom::sync::Mutex;
    use loom::sync::atomic::{AtomicUsize, Ordering};

    struct Deque<T> {
        tasks: Mutex<VecDeque<T>>,
        len: AtomicUsize,
    }

    impl<T> Deque<T> {
        fn with<R>(&self, change: impl FnOnce(&mut VecDeque<T>) -> R) -> R {
            let mut tasks = self.tasks.lock().unwrap();
            let answer = change(&mut tasks);
            self.len.store(tasks.len(), Ordering::Relaxed);
            answer
        }

        fn len(&self) -> usize {
            self.len.load(Ordering::Relaxed)
        }
    }

    pub struct Worker<T>(Arc<Deque<T>>);

    impl<T> Worker<T> {
        pub fn new_lifo() -> Worker<T> {
            Worker(Arc::new(Deque { tasks: Mutex::new(VecDeque::new()), len: AtomicUsize::new(0) }))
        }

        pub fn stealer(&self) -> Stealer<T> {
            Stealer(Arc::clone(&self.0))
        }

        pub fn push(&self, task: T) {
            self.0.with(|tasks| tasks.push_back(task));
        }

        pub fn pop(&self) -> Option<T> {
            self.0.with(VecDeque::pop_back)
        }

        pub fn len(&self) -> usize {
            self.0.len()
        }

        pub fn is_empty(&self) -> bool {
            self.len() == 0
        }
    }

    pub struct Stealer<T>(Arc<Deque<T>>);

    impl<T> Stealer<T> {
        pub fn is_empty(&self) -> bool {
            self.0.len() == 0
        }

        pub fn steal_batch_with_limit_and_pop(&self, to: &Worker<T>, limit: usize) -> Steal<T> {
            let stolen: Vec<T> = self.0.with(|tasks| {
                let count = tasks.len().div_ceil(2).min(limit);
                tasks.drain(..count).collect()
            });
            let mut stolen = stolen.into_iter();
            let first = stolen.next();
            stolen.for_each(|task| to.push(task));
            first.map_or(Steal::Empty, Steal::Success)
        }
    }

    pub enum Steal<T> {
        Empty,
        Success(T),
        Retry,
    }
}

/// A static's value. It is made anew by each run of a model, and never dropped, as statics are not.
pub fn for_good<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// A thread-local value per loom thread: those all run on one real thread.
pub struct LocalKey<T: 'static>(pub loom::thread::LocalKey<T>);

impl<T: 'static> LocalKey<T> {
    pub fn with<R>(&'static self, look: impl FnOnce(&T) -> R) -> R {
        self.0.with(look)
    }

    pub fn try_with<R>(&'static self, look: impl FnOnce(&T) -> R) -> Result<R, loom::thread::AccessError> {
        self.0.try_with(look)
    }
}

impl<T: Copy + 'static> LocalKey<cell::Cell<T>> {
    pub fn get(&'static self) -> T {
        self.with(cell::Cell::get)
    }

    pub fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }
}

impl<T: 'static> LocalKey<cell::RefCell<T>> {
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }

    pub fn set(&'static self, value: T) {
        let before = self.with(|cell| cell.replace(value));
        drop(before);
    }
}

macro_rules! thread_local {
    ($(#[$words:meta])* $vis:vis static $name:ident: $type:ty = const $value:block $(;)?) => {
        thread_local!($(#[$words])* $vis static $name: $type = $value);
    };
    ($(#[$words:meta])* $vis:vis static $name:ident: $type:ty = $value:expr $(;)?) => {
        $(#[$words])*
        $vis static $name: crate::sync::LocalKey<$type> = crate::sync::LocalKey(loom::thread::LocalKey {
            init: (|| $value) as fn() -> $type,
            _p: std::marker::PhantomData,
        });
    };
}
