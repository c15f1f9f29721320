//! The slots that stand for ops in flight.
//!
//! A slot is taken at submission and goes free with the terminal completion, never earlier: not at a cancel, not
//! when its reader has gone, not at the end of the program. A fiber's slot keeps the result until the fiber fetches
//! it; a callback's slot is free before its last call. Its generation moves on each time it goes free, so a token
//! that outlived its op resolves to nothing.
//!
//! A slot holds the token of its life, so that looking a token up is one comparison. Who is told is a tag and a union
//! rather than an enum, because it is written where it stays and called where it lies: every op of every connection
//! passes here.

use std::fmt;
use std::mem::ManuallyDrop;
use std::task::Waker;

use crate::error::OpKind;
use crate::plane::thunk::{Listener, Thunk};
use crate::plane::token::{Class, Token};

/// Where an op is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// With the kernel.
    Armed,
    /// With the kernel, which was asked to end it.
    CancelRequested,
    /// Ended; the result waits for its fiber.
    Ended,
}

/// Who is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Nobody: the slot is free, or about to be filled.
    Nobody,
    /// A fiber: it is woken, and fetches the result.
    Fiber,
    /// A callback, an orphan's among them.
    Callback,
    /// A callback that is being called right now, away from its slot.
    Calling,
}

/// Initialised as [`Who`] says.
union Target<L: 'static> {
    nobody: (),
    /// None once it was woken.
    fiber: ManuallyDrop<Option<Waker>>,
    callback: ManuallyDrop<Thunk<L>>,
}

pub(crate) struct Slot<L: 'static> {
    /// The token of this life. While the slot is free, that of its next life with every bit of the index turned, so
    /// that no word resolves to it.
    word: u64,
    /// The result, for a fiber. In a free slot, the next free one.
    pub(crate) res: i32,
    who: Who,
    pub(crate) state: State,
    pub(crate) kind: OpKind,
    /// Nobody waits any more.
    pub(crate) orphan: bool,
    target: Target<L>,
}

impl<L: 'static> Slot<L> {
    pub(crate) fn who(&self) -> Who {
        self.who
    }

    /// A fiber is told.
    #[inline]
    pub(crate) fn tell_fiber(&mut self, waker: Waker) {
        debug_assert_eq!(self.who, Who::Nobody, "who was told before is let go first");
        self.target.fiber = ManuallyDrop::new(Some(waker));
        self.who = Who::Fiber;
    }

    /// A callback is told.
    #[inline(always)]
    pub(crate) fn tell(&mut self, listener: impl Listener<L>) {
        debug_assert_eq!(self.who, Who::Nobody, "who was told before is let go first");
        // SAFETY: the union's field is a valid place for a thunk.
        unsafe { Thunk::write((&raw mut self.target.callback).cast(), listener) };
        self.who = Who::Callback;
    }

    /// The fiber that is told; none when it is none.
    #[inline]
    pub(crate) fn fiber(&mut self) -> Option<&mut Option<Waker>> {
        // SAFETY: the tag says that this field is initialised.
        (self.who == Who::Fiber).then(|| unsafe { &mut *self.target.fiber })
    }

    /// The callback that is told; none when it is none, or away.
    pub(crate) fn callback(&mut self) -> Option<&mut Thunk<L>> {
        // SAFETY: the tag says that this field is initialised.
        (self.who == Who::Callback).then(|| unsafe { &mut *self.target.callback })
    }

    /// Takes the callback out, to be called; the slot remembers that it is.
    pub(crate) fn lift(&mut self) -> Option<Thunk<L>> {
        (self.who == Who::Callback).then(|| {
            self.who = Who::Calling;
            // SAFETY: the tag said that this field was initialised, and no longer does.
            unsafe { ManuallyDrop::take(&mut self.target.callback) }
        })
    }

    /// Puts a callback back.
    pub(crate) fn put_back(&mut self, thunk: Thunk<L>) {
        debug_assert_eq!(self.who, Who::Calling, "only what was taken out goes back");
        self.target.callback = ManuallyDrop::new(thunk);
        self.who = Who::Callback;
    }

    /// Lets go of whoever is told.
    pub(crate) fn let_go(&mut self) {
        let who = std::mem::replace(&mut self.who, Who::Nobody);
        // SAFETY: the tag said which field was initialised, and no longer does.
        unsafe {
            match who {
                Who::Fiber => ManuallyDrop::drop(&mut self.target.fiber),
                Who::Callback => ManuallyDrop::drop(&mut self.target.callback),
                Who::Nobody | Who::Calling => {}
            }
        }
    }
}

impl<L: 'static> Drop for Slot<L> {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl<L: 'static> fmt::Debug for Slot<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("token", &Token::from_raw(self.word))
            .field("state", &self.state)
            .field("kind", &self.kind)
            .field("who", &self.who)
            .finish_non_exhaustive()
    }
}

/// No slot.
const NONE: u32 = u32::MAX;

/// The bits of a token that are its index.
const INDEX_BITS: u64 = u32::MAX as u64;

/// The slots of one loop.
#[derive(Debug)]
pub(crate) struct Slab<L: 'static> {
    slots: Vec<Slot<L>>,
    /// The free slot that is taken next.
    free: u32,
    /// The most slots.
    limit: usize,
}

impl<L: 'static> Slab<L> {
    /// No slots yet, but room for `reserved`; `limit` is the most, or none for as many as memory holds.
    pub(crate) fn new(reserved: usize, limit: Option<usize>) -> Slab<L> {
        let limit = limit.unwrap_or(usize::MAX).min(NONE as usize);
        Slab { slots: Vec::with_capacity(reserved), free: NONE, limit }
    }

    /// Takes a free slot, with nobody to tell yet; none when the limit is reached.
    #[inline(always)]
    pub(crate) fn take(&mut self, kind: OpKind) -> Option<(Token, &mut Slot<L>)> {
        if self.free == NONE && !self.grow() {
            return None;
        }
        let slot = &mut self.slots[self.free as usize];
        slot.word ^= INDEX_BITS;
        debug_assert_eq!(Token::from_raw(slot.word).index(), self.free, "a slot on the free list is free");
        self.free = slot.res as u32;
        slot.state = State::Armed;
        slot.kind = kind;
        slot.orphan = false;
        Some((Token::from_raw(slot.word), slot))
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> bool {
        let index = self.slots.len();
        if index >= self.limit {
            return false;
        }
        self.free = index as u32;
        self.slots.push(Slot {
            word: Token::new(Class::User, 1, self.free).raw() ^ INDEX_BITS,
            res: NONE as i32,
            who: Who::Nobody,
            state: State::Ended,
            kind: OpKind::None,
            orphan: false,
            target: Target { nobody: () },
        });
        true
    }

    /// The slot a token names, while the token is not stale.
    #[inline(always)]
    pub(crate) fn get(&mut self, token: Token) -> Option<&mut Slot<L>> {
        self.slots.get_mut(token.index() as usize).filter(|slot| slot.word == token.raw())
    }

    /// The token of the life a slot is in.
    pub(crate) fn token(&self, index: u32) -> Token {
        Token::from_raw(self.slots[index as usize].word)
    }

    /// Gives a slot back; whoever was told is let go.
    #[inline]
    pub(crate) fn release(&mut self, token: Token) {
        let slot = self.vacate(token);
        slot.let_go();
    }

    /// Gives the slot of a callback back and answers the callback where it lies. It is the caller's from now on, until
    /// a slot is taken or the slots are dropped.
    #[inline]
    pub(crate) fn release_to_call(&mut self, token: Token) -> *mut Thunk<L> {
        let slot = self.vacate(token);
        debug_assert_eq!(slot.who, Who::Callback, "only a callback is called");
        slot.who = Who::Nobody;
        (&raw mut slot.target.callback).cast()
    }

    /// Puts a slot on the free list.
    #[inline(always)]
    fn vacate(&mut self, token: Token) -> &mut Slot<L> {
        let slot = &mut self.slots[token.index() as usize];
        debug_assert_eq!(slot.word, token.raw(), "a slot goes free once, and only in its life");
        slot.word = Token::new(Class::User, token.generation() + 1, token.index()).raw() ^ INDEX_BITS;
        slot.res = self.free as i32;
        self.free = token.index();
        slot
    }

    /// The tokens and kinds of every op still with the kernel.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = (Token, OpKind)> + '_ {
        let all = (0..).zip(&self.slots).map(|(index, slot)| (index, Token::from_raw(slot.word), slot));
        all.filter(|(index, token, slot)| token.index() == *index && slot.state != State::Ended)
            .map(|(_, token, slot)| (token, slot.kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    /// A loop of slots alone.
    struct Slots {
        slab: Slab<Slots>,
        log: Vec<i32>,
    }

    impl Slots {
        fn new(limit: Option<usize>) -> Slots {
            Slots { slab: Slab::new(0, limit), log: Vec::new() }
        }

        fn end(&mut self, token: Token, res: i32) {
            let call = self.slab.release_to_call(token);
            // SAFETY: it was just released.
            unsafe { Thunk::last(call, self, res, false) };
        }
    }

    /// Logs its last word, and takes more slots than there were.
    struct Takes(Rc<()>, i32);

    impl Listener<Slots> for Takes {
        fn more(&mut self, slots: &mut Slots, res: i32, _orphan: bool) {
            slots.log.push(res + self.1);
        }

        fn last(self, slots: &mut Slots, res: i32, _orphan: bool) {
            for _ in 0..100 {
                let (_, slot) = slots.slab.take(OpKind::Nop).unwrap();
                slot.tell(Takes(Rc::clone(&self.0), 0));
            }
            slots.log.push(res + self.1);
        }
    }

    #[test]
    fn a_callback_may_take_slots_while_it_is_called() {
        let witness = Rc::new(());
        let mut slots = Slots::new(None);
        let (token, slot) = slots.slab.take(OpKind::Nop).unwrap();
        slot.tell(Takes(Rc::clone(&witness), 7));
        slots.end(token, 1);
        assert_eq!((slots.log.as_slice(), Rc::strong_count(&witness)), ([8].as_slice(), 101));
        assert_eq!(slots.slab.in_flight().count(), 100);
        drop(slots);
        assert_eq!(Rc::strong_count(&witness), 1);
    }

    #[test]
    fn a_callback_that_is_away_goes_back_or_is_gone() {
        let witness = Rc::new(());
        let mut slots = Slots::new(None);
        let (token, slot) = slots.slab.take(OpKind::Nop).unwrap();
        slot.tell(Takes(Rc::clone(&witness), 7));
        let mut thunk = slot.lift().unwrap();
        assert!(slot.lift().is_none() && slot.callback().is_none());
        thunk.more(&mut slots, 1, false);
        slots.slab.get(token).unwrap().put_back(thunk);
        assert_eq!((slots.log.as_slice(), Rc::strong_count(&witness)), ([8].as_slice(), 2));
        drop(slots.slab.get(token).unwrap().lift());
        slots.slab.release(token);
        assert_eq!(Rc::strong_count(&witness), 1);
    }

    #[test]
    fn a_token_ends_with_its_life_and_nothing_resolves_to_a_free_slot() {
        let mut slots = Slots::new(Some(2));
        let (first, _) = slots.slab.take(OpKind::Nop).unwrap();
        let (second, slot) = slots.slab.take(OpKind::Recv).unwrap();
        slot.tell_fiber(Waker::noop().clone());
        assert!(slots.slab.take(OpKind::Nop).is_none(), "the limit is two");
        assert!(slots.slab.get(second).unwrap().fiber().is_some());

        slots.slab.release(second);
        assert!(slots.slab.get(second).is_none());
        let next = Token::new(Class::User, second.generation() + 1, second.index());
        assert!(slots.slab.get(next).is_none(), "its next life has not begun");
        for word in [0, second.index().into(), u64::MAX] {
            assert!(slots.slab.get(Token::from_raw(word)).is_none());
        }
        assert_eq!(slots.slab.take(OpKind::Nop).unwrap().0, next);
        assert!(slots.slab.get(first).is_some());
    }

    #[test]
    fn generations_begin_anew() {
        let mut slots = Slots::new(Some(1));
        let (first, _) = slots.slab.take(OpKind::Nop).unwrap();
        slots.slab.release(first);
        slots.slab.slots[0].word = Token::new(Class::User, u32::MAX, 0).raw() ^ INDEX_BITS;
        let (last, _) = slots.slab.take(OpKind::Nop).unwrap();
        slots.slab.release(last);
        let (anew, _) = slots.slab.take(OpKind::Nop).unwrap();
        assert_eq!((last.generation(), anew.generation()), ((1 << Token::GENERATION_BITS) - 1, 0));
    }
}
