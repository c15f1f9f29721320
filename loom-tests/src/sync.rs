//! What the runtime's files find in the place of `std::sync`, `std::cell` and `thread_local!`.

pub use std::sync::{Arc, OnceLock, PoisonError};

pub use loom::sync::{Mutex, MutexGuard};

pub mod atomic {
    pub use loom::sync::atomic::{
        AtomicBool, AtomicI32, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
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

impl<T: 'static> LocalKey<cell::RefCell<T>> {
    pub fn set(&'static self, value: T) {
        let before = self.with(|cell| cell.replace(value));
        drop(before);
    }
}

macro_rules! thread_local {
    ($vis:vis static $name:ident: $type:ty = const $value:block $(;)?) => {
        thread_local!($vis static $name: $type = $value);
    };
    ($vis:vis static $name:ident: $type:ty = $value:expr $(;)?) => {
        $vis static $name: crate::sync::LocalKey<$type> = crate::sync::LocalKey(loom::thread::LocalKey {
            init: (|| $value) as fn() -> $type,
            _p: std::marker::PhantomData,
        });
    };
}
