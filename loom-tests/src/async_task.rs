//! The crate of that name on loom's atomics: its files as they are, and the root that holds them together.

macro_rules! leap {
    ($x:expr) => {
        match $x {
            Some(value) => value,
            None => return None,
        }
    };
}

macro_rules! leap_unwrap {
    ($x:expr) => {
        match $x {
            Some(value) => value,
            None => panic!("the task's layout is too large"),
        }
    };
}

mod header {
    include!(concat!(env!("OUT_DIR"), "/async-task/header.rs"));
}
mod raw {
    include!(concat!(env!("OUT_DIR"), "/async-task/raw.rs"));
}
mod runnable {
    include!(concat!(env!("OUT_DIR"), "/async-task/runnable.rs"));
}
mod state {
    include!(concat!(env!("OUT_DIR"), "/async-task/state.rs"));
}
mod task {
    include!(concat!(env!("OUT_DIR"), "/async-task/task.rs"));
}
mod utils {
    include!(concat!(env!("OUT_DIR"), "/async-task/utils.rs"));
}

pub use runnable::{Builder, Runnable, ScheduleInfo, WithInfo};
pub use task::{FallibleTask, Task};
