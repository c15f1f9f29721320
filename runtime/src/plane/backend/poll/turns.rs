//! Whose turn it is: trying the queues of descriptors that are ready, and taking back what the pool was lent.
//!
//! A descriptor has its turn when an op was added, when an event came, or when the pool gave its first op back. In a
//! turn the first op of each side is tried until one would wait; a long turn is cut short and goes on in the next
//! round, so that no descriptor keeps the others from theirs.

use crate::error::errno;
use crate::plane::backend::RawCompletion;
use crate::plane::backend::poll::perform::{self, Outcome};
use crate::plane::backend::poll::source::{self, Drained, Kind, Side, Source};
use crate::plane::backend::poll::{Done, Place, PollBackend};
use crate::plane::backend::pool::job_for;
use crate::plane::fd::RawDescriptor;
use crate::plane::op::{RawOp, Readiness};
use crate::plane::token::Token;

/// Attempts on one side of one descriptor before the others get their turn.
const ATTEMPTS_MAX: u32 = 64;

impl PollBackend {
    /// Tries what waits on a descriptor, as far as it is ready.
    pub(super) fn advance(&mut self, fd: RawDescriptor) {
        let Some(mut source) = self.take_source(fd) else { return };
        source.listed = false;
        let again = self.advance_side(fd, &mut source, Side::Read) | self.advance_side(fd, &mut source, Side::Write);
        self.advance_polls(fd, &mut source);
        if !source.owned && source.is_idle() {
            if source.key.take().is_some() {
                self.watcher.unwatch(fd);
            }
            source.unlearn(self.no_nowait);
        }
        self.put_source(fd, source);
        if again {
            self.list(fd);
        }
    }

    /// Tries one side's ops in order; true when the turn ended before the ops did.
    fn advance_side(&mut self, fd: RawDescriptor, source: &mut Source, side: Side) -> bool {
        let mut attempts = 0;
        loop {
            let nature = source.nature();
            let queue = source.queue(side);
            if !queue.ready || queue.in_pool {
                return false;
            }
            let Some(pending) = queue.ops.front_mut() else { return false };
            if attempts == ATTEMPTS_MAX {
                return true;
            }
            attempts += 1;
            let token = pending.token;
            // SAFETY: the op is in its queue, so its terminal completion was not reaped, and its submitter vouched
            // for its operands until then.
            match unsafe { perform::attempt(nature, self.no_signal_flag, pending) } {
                Outcome::Done(res) => {
                    let asked = match pending.op {
                        RawOp::Recv { buf, .. } => buf.len as i32,
                        _ => 0,
                    };
                    self.end_first(source, side, res);
                    if 0 < res && res < asked && self.is_drained(fd, source) {
                        source.reads.ready = false;
                    }
                }
                Outcome::More(res) => self.accepted(token, res),
                Outcome::Part => {}
                Outcome::NoNowait => source.no_nowait = true,
                Outcome::Stalled => {
                    queue.ready = false;
                    self.stalled.push((fd, side));
                }
                Outcome::Wait => {
                    queue.ready = false;
                    self.watch(fd, source, side);
                }
                Outcome::Watch => self.watch(fd, source, side),
                Outcome::Pool => {
                    queue.in_pool = true;
                    let op = pending.op;
                    // SAFETY: as above; the op leaves the queue when the pool gives it back.
                    self.pool.submit(token, unsafe { job_for(op) });
                }
            }
        }
    }

    /// Whether a socket that gave fewer bytes than were asked for has no more.
    fn is_drained(&self, fd: RawDescriptor, source: &mut Source) -> bool {
        if let (Drained::Unknown { short }, Some(key)) = (source.drained, source.key) {
            source.drained = match short {
                0 => Drained::Unknown { short: 1 },
                // From now on: what came before may have brought the end already.
                _ if perform::is_tcp(fd) && self.watcher.tell_end(fd, key) => Drained::Yes,
                _ => Drained::No,
            };
            return false;
        }
        source.drained == Drained::Yes
    }

    fn end_first(&mut self, source: &mut Source, side: Side, res: i32) {
        if let Some(pending) = source.queue(side).ops.pop_front() {
            self.places.remove(&pending.token);
            let opens = matches!(pending.op, RawOp::Accept { .. }) && res >= 0;
            self.done.push(Done { completion: RawCompletion { token: pending.token, res, more: false }, opens });
        }
    }

    fn accepted(&mut self, token: Token, res: i32) {
        self.done.push(Done { completion: RawCompletion { token, res, more: true }, opens: true });
    }

    /// Sees to it that the poller watches a descriptor. What it refuses to watch is left to the pool, and any other
    /// refusal ends the op that wanted to wait.
    fn watch(&mut self, fd: RawDescriptor, source: &mut Source, side: Side) {
        match self.watcher.watch(fd, source) {
            Ok(()) => {
                let alone = source.owned && !source.nonblocking && matches!(source.kind, Kind::Pipe | Kind::Device);
                if alone && source.no_nowait {
                    source.nonblocking = perform::make_nonblocking(fd);
                }
            }
            Err(libc::EPERM) => {
                source.kind = Kind::File;
                source.queue(side).ready = true;
            }
            Err(errno) => {
                source.queue(side).ready = true;
                self.end_first(source, side, -errno);
            }
        }
    }

    /// Answers the poll ops of a descriptor that is ready for them.
    fn advance_polls(&mut self, fd: RawDescriptor, source: &mut Source) {
        if source.polls.is_empty() {
            return;
        }
        // Registered first, asked second: what changes after the question is an event.
        let refusal = match self.watcher.watch(fd, source) {
            // What no poller watches is always ready, as poll(2) says.
            Ok(()) | Err(libc::EPERM) => None,
            Err(errno) => Some(-errno),
        };
        let mut at = 0;
        while let Some(&(token, wanted)) = source.polls.get(at) {
            let res = refusal.unwrap_or_else(|| perform::ready_now(fd, wanted).map_or_else(|e| -e, Readiness::to_bits));
            if res == 0 {
                at += 1;
                continue;
            }
            source.polls.remove(at);
            self.places.remove(&token);
            self.complete(token, res);
        }
    }

    /// Takes what the pool finished: the first op of a queue, or an op of its own.
    pub(super) fn take_returned(&mut self) {
        let mut returned = std::mem::take(&mut self.returned);
        returned.extend(self.pool.finished().map(|(completion, opens)| Done { completion, opens }));
        for done in returned.drain(..) {
            match self.places.get(&done.completion.token) {
                Some(&Place::Queue(fd, side)) => self.come_back(fd, side, done.completion),
                _ => self.done.push(done),
            }
        }
        self.returned = returned;
    }

    /// The pool has ended its try of a queue's first op.
    fn come_back(&mut self, fd: RawDescriptor, side: Side, completion: RawCompletion) {
        let Some(mut source) = self.take_source(fd) else { return };
        let queue = source.queue(side);
        queue.in_pool = false;
        if let Some(first) = queue.ops.front() {
            let goes_on = match first.op {
                RawOp::Accept { multishot, .. } => multishot && completion.res >= 0,
                _ => false,
            };
            let again = completion.res == -errno::EAGAIN;
            let cancelled = first.cancelled;
            if goes_on {
                self.accepted(completion.token, completion.res);
            }
            if (goes_on || again) && cancelled {
                self.end_first(&mut source, side, -errno::ECANCELED);
            } else if !goes_on && !again {
                self.end_first(&mut source, side, completion.res);
            }
        }
        self.put_source(fd, source);
        self.list(fd);
    }

    /// Makes the queues of descriptors with events ready, and tries them.
    pub(super) fn dispatch(&mut self) {
        // Urgent bytes cut a receive short as an end does.
        const ENDED: u32 = (libc::EPOLLRDHUP | libc::EPOLLPRI | libc::EPOLLHUP | libc::EPOLLERR) as u32;
        const READABLE: u32 = ENDED | libc::EPOLLIN as u32;
        const WRITABLE: u32 = (libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR) as u32;
        let mut events = self.watcher.take_events();
        for libc::epoll_event { events, u64: key } in events.drain(..) {
            let key = key as usize;
            let fd = source::descriptor(key);
            let Some(source) = self.known(fd).filter(|source| source.key == Some(key)) else { continue };
            if events & ENDED != 0 {
                source.drained = Drained::No;
            }
            source.reads.ready |= events & READABLE != 0;
            source.writes.ready |= events & WRITABLE != 0;
            if !source.is_idle() {
                self.advance(fd);
            }
        }
        self.watcher.give_back(events);
    }

    /// Tries again what no event announces.
    pub(super) fn retry_stalled(&mut self) {
        for (fd, side) in std::mem::take(&mut self.stalled) {
            if let Some(source) = self.known(fd) {
                source.queue(side).ready = true;
                self.list(fd);
            }
        }
    }

    pub(super) fn try_listed(&mut self) {
        let mut listed = std::mem::take(&mut self.listed);
        for fd in listed.drain(..) {
            self.advance(fd);
        }
        // What was listed again meanwhile has had its turn.
        listed.append(&mut self.listed);
        self.listed = listed;
    }
}
