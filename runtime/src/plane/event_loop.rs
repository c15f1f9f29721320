//! The loop: ops go in with somebody to tell, completions come out and are told.
//!
//! One iteration hands everything queued to the kernel, waits for the first of a completion, a deadline and a ring
//! of the waker, copies the whole batch of completions out, and only then dispatches them; so a callback may submit
//! more, and a full completion queue empties before anything slow runs. Cancel requests have a list of their own that
//! goes to the kernel before any new submission, so a full queue never drops one.
//!
//! The loop is tier A: usable by itself, with callbacks. Fibers use the same slots with a waker in the callback's
//! place.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task;
use std::time::Duration;

use crate::error::{IoError, IoResult, OpKind, Stage, errno, say};
use crate::plane::backend::{Backend, BackendConfig, BackendKind, Caps, RawCompletion, Waker};
use crate::plane::buf::{BufPool, Registration};
use crate::plane::fd::Fd;
use crate::plane::listener::{Accepted, Alarm, Answer, Orphan};
use crate::plane::op::RawOp;
use crate::plane::ops::{AcceptMany, Op};
use crate::plane::slot::{Slab, Slot, State, Who};
use crate::plane::thunk::Thunk;
use crate::plane::time::Instant;
use crate::plane::timer::{Key, Timers};
use crate::plane::token::{Class, Token};

/// Timers that fire in one iteration before completions are looked at again.
const TIMERS_PER_ITERATION_MAX: usize = 4096;

/// How long a dropped loop waits for the kernel's last words.
const DROP_GRACE: Duration = Duration::from_secs(1);

/// Flushes with work at hand after which a kernel of readiness is asked all the same: it tells nothing unasked, and
/// a busy loop would starve whoever waits for it.
const FLUSHES_UNASKED_MAX: u32 = 8;

/// How to build a loop.
#[derive(Clone, Debug, Default)]
pub struct LoopConfig {
    /// The kernel under it.
    pub backend: BackendConfig,
    /// The most ops in flight at once; none for as many as memory holds. Past it a submission answers ENOBUFS.
    pub op_slots_max: Option<usize>,
}

/// What ended an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatus {
    /// Completions or timers were told.
    Dispatched,
    /// The waker was rung, and nothing else happened.
    Woken,
    /// Nothing within the time given.
    TimedOut,
    /// [`EventLoop::stop`] was called.
    Stopped,
    /// No op is in flight and no timer is armed.
    Drained,
}

/// Stops a loop from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    flag: Arc<AtomicBool>,
    waker: Waker,
}

impl Stopper {
    /// Ends the loop's `run`, or the next one.
    pub fn stop(&self) {
        self.flag.store(true, Ordering::SeqCst);
        self.waker.wake();
    }
}

/// An event loop over one kernel. It belongs to the thread that made it; only its [`Waker`] and [`Stopper`] go
/// elsewhere.
///
/// ```compile_fail,E0277
/// use wo::plane::backend::poll::PollBackend;
/// use wo::plane::{EventLoop, LoopConfig};
///
/// fn elsewhere<T: Send>(_: T) {}
/// elsewhere(EventLoop::<PollBackend>::new(&LoopConfig::default()).unwrap());
/// ```
///
/// # Examples
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use wo::plane::{EventLoop, LoopConfig, ops};
/// use wo::plane::backend::sim::SimBackend;
///
/// let mut event_loop = EventLoop::<SimBackend>::new(&LoopConfig::default())?;
/// let done = Rc::new(Cell::new(0));
/// for _ in 0..3 {
///     let done = Rc::clone(&done);
///     event_loop.submit(ops::Nop, move |_loop, result| {
///         assert!(result.is_ok());
///         done.set(done.get() + 1);
///     })?;
/// }
/// event_loop.run()?;
/// assert_eq!(done.get(), 3);
/// # Ok::<(), wo::IoError>(())
/// ```
pub struct EventLoop<B: Backend> {
    backend: ManuallyDrop<B>,
    slots: ManuallyDrop<Slab<EventLoop<B>>>,
    timers: Timers<Due>,
    /// The callbacks of timers: apart, because most timers wake a fiber and are small.
    timer_calls: Slab<EventLoop<B>>,
    cancels: VecDeque<Token>,
    batch: Vec<RawCompletion>,
    batch_next: usize,
    in_flight: usize,
    stale: u64,
    /// When this iteration began; none until somebody asks.
    now: Cell<Option<Instant>>,
    stop: Arc<AtomicBool>,
    dispatching: bool,
    registrations: ManuallyDrop<Vec<Registration>>,
    /// Completions come only when the kernel is asked for them.
    asks: bool,
    flushes_unasked: u32,
    number: u64,
}

impl<B: Backend> EventLoop<B> {
    /// A loop over a backend of type `B`.
    ///
    /// # Errors
    ///
    /// What the kernel refused, with cause and remedy.
    pub fn new(config: &LoopConfig) -> IoResult<EventLoop<B>> {
        Ok(EventLoop::over(B::open(&config.backend)?, config))
    }

    /// A loop over a backend that is open already.
    pub fn over(backend: B, config: &LoopConfig) -> EventLoop<B> {
        let reserved = config.op_slots_max.unwrap_or(usize::MAX).min(config.backend.submission_entries as usize);
        static MADE: AtomicU64 = AtomicU64::new(0);
        EventLoop {
            number: MADE.fetch_add(1, Ordering::Relaxed),
            now: Cell::new(None),
            asks: backend.caps().backend == BackendKind::Epoll,
            flushes_unasked: 0,
            backend: ManuallyDrop::new(backend),
            slots: ManuallyDrop::new(Slab::new(reserved, config.op_slots_max)),
            timers: Timers::new(),
            timer_calls: Slab::new(0, None),
            cancels: VecDeque::new(),
            batch: Vec::with_capacity(256),
            batch_next: 0,
            in_flight: 0,
            stale: 0,
            stop: Arc::new(AtomicBool::new(false)),
            dispatching: false,
            registrations: ManuallyDrop::default(),
        }
    }

    /// What the kernel under it can do.
    pub fn caps(&self) -> &Caps {
        self.backend.caps()
    }

    /// The backend, for its synchronous calls.
    pub fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    /// The door for other threads and signal handlers. Not counted as work: a loop with nothing but its waker is
    /// drained.
    pub fn waker(&self) -> Waker {
        self.backend.waker()
    }

    /// Stops the loop from elsewhere.
    pub fn stopper(&self) -> Stopper {
        Stopper { flag: Arc::clone(&self.stop), waker: self.waker() }
    }

    /// A number no other loop of this process has.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Ops with the kernel; timers and the waker do not count.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Timers armed.
    pub fn timers(&self) -> usize {
        self.timers.len()
    }

    /// Submissions the queue has room for before it is flushed.
    pub fn sq_space(&self) -> usize {
        self.backend.submission_space()
    }

    /// The time of this iteration: read when first asked for, and the same for everything in it.
    pub fn now(&self) -> Instant {
        self.now.get().unwrap_or_else(|| {
            let now = self.backend.now();
            self.now.set(Some(now));
            now
        })
    }

    /// Completions that came for a token whose life was over. Always 0, unless a kernel misbehaves.
    pub fn stale_completions(&self) -> u64 {
        self.stale
    }

    /// Submits an op; `callback` gets its answer, buffer included, once, in a later iteration.
    ///
    /// Nothing is allocated as long as op and callback fit the slot, which they do with a buffer and two captured
    /// words.
    ///
    /// # Errors
    ///
    /// EAGAIN when the queue is full and a flush made no room, ENOBUFS when every slot is taken, EXDEV when the op is
    /// on another kernel's descriptor. The op and its buffer are dropped then.
    pub fn submit<O: Op>(
        &mut self,
        mut op: O,
        callback: impl FnOnce(&mut EventLoop<B>, O::Output) + 'static,
    ) -> IoResult<Token> {
        if let Some(fd) = op.fd()
            && !self.backend.owns(fd)
        {
            let fd = fd.clone();
            return Err(fd.strayed(op.lower().kind()));
        }
        let raw = op.lower();
        self.arm(raw, |slot| slot.tell(Answer { op, callback }))
    }

    /// Accepts connections until cancelled or refused: `callback` gets each, and whether more will come.
    ///
    /// # Errors
    ///
    /// As [`submit`](EventLoop::submit).
    pub fn submit_accept_many(
        &mut self,
        op: AcceptMany,
        callback: impl FnMut(&mut EventLoop<B>, IoResult<Fd>, bool) + 'static,
    ) -> IoResult<Token> {
        if !self.backend.owns(op.fd()) {
            return Err(op.fd().strayed(OpKind::Accept));
        }
        let raw = op.lower();
        self.arm(raw, |slot| slot.tell(Accepted { op, callback }))
    }

    /// Calls `callback` once, `span` from now. `Duration::MAX` is never.
    pub fn submit_after(&mut self, span: Duration, callback: impl FnOnce(&mut EventLoop<B>) + 'static) -> Token {
        let deadline = self.backend.now() + span;
        self.submit_at(deadline, callback)
    }

    /// Calls `callback` once, at `deadline` or in the first iteration after it.
    pub fn submit_at(&mut self, deadline: Instant, callback: impl FnOnce(&mut EventLoop<B>) + 'static) -> Token {
        let (call, slot) = self.timer_calls.take(OpKind::Timer).expect("slots without a limit");
        slot.tell(Alarm { callback });
        self.arm_timer(deadline, Due::Otherwise(Otherwise::Call(call.index())))
    }

    /// Asks for the end of an op, or takes a timer back. The op's callback still gets its last word: ECANCELED, or
    /// the real result if that raced ahead. A timer's callback is dropped. A stale token does nothing.
    pub fn cancel(&mut self, token: Token) {
        match token.class() {
            Some(Class::Timer) => {
                if let Some(due) = self.timers.remove(timer_key(token)) {
                    self.let_go(due);
                }
            }
            Some(Class::User) => {
                let Some(slot) = self.slots.get(token) else { return };
                if slot.state == State::Armed {
                    slot.state = State::CancelRequested;
                    self.cancels.push_back(token);
                    self.hand_over_cancels();
                }
            }
            _ => {}
        }
    }

    /// Gives up waiting: the callback never runs, and is dropped with the op's last word. The op itself goes on to its
    /// end; a descriptor it brings is closed, bytes it brings are kept for the next read.
    pub fn detach(&mut self, token: Token) {
        match token.class() {
            Some(Class::Timer) => {
                if let Some(due) = self.timers.get_mut(timer_key(token)) {
                    let due = std::mem::take(due);
                    self.let_go(due);
                }
            }
            Some(Class::User) => {
                let Some(slot) = self.slots.get(token) else { return };
                if slot.state == State::Ended {
                    self.slots.release(token);
                } else if !slot.orphan {
                    slot.orphan = true;
                    // The op hears of it now, not with its last word: who reads next has to wait for that word.
                    if let Some(thunk) = slot.callback() {
                        thunk.leaving();
                    }
                }
            }
            _ => {}
        }
    }

    /// One iteration: submit, wait at most `timeout`, dispatch.
    ///
    /// # Errors
    ///
    /// What made the whole queue unusable. An op's own failure goes to its callback.
    ///
    /// # Panics
    ///
    /// When called from a callback. A callback's own panic passes through; the rest of the batch is dispatched by the
    /// next iteration.
    pub fn run_once(&mut self, timeout: Duration) -> IoResult<RunStatus> {
        assert!(!self.dispatching, "a callback may submit, but not run the loop it was called from");
        if self.take_stop() {
            return Ok(RunStatus::Stopped);
        }
        if self.is_drained() {
            return Ok(RunStatus::Drained);
        }
        let deadline = if timeout == Duration::MAX { Instant::NEVER } else { self.backend.now() + timeout };
        let rung = loop {
            self.enter(Some(deadline))?;
            if self.dispatch() > 0 {
                return Ok(RunStatus::Dispatched);
            }
            if self.take_stop() {
                return Ok(RunStatus::Stopped);
            }
            if deadline != Instant::NEVER && self.now() >= deadline {
                break false;
            }
            if self.timers.next().is_none_or(|next| next > self.now()) {
                break true;
            }
        };
        Ok(if rung { RunStatus::Woken } else { RunStatus::TimedOut })
    }

    /// One iteration for a host with a loop of its own; the same as [`run_once`](EventLoop::run_once).
    ///
    /// # Errors
    ///
    /// As [`run_once`](EventLoop::run_once).
    pub fn tick(&mut self, timeout: Duration) -> IoResult<RunStatus> {
        self.run_once(timeout)
    }

    /// Runs until nothing is left to wait for, or [`stop`](EventLoop::stop) was called; answers which.
    ///
    /// # Errors
    ///
    /// As [`run_once`](EventLoop::run_once).
    pub fn run(&mut self) -> IoResult<RunStatus> {
        loop {
            match self.run_once(Duration::MAX)? {
                status @ (RunStatus::Stopped | RunStatus::Drained) => return Ok(status),
                RunStatus::Dispatched | RunStatus::Woken | RunStatus::TimedOut => {}
            }
        }
    }

    /// Ends `run` after this iteration.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Whether a stop was asked for; it is answered once.
    fn take_stop(&self) -> bool {
        self.stop.load(Ordering::Acquire) && self.stop.swap(false, Ordering::SeqCst)
    }

    /// Whether nothing is in flight and no timer is armed.
    pub fn is_drained(&self) -> bool {
        self.in_flight == 0 && self.timers.len() == 0 && self.batch_next == self.batch.len()
    }

    /// Asks for the end of every op, callbacks included, and waits for the kernel's last word on each, at most
    /// `grace`. Answers whether none is left.
    pub fn drain(&mut self, grace: Duration) -> bool {
        let until = self.backend.now() + grace;
        let tokens: Vec<Token> = self.slots.in_flight().map(|(token, _)| token).collect();
        tokens.into_iter().for_each(|token| self.cancel(token));
        // One refusal is outlived: a simulated host that lost its power says so once, and answers every op then.
        let mut refusals = 0;
        while self.in_flight > 0 && refusals < 2 {
            let left = until.since(self.backend.now());
            if left.is_zero() {
                break;
            }
            refusals += u32::from(self.run_once(left).is_err());
        }
        self.in_flight == 0
    }

    /// Ends the loop when nothing is in flight; otherwise answers it back, since the kernel may still write to what
    /// its ops point at.
    ///
    /// # Errors
    ///
    /// The loop itself, with the ops that are in flight.
    pub fn close(self) -> Result<(), Box<EventLoop<B>>> {
        if self.in_flight > 0 {
            return Err(Box::new(self));
        }
        drop(self);
        Ok(())
    }

    /// The kinds of the ops still with the kernel.
    pub fn pending(&self) -> Vec<OpKind> {
        self.slots.in_flight().map(|(_, kind)| kind).collect()
    }

    /// Tells the kernel about a pool's memory, so that file ops on its buffers need not map it each time. The loop
    /// keeps the memory as long as the kernel knows it.
    ///
    /// # Errors
    ///
    /// Why not; the pool works the same unregistered. EBUSY when a loop has it registered already.
    pub fn register_pool(&mut self, pool: &mut BufPool) -> IoResult<()> {
        // SAFETY: the loop's destructor drops the registrations after the backend was closed, or leaks both.
        let registration = unsafe { pool.register(&mut *self.backend) }?;
        self.registrations.push(registration);
        Ok(())
    }

    // What follows is the fibers' side of the loop.

    /// Submits an op for a fiber. The result stays in the slot until [`fetch`](EventLoop::fetch).
    #[inline(always)]
    pub(crate) fn submit_for(&mut self, raw: RawOp, waker: task::Waker) -> IoResult<Token> {
        self.arm(raw, |slot| slot.tell_fiber(waker))
    }

    /// Fetches a fiber's result and frees the slot; without a result yet, sees to it that `waker` will be called.
    pub(crate) fn fetch(&mut self, token: Token, waker: &task::Waker) -> Option<i32> {
        let slot = self.slots.get(token).expect("a fiber's slot lives until its result is fetched");
        if slot.state == State::Ended {
            let res = slot.res;
            self.slots.release(token);
            return Some(res);
        }
        if let Some(told) = slot.fiber() {
            match told {
                Some(told) if told.will_wake(waker) => {}
                told => *told = Some(waker.clone()),
            }
        }
        None
    }

    /// The fiber has gone. The op is cancelled, and owns what it needs until the kernel's last word.
    pub(crate) fn abandon<O: Op>(&mut self, token: Token, mut op: O) {
        let slot = self.slots.get(token).expect("a fiber's slot lives until its result is fetched");
        if slot.state == State::Ended {
            let res = slot.res;
            self.slots.release(token);
            op.abandoned();
            op.orphaned(res, &mut *self.backend);
            return;
        }
        op.abandoned();
        slot.orphan = true;
        slot.let_go();
        slot.tell(Orphan { op });
        self.cancel(token);
    }

    /// Wakes a fiber at `deadline`.
    pub(crate) fn timer_for(&mut self, deadline: Instant, waker: task::Waker) -> Token {
        self.arm_timer(deadline, Due::Fiber(waker))
    }

    /// Sees to it that `waker` is called by a timer that was armed for another; whether it has not fired yet.
    pub(crate) fn renew_timer(&mut self, token: Token, waker: &task::Waker) -> bool {
        match self.timers.get_mut(timer_key(token)) {
            Some(Due::Fiber(told)) => {
                told.clone_from(waker);
                true
            }
            Some(Due::Otherwise(_)) | None => false,
        }
    }

    /// The nearest timer's deadline.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Whether the kernel or the cancel list has something to say or to be told, as far as can be known without
    /// asking.
    pub(crate) fn wants_kernel(&mut self) -> bool {
        self.asks || self.backend.unsubmitted() > 0 || !self.cancels.is_empty() || self.backend.has_completions()
    }

    /// Hands everything queued to the kernel and sees what it has, without waiting.
    pub(crate) fn look(&mut self) -> IoResult<()> {
        self.flushes_unasked = FLUSHES_UNASKED_MAX;
        self.flush()
    }

    /// Whether completions are ready, without entering the kernel.
    pub(crate) fn has_completions(&mut self) -> bool {
        self.backend.has_completions()
    }

    /// Hands everything queued to the kernel without waiting.
    pub(crate) fn flush(&mut self) -> IoResult<()> {
        self.hand_over_cancels();
        if self.asks {
            self.flushes_unasked += 1;
            if self.flushes_unasked > FLUSHES_UNASKED_MAX {
                self.flushes_unasked = 0;
                return self.backend.wait(Some(Duration::ZERO));
            }
        }
        self.backend.flush()
    }

    /// Hands everything queued to the kernel and waits: for a completion, a ring of the waker, the nearest timer, or
    /// `until`.
    pub(crate) fn enter(&mut self, until: Option<Instant>) -> IoResult<()> {
        self.hand_over_cancels();
        let until = match (until.filter(|at| *at != Instant::NEVER), self.timers.next()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if self.batch_next < self.batch.len() || self.backend.has_completions() {
            return self.flush();
        }
        self.flushes_unasked = 0;
        let timeout = until.filter(|at| *at != Instant::NEVER).map(|at| at.since(self.backend.now()));
        self.backend.wait(timeout)
    }

    /// Copies the completions out, then tells each; then fires the timers that are due. Answers how many were told.
    pub(crate) fn dispatch(&mut self) -> usize {
        self.now.set(None);
        if self.batch_next == self.batch.len() {
            self.batch.clear();
            self.batch_next = 0;
        }
        self.backend.reap(&mut self.batch);
        self.dispatching = true;
        let told = catch_unwind(AssertUnwindSafe(|| self.tell()));
        self.dispatching = false;
        told.unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Tells everybody in the batch, then those whose time has come. A callback that panics ends it; the rest of the
    /// batch stays.
    fn tell(&mut self) -> usize {
        let mut told = 0;
        while let Some(completion) = self.batch.get(self.batch_next).copied() {
            self.batch_next += 1;
            self.complete(completion);
            told += 1;
        }
        if self.timers.len() == 0 { told } else { told + self.fire_timers() }
    }

    fn fire_timers(&mut self) -> usize {
        let mut fired = 0;
        while fired < TIMERS_PER_ITERATION_MAX
            && let Some(due) = self.timers.pop_due(self.now())
        {
            fired += 1;
            match due {
                Due::Fiber(waker) => waker.wake(),
                Due::Otherwise(Otherwise::Call(index)) => {
                    let call = self.timer_calls.release_to_call(self.timer_calls.token(index));
                    // SAFETY: it was just released, and is taken from where it lies before anything else happens.
                    unsafe { Thunk::last(call, self, 0, false) };
                }
                Due::Otherwise(Otherwise::Nobody) => {}
            }
        }
        fired
    }

    #[inline(always)]
    fn complete(&mut self, RawCompletion { token, res, more }: RawCompletion) {
        let Some(slot) = self.slots.get(token) else {
            self.stale += 1;
            return;
        };
        if slot.who() == Who::Callback && !more {
            let orphan = slot.orphan;
            self.in_flight -= 1;
            let thunk = self.slots.release_to_call(token);
            // SAFETY: it was just released, and is taken from where it lies before anything else happens.
            unsafe { Thunk::last(thunk, self, res, orphan) };
        } else if slot.state == State::Ended {
            self.stale += 1;
        } else if let Some(waker) = slot.fiber() {
            // A fiber's op has one completion.
            let waker = waker.take();
            slot.res = res;
            if !more {
                slot.state = State::Ended;
                self.in_flight -= 1;
            }
            if let Some(waker) = waker {
                waker.wake();
            }
        } else if more {
            self.tell_one_of_more(token, res);
        } else {
            // The callback panicked when it was called before.
            self.in_flight -= 1;
            self.slots.release(token);
        }
    }

    fn tell_one_of_more(&mut self, token: Token, res: i32) {
        let Some(slot) = self.slots.get(token) else { return };
        let orphan = slot.orphan;
        let Some(mut thunk) = slot.lift() else { return };
        thunk.more(self, res, orphan);
        // Back to its slot, unless the slot's life ended while it was called.
        if let Some(slot) = self.slots.get(token)
            && slot.who() == Who::Calling
        {
            slot.put_back(thunk);
        }
    }

    /// Takes a slot for an op, has it filled with whoever is told, and submits the op.
    #[inline(always)]
    fn arm(&mut self, raw: RawOp, fill: impl FnOnce(&mut Slot<EventLoop<B>>)) -> IoResult<Token> {
        self.hand_over_cancels();
        let Some((token, slot)) = self.slots.take(raw.kind()) else { return Err(no_slot(raw.kind())) };
        fill(slot);
        // SAFETY: what `raw` points at is owned by the target, or by the verb that fetches the result; both keep it
        // until the terminal completion. A verb that is dropped before moves it into the target.
        if unsafe { self.backend.submit(token, raw) }.is_err() {
            // SAFETY: as above.
            unsafe { self.submit_after_flush(token, raw) }?;
        }
        self.in_flight += 1;
        Ok(token)
    }

    /// Makes room in the queue and submits again.
    ///
    /// # Safety
    ///
    /// As for [`Backend::submit`].
    #[cold]
    #[inline(never)]
    unsafe fn submit_after_flush(&mut self, token: Token, raw: RawOp) -> IoResult<()> {
        // SAFETY: the caller's promise is passed on unchanged.
        if self.backend.flush().is_ok() && unsafe { self.backend.submit(token, raw) }.is_ok() {
            return Ok(());
        }
        self.slots.release(token);
        Err(IoError::new(errno::EAGAIN, raw.kind(), Stage::Submit)
            .with_context("the submission queue is full; run the loop, then try again"))
    }

    fn arm_timer(&mut self, deadline: Instant, due: Due) -> Token {
        let key = self.timers.insert(deadline, due);
        Token::new(Class::Timer, key.generation, key.index)
    }

    /// Lets go of whoever a timer was to tell.
    fn let_go(&mut self, due: Due) {
        if let Due::Otherwise(Otherwise::Call(index)) = due {
            self.timer_calls.release(self.timer_calls.token(index));
        }
    }

    /// Passes the waiting cancel requests to the backend, as many as it takes; the rest stay at the front.
    #[inline]
    fn hand_over_cancels(&mut self) {
        if !self.cancels.is_empty() {
            self.hand_over_waiting_cancels();
        }
    }

    #[cold]
    fn hand_over_waiting_cancels(&mut self) {
        while let Some(&token) = self.cancels.front() {
            if self.slots.get(token).is_some_and(|slot| slot.state == State::CancelRequested)
                && self.backend.cancel(token).is_err()
                && (self.backend.flush().is_err() || self.backend.cancel(token).is_err())
            {
                return;
            }
            self.cancels.pop_front();
        }
    }
}

/// A loop that is dropped asks for the end of every op and waits a moment for the last words; no callback runs any
/// more. What the kernel has not let go of by then is leaked, never freed under its hands.
impl<B: Backend> Drop for EventLoop<B> {
    fn drop(&mut self) {
        let tokens: Vec<Token> = self.slots.in_flight().map(|(token, _)| token).collect();
        tokens.into_iter().for_each(|token| self.detach(token));
        self.timers = Timers::new();
        self.timer_calls = Slab::new(0, None);
        if !self.drain(DROP_GRACE) {
            let pending = self.pending();
            say(format_args!("a loop was dropped with ops in flight; their memory is leaked: {pending:?}"));
            return;
        }
        // SAFETY: each is taken or dropped once, here; nothing uses the loop afterwards.
        unsafe {
            ManuallyDrop::drop(&mut self.slots);
            ManuallyDrop::take(&mut self.backend).close();
            ManuallyDrop::drop(&mut self.registrations);
        }
    }
}

fn timer_key(token: Token) -> Key {
    Key { index: token.index(), generation: token.generation() }
}

#[cold]
fn no_slot(kind: OpKind) -> IoError {
    IoError::new(errno::ENOBUFS, kind, Stage::Submit)
        .with_context("every op slot is taken; wait for completions, or raise `op_slots_max`")
}

/// Whose time has come. As small as a waker: an index fits beside the one value a waker does not have.
#[derive(Debug)]
enum Due {
    /// A fiber is woken.
    Fiber(task::Waker),
    Otherwise(Otherwise),
}

#[derive(Debug)]
enum Otherwise {
    Nobody,
    /// The callback in this slot is called.
    Call(u32),
}

const _: () = assert!(size_of::<Due>() == size_of::<task::Waker>());

impl Default for Due {
    fn default() -> Due {
        Due::Otherwise(Otherwise::Nobody)
    }
}

impl<B: Backend> fmt::Debug for EventLoop<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoop")
            .field("backend", &self.backend)
            .field("in_flight", &self.in_flight)
            .field("timers", &self.timers.len())
            .finish_non_exhaustive()
    }
}
