//! Processes whose handle has gone before they ended.
//!
//! Each has a fiber that waits for its end, on the shard where the handle was dropped. When that fiber goes first, or
//! there was no shard, the process is kept in a list, and looked after whenever another is started.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use crate::fiber;
use crate::os::io::readable;
use crate::os::process::child::reap;

static LEFT: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// A process nobody waits for; in the list when it is dropped before its end.
struct Orphan(Option<OwnedFd>);

impl Orphan {
    async fn outlive(mut self) {
        while let Some(process) = &self.0 {
            if !matches!(reap(process), Ok(None)) {
                self.0 = None;
            } else if readable(process).await.is_err() {
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

/// Waits for a process in the background.
pub(super) fn adopt(process: OwnedFd) {
    let orphan = Orphan(Some(process));
    drop(fiber::spawn(move || orphan.outlive()));
}

/// Waits for those in the list that have ended.
pub(super) fn look_after() {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner).retain(|process| matches!(reap(process), Ok(None)));
}
