//! A shard's home: where its fibers are woken from other threads.
//!
//! Producer: push, fence, look at the sleeper's state, and the one that finds it sleeping and turns it awake rings.
//! Consumer: announce sleep, fence, look at the inbox again, then sleep. The two fences order each side's write
//! before its read, so at least one of them sees the other: no wake is lost, and none rings for nothing.
//!
//! Messages to actors are errands, in a queue of their own: there are many, their order matters, and a shard may take
//! them in at any time, also while a fiber runs. See [`post`](crate::plane::post).
//!
//! A home is never freed, because a waker in another thread may reach it at any time; it is used again by a later
//! shard once every fiber of the former has ended.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use concurrent_queue::ConcurrentQueue;

use crate::fiber::steal::Start;
use crate::fiber::tally::Tally;
use crate::fiber::task::{Leave, Quiet, TaskRef, Watch};
use crate::plane::backend::Waker;
use crate::plane::post::{Errand, Post};

/// What other threads send to a shard.
pub(crate) enum Mail {
    /// A fiber of the shard is woken.
    Wake(TaskRef),
    /// A reference to a fiber of the shard that was dropped elsewhere.
    Drop(TaskRef),
    /// A fiber of the shard is asked to stop.
    Interrupt(TaskRef),
    /// A fiber's end is waited for elsewhere.
    Watch(Watch),
    /// A fiber's handle was dropped elsewhere.
    Leave(Leave),
    /// A call to make there.
    Call(Box<dyn FnOnce() + Send>),
    /// A mailbox of the shard whose actor is to look around, in this life of it.
    Ring(&'static dyn Ring, u64),
}

/// Something at home that can be rung from elsewhere.
pub(crate) trait Ring: Sync {
    /// It was rung; runs at home.
    fn rung(&self, life: u64);
}

/// What other threads know of a shard.
pub(crate) struct Home {
    inbox: ConcurrentQueue<Mail>,
    post: Post,
    /// Fibers that have not started, for whoever starts them; see [`steal`](crate::fiber::steal).
    unstarted: ConcurrentQueue<Start>,
    sleeping: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// What the floors above count.
    pub(crate) tally: Tally,
}

static UNUSED: Mutex<Vec<&'static Home>> = Mutex::new(Vec::new());

impl Home {
    /// A home for a new shard.
    pub(crate) fn take(waker: Waker) -> &'static Home {
        let unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let home = unused.unwrap_or_else(|| {
            Box::leak(Box::new(Home {
                inbox: ConcurrentQueue::unbounded(),
                post: Post::new(),
                unstarted: ConcurrentQueue::unbounded(),
                sleeping: AtomicBool::new(false),
                waker: Mutex::new(None),
                tally: Tally::default(),
            }))
        });
        home.tally.clear();
        *home.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
        home
    }

    /// The program has ended, every fiber of this shard with it, and nobody knows the shard any more. What was pushed
    /// after the end is dropped here.
    pub(crate) fn give_back(&'static self) {
        self.drop_mail();
        debug_assert!(self.unstarted.is_empty(), "a shard ends after what it has not started");
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.awake();
        UNUSED.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }

    /// Drops all mail. The shard has said the end of all its fibers: whoever pushes now looks for that afterwards.
    pub(crate) fn drop_mail(&self) {
        fence(Ordering::SeqCst);
        self.post.give_up_all();
        while let Ok(mail) = self.inbox.pop() {
            drop(Quiet::new(mail));
        }
    }

    /// Hands the shard the errand that `make` makes, from any thread, and wakes it if it sleeps. `make` may not panic.
    #[inline(always)]
    pub(crate) fn send<E: Errand>(&self, make: impl FnOnce() -> E) {
        if self.post.push(make) {
            let _woken = self.wake_if_asleep();
        }
    }

    /// Does the errands that were handed over before, if there are any; at home.
    #[inline]
    pub(crate) fn run_errands(&self) {
        if !self.post.is_empty() {
            self.post.run_all();
        }
    }

    /// Hands mail to the shard, from any thread, and wakes it if it sleeps.
    pub(crate) fn push(&self, mail: Mail) {
        self.push_quietly(mail);
        let _woken = self.wake_if_asleep();
    }

    /// Hands mail to the shard, from any thread, to be looked at when it is awake.
    pub(crate) fn push_quietly(&self, mail: Mail) {
        if let Err(refused) = self.inbox.push(mail) {
            // The inbox is unbounded and never closed. Dropping mail here would drop it away from home.
            std::mem::forget(refused);
            unreachable!("a home's inbox takes everything");
        }
    }

    /// Has the shard look around, if it sleeps; whether it did.
    pub(crate) fn wake_if_asleep(&self) -> bool {
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed)
            && self.sleeping.compare_exchange(true, false, Ordering::SeqCst, Ordering::Relaxed).is_ok()
            && let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner)
        {
            waker.wake();
            return true;
        }
        false
    }

    /// Keeps a fiber that has not started for whoever starts it.
    pub(crate) fn offer(&self, start: Start) {
        // The queue is unbounded and never closed; what it refused would be dropped, which the joiner hears of.
        let _ = self.unstarted.push(start);
    }

    /// The next fiber that has not started, for any shard of the program.
    pub(crate) fn take_unstarted(&self) -> Option<Start> {
        self.unstarted.pop().ok()
    }

    /// Whether there is one.
    pub(crate) fn has_unstarted(&self) -> bool {
        !self.unstarted.is_empty()
    }

    /// The next mail from another thread.
    pub(crate) fn pop(&self) -> Option<Mail> {
        self.inbox.pop().ok()
    }

    /// How much mail waits.
    pub(crate) fn len(&self) -> usize {
        self.inbox.len()
    }

    /// Whether neither mail nor an errand waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.inbox.is_empty() && self.post.is_empty()
    }

    /// Announces that the shard will sleep. False when something arrived, and it must not.
    pub(crate) fn announce_sleep(&self) -> bool {
        self.sleeping.swap(true, Ordering::SeqCst);
        // After the flag: who finds the post asleep finds the shard so, too.
        let no_errands = self.post.announce_sleep();
        fence(Ordering::SeqCst);
        if no_errands && self.inbox.is_empty() {
            return true;
        }
        self.awake();
        false
    }

    /// The shard is awake again.
    pub(crate) fn awake(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
        self.post.awake();
    }
}

impl fmt::Debug for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Home").field("inbox", &self.inbox.len()).finish_non_exhaustive()
    }
}
