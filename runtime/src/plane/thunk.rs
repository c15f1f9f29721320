//! A callback with its op, stored inside the slot: nothing is allocated where they fit.
//!
//! The loop keeps callbacks of any type side by side in one slab, so their type is erased here: a few words of inline
//! storage, or a box where they are larger, and the functions that know the type. A callback is written to where it
//! will stay, and its last word takes it out of there by value, so on the usual way nothing is copied in between.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, align_of, size_of};

/// Words of inline storage: a receive or a send with a pool buffer and a callback with two captured words fit.
const INLINE_WORDS: usize = 10;

type Storage = MaybeUninit<[usize; INLINE_WORDS]>;

/// Somebody who is told what became of an op. `L` is the loop.
pub(crate) trait Listener<L>: 'static {
    /// One completion of more to come. `orphan`: nobody waits any more, so see to it that nothing is lost.
    fn more(&mut self, event_loop: &mut L, res: i32, orphan: bool);

    /// The last completion.
    fn last(self, event_loop: &mut L, res: i32, orphan: bool);

    /// Whoever waited is leaving now, before the last completion.
    fn leaving(&mut self) {}
}

/// An erased [`Listener`].
pub(crate) struct Thunk<L: 'static> {
    storage: Storage,
    vtable: &'static VTable<L>,
    /// Callbacks belong to the loop's thread.
    _not_send: PhantomData<*mut ()>,
}

struct VTable<L: 'static> {
    more: unsafe fn(*mut Storage, &mut L, i32, bool),
    last: unsafe fn(*mut Storage, &mut L, i32, bool),
    leaving: unsafe fn(*mut Storage),
    drop: unsafe fn(*mut Storage),
}

impl<L: 'static> Thunk<L> {
    /// Erases `listener` into `place`, whose former content is forgotten.
    ///
    /// # Safety
    ///
    /// `place` is valid for writing a thunk.
    #[inline(always)]
    pub(crate) unsafe fn write<F: Listener<L>>(place: *mut Thunk<L>, listener: F) {
        // SAFETY: the caller vouches for the place, and the type that is stored is the one that fits.
        unsafe {
            if fits::<F>() {
                Thunk::write_inline(place, listener);
            } else {
                Thunk::write_inline(place, Boxed(Box::new(listener)));
            }
        }
    }

    /// # Safety
    ///
    /// `place` is valid for writing a thunk.
    #[inline(always)]
    unsafe fn write_inline<F: Listener<L>>(place: *mut Thunk<L>, listener: F) {
        assert!(fits::<F>(), "a listener that does not fit is boxed first");
        // SAFETY: the caller vouches for the place; its storage is large and aligned enough.
        unsafe {
            (&raw mut (*place).storage).cast::<F>().write(listener);
            (&raw mut (*place).vtable).write(&Erased::<L, F>::VTABLE);
        }
    }

    /// Tells it a completion of more to come.
    pub(crate) fn more(&mut self, event_loop: &mut L, res: i32, orphan: bool) {
        // SAFETY: the storage holds the type the table was made for, and is borrowed mutably.
        unsafe { (self.vtable.more)(&raw mut self.storage, event_loop, res, orphan) }
    }

    /// Tells it that whoever waited is leaving.
    pub(crate) fn leaving(&mut self) {
        // SAFETY: as in `more`.
        unsafe { (self.vtable.leaving)(&raw mut self.storage) }
    }

    /// Tells it the last completion. It has left `place` before it is called, so `event_loop` may be what owns that.
    ///
    /// # Safety
    ///
    /// `place` holds a thunk that is not used afterwards.
    #[inline]
    pub(crate) unsafe fn last(place: *mut Thunk<L>, event_loop: &mut L, res: i32, orphan: bool) {
        // SAFETY: the caller vouches for the thunk and gives it up.
        unsafe { ((*place).vtable.last)(&raw mut (*place).storage, event_loop, res, orphan) }
    }
}

/// A listener too large for the storage.
struct Boxed<F>(Box<F>);

impl<L, F: Listener<L>> Listener<L> for Boxed<F> {
    fn more(&mut self, event_loop: &mut L, res: i32, orphan: bool) {
        self.0.more(event_loop, res, orphan);
    }

    fn last(self, event_loop: &mut L, res: i32, orphan: bool) {
        (*self.0).last(event_loop, res, orphan);
    }

    fn leaving(&mut self) {
        self.0.leaving();
    }
}

const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<Storage>() && align_of::<F>() <= align_of::<Storage>()
}

struct Erased<L: 'static, F>(PhantomData<L>, PhantomData<F>);

impl<L: 'static, F: Listener<L>> Erased<L, F> {
    const VTABLE: VTable<L> = VTable { more: Self::more, last: Self::last, leaving: Self::leaving, drop: Self::drop };

    /// # Safety
    ///
    /// The storage holds an `F`, and nobody else uses it.
    unsafe fn more(storage: *mut Storage, event_loop: &mut L, res: i32, orphan: bool) {
        // SAFETY: the caller vouches for the type and for exclusive use.
        unsafe { &mut *storage.cast::<F>() }.more(event_loop, res, orphan);
    }

    /// # Safety
    ///
    /// The storage holds an `F` that is not used afterwards.
    unsafe fn last(storage: *mut Storage, event_loop: &mut L, res: i32, orphan: bool) {
        // SAFETY: the caller vouches for the type and gives it up.
        unsafe { storage.cast::<F>().read() }.last(event_loop, res, orphan);
    }

    /// # Safety
    ///
    /// The storage holds an `F`, and nobody else uses it.
    unsafe fn leaving(storage: *mut Storage) {
        // SAFETY: the caller vouches for the type and for exclusive use.
        unsafe { &mut *storage.cast::<F>() }.leaving();
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

    use crate::plane::buf::Buf;
    use crate::plane::ops::{Recv, Send};

    /// Logs what it is told.
    struct Log<const WORDS: usize> {
        held: [usize; WORDS],
        _witness: Rc<()>,
    }

    impl<const WORDS: usize> Listener<Vec<i32>> for Log<WORDS> {
        fn more(&mut self, log: &mut Vec<i32>, res: i32, _orphan: bool) {
            log.push(res + self.held[0] as i32);
            self.held[0] += 1;
        }

        fn last(self, log: &mut Vec<i32>, res: i32, orphan: bool) {
            log.push(res + self.held[0] as i32 + i32::from(orphan));
        }
    }

    fn thunk<const WORDS: usize>(witness: &Rc<()>) -> Thunk<Vec<i32>> {
        let mut place = MaybeUninit::uninit();
        let log = Log { held: [7; WORDS], _witness: Rc::clone(witness) };
        // SAFETY: the place is ours, and is initialised by the write.
        unsafe {
            Thunk::write(place.as_mut_ptr(), log);
            place.assume_init()
        }
    }

    fn tells_and_drops_once<const WORDS: usize>() {
        let witness = Rc::new(());
        let mut log = Vec::new();

        let mut told = std::mem::ManuallyDrop::new(thunk::<WORDS>(&witness));
        told.more(&mut log, 1, false);
        told.more(&mut log, 2, false);
        assert_eq!(Rc::strong_count(&witness), 2);
        // SAFETY: it is not used, nor dropped, afterwards.
        unsafe { Thunk::last(&raw mut *told, &mut log, 3, true) };
        assert_eq!((log, Rc::strong_count(&witness)), (vec![8, 10, 13], 1));

        let dropped = thunk::<WORDS>(&witness);
        assert_eq!(Rc::strong_count(&witness), 2);
        drop(dropped);
        assert_eq!(Rc::strong_count(&witness), 1);
    }

    #[test]
    fn small_and_large_listeners_are_told_and_dropped_once() {
        tells_and_drops_once::<1>();
        tells_and_drops_once::<{ INLINE_WORDS - 1 }>();
        tells_and_drops_once::<INLINE_WORDS>();
        tells_and_drops_once::<400>();
    }

    #[test]
    fn a_receive_and_a_send_with_two_captured_words_fit() {
        assert!(fits::<(Recv<Buf>, [usize; 2])>());
        assert!(fits::<(Send<Buf>, [usize; 2])>());
    }
}
