//! A callback with its op, stored inside the slot: nothing is allocated where they fit.
//!
//! The loop keeps callbacks of any type side by side in one slab, so their type is erased here: a few words of inline
//! storage, or a box where they are larger, and two functions that know the type.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, align_of, size_of};

/// Words of inline storage: a receive with a pool buffer and a callback with two captured words fit.
const INLINE_WORDS: usize = 10;

type Storage = MaybeUninit<[usize; INLINE_WORDS]>;

/// What a callback is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// The completion's result.
    pub(crate) res: i32,
    /// More will come.
    pub(crate) more: bool,
    /// Nobody waits any more: see to it that nothing is lost.
    pub(crate) orphan: bool,
    /// It is not a completion: whoever waited is leaving now.
    pub(crate) leaving: bool,
}

/// An erased `FnMut(&mut L, Told)`.
pub(crate) struct Thunk<L: 'static> {
    storage: Storage,
    vtable: &'static VTable<L>,
    /// Callbacks belong to the loop's thread.
    _not_send: PhantomData<*mut ()>,
}

struct VTable<L: 'static> {
    call: unsafe fn(*mut Storage, &mut L, Told),
    drop: unsafe fn(*mut Storage),
}

impl<L: 'static> Thunk<L> {
    /// Erases `callback`.
    #[inline(always)]
    pub(crate) fn new<F: FnMut(&mut L, Told) + 'static>(callback: F) -> Thunk<L> {
        if fits::<F>() { Thunk::inline(callback) } else { Thunk::inline(Box::new(callback)) }
    }

    #[inline(always)]
    fn inline<F: FnMut(&mut L, Told) + 'static>(callback: F) -> Thunk<L> {
        assert!(fits::<F>(), "a callback that does not fit is boxed first");
        let mut storage = Storage::uninit();
        // SAFETY: the storage is large and aligned enough, and nothing else lives in it.
        unsafe { storage.as_mut_ptr().cast::<F>().write(callback) };
        Thunk { storage, vtable: &Erased::<L, F>::VTABLE, _not_send: PhantomData }
    }

    /// Calls the callback. Whether it may be called again is the caller's to know.
    pub(crate) fn call(&mut self, arg: &mut L, told: Told) {
        // SAFETY: the storage holds the type the table was made for, and is borrowed mutably.
        unsafe { (self.vtable.call)(&raw mut self.storage, arg, told) }
    }
}

const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<Storage>() && align_of::<F>() <= align_of::<Storage>()
}

struct Erased<L: 'static, F>(PhantomData<L>, PhantomData<F>);

impl<L: 'static, F: FnMut(&mut L, Told) + 'static> Erased<L, F> {
    const VTABLE: VTable<L> = VTable { call: Self::call, drop: Self::drop };

    /// # Safety
    ///
    /// The storage holds an `F`, and nobody else uses it.
    unsafe fn call(storage: *mut Storage, arg: &mut L, told: Told) {
        // SAFETY: the caller vouches for the type and for exclusive use.
        let callback = unsafe { &mut *storage.cast::<F>() };
        callback(arg, told);
    }

    /// # Safety
    ///
    /// The storage holds an `F` that is not used afterwards.
    unsafe fn drop(storage: *mut Storage) {
        // SAFETY: the caller vouches for the type and gives it up.
        unsafe { storage.cast::<F>().drop_in_place() };
    }
}

impl<L: 'static> Drop for Thunk<L> {
    fn drop(&mut self) {
        // SAFETY: the storage holds the type the table was made for, dropped once, here.
        unsafe { (self.vtable.drop)(&raw mut self.storage) };
    }
}

impl<L: 'static> fmt::Debug for Thunk<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Thunk")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    fn calls_and_drops_once<const WORDS: usize>() {
        let witness = Rc::new(());
        let held = (Rc::clone(&witness), [7usize; WORDS]);
        let mut thunk = Thunk::<Vec<i32>>::new(move |log, told| {
            let (_witness, words) = &held;
            log.push(told.res + words[0] as i32);
        });
        let mut log = Vec::new();
        thunk.call(&mut log, Told { res: 1, more: true, orphan: false, leaving: false });
        thunk.call(&mut log, Told { res: 2, more: false, orphan: false, leaving: false });
        assert_eq!(log, [8, 9]);
        assert_eq!(Rc::strong_count(&witness), 2);
        drop(thunk);
        assert_eq!(Rc::strong_count(&witness), 1);
    }

    #[test]
    fn small_and_large_callbacks_are_called_and_dropped_once() {
        calls_and_drops_once::<1>();
        calls_and_drops_once::<9>();
        calls_and_drops_once::<10>();
        calls_and_drops_once::<400>();
    }
}
