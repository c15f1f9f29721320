//! The right to a fiber's result, wherever it is.
//!
//! The result is in the fiber's cell from its end on, and is taken, or dropped, once: by the handle, or for a handle
//! that has gone, by home. At home both are plain; a handle that is elsewhere sends mail, and looks at `ended` again
//! after that: mail that nobody reads any more wakes whoever waits, and drops what nobody wants.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use crate::fiber::home::Mail;
use crate::fiber::local::local;
use crate::fiber::task::cell::{HANDLE, NOT_ENDED, TaskRef, WITH_RESULT, WITHOUT_RESULT};
use crate::fiber::task::{Ended, FiberId};

/// The right to a fiber's result, of which there is one at most.
#[repr(transparent)]
pub(crate) struct Handle<T> {
    task: ManuallyDrop<TaskRef>,
    /// The result is taken, and dropped, wherever the handle is.
    _result: PhantomData<T>,
}

// Nothing of the result is in the handle.
impl<T> Unpin for Handle<T> {}

impl<T> Handle<T> {
    /// The handle of a fiber that has none, whose result is a `T`.
    #[inline(always)]
    pub(super) fn of(task: TaskRef) -> Handle<T> {
        Handle { task: ManuallyDrop::new(task), _result: PhantomData }
    }

    /// The fiber's number.
    pub(crate) fn id(&self) -> FiberId {
        self.task.header().id()
    }

    /// A reference to the fiber.
    pub(crate) fn fiber(&self) -> TaskRef {
        TaskRef::clone(&self.task)
    }

    /// Asks the fiber to stop.
    pub(crate) fn interrupt(&self) {
        self.task.interrupt();
    }

    /// Whether the fiber has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.task.header().ended.load(Ordering::Acquire) != NOT_ENDED
    }

    /// Whether the fiber has ended. Until then the waker will be called.
    #[inline]
    pub(crate) fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_finished() { Poll::Ready(()) } else { self.wait(cx) }
    }

    fn wait(&self, cx: &mut Context<'_>) -> Poll<()> {
        let here = local(|local| self.task.header().is_here(local));
        if here {
            self.task.header().joined_by(cx.waker());
            return Poll::Pending;
        }
        self.watch_elsewhere(cx.waker());
        if !self.is_finished() {
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// The result of a fiber that has ended; none when it was dropped before its end.
    #[inline]
    pub(crate) fn into_result(self) -> Option<Ended<T>> {
        let mut this = ManuallyDrop::new(self);
        let result = this.take_result();
        // SAFETY: the handle is not dropped, so its reference is taken once.
        drop(unsafe { ManuallyDrop::take(&mut this.task) });
        result
    }

    /// The same, and none when it was taken already.
    #[inline]
    pub(crate) fn take_result(&mut self) -> Option<Ended<T>> {
        let header = self.task.header();
        if header.ended.load(Ordering::Acquire) != WITH_RESULT {
            debug_assert_eq!(header.ended.load(Ordering::Acquire), WITHOUT_RESULT, "it has ended");
            return None;
        }
        // As `forget_result` does, which this spares: whoever hears of the handle later finds nothing to drop.
        header.ended.store(WITHOUT_RESULT, Ordering::Relaxed);
        // SAFETY: the fiber has ended with a result, which is the handle's alone, and is taken once.
        Some(unsafe { self.task.0.byte_add(header.vtable.slot).cast::<Ended<T>>().read() })
    }

    /// What [`from_word`](Handle::from_word) makes a handle of again.
    #[inline(always)]
    pub(super) fn into_word(self) -> *mut () {
        ManuallyDrop::new(self).task.0.as_ptr().cast()
    }

    /// # Safety
    ///
    /// It came from `into_word`, and is made a handle again once.
    #[inline(always)]
    pub(super) unsafe fn from_word(word: *mut ()) -> Handle<T> {
        // SAFETY: it was not null, as the caller says.
        let cell = unsafe { NonNull::new_unchecked(word.cast()) };
        Handle::of(TaskRef(cell))
    }

    /// Has the waker called by home.
    #[cold]
    fn watch_elsewhere(&self, waker: &Waker) {
        if let Some(home) = self.task.header().home() {
            home.push(Mail::Watch(Watch { task: TaskRef::clone(&self.task), waker: Some(waker.clone()) }));
        }
        // The mail, a fence, which `push` has, then the look at the end; home says the end, then a fence, then looks
        // for mail.
    }
}

impl TaskRef {
    /// The handle has gone: nobody will ask for the result, if there is one already.
    fn forget_result(&self) {
        let header = self.header();
        let ended = &header.ended;
        if ended.load(Ordering::Relaxed) == WITH_RESULT
            && ended.compare_exchange(WITH_RESULT, WITHOUT_RESULT, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            // SAFETY: the result was the handle's, and is given up, by whoever changed the word.
            unsafe { (header.vtable.drop_result)(self.0) };
        }
    }

    /// The handle has gone, and the fiber has not ended: there will be no result. At home.
    fn want_no_result(&self) {
        let header = self.header();
        header.flags.set(header.flags.get() & !HANDLE);
        drop(header.take_joiner());
    }
}

impl<T> Drop for Handle<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: taken once, here.
        let task = unsafe { ManuallyDrop::take(&mut self.task) };
        // Of a handle that was joined no more is left than a reference.
        if task.header().ended.load(Ordering::Relaxed) != WITHOUT_RESULT {
            task.left_by_handle();
        }
    }
}

impl TaskRef {
    #[inline(never)]
    fn left_by_handle(&self) {
        let header = self.header();
        // Of those that were let out all have ended.
        if header.ended.load(Ordering::Relaxed) != NOT_ENDED {
            self.forget_result();
        } else if local(|local| header.is_here(local)) {
            self.want_no_result();
        } else if let Some(home) = header.home() {
            home.push(Mail::Leave(Leave(TaskRef::clone(self))));
            // As for those who watch: mail that came after the end may lie there until another shard begins.
            self.forget_result();
        } else {
            self.forget_result();
        }
    }
}

/// A wish by mail to be woken at a fiber's end.
pub(crate) struct Watch {
    task: TaskRef,
    /// None once it is waited for.
    waker: Option<Waker>,
}

impl Watch {
    pub(crate) fn arrive(mut self) {
        let here = local(|local| self.task.header().is_here(local));
        if here
            && self.task.header().ended.load(Ordering::Relaxed) == NOT_ENDED
            && let Some(waker) = self.waker.take()
        {
            self.task.header().joined_by(&waker);
        }
    }
}

/// Whoever wished is to ask again.
impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// A handle that was dropped elsewhere.
pub(crate) struct Leave(TaskRef);

impl Drop for Leave {
    fn drop(&mut self) {
        let header = self.0.header();
        if header.ended.load(Ordering::Relaxed) == NOT_ENDED && local(|local| header.is_here(local)) {
            self.0.want_no_result();
        } else {
            self.0.forget_result();
        }
    }
}
