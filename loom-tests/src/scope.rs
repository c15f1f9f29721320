//! Scopes stand in: no model opens one, so nothing is cancelled but by the end of the program.

use std::cell::Cell;

thread_local! {
    static STOPPING: Cell<bool> = const { Cell::new(false) };
}

mod call {
    include!(concat!(env!("OUT_DIR"), "/scope/call.rs"));
}

pub mod channel {
    include!(concat!(env!("OUT_DIR"), "/scope/channel.rs"));
}

pub use call::Call;

pub fn is_cancelled() -> bool {
    STOPPING.with(Cell::get)
}

pub fn is_only_stopping() -> bool {
    is_cancelled()
}

pub fn set_stopping(stopping: bool) {
    STOPPING.with(|cell| cell.set(stopping));
}

pub fn why() -> &'static str {
    ""
}
