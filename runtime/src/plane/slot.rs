//! The slots that stand for ops in flight.
//!
//! A slot is taken at submission and goes free with the terminal completion, never earlier: not at a cancel, not
//! when its reader has gone, not at the end of the program. A fiber's slot keeps the result until the fiber fetches
//! it; a callback's slot is free before its last call. Its generation moves on each time it goes free, so a token
//! that outlived its op resolves to nothing.

use std::task::Waker;

use crate::error::OpKind;
use crate::plane::thunk::Thunk;
use crate::plane::token::{Class, Token};

/// Who is told.
#[derive(Debug)]
pub(crate) enum Target<L: 'static> {
    /// A fiber: it is woken, and fetches the result.
    Wake(Option<Waker>),
    /// A callback, an orphan's among them.
    Call(Thunk<L>),
    /// A callback that is being called right now.
    Calling,
    /// Nobody.
    Nobody,
}

/// Where an op is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing here.
    Free,
    /// With the kernel.
    Armed,
    /// With the kernel, which was asked to end it.
    CancelRequested,
    /// Ended; the result waits for its fiber.
    Ended,
}

#[derive(Debug)]
pub(crate) struct Slot<L: 'static> {
    pub(crate) generation: u32,
    pub(crate) state: State,
    pub(crate) kind: OpKind,
    /// Nobody waits any more.
    pub(crate) orphan: bool,
    pub(crate) res: i32,
    pub(crate) target: Target<L>,
}

/// The slots of one loop.
#[derive(Debug)]
pub(crate) struct Slab<L: 'static> {
    slots: Vec<Slot<L>>,
    free: Vec<u32>,
    /// The most slots, or none for as many as memory holds.
    limit: Option<usize>,
}

impl<L: 'static> Slab<L> {
    pub(crate) fn new(reserved: usize, limit: Option<usize>) -> Slab<L> {
        Slab { slots: Vec::with_capacity(reserved), free: Vec::new(), limit }
    }

    /// Takes a free slot; none when the limit is reached.
    #[inline]
    pub(crate) fn take(&mut self, kind: OpKind, target: Target<L>) -> Option<Token> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.limit.is_some_and(|limit| self.slots.len() >= limit) => return None,
            None => {
                let index = u32::try_from(self.slots.len()).ok()?;
                self.slots.push(Slot {
                    generation: 1,
                    state: State::Free,
                    kind,
                    orphan: false,
                    res: 0,
                    target: Target::Nobody,
                });
                index
            }
        };
        let slot = &mut self.slots[index as usize];
        debug_assert_eq!(slot.state, State::Free, "a slot on the free list is free");
        slot.state = State::Armed;
        slot.kind = kind;
        slot.res = 0;
        slot.orphan = false;
        slot.target = target;
        Some(Token::new(Class::User, slot.generation, index))
    }

    /// The slot a token names, while the token is not stale.
    #[inline]
    pub(crate) fn get(&mut self, token: Token) -> Option<&mut Slot<L>> {
        let slot = self.slots.get_mut(token.index() as usize)?;
        let live = token.class() == Some(Class::User) && slot.generation == token.generation();
        if live && slot.state != State::Free { Some(slot) } else { None }
    }

    /// Gives a slot back; its target comes out.
    #[inline]
    pub(crate) fn release(&mut self, token: Token) -> Target<L> {
        let slot = &mut self.slots[token.index() as usize];
        debug_assert_eq!(slot.generation, token.generation(), "only a live slot goes free");
        debug_assert_ne!(slot.state, State::Free, "a slot goes free once");
        slot.state = State::Free;
        slot.generation = (slot.generation + 1) & ((1 << Token::GENERATION_BITS) - 1);
        self.free.push(token.index());
        std::mem::replace(&mut slot.target, Target::Nobody)
    }

    /// The tokens and kinds of every op still with the kernel.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = (Token, OpKind)> + '_ {
        let with_kernel = |slot: &Slot<L>| matches!(slot.state, State::Armed | State::CancelRequested);
        let all = self.slots.iter().enumerate().filter(move |(_, slot)| with_kernel(slot));
        all.map(|(index, slot)| (Token::new(Class::User, slot.generation, index as u32), slot.kind))
    }
}
