//! The loop of this thread.

use std::cell::RefCell;

use crate::error::{IoResult, OpKind};
use crate::plane::ShardLoop;

thread_local! {
    static LOOP: RefCell<Option<Box<ShardLoop>>> = const { RefCell::new(None) };
}

pub fn with_loop<R>(_kind: OpKind, call: impl FnOnce(&mut ShardLoop) -> IoResult<R>) -> IoResult<R> {
    LOOP.with(|current| call(current.borrow_mut().as_deref_mut().expect("a shard runs on this thread")))
}

pub fn replace(event_loop: Option<Box<ShardLoop>>) -> Option<Box<ShardLoop>> {
    LOOP.with(|current| current.replace(event_loop))
}
