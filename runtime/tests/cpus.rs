//! The processor's side of shards, as a user sees it: how many, where they run, and what they cost when they idle.
//!
//! What asks the whole process runs in a child that selects one test and finds itself by an environment variable.

#[path = "cpus/idle.rs"]
mod idle;
#[path = "cpus/pins.rs"]
mod pins;
#[path = "cpus/quotas.rs"]
mod quotas;

use std::process::{Command, Stdio};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use wo_runtime::plane::backend::Selection;

/// The kernels with threads of their own.
pub const REAL: [Selection; 2] = [Selection::Uring, Selection::Epoll];

/// Runs `body` in a child with these variables beside its own; answers what it wrote to stderr, and nothing in the
/// child itself.
pub fn in_child(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) -> Option<String> {
    const MARK: &str = "WO_TEST_CPUS_CHILD";
    if std::env::var(MARK).is_ok_and(|marked| marked == test) {
        body();
        return None;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).stdin(Stdio::null());
    command.env_remove("WO_SHARDS").env_remove("WO_IO").envs(variables.iter().copied());
    let output = command.env(MARK, test).output().unwrap();
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{}\n{said}\n{complained}", output.status);
    Some(complained.into_owned())
}

/// This thread's CPUs.
pub fn own_cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Restricts this thread, and those it starts, to one CPU.
pub fn restrict_to(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).unwrap();
}
