//! The queue between a listening socket and those who accept from it.
//!
//! One accept is armed with the kernel, for many connections where it can, and what it brings waits here until
//! somebody asks. So an accept whose fiber has gone loses nothing: the connection stays for the next. The queue is
//! bounded; when it is full the accept is disarmed, and the kernel's own backlog holds the rest.
//!
//! When descriptors run out, the error is told once, and arming waits a while each time until a connection gets
//! through again; the waiting is the queue's, so a loop that accepts in a circle does not spin.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::error::{IoError, IoResult, OpKind, errno};
use crate::plane::backend::Feature;
use crate::plane::fd::Fd;
use crate::plane::ops::AcceptMany;
use crate::plane::time::Instant;
use crate::plane::token::Token;
use crate::plane::{ShardLoop, current};

/// Connections held for those who will accept, before the kernel's backlog holds the rest.
const HELD_MAX: usize = 256;

/// How long arming waits after the system ran out of descriptors or memory.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// A listening socket's accepted connections. Dropping it stops listening and closes what it holds.
pub struct AcceptQueue {
    shared: Arc<Shared>,
}

struct Shared {
    fd: Fd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: VecDeque<IoResult<Fd>>,
    waiters: Vec<Waker>,
    /// The loop that has the accept, and what it knows it by.
    armed: Option<(u64, Token)>,
    paused_until: Option<Instant>,
    exhaustion_told: bool,
    closed: bool,
}

impl AcceptQueue {
    /// A queue for the listening socket `fd`. Nothing is armed before the first accept.
    pub fn new(fd: Fd) -> AcceptQueue {
        AcceptQueue { shared: Arc::new(Shared { fd, state: Mutex::default() }) }
    }

    /// The listening socket.
    pub fn fd(&self) -> &Fd {
        &self.shared.fd
    }

    /// The next connection, if one is held; else arms an accept and has the waker called.
    ///
    /// # Errors
    ///
    /// What the kernel answered. EMFILE and its like are told once until a connection gets through again.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<IoResult<Fd>> {
        let mut state = self.shared.state();
        if let Some(next) = state.held.pop_front() {
            return Poll::Ready(next);
        }
        state.waiters.retain(|waiter| !waiter.will_wake(cx.waker()));
        state.waiters.push(cx.waker().clone());
        if state.armed.is_some() || state.paused_until.is_some() {
            return Poll::Pending;
        }
        drop(state);
        match current::with_loop(OpKind::Accept, |event_loop| Shared::arm(&self.shared, event_loop)) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arm(shared: &Arc<Shared>, event_loop: &mut ShardLoop) -> IoResult<()> {
        let multishot = event_loop.caps().has(Feature::MultishotAccept);
        let queue = Arc::clone(shared);
        let token = event_loop.submit_accept_many(
            AcceptMany::new(&shared.fd, multishot),
            move |event_loop, accepted, more| {
                Shared::arrived(&queue, event_loop, accepted, more);
            },
        )?;
        shared.state().armed = Some((event_loop.number(), token));
        Ok(())
    }

    fn arrived(shared: &Arc<Shared>, event_loop: &mut ShardLoop, accepted: IoResult<Fd>, more: bool) {
        let mut state = shared.state();
        let armed = state.armed;
        if !more {
            state.armed = None;
        }
        match accepted {
            _ if state.closed => {}
            Ok(connection) => {
                state.exhaustion_told = false;
                state.held.push_back(Ok(connection));
                if more
                    && state.held.len() >= HELD_MAX
                    && let Some((_, token)) = armed
                {
                    event_loop.cancel(token);
                }
            }
            Err(error) if is_exhaustion(&error) => {
                // Nobody who waits is nobody to tell: whoever comes later finds out what it is like then.
                if !state.waiters.is_empty() && !std::mem::replace(&mut state.exhaustion_told, true) {
                    state.held.push_back(Err(error
                        .with_context("no connection can be taken until some are closed, or `ulimit -n` is raised")));
                }
                let until = event_loop.now() + EXHAUSTED_PAUSE;
                state.paused_until = Some(until);
                let queue = Arc::clone(shared);
                event_loop.submit_at(until, move |event_loop| Shared::pause_over(&queue, event_loop));
            }
            Err(error) if error.is_cancelled() => {}
            Err(error) => state.held.push_back(Err(error)),
        }
        let wanted = !state.waiters.is_empty();
        if state.held.is_empty() {
            let rearm = wanted && !more && !state.closed && state.paused_until.is_none();
            drop(state);
            if rearm && let Err(error) = Shared::arm(shared, event_loop) {
                shared.fail(error);
            }
        } else {
            Shared::wake(state);
        }
    }

    fn pause_over(shared: &Arc<Shared>, event_loop: &mut ShardLoop) {
        let mut state = shared.state();
        state.paused_until = None;
        let arm = !state.waiters.is_empty() && state.armed.is_none() && !state.closed;
        drop(state);
        if arm && let Err(error) = Shared::arm(shared, event_loop) {
            shared.fail(error);
        }
    }

    fn fail(&self, error: IoError) {
        let mut state = self.state();
        state.held.push_back(Err(error));
        Shared::wake(state);
    }

    /// Wakes every waiter: one that is woken and then dropped must not take another's connection with it.
    fn wake(mut state: MutexGuard<'_, State>) {
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        waiters.into_iter().for_each(Waker::wake);
    }
}

fn is_exhaustion(error: &IoError) -> bool {
    matches!(error.errno(), errno::EMFILE | errno::ENFILE | errno::ENOBUFS | errno::ENOMEM)
}

impl Drop for AcceptQueue {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.closed = true;
        let held = std::mem::take(&mut state.held);
        let armed = state.armed;
        drop(state);
        drop(held);
        if let Some((of, token)) = armed {
            // The armed accept shares the descriptor: end it, so that the address is free for the next listener now
            // and not when the kernel's last word has come.
            self.shared.fd.stop_listening();
            // Another loop's token may be an op of somebody else's here.
            let _ = current::with_loop(OpKind::Cancel, |event_loop| {
                if event_loop.number() == of {
                    event_loop.cancel(token);
                }
                Ok(())
            });
        }
    }
}

impl fmt::Debug for AcceptQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcceptQueue").field("fd", &self.shared.fd).finish_non_exhaustive()
    }
}
