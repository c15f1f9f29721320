//! Scopes stand in: no model opens one, so nothing is cancelled but by the end of the program and by who has the
//! handle.

use std::cell::Cell;

thread_local! {
    static STOPPING: Cell<bool> = const { Cell::new(false) };
}
thread_local! {
    static INTERRUPTED: Cell<bool> = const { Cell::new(false) };
}

mod call {
    include!(concat!(env!("OUT_DIR"), "/scope/call.rs"));
}

pub mod channel {
    include!(concat!(env!("OUT_DIR"), "/scope/channel.rs"));
}

pub use call::Call;

pub fn is_cancelled() -> bool {
    STOPPING.with(Cell::get) || INTERRUPTED.with(Cell::get)
}

pub fn is_only_stopping() -> bool {
    STOPPING.with(Cell::get) && !INTERRUPTED.with(Cell::get)
}

pub struct Around(());

impl Around {
    pub fn cancelled() -> Around {
        INTERRUPTED.with(|cell| cell.set(true));
        Around(())
    }
}

impl Drop for Around {
    fn drop(&mut self) {
        INTERRUPTED.with(|cell| cell.set(false));
    }
}

pub fn set_stopping(stopping: bool) {
    STOPPING.with(|cell| cell.set(stopping));
}

pub fn why() -> &'static str {
    ""
}

/// No node was made.
pub fn give_up_spare() {}
