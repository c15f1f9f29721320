//! The loop of this thread.
//!
//! Verbs find their loop here when they are polled. The shard that runs on this thread puts its loop in before it
//! runs fibers and takes it out again; so where no shard runs, a verb answers an error instead of waiting for nobody.

use std::cell::RefCell;
use std::sync::Once;

use crate::error::{IoError, IoResult, OpKind, Stage, errno, say};
use crate::plane::ShardLoop;
use crate::plane::buf::BufPool;

thread_local! {
    static LOOP: RefCell<Option<Box<ShardLoop>>> = const { RefCell::new(None) };
}

/// Uses this thread's loop for one call on behalf of `kind`.
///
/// # Errors
///
/// ENXIO when no shard runs on this thread, EBUSY when its loop is being used further up the stack, and whatever
/// `call` answers.
pub fn with_loop<R>(kind: OpKind, call: impl FnOnce(&mut ShardLoop) -> IoResult<R>) -> IoResult<R> {
    LOOP.try_with(|current| match current.try_borrow_mut() {
        Ok(mut current) => match current.as_deref_mut() {
            Some(event_loop) => call(event_loop),
            None => Err(nowhere(kind)),
        },
        Err(_) => Err(IoError::new(errno::EBUSY, kind, Stage::Submit)
            .with_context("the loop is being used further up the stack: no verbs inside its callbacks")),
    })
    .unwrap_or_else(|_| Err(nowhere(kind)))
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

fn nowhere(kind: OpKind) -> IoError {
    IoError::new(errno::ENXIO, kind, Stage::Submit)
        .with_context("no wo shard runs on this thread; call it from a fiber, under #[wo::main] or Builder::run")
}

/// Puts `event_loop` in as this thread's loop; what was there comes out.
pub(crate) fn replace(event_loop: Option<Box<ShardLoop>>) -> Option<Box<ShardLoop>> {
    LOOP.with(|current| current.replace(event_loop))
}
