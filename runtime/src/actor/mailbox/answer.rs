//! The place for one answer: an asker waits at it, an answerer leaves the answer there, and the loop of the actor that
//! was asked may say that there will be none.
//!
//! One word says who may touch what. The asker holds what it brings, its waker and its wait, from the beginning until
//! it has put them there, and again while it changes the waker. It lets go, and finds the place ended; or whoever ends
//! it finds that nobody holds these, and takes the waker. So the waker is called, or the asker looks again by itself.
//!
//! The place ends once: answered, failed, or left by its asker, by one exchange that the first of them wins. An answer
//! is put there before, by the only one who may; the asker reads it after, or the answerer takes it back.

use std::cell::UnsafeCell;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::actor::error::AskError;
use crate::actor::waits::Wait;
use crate::plane::time::Instant;

/// The asker holds its waker and its wait.
const HELD: u32 = 1;
/// Its wait is there, and stays as it is.
const HAS_WAIT: u32 = 2;
/// An answer is there.
const ANSWERED: u32 = 4;
/// There is none and never will be; the reason's number is above.
const FAILED: u32 = 8;
/// The asker has gone.
const LEFT: u32 = 16;
/// It has gone because its time ran out.
const EXPIRED: u32 = 32;
const ENDED: u32 = ANSWERED | FAILED | LEFT;

/// Where a reason's number begins.
const REASON_SHIFT: u32 = 8;
/// The reasons by their numbers.
const REASONS: [AskError; 8] = [
    AskError::Closed,
    AskError::Stopped,
    AskError::Panicked,
    AskError::Failed,
    AskError::NoReply,
    AskError::Deadline,
    AskError::Deadlock,
    AskError::Cancelled,
];

/// The place; see the module's text.
pub(crate) struct Answer<T> {
    state: AtomicU32,
    answer: UnsafeCell<Option<T>>,
    waker: UnsafeCell<Option<Waker>>,
    wait: UnsafeCell<Option<Wait>>,
    /// None where the asker's time has no end.
    handler: Option<Box<Handler>>,
}

/// Who answers in time.
struct Handler {
    /// When the asker's time runs out.
    deadline: Instant,
    /// Who is woken then.
    waker: Mutex<Option<Waker>>,
}

// SAFETY: the cells are touched by one thread at a time, or only read, as the word says; see the module's text. What
// they hold goes from one thread to another, so `T: Send` suffices.
unsafe impl<T: Send> Sync for Answer<T> {}

/// A place for an answer, and the two ends of it. `deadline`: when the asker's time runs out.
pub(crate) fn answer<T>(deadline: Option<Instant>) -> (Asker<T>, Answerer<T>) {
    let place = Arc::new(Answer {
        state: AtomicU32::new(HELD),
        answer: UnsafeCell::new(None),
        waker: UnsafeCell::new(None),
        wait: UnsafeCell::new(None),
        handler: deadline.map(|deadline| Box::new(Handler { deadline, waker: Mutex::new(None) })),
    });
    (Asker { place: Arc::clone(&place), registered: Parts::NONE }, Answerer { place })
}

impl<T> Answer<T> {
    /// Ends the place; answers what the word said before. An error when it had ended: what it says.
    #[inline]
    fn end(&self, how: u32) -> Result<u32, u32> {
        self.state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| (state & ENDED == 0).then_some(state | how))
    }

    /// After the end, tells the asker; `before` is what the word said then.
    #[inline]
    fn tell(&self, before: u32) {
        if before & HELD != 0 {
            // The asker looks again when it lets go.
            return;
        }
        self.end_wait(before);
        // SAFETY: nobody held it when the place ended, so the asker leaves it alone; and the place ends once.
        if let Some(waker) = unsafe { (*self.waker.get()).take() } {
            waker.wake();
        }
    }

    /// The asker no longer waits for anybody. To say so again does nothing.
    #[inline]
    fn end_wait(&self, state: u32) {
        if state & HAS_WAIT != 0
            // SAFETY: it was put there before the word said so, and is only read since.
            && let Some(wait) = unsafe { *self.wait.get() }
        {
            wait.end();
        }
    }

    /// Whether the asker's time ran out.
    #[inline]
    pub(crate) fn is_expired(&self) -> bool {
        self.state.load(Ordering::Acquire) & EXPIRED != 0
    }

    /// When the asker's time runs out.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.handler.as_ref().map(|handler| handler.deadline)
    }

    /// The handler waits: `waker` is called when the asker's time runs out.
    pub(crate) fn handler_waits(&self, waker: &Waker) {
        let Some(mut handler) = self.handler() else { return };
        if self.is_expired() {
            drop(handler);
            waker.wake_by_ref();
        } else if !handler.as_ref().is_some_and(|handler| handler.will_wake(waker)) {
            *handler = Some(waker.clone());
        }
    }

    fn handler(&self) -> Option<MutexGuard<'_, Option<Waker>>> {
        self.handler.as_ref().map(|handler| handler.waker.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The handler has returned: if there is no answer yet, it comes from somewhere else.
    #[inline]
    pub(crate) fn handled(&self) {
        self.end_wait(self.state.load(Ordering::Acquire));
    }

    /// There will be no answer, for this reason, unless the place has ended.
    pub(crate) fn fail(&self, reason: AskError) {
        if let Ok(before) = self.end(FAILED | (reason as u32) << REASON_SHIFT) {
            self.tell(before);
        }
    }
}

/// The end that waits. Whoever drops it says [`leave`](Asker::leave) before.
pub(crate) struct Asker<T> {
    place: Arc<Answer<T>>,
    /// What the waker in the place is, to tell it from another.
    registered: Parts,
}

/// What a waker is made of. Two with the same parts wake the same, as long as one of them lives.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Parts {
    data: usize,
    vtable: usize,
}

impl Parts {
    /// Those of no waker: a table of functions lies somewhere.
    const NONE: Parts = Parts { data: 0, vtable: 0 };

    #[inline]
    fn of(waker: &Waker) -> Parts {
        Parts { data: waker.data().addr(), vtable: ptr::from_ref(waker.vtable()).addr() }
    }
}

impl<T> Asker<T> {
    /// The place as the loop of the actor sees it.
    pub(crate) fn place(&self) -> &Arc<Answer<T>> {
        &self.place
    }

    /// Before the request is on its way, once: what will be told of the end.
    #[inline]
    pub(crate) fn begin(&mut self, waker: &Waker, wait: Option<Wait>) {
        debug_assert!(self.registered == Parts::NONE, "an asker begins once");
        self.registered = Parts::of(waker);
        // SAFETY: the asker holds both from the beginning.
        unsafe {
            *self.place.waker.get() = Some(waker.clone());
            *self.place.wait.get() = wait;
        }
        let has_wait = if wait.is_some() { HAS_WAIT } else { 0 };
        let before = self.place.state.fetch_xor(HELD | has_wait, Ordering::AcqRel);
        if before & ENDED != 0 {
            self.place.end_wait(has_wait);
        }
    }

    /// The answer, or why there is none. Until then `waker` will be called.
    #[inline]
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<T, AskError>> {
        let mut state = self.place.state.load(Ordering::Acquire);
        if state & ENDED == 0 && self.registered != Parts::of(waker) {
            state = self.register(waker);
        }
        if state & ANSWERED != 0 {
            return self.take().map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer)));
        }
        if state & FAILED != 0 {
            return Poll::Ready(Err(REASONS[(state >> REASON_SHIFT) as usize]));
        }
        Poll::Pending
    }

    /// Another waker takes the place of the one that is there.
    #[cold]
    fn register(&mut self, waker: &Waker) -> u32 {
        let state = self.place.state.fetch_or(HELD, Ordering::Acquire);
        if state & ENDED != 0 {
            return state;
        }
        self.registered = Parts::of(waker);
        // SAFETY: the place had not ended when the asker took hold of it.
        let earlier = unsafe { (*self.place.waker.get()).replace(waker.clone()) };
        let state = self.place.state.fetch_and(!HELD, Ordering::AcqRel);
        if state & ENDED != 0 {
            self.place.end_wait(state);
        }
        drop(earlier);
        state
    }

    /// Takes the answer, which is there.
    fn take(&mut self) -> Option<T> {
        // SAFETY: the word says that it was put there, and from then on it is the asker's alone.
        unsafe { (*self.place.answer.get()).take() }
    }

    /// The asker's time has run out. False when the place had ended before, and there is something to hear.
    pub(crate) fn expire(&mut self) -> bool {
        if !self.go(LEFT | EXPIRED) {
            return false;
        }
        let handler = self.place.handler().and_then(|mut handler| handler.take());
        if let Some(handler) = handler {
            handler.wake();
        }
        true
    }

    /// The asker goes. An answer that was there and not taken is given out.
    #[inline]
    pub(crate) fn leave(&mut self) -> Option<T> {
        if self.place.state.load(Ordering::Acquire) & ENDED == 0 && self.go(LEFT) {
            return None;
        }
        if self.place.state.load(Ordering::Acquire) & ANSWERED != 0 { self.take() } else { None }
    }

    /// Ends the place, unless somebody did before.
    fn go(&mut self, how: u32) -> bool {
        let Ok(before) = self.place.end(how) else { return false };
        self.place.end_wait(before);
        // SAFETY: the asker has ended the place, so nobody else looks at what it brought.
        drop(unsafe { (*self.place.waker.get()).take() });
        true
    }
}

impl<T> fmt::Debug for Asker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asker")
    }
}

/// The end that answers, once.
pub(crate) struct Answerer<T> {
    place: Arc<Answer<T>>,
}

impl<T> Answerer<T> {
    /// Leaves the answer. It comes back when the place had ended: nobody waits any more.
    #[inline]
    pub(crate) fn send(self, answer: T) -> Result<(), T> {
        // SAFETY: this is the only answerer, it answers once, and nobody else looks before the word says so.
        unsafe { *self.place.answer.get() = Some(answer) };
        match self.place.end(ANSWERED) {
            Ok(before) => {
                self.place.tell(before);
                Ok(())
            }
            // SAFETY: the word will never say that there is an answer, so nobody else looks at it.
            Err(_) => Err(unsafe { (*self.place.answer.get()).take() }.expect("it was put there just now")),
        }
    }

    /// Says that there will be no answer, for this reason.
    pub(crate) fn fail(self, reason: AskError) {
        self.place.fail(reason);
    }

    /// Whether nobody waits any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.place.state.load(Ordering::Acquire) & ENDED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_heard_as_it_was_said() {
        for (number, reason) in REASONS.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
            let (mut asker, answerer) = answer::<()>(None);
            answerer.fail(reason);
            assert_eq!(asker.poll(Waker::noop()), Poll::Ready(Err(reason)));
        }
    }
}
