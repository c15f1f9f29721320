//! Run an op in a turn of a cursor.
//!
//! The op owns the turn until its last word: when its waiter has gone, the next verb on the handle waits for that word
//! too, and stands where the op really ended.

use std::task::Waker;

use crate::plane::backend::Backend;
use crate::plane::cursor::Turn;
use crate::plane::fd::Fd;
use crate::plane::op::RawOp;
use crate::plane::ops::{Before, Kernel, Op};

/// Runs an op in a turn. Answers the op's output, and the turn; where the op ended is the caller's to note.
#[derive(Debug)]
pub struct InTurn<O> {
    op: O,
    turn: Turn,
    orphan_moves: bool,
}

impl<O: Op> InTurn<O> {
    /// An op that leaves the cursor alone when its waiter has gone: what a forgotten read brought is read again.
    pub fn new(op: O, turn: Turn) -> InTurn<O> {
        InTurn { op, turn, orphan_moves: false }
    }

    /// An op that moves the cursor by its count even then: what a forgotten write still wrote is not written over.
    pub fn moving(op: O, turn: Turn) -> InTurn<O> {
        InTurn { op, turn, orphan_moves: true }
    }
}

// SAFETY: the op's own promise, kept by passing everything on; the turn is pointed at by nobody.
unsafe impl<O: Op> Op for InTurn<O> {
    type Output = (O::Output, Turn);

    fn fd(&self) -> Option<&Fd> {
        self.op.fd()
    }

    fn lower(&mut self) -> RawOp {
        self.op.lower()
    }

    fn finish(self, res: i32, kernel: &mut dyn Kernel) -> (O::Output, Turn) {
        (self.op.finish(res, kernel), self.turn)
    }

    fn before(&mut self, waker: &Waker) -> Before {
        self.op.before(waker)
    }

    fn attempt<B: Backend>(&mut self, backend: &mut B) -> Option<i32> {
        self.op.attempt(backend)
    }

    fn abandoned(&mut self) {
        self.op.abandoned();
    }

    fn orphaned(mut self, res: i32, kernel: &mut dyn Kernel) {
        if self.orphan_moves {
            self.turn.advance(usize::try_from(res).unwrap_or(0));
        }
        // The turn goes last: whoever is woken by it finds what the op left behind.
        self.op.orphaned(res, kernel);
    }
}
