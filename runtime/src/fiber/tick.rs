//! The shard's tick: run what is ready, hand what was queued to the kernel, tell what came back; and when nothing is
//! ready, wait.
//!
//! The whole life of a shard's fibers is in this file: `run` drives ticks until `main` has ended; `stop` cancels
//! and gives a grace; `unwind` drops every fiber, parked ones included; `drain` waits for the kernel's last word on
//! every op before the loop may go.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use crate::error::{IoError, IoResult, OpKind};
use crate::fiber::home::{Home, Mail};
use crate::fiber::local::{Local, local};
use crate::fiber::spin::Spin;
use crate::fiber::steal;
use crate::fiber::task;
use crate::plane::ShardLoop;
use crate::plane::backend::{Backend, BackendKind, discard};
use crate::plane::current;
use crate::plane::time::Instant;

/// Fibers polled in one tick when fewer are ready than that and they keep each other going: the kernel and the clock
/// are looked at in between.
const POLLS_PER_TICK_MIN: usize = 61;

/// What panicked, when it was not a fiber.
const WHAT_AN_OP_HELD: &str = "what an op held";

/// A request to stop the program: from a signal, or from the program itself.
#[derive(Debug, Default)]
pub struct StopRequest {
    /// How often it was asked: the second time ends the grace.
    asked: AtomicU32,
    /// The signal that asked; 0 for none.
    signal: AtomicI32,
}

impl StopRequest {
    /// Asks the program to stop. Async-signal-safe; the shard must be woken as well.
    pub fn ask(&self, signal: i32) {
        self.signal.store(signal, Ordering::Relaxed);
        self.asked.fetch_add(1, Ordering::Release);
    }

    /// The signal that asked last.
    pub fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
    }

    fn times(&self) -> u32 {
        self.asked.load(Ordering::Acquire)
    }
}

/// Why a shard ended without its main fiber's value.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The grace after a stop passed.
    GracePassed,
    /// The kernel gave out.
    Kernel(IoError),
}

/// How a tick that does not wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tick {
    /// There may be more to do at once.
    Busy,
    /// Nothing to do until a completion, a wake, or this moment.
    Idle(Option<Instant>),
    /// The shard is done.
    Done,
}

/// Ticks without rest that a stopping shard has in a simulated world, where a fiber that never parks keeps the clock
/// nearly still: past them the grace is over.
const STOPPING_TICKS_MAX: u32 = 10_000;

/// A shard's driver on its own thread.
#[derive(Debug)]
pub(crate) struct Driver {
    home: &'static Home,
    stop: Arc<StopRequest>,
    grace: Duration,
    spin: Spin,
    stopping_until: Option<Instant>,
    /// The same on the host's clock, after a signal: a simulated one may stand still as long as fibers are ready.
    stopping_until_really: Option<Instant>,
    stops_seen: u32,
    grace_ended: bool,
    ended: bool,
    /// Ticks since the shard had nothing to do, of one that shares its thread.
    ticks_without_rest: u32,
}

impl Driver {
    /// Makes this thread a shard over `event_loop`.
    pub(crate) fn open(event_loop: ShardLoop, reductions: u32, grace: Duration, stop: Arc<StopRequest>) -> Driver {
        let home = Home::take(event_loop.waker());
        let spins = event_loop.caps().backend == BackendKind::Uring;
        let _none = current::replace(Some(Box::new(event_loop)));
        local(|local| local.open(home, reductions));
        Driver {
            home,
            stop,
            grace,
            spin: Spin::new(spins),
            stopping_until: None,
            stopping_until_really: None,
            stops_seen: 0,
            grace_ended: false,
            ended: false,
            ticks_without_rest: 0,
        }
    }

    /// The shard's door for other threads.
    pub(crate) fn home(&self) -> &'static Home {
        self.home
    }

    /// Ticks until `done`.
    pub(crate) fn run(&mut self, mut done: impl FnMut() -> bool) -> Result<(), Ending> {
        loop {
            self.run_ready();
            if done() {
                return Ok(());
            }
            self.take_inbox();
            self.heed_stop()?;
            if self.has_work() { self.look_at_kernel() } else { self.wait_for_kernel(&mut done) }
                .map_err(Ending::Kernel)?;
        }
    }

    fn has_work(&self) -> bool {
        local(|local| local.ready() > 0) || steal::is_waiting(self.home)
    }

    /// This shard runs no `main`.
    pub(crate) fn leave_out_main(&self) {
        local(Local::leave_out_main);
    }

    /// From now on this shard shares with those what neither has started.
    pub(crate) fn share_with(&mut self, homes: Vec<&'static Home>) {
        local(|local| local.peers.set(homes));
    }

    /// One tick of a shard that shares its thread with others, in a simulated world: it never waits.
    pub(crate) fn tick(&mut self, done: impl FnOnce() -> bool) -> Result<Tick, Ending> {
        self.run_ready();
        if done() {
            return Ok(Tick::Done);
        }
        self.take_inbox();
        self.heed_stop()?;
        if self.has_work() {
            self.look_at_kernel().map_err(Ending::Kernel)?;
            self.ticks_without_rest += 1;
            return Ok(Tick::Busy);
        }
        let told = on_loop(|event_loop| {
            event_loop.flush()?;
            Ok(dispatch(event_loop))
        });
        if told.map_err(Ending::Kernel)? > 0 || self.has_work() || !self.home.is_empty() {
            return Ok(Tick::Busy);
        }
        self.ticks_without_rest = 0;
        let timer = on_loop(|event_loop| {
            event_loop.backend().rest();
            Ok(event_loop.next_timer())
        })
        .map_err(Ending::Kernel)?;
        let until = [timer, self.stopping_until].into_iter().flatten().filter(|at| *at != Instant::NEVER).min();
        Ok(Tick::Idle(until))
    }

    /// Runs the fibers that are ready, each once, and when they are few and wake each other, some more; but no more
    /// once one has used up a whole turn, or a hot loop would keep the kernel waiting for as many turns.
    fn run_ready(&mut self) {
        let home = self.home;
        let _one_of_its_own = steal::start_own(home);
        local(|local| {
            let ready = local.ready();
            let mut polled = 0;
            let mut polls = ready.max(POLLS_PER_TICK_MIN);
            task::run_all(local, || {
                if polled > 0 && local.used_up_its_turn() {
                    polls = ready;
                }
                if polled >= polls {
                    return None;
                }
                polled += 1;
                local.pop().or_else(|| if steal::start_any(home) { local.pop() } else { None })
            });
        });
    }

    /// Takes in the fibers that other threads woke, makes the calls they asked for, and does their errands. What comes
    /// meanwhile waits for the next tick.
    fn take_inbox(&mut self) {
        for _ in 0..self.home.len() {
            match self.home.pop() {
                Some(Mail::Wake(fiber)) => fiber.arrive(),
                Some(Mail::Watch(watch)) => drop(guarded("a waker", || watch.arrive())),
                Some(Mail::Drop(fiber)) => drop(fiber),
                Some(Mail::Interrupt(fiber)) => fiber.interrupt(),
                Some(Mail::Leave(handle)) => drop(guarded("a waker", || drop(handle))),
                Some(Mail::Call(call)) => drop(guarded("a call posted to this shard", call)),
                Some(Mail::Ring(mailbox, life)) => mailbox.rung(life),
                None => break,
            }
        }
        self.home.run_errands();
    }

    /// With fibers ready: submits and tells what has come, without waiting.
    fn look_at_kernel(&mut self) -> IoResult<()> {
        on_loop(|event_loop| {
            if event_loop.wants_kernel() {
                event_loop.look()?;
                dispatch(event_loop);
            } else if event_loop.next_timer().is_some() {
                dispatch(event_loop);
            }
            Ok(())
        })
    }

    /// With nothing ready: submits, looks around for a moment, then sleeps until a completion, a timer, or a wake.
    fn wait_for_kernel(&mut self, done: &mut impl FnMut() -> bool) -> IoResult<()> {
        let told = on_loop(|event_loop| {
            event_loop.flush()?;
            Ok(dispatch(event_loop))
        })?;
        if told > 0 {
            return Ok(());
        }
        let home = self.home;
        let spin = &mut self.spin;
        let found = on_loop(|event_loop| {
            Ok(spin.look(|| event_loop.has_completions() || !home.is_empty() || steal::is_waiting(home)))
        })?;
        if !found && home.announce_sleep() {
            // What rang the waker since this tick began may have been answered by the flush above, so it is looked for
            // once more. From here on a ring ends the wait.
            if done() || self.stop.times() != self.stops_seen || steal::is_waiting(home) {
                home.awake();
                return Ok(());
            }
            let until = self.stopping_until;
            let slept_from = self.spin.sleep_begins();
            let slept = on_loop(|event_loop| event_loop.enter(until));
            home.awake();
            slept?;
            if let Some(from) = slept_from {
                self.spin.slept(from.elapsed());
            }
        } else if found {
            on_loop(ShardLoop::flush)?;
        }
        on_loop(|event_loop| Ok(dispatch(event_loop)))?;
        Ok(())
    }

    /// Begins the stop when it was asked for; ends the grace when it was asked for again, or has passed.
    fn heed_stop(&mut self) -> Result<(), Ending> {
        let times = self.stop.times();
        self.stops_seen = times;
        if times == 0 || self.grace_ended {
            return Ok(());
        }
        let now = on_loop(|event_loop| Ok(event_loop.backend().now())).map_err(Ending::Kernel)?;
        match self.stopping_until {
            None => {
                self.stopping_until = Some(now + self.grace);
                self.stopping_until_really = self.stop.signal().map(|_| Instant::real() + self.grace);
                local(Local::set_stopping);
                self.ticks_without_rest = 0;
                task::wake_all();
            }
            Some(_) if self.ticks_without_rest > STOPPING_TICKS_MAX => return Err(Ending::GracePassed),
            Some(until) if now >= until || times > 1 => return Err(Ending::GracePassed),
            Some(_) if self.stopping_until_really.is_some_and(|until| Instant::real() >= until) => {
                return Err(Ending::GracePassed);
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Past the grace, goes on without looking at the time: another shard decides about the end.
    pub(crate) fn outlast_grace(&mut self) {
        self.grace_ended = true;
        self.stopping_until = None;
        self.stopping_until_really = None;
    }

    /// Drops every fiber, parked ones included; their destructors run here, at home.
    pub(crate) fn unwind(&mut self) {
        local(Local::refuse_fibers);
        while let Some(unstarted) = self.home.take_unstarted() {
            let _reported = guarded("a fiber that had not started", || drop(unstarted));
        }
        task::drop_all();
        // What came by mail is dropped at home too.
        self.home.drop_mail();
        task::let_out();
    }

    /// Waits for the last word on every op, and ends the loop. Past the grace the loop and all that its ops point
    /// at are leaked, and the kinds of the ops that are stuck are answered.
    pub(crate) fn drain(mut self) -> Result<(), Vec<OpKind>> {
        self.ended = true;
        let Some(mut event_loop) = current::replace(None) else { return Ok(()) };
        local(Local::close);
        while guarded(WHAT_AN_OP_HELD, || event_loop.drain(self.grace)).is_none() {}
        (*event_loop).close().map_err(|stuck| {
            let kinds = stuck.pending();
            // The kernel may still write to what these ops point at: leaked for good, never freed.
            std::mem::forget(stuck);
            kinds
        })
    }
}

/// A panic that is no fiber's passes through: the fibers are dropped here all the same, and the loop ends.
impl Drop for Driver {
    fn drop(&mut self) {
        if !self.ended {
            self.unwind();
            local(Local::close);
            drop(current::replace(None));
        }
    }
}

/// Tells what has come; answers how much.
fn dispatch(event_loop: &mut ShardLoop) -> usize {
    // What panics is one of the batch, and ends it; the next round tells the rest.
    let mut told = 0;
    loop {
        match guarded(WHAT_AN_OP_HELD, || event_loop.dispatch()) {
            Some(rest) => return told + rest,
            None => told += 1,
        }
    }
}

/// None after a panic, which is reported: the loop tells wakers and drops what was given up, buffers with destructors
/// of the program's own among it.
fn guarded<R>(what: &str, call: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(call))
        .map_err(|payload| {
            task::report(what, &payload);
            discard(payload);
        })
        .ok()
}

fn on_loop<R>(call: impl FnOnce(&mut ShardLoop) -> IoResult<R>) -> IoResult<R> {
    current::with_loop(OpKind::Wait, call)
}
