//! Processes whose handle has gone before they ended.
//!
//! Each has a fiber that waits for its end, on the shard where the handle was dropped; where that was no shard, as when
//! a start is given up half-way, on the one the process was started from. When that fiber goes first, or that shard has
//! ended, the process is kept in a list, and looked after whenever another is started.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::fiber;
use crate::fiber::home::{Home, Mail};
use crate::os::io::readable;
use crate::os::process::child::reap;

/// How often a process is looked at whose end the kernel does not tell, for want of memory say.
const LOOK: Duration = Duration::from_millis(20);

static LEFT: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// A process nobody waits for; in the list when it is dropped before its end.
struct Orphan(Option<OwnedFd>);

impl Orphan {
    async fn outlive(mut self) {
        while let Some(process) = &self.0 {
            if !matches!(reap(process), Ok(None)) {
                self.0 = None;
            } else if readable(process).await.is_err() && fiber::sleep(LOOK).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        if let Some(process) = self.0.take() {
            LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(process);
        }
    }
}

/// Waits for a process in the background. `home` is where it was started.
pub(super) fn adopt(process: OwnedFd, home: Option<&'static Home>) {
    let orphan = Orphan(Some(process));
    match (fiber::home_here(), home) {
        (None, Some(home)) => home.push(Mail::Call(Box::new(move || start(orphan)))),
        _ => start(orphan),
    }
}

fn start(orphan: Orphan) {
    // Where there is no shard it is dropped, and so in the list.
    let _started = fiber::start_detached(orphan.outlive());
}

/// Waits for those in the list that have ended.
pub(super) fn look_after() {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner).retain(|process| matches!(reap(process), Ok(None)));
}
