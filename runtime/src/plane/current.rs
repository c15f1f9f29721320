//! The loop of this thread.
//!
//! Verbs find their loop here when they are polled. The shard that runs on this thread puts its loop in before it
//! runs fibers and takes it out again; so where no shard runs, a verb answers an error instead of waiting for nobody.
//!
//! Whoever uses the loop takes its address away meanwhile, so that nobody uses it twice at once. The address lies
//! apart from the owner, where no destructor has to be asked for: every op passes here twice.

use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::sync::Once;

use crate::error::{IoError, IoResult, OpKind, Stage, errno, say};
use crate::plane::ShardLoop;
use crate::plane::buf::BufPool;

thread_local! {
    /// Null while there is none, or it is in use.
    static LOOP: Cell<*mut ShardLoop> = const { Cell::new(ptr::null_mut()) };
    static OWNER: RefCell<Option<Owner>> = const { RefCell::new(None) };
}

/// Owns this thread's loop, whose address is in [`LOOP`] as long.
struct Owner(NonNull<ShardLoop>);

impl Owner {
    fn new(event_loop: Box<ShardLoop>) -> Owner {
        let event_loop = Box::into_raw(event_loop);
        LOOP.set(event_loop);
        // SAFETY: a box's pointer is never null.
        Owner(unsafe { NonNull::new_unchecked(event_loop) })
    }

    fn into_inner(self) -> Box<ShardLoop> {
        LOOP.set(ptr::null_mut());
        let event_loop = self.0.as_ptr();
        std::mem::forget(self);
        // SAFETY: the pointer came from a box, and this owner gives it up. Nobody uses the loop: the address was where
        // users take it from, or in the hands of a user further up the stack, which `replace` refuses.
        unsafe { Box::from_raw(event_loop) }
    }
}

/// At the end of a thread whose shard did not end.
impl Drop for Owner {
    fn drop(&mut self) {
        LOOP.set(ptr::null_mut());
        // SAFETY: as in `into_inner`; at the end of a thread nothing is on the stack any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Puts the loop's address back, also when a panic passes.
struct PutBack(*mut ShardLoop);

impl Drop for PutBack {
    #[inline]
    fn drop(&mut self) {
        LOOP.set(self.0);
    }
}

/// Uses this thread's loop for one call on behalf of `kind`.
///
/// # Errors
///
/// ENXIO when no shard runs on this thread, EBUSY when its loop is being used further up the stack, and whatever
/// `call` answers.
#[inline]
pub fn with_loop<R>(kind: OpKind, call: impl FnOnce(&mut ShardLoop) -> IoResult<R>) -> IoResult<R> {
    let event_loop = LOOP.replace(ptr::null_mut());
    if event_loop.is_null() {
        return Err(unavailable(kind));
    }
    let _back = PutBack(event_loop);
    // SAFETY: the address is the owner's, which lives at least until this call is over: it is given up by `replace`,
    // which refuses while the address is away, and at the thread's end. Whoever took the address away is the only user.
    call(unsafe { &mut *event_loop })
}

/// Tells this shard's kernel about a pool's memory, so that file ops on its buffers need not map it each time.
///
/// # Errors
///
/// Why not. The pool works the same unregistered, so a program may go on; the first refusal is also said on stderr.
pub fn register_pool(pool: &mut BufPool) -> IoResult<()> {
    static SAID: Once = Once::new();
    with_loop(OpKind::Setup, |event_loop| event_loop.register_pool(pool))
        .inspect_err(|refusal| SAID.call_once(|| say(format_args!("warning: {refusal}"))))
}

const NOWHERE: &str = "no wo shard runs on this thread; call it from a fiber, under #[wo::main] or Builder::run";

fn is_here() -> bool {
    OWNER.try_with(|owner| owner.borrow().is_some()).unwrap_or(false)
}

/// Why there is no loop to use.
#[cold]
fn unavailable(kind: OpKind) -> IoError {
    if is_here() {
        return IoError::new(errno::EBUSY, kind, Stage::Submit)
            .with_context("the loop is being used further up the stack: no verbs inside its callbacks");
    }
    IoError::new(errno::ENXIO, kind, Stage::Submit).with_context(NOWHERE)
}

/// What an op's ENXIO means, in words, where no shard runs on this thread; none where one does, and the kernel has
/// reasons of its own.
pub fn meaning_of_enxio() -> Option<&'static str> {
    (!is_here()).then_some(NOWHERE)
}

/// Puts `event_loop` in as this thread's loop; what was there comes out.
///
/// # Panics
///
/// When the loop is being used further up the stack.
pub(crate) fn replace(event_loop: Option<Box<ShardLoop>>) -> Option<Box<ShardLoop>> {
    OWNER.with_borrow_mut(|owner| {
        assert!(owner.is_none() || !LOOP.get().is_null(), "the loop is being used further up the stack");
        let before = owner.take().map(Owner::into_inner);
        *owner = event_loop.map(Owner::new);
        before
    })
}
