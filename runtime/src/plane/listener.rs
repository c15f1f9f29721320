//! Those a loop tells: the callbacks of tier A with their ops, and the ops whose fibers have gone.
//!
//! Each is moved into its slot and stays there until the op's last completion, which takes it out again. An op nobody
//! waits for any more still hears its result, so that nothing it brought is lost.

use crate::error::IoResult;
use crate::plane::EventLoop;
use crate::plane::backend::Backend;
use crate::plane::fd::Fd;
use crate::plane::ops::{AcceptMany, Op};
use crate::plane::thunk::Listener;

/// An op at tier A: its callback gets the answer.
pub(crate) struct Answer<O, C> {
    pub(crate) op: O,
    pub(crate) callback: C,
}

impl<B, O, C> Listener<EventLoop<B>> for Answer<O, C>
where
    B: Backend,
    O: Op,
    C: FnOnce(&mut EventLoop<B>, O::Output) + 'static,
{
    fn more(&mut self, _event_loop: &mut EventLoop<B>, _res: i32, _orphan: bool) {
        debug_assert!(false, "an op with one answer has one completion");
    }

    #[inline]
    fn last(self, event_loop: &mut EventLoop<B>, res: i32, orphan: bool) {
        let Answer { op, callback } = self;
        if orphan {
            drop(callback);
            op.orphaned(res, event_loop.backend());
        } else {
            let output = op.finish(res, event_loop.backend());
            callback(event_loop, output);
        }
    }

    fn leaving(&mut self) {
        self.op.abandoned();
    }
}

/// An accept of many: its callback gets each connection, and whether more will come.
pub(crate) struct Accepted<C> {
    pub(crate) op: AcceptMany,
    pub(crate) callback: C,
}

impl<B, C> Listener<EventLoop<B>> for Accepted<C>
where
    B: Backend,
    C: FnMut(&mut EventLoop<B>, IoResult<Fd>, bool) + 'static,
{
    fn more(&mut self, event_loop: &mut EventLoop<B>, res: i32, orphan: bool) {
        let accepted = self.op.accepted(res, event_loop.backend());
        if !orphan {
            (self.callback)(event_loop, accepted, true);
        }
    }

    fn last(mut self, event_loop: &mut EventLoop<B>, res: i32, orphan: bool) {
        let accepted = self.op.accepted(res, event_loop.backend());
        if !orphan {
            (self.callback)(event_loop, accepted, false);
        }
    }
}

/// An op whose fiber has gone.
pub(crate) struct Orphan<O> {
    pub(crate) op: O,
}

impl<B: Backend, O: Op> Listener<EventLoop<B>> for Orphan<O> {
    fn more(&mut self, _event_loop: &mut EventLoop<B>, _res: i32, _orphan: bool) {
        debug_assert!(false, "an op with one answer has one completion");
    }

    fn last(self, event_loop: &mut EventLoop<B>, res: i32, _orphan: bool) {
        self.op.orphaned(res, event_loop.backend());
    }
}

/// A timer at tier A.
pub(crate) struct Alarm<C> {
    pub(crate) callback: C,
}

impl<B: Backend, C: FnOnce(&mut EventLoop<B>) + 'static> Listener<EventLoop<B>> for Alarm<C> {
    fn more(&mut self, _event_loop: &mut EventLoop<B>, _res: i32, _orphan: bool) {
        debug_assert!(false, "a timer fires once");
    }

    fn last(self, event_loop: &mut EventLoop<B>, _res: i32, _orphan: bool) {
        (self.callback)(event_loop);
    }
}
