//! A supervisor at work: one fiber that looks at its children, and acts until they are as they should be.
//!
//! Whatever happens to a child is written into the place it shares with the supervisor, which looks at all of them
//! whenever one has changed. It does one thing at a time: it restarts what failed, taking down first, in reverse order,
//! whom the strategy takes down with it; then it starts, in order and each after the other has started, whoever is due.
//! What happens meanwhile is seen at the next look.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::actor::back_off;
use crate::actor::control::{Control, Permission, Phase, Signal, Wanted};
use crate::actor::life::{self, Exit, Life, Look};
use crate::actor::mailbox::{AnyMailbox, Order};
use crate::actor::supervisor::Supervision;
use crate::error::say;
use crate::fiber;
use crate::plane::time::Instant;

/// Who is restarted when one has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    OneForOne,
    OneForAll,
    RestForOne,
}

/// A supervisor's children, and what it does about them.
pub(crate) struct Family {
    strategy: Strategy,
    restarts: u32,
    within: Duration,
    back_off: Box<dyn Fn(u32) -> Duration + Send>,
    patience: Duration,
    children: Vec<Child>,
    /// When which child failed, as far back as the limit looks.
    failures: VecDeque<(Instant, usize)>,
    signal: Arc<Signal>,
}

/// One child.
pub(crate) struct Child {
    control: Arc<Control>,
    mailbox: &'static dyn AnyMailbox,
    life: u64,
    what: &'static str,
    plan: Plan,
}

/// What is to become of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// It is started at this time.
    Start(Instant),
    /// It was started; to find it failed is news.
    Run,
    /// It has ended, or is left alone.
    Gone,
}

/// What a supervisor sees.
enum Event {
    Ordered(Look),
    Failed(usize, Exit),
    Due(usize),
}

/// How a supervisor's work ended.
enum Verdict {
    Ordered(Look),
    GaveUp(String),
}

impl Child {
    pub(crate) fn new(control: Arc<Control>, mailbox: &'static dyn AnyMailbox, life: u64, what: &'static str) -> Child {
        Child { control, mailbox, life, what, plan: Plan::Gone }
    }

    fn want(&self, wanted: Wanted) {
        self.control.want(wanted);
        self.mailbox.attend(self.life);
    }

    /// Wants the child's end: at once, or when it has handled what it has.
    fn end(&self, order: Order) {
        self.control.want(Wanted::End);
        self.mailbox.order(self.life, order);
    }
}

/// Lives a supervisor's life.
pub(crate) async fn live(mut family: Family, life: Life<Supervision>) {
    loop {
        if let Permission::End(exit) = life.permission().await {
            family.end_all(&life, Order::Kill).await;
            return life.end(exit);
        }
        family.plan_starts();
        match family.work(&life).await {
            Verdict::Ordered(Look::Suspend) => {
                family.suspend(0..family.children.len(), &life).await;
                life.is_down(None);
            }
            Verdict::Ordered(Look::Kill) => {
                family.end_all(&life, Order::Kill).await;
                return life.end(Exit::Killed);
            }
            Verdict::Ordered(Look::Drain | Look::GoOn) => {
                family.end_all(&life, Order::Drain).await;
                return life.end(Exit::Stopped);
            }
            Verdict::GaveUp(words) => {
                say(format_args!("a supervisor gave up: {words}"));
                family.suspend(0..family.children.len(), &life).await;
                family.failures.clear();
                if life.control.is_none() {
                    family.end_all(&life, Order::Kill).await;
                    return life.end(Exit::GaveUp(words));
                }
                life.is_down(Some(Exit::GaveUp(words)));
            }
        }
    }
}

impl Family {
    pub(crate) fn new(strategy: Strategy, restarts: u32, within: Duration, patience: Duration) -> Family {
        Family {
            strategy,
            restarts,
            within,
            back_off: Box::new(back_off::constant(Duration::ZERO)),
            patience,
            children: Vec::new(),
            failures: VecDeque::new(),
            signal: Arc::default(),
        }
    }

    pub(crate) fn set_limit(&mut self, restarts: u32, within: Duration) {
        (self.restarts, self.within) = (restarts, within);
    }

    pub(crate) fn set_back_off(&mut self, back_off: Box<dyn Fn(u32) -> Duration + Send>) {
        self.back_off = back_off;
    }

    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// The place where a new child and this supervisor will write.
    pub(crate) fn control(&self) -> Arc<Control> {
        Arc::new(Control::new(&self.signal))
    }

    pub(crate) fn adopt(&mut self, child: Child) {
        self.children.push(child);
    }

    /// All start, who have not ended.
    fn plan_starts(&mut self) {
        let now = fiber::now();
        for child in &mut self.children {
            child.plan = match child.control.phase() {
                Phase::Ended(_) => Plan::Gone,
                _ => Plan::Start(now),
            };
        }
    }

    /// Keeps the children running, until something else is ordered or it is no use any more.
    async fn work(&mut self, life: &Life<Supervision>) -> Verdict {
        loop {
            match self.event(life).await {
                Event::Ordered(look) => return Verdict::Ordered(look),
                Event::Failed(index, exit) => {
                    if let Err(words) = self.restart(index, &exit, life).await {
                        return Verdict::GaveUp(words);
                    }
                }
                Event::Due(index) => {
                    let child = &mut self.children[index];
                    child.plan = Plan::Run;
                    child.control.want(Wanted::Up);
                    let control = Arc::clone(&child.control);
                    // In order: the next starts when this one has, or has failed to.
                    self.until(None, life, || match life.look() {
                        Look::GoOn => (control.phase() != Phase::Starting).then_some(()),
                        _ => Some(()),
                    })
                    .await;
                }
            }
        }
    }

    /// Parks until there is something to do.
    async fn event(&mut self, life: &Life<Supervision>) -> Event {
        loop {
            let mut next = None;
            for (index, child) in self.children.iter_mut().enumerate() {
                if matches!(child.control.phase(), Phase::Ended(_)) {
                    child.plan = Plan::Gone;
                }
                if let Plan::Start(at) = child.plan {
                    if fiber::is_cancelled() {
                        // The program stops, and nothing is started any more.
                        child.end(Order::Kill);
                        child.plan = Plan::Gone;
                    } else if next.is_none_or(|(earliest, _)| at < earliest) {
                        next = Some((at, index));
                    }
                }
            }
            let children = &self.children;
            let seen = self.until(next.map(|(at, _)| at), life, || {
                match life.look() {
                    Look::GoOn => {}
                    look => return Some(Event::Ordered(look)),
                }
                children.iter().enumerate().find_map(|(index, child)| match (child.control.phase(), child.plan) {
                    (Phase::Failed(exit), Plan::Run) => Some(Event::Failed(index, exit)),
                    _ => None,
                })
            });
            match (seen.await, next) {
                (Some(event), _) => return event,
                (None, Some((at, index))) if at <= fiber::now() => return Event::Due(index),
                (None, _) => {}
            }
        }
    }

    /// Plans the restart of a child that failed, and of those that go with it, which are taken down before; or says why
    /// it is no use.
    async fn restart(&mut self, index: usize, exit: &Exit, life: &Life<Supervision>) -> Result<(), String> {
        let now = fiber::now();
        self.failures.push_back((now, index));
        while self.failures.front().is_some_and(|(at, _)| now - *at > self.within) {
            self.failures.pop_front();
        }
        if self.failures.len() as u64 > u64::from(self.restarts) {
            let (what, times) = (self.children[index].what, self.failures.len());
            return Err(format!("{times} failures within {:?}, the last: {what} {exit}", self.within));
        }
        let before = self.failures.iter().filter(|(_, failed)| *failed == index).count() - 1;
        let before = u32::try_from(before).unwrap_or(u32::MAX);
        let wait = catch_unwind(AssertUnwindSafe(|| (self.back_off)(before))).unwrap_or_else(|payload| {
            life::report("a supervisor's back-off", payload);
            Duration::ZERO
        });
        let affected = match self.strategy {
            Strategy::OneForOne => index..index + 1,
            Strategy::OneForAll => 0..self.children.len(),
            Strategy::RestForOne => index..self.children.len(),
        };
        self.suspend(affected.clone(), life).await;
        for child in self.children[affected].iter_mut().filter(|child| child.plan != Plan::Gone) {
            child.plan = Plan::Start(now + wait);
        }
        Ok(())
    }

    /// Takes children down in reverse order; their lives go on.
    async fn suspend(&mut self, range: Range<usize>, life: &Life<Supervision>) {
        for index in range.rev() {
            let child = &self.children[index];
            if child.plan == Plan::Gone {
                continue;
            }
            let is_down = || matches!(child.control.phase(), Phase::Down | Phase::Failed(_) | Phase::Ended(_));
            for (wanted, gently) in [(Wanted::Down, true), (Wanted::DownNow, false)] {
                if !is_down() {
                    child.want(wanted);
                    self.within_patience(gently, life, is_down).await;
                }
            }
            if !is_down() {
                self.leave_behind(index);
            }
        }
    }

    /// Ends the children in reverse order.
    async fn end_all(&mut self, life: &Life<Supervision>, order: Order) {
        for index in (0..self.children.len()).rev() {
            let child = &self.children[index];
            let has_ended = || matches!(child.control.phase(), Phase::Ended(_));
            for (order, gently) in [(order, true), (Order::Kill, false)] {
                if !has_ended() {
                    child.end(order);
                    self.within_patience(gently, life, has_ended).await;
                }
            }
            if !has_ended() {
                self.leave_behind(index);
            }
        }
    }

    /// A child does not go down, whatever is done.
    fn leave_behind(&mut self, index: usize) {
        let child = &mut self.children[index];
        child.end(Order::Kill);
        child.plan = Plan::Gone;
        let span = self.patience.saturating_mul(2);
        say(format_args!("a supervisor leaves {} behind, which did not go down within {span:?}", child.what));
    }

    /// Parks until `is_so`, as long as the supervisor is patient; gently, only until it is hurried itself.
    async fn within_patience(&self, gently: bool, life: &Life<Supervision>, is_so: impl Fn() -> bool) {
        let deadline = fiber::now() + self.patience;
        // A stop of the program does not shorten it; the program's grace is the end of both.
        fiber::protect(async || {
            self.until(Some(deadline), life, || (is_so() || gently && life.is_cancelled()).then_some(())).await
        })
        .await;
    }

    /// Parks until `look` sees something, at the latest until the deadline.
    async fn until<T>(
        &self,
        deadline: Option<Instant>,
        life: &Life<Supervision>,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let mut sleep = pin!(deadline.map(fiber::sleep_until));
        std::future::poll_fn(|cx| {
            self.signal.register(cx.waker());
            life.mailbox.function_waits(cx.waker());
            if let Some(seen) = look() {
                return Poll::Ready(Some(seen));
            }
            match sleep.as_mut().as_pin_mut() {
                Some(sleep) => sleep.poll(cx).map(|_| None),
                None => Poll::Pending,
            }
        })
        .await
    }
}

/// Children whose supervisor is gone, or never began, end.
impl Drop for Family {
    fn drop(&mut self) {
        for child in self.children.iter().rev() {
            child.end(Order::Kill);
        }
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let children: Vec<&str> = self.children.iter().map(|child| child.what).collect();
        f.debug_struct("Family").field("strategy", &self.strategy).field("children", &children).finish_non_exhaustive()
    }
}
