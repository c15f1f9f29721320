//! The signals that stop a program.

use std::sync::Arc;

use signal_hook_registry::SigId;

use crate::error::{IoError, IoResult, OpKind, Stage};
use crate::fiber::StopRequest;
use crate::plane::backend::Waker;

/// SIGTERM and SIGINT ask the program to stop, for as long as this lives.
#[derive(Debug)]
pub(crate) struct StopSignals(Vec<SigId>);

impl StopSignals {
    pub(crate) fn heed(stop: &Arc<StopRequest>, wakers: &Arc<[Waker]>) -> IoResult<StopSignals> {
        let mut heeded = StopSignals(Vec::new());
        for signal in [libc::SIGTERM, libc::SIGINT] {
            let (stop, wakers) = (Arc::clone(stop), Arc::clone(wakers));
            // SAFETY: the action stores to atomics and writes to an event descriptor; both are async-signal-safe, and
            // it neither allocates nor locks.
            let registered = unsafe {
                signal_hook_registry::register(signal, move || {
                    stop.ask(signal);
                    wakers.iter().for_each(Waker::wake);
                })
            };
            heeded.0.push(registered.map_err(|error| {
                IoError::new(error.raw_os_error().unwrap_or(0), OpKind::Setup, Stage::Setup)
                    .with_context(format!("a handler for signal {signal}"))
            })?);
        }
        Ok(heeded)
    }
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        for id in self.0.drain(..) {
            signal_hook_registry::unregister(id);
        }
    }
}
