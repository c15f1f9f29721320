//! Other programs, as a user starts them and waits for them, on both real kernels.

#[path = "processes/ends.rs"]
mod ends;
#[path = "processes/inherits.rs"]
mod inherits;
#[path = "processes/streams.rs"]
mod streams;

use wo_runtime::error::IoResult;
use wo_runtime::os::process::Command;
use wo_runtime::plane::backend::Selection;
use wo_runtime::shard::Builder;

/// The kernels that have programs to start.
pub const REAL: [Selection; 2] = [Selection::Uring, Selection::Epoll];

/// Runs `body` as a program on each kernel, at two shards.
pub fn on_both<T, F>(body: impl Fn() -> F)
where
    F: Future<Output = IoResult<T>> + 'static,
    T: 'static,
{
    for io in REAL {
        let ended = Builder::new().io(io).shards(2).pin(true).run(&body);
        ended.unwrap_or_else(|error| panic!("on {io}: {error}")).unwrap_or_else(|error| panic!("on {io}: {error}"));
    }
}

/// A shell that runs `script`.
pub fn shell(script: &str) -> Command {
    Command::new("sh").arg("-c").arg(script)
}

/// Whether a process is there, running or as a zombie.
pub fn is_there(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}
