//! Scopes: a body and its children end together.
//!
//! The body counts as a member. When it has returned, the scope waits for every child, on every path and whatever is
//! cancelled; a scope never abandons one. The first failure or panic, of a child or of the body, cancels the others or
//! lets them finish, as the policy says; it is the scope's cause, and later ones are counted. Once only daemons are
//! left they are interrupted. Then the exit hooks run, the last registered first, sheltered from every cancel; and then
//! the scope has its outcome.
//!
//! A scope with a limit for cleaning up counts it from its cancel, or from the moment only hooks are left. When it has
//! passed, whoever is still there is dropped where it stands, at its next turn, and the scope still waits for that.
//! Nothing of it runs after the scope has ended.
//!
//! A child that is spawned into a scope that has ended, or before its first poll into one that is cancelled, never
//! starts: what it captured is dropped.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::error::{IoError, say};
use crate::scope::Call;
use crate::scope::body::{Finish, judge};
use crate::scope::cancel::{self, Kind, Node, Place, Ran, Sitting};
use crate::scope::cause::{Cause, Interrupt, Outcome, words};
use crate::scope::executor::{Boxed, Executor};
use crate::scope::member::{self, Member};
use crate::scope::options::{OnFailure, ScopeOptions};
use crate::scope::panics::CatchPanic;

/// A scope, as its body and its children see it. Clones are the same scope.
///
/// In a fiber function a closure given to [`spawn`](Scope::spawn), [`fork`](Scope::fork),
/// [`spawn_daemon`](Scope::spawn_daemon) or [`on_exit`](Scope::on_exit) of a scope is the body of a fiber, and owns
/// what it captures, where the scope goes by a plain name: the parameter of the body, a parameter or a variable whose
/// written type is called `Scope`, or a clone of one of these.
pub struct Scope<X, E = IoError> {
    state: Rc<State<X, E>>,
}

pub(crate) struct State<X, E> {
    executor: X,
    node: Node,
    /// The body's seat, whose waker is that of the fiber the scope was opened in.
    place: Place,
    on_failure: OnFailure,
    /// Members that keep the scope alive: the body and its plain children.
    members: Cell<usize>,
    daemons: Cell<usize>,
    /// The body has not left.
    body: Cell<bool>,
    cause: RefCell<Option<Cause<E>>>,
    /// A member was interrupted because time ran out.
    late: Cell<bool>,
    abandoned: Cell<u32>,
    hooks: RefCell<Vec<Boxed<()>>>,
    ended: Cell<bool>,
}

impl<X: Executor, E: 'static> Scope<X, E> {
    /// Starts a child. It is joined when the scope ends, and its error fails the scope.
    ///
    /// The body may return nothing or a `Result`. In a scope that is cancelled or has ended it never starts.
    pub fn spawn<R, F>(&self, body: impl FnOnce() -> F)
    where
        R: Finish<E> + 'static,
        R::Value: 'static,
        F: Future<Output = R> + 'static,
    {
        drop(self.start(body, member::Kind::Plain));
    }

    /// Starts a child whose value can be waited for. Dropping the handle leaves the child to the scope.
    pub fn fork<R, F>(&self, body: impl FnOnce() -> F) -> Child<X, R::Value, E>
    where
        R: Finish<E> + 'static,
        R::Value: 'static,
        F: Future<Output = R> + 'static,
    {
        self.start(body, member::Kind::Plain)
    }

    /// Starts a child that does not keep the scope alive: once only daemons are left, they are interrupted.
    pub fn spawn_daemon<R, F>(&self, body: impl FnOnce() -> F)
    where
        R: Finish<E> + 'static,
        R::Value: 'static,
        F: Future<Output = R> + 'static,
    {
        drop(self.start(body, member::Kind::Daemon));
    }

    /// Cancels the body and every child. Cancelling asks work to stop; it is no failure by itself. A second time, or
    /// after the end, it does nothing.
    pub fn cancel(&self) {
        self.state.node.cancel(Interrupt::Cancelled);
    }

    /// Fails the scope from outside its children. After the end the error is dropped.
    pub fn fail(&self, error: E) {
        if !self.state.ended.get() {
            self.state.note(Cause::fail(error));
        }
    }

    /// Why the scope is cancelled; none while it is not.
    pub fn cancelled(&self) -> Option<Interrupt> {
        self.state.node.reason()
    }

    /// When time runs out for what runs in it, on the executor's clock.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.state.node.deadline()
    }

    /// The number of children that have not ended, daemons included.
    pub fn children(&self) -> usize {
        self.state.members.get() + self.state.daemons.get() - usize::from(self.state.body.get())
    }

    /// Has `hook` run at the scope's end, after every child, sheltered from every cancel; the last registered runs
    /// first. After the end it is dropped.
    pub fn on_exit<F: Future<Output = ()> + 'static>(&self, hook: impl FnOnce() -> F + 'static) {
        if !self.state.ended.get() {
            self.state.hooks.borrow_mut().push(Box::pin(async move { hook().await }));
        }
    }

    /// A child that stands for work elsewhere, and ends when that has, whatever is cancelled or given up.
    pub(crate) fn stand_for<R, F>(&self, body: impl FnOnce() -> F) -> Child<X, R::Value, E>
    where
        R: Finish<E> + 'static,
        R::Value: 'static,
        F: Future<Output = R> + 'static,
    {
        self.start(body, member::Kind::StandsForAnother)
    }

    fn start<R, F>(&self, body: impl FnOnce() -> F, kind: member::Kind) -> Child<X, R::Value, E>
    where
        R: Finish<E> + 'static,
        R::Value: 'static,
        F: Future<Output = R> + 'static,
    {
        let state = &self.state;
        if state.ended.get() {
            return Child { task: None, place: state.place.clone(), state: Rc::clone(state) };
        }
        let work = state.node.run(body());
        let place = work.place().clone();
        let task = state.executor.start(Member::new(Rc::clone(state), work, kind));
        Child { task, place, state: Rc::clone(state) }
    }
}

impl<X, E> State<X, E> {
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// A cause comes up: the first is kept, and cancels the others if the policy says so. Interruptions are somebody's
    /// will already, and cancel nobody.
    pub(crate) fn note(&self, cause: Cause<E>) {
        if let Some(reason) = cause.interrupt() {
            self.late.set(self.late.get() || reason == Interrupt::Deadline);
            return;
        }
        let mut kept = self.cause.borrow_mut();
        *kept = Some(match kept.take() {
            None => cause,
            Some(first) => first.with_suppressed(1),
        });
        drop(kept);
        if self.on_failure == OnFailure::CancelSiblings {
            self.node.cancel(Interrupt::SiblingFailed);
        }
    }

    /// A member was dropped because it did not clean up in time.
    pub(crate) fn abandon(&self) {
        self.abandoned.set(self.abandoned.get().saturating_add(1));
    }

    /// A member came.
    #[inline]
    pub(crate) fn joined(&self, daemon: bool) {
        let count = if daemon { &self.daemons } else { &self.members };
        count.set(count.get() + 1);
    }

    /// A member left.
    #[inline]
    pub(crate) fn left(&self, daemon: bool) {
        let count = if daemon { &self.daemons } else { &self.members };
        count.set(count.get() - 1);
        if self.members.get() == 0 {
            if self.daemons.get() == 0 {
                self.place.wake();
            } else if !daemon {
                self.node.cancel(Interrupt::Daemon);
            }
        }
    }

    /// Whether somebody had no time left.
    fn is_late(&self) -> bool {
        self.late.get() || self.abandoned.get() > 0 && self.node.reason() == Some(Interrupt::Deadline)
    }

    fn is_empty(&self) -> bool {
        self.members.get() == 0 && self.daemons.get() == 0
    }
}

/// A child whose value can be waited for. It may outlive its scope, and then says how the child ended.
pub struct Child<X: Executor, T: 'static, E = IoError> {
    /// None when it never started.
    task: Option<X::Task<Result<T, Interrupt>>>,
    place: Place,
    state: Rc<State<X, E>>,
}

impl<X: Executor, T: 'static, E: 'static> Child<X, T, E> {
    /// Whether the child has ended.
    pub fn is_finished(&self) -> bool {
        self.task.as_ref().is_none_or(|task| X::is_finished(task))
    }

    /// Asks the child to stop: its verbs answer ECANCELED. Its scope goes on, and so do its siblings. After its end, or
    /// a second time, it does nothing.
    pub fn interrupt(&self) {
        if !self.is_finished() {
            self.place.cancel(Interrupt::Cancelled);
        }
    }

    /// Asks the child to stop, and waits until it has, its clean-up included.
    ///
    /// # Errors
    ///
    /// As [`join`](Child::join).
    pub fn cancel(self) -> Call<JoinChild<X, T, E>> {
        self.interrupt();
        self.join()
    }

    /// Waits for the child's end, and gives its value.
    ///
    /// # Errors
    ///
    /// Why it has none: a child that failed or panicked hands its cause to its scope, and who joins it hears
    /// [`Interrupt::SiblingFailed`]; one that was interrupted tells the reason. When the one who waits is cancelled
    /// first, it is interrupted, and the child goes on.
    pub fn join(self) -> Call<JoinChild<X, T, E>> {
        Call::new(JoinChild { child: self })
    }
}

/// The future of [`Child::join`].
#[must_use = "it does nothing until it is awaited"]
pub struct JoinChild<X: Executor, T: 'static, E> {
    child: Child<X, T, E>,
}

impl<X: Executor, T: 'static, E: 'static> Future for JoinChild<X, T, E> {
    type Output = Outcome<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<T, E>> {
        let Some(task) = &mut self.child.task else {
            let reason = self.child.state.node.reason().unwrap_or(Interrupt::Cancelled);
            return Poll::Ready(Err(Cause::interrupted(reason)));
        };
        if let Poll::Ready(ended) = Pin::new(task).poll(cx) {
            self.child.task = None;
            let ended = ended.unwrap_or(Err(Interrupt::Shutdown));
            // A member that hears of another's failure is interrupted by it, whatever it makes of it.
            let _told = ended.is_err() && cancel::is_cancelled();
            return Poll::Ready(ended.map_err(Cause::interrupted));
        }
        if cancel::is_cancelled() {
            return Poll::Ready(Err(Cause::interrupted(cancel::interrupt().unwrap_or(Interrupt::Cancelled))));
        }
        Poll::Pending
    }
}

/// Opens a scope below the current one, runs `body` in it, and ends when everything in it has.
pub async fn open<X, E, R>(
    executor: X,
    options: ScopeOptions,
    body: impl AsyncFnOnce(Scope<X, E>) -> R,
) -> Outcome<R::Value, E>
where
    X: Executor,
    E: 'static,
    R: Finish<E>,
{
    let limit = options.deadline.filter(|limit| *limit != Duration::MAX);
    let at = limit.map(|limit| executor.now().saturating_add(limit));
    let node = Node::here(Kind::Open, at);
    let over = limit == Some(Duration::ZERO);
    if over {
        node.cancel(Interrupt::Deadline);
    }
    let sitting = Sitting(node.sit());
    let mut limits = Limits {
        deadline: at.filter(|_| !over).map(|at| executor.timer(at)),
        cleanup: options.cleanup.filter(|limit| *limit != Duration::MAX),
        cleaning: None,
        over: false,
    };
    let state = Rc::new(State {
        executor,
        place: sitting.0.clone(),
        node,
        on_failure: options.on_failure,
        members: Cell::new(1),
        daemons: Cell::new(0),
        body: Cell::new(true),
        cause: RefCell::new(None),
        late: Cell::new(false),
        abandoned: Cell::new(0),
        hooks: RefCell::default(),
        ended: Cell::new(false),
    });
    let opened = Opened { state: Rc::clone(&state), sitting };
    let body = CatchPanic { future: body(Scope { state: Rc::clone(&state) }) };
    let ended = BodyRuns { body, state: &state, limits: &mut limits, told: false }.await;
    let own = match ended {
        Some(ended) => judge::<R, E>(ended),
        None => {
            state.abandon();
            Err(Cause::interrupted(Interrupt::CleanupTimeout))
        }
    };
    let own = own.map_err(|cause| {
        let reason = cause.interrupt();
        state.note(cause);
        reason
    });
    opened.body_left();
    std::future::poll_fn(|cx| {
        limits.poll(&state, cx);
        state.node.heed();
        if state.is_empty() {
            return Poll::Ready(());
        }
        state.executor.waits_for_children();
        state.place.waits(cx.waker());
        Poll::Pending
    })
    .await;
    state.ended.set(true);
    if !state.hooks.borrow().is_empty() {
        run_hooks(&state, &mut limits).await;
    }
    outcome(&state, own)
}

/// What the scope came to, everything in it having ended.
fn outcome<X, T, E>(state: &State<X, E>, own: Result<T, Option<Interrupt>>) -> Outcome<T, E> {
    let abandoned = state.abandoned.get();
    let cause = match (state.cause.borrow_mut().take(), own) {
        (Some(cause), _) => cause,
        (None, Ok(_)) if state.is_late() => Cause::interrupted(Interrupt::Deadline),
        (None, Ok(_)) if abandoned > 0 => Cause::interrupted(Interrupt::CleanupTimeout),
        (None, Ok(value)) => return Ok(value),
        (None, Err(reason)) => Cause::interrupted(reason.unwrap_or(Interrupt::Cancelled)),
    };
    Err(cause.with_abandoned(abandoned))
}

/// A scope whose future has not ended. Dropped half-way, its children are cancelled and left to themselves.
struct Opened<X, E> {
    state: Rc<State<X, E>>,
    sitting: Sitting,
}

impl<X, E> Opened<X, E> {
    fn body_left(&self) {
        let state = &self.state;
        if state.body.replace(false) {
            // Who would be woken by the last to leave is the one that asks here.
            state.members.set(state.members.get() - 1);
            if state.members.get() == 0 && state.daemons.get() > 0 {
                state.node.cancel(Interrupt::Daemon);
            }
        }
    }
}

impl<X, E> Drop for Opened<X, E> {
    fn drop(&mut self) {
        let _kept = &self.sitting;
        if !self.state.ended.replace(true) {
            self.state.node.cancel(Interrupt::Cancelled);
        }
        self.body_left();
    }
}

/// The times a scope keeps.
struct Limits {
    /// The scope is cancelled when this ends.
    deadline: Option<Boxed<()>>,
    cleanup: Option<Duration>,
    /// It is given up when this ends.
    cleaning: Option<Boxed<()>>,
    over: bool,
}

impl Limits {
    /// Keeps them.
    #[inline]
    fn poll<X: Executor, E>(&mut self, state: &State<X, E>, cx: &mut Context<'_>) {
        if self.deadline.is_some() || self.cleanup.is_some() {
            self.keep(state, cx);
        }
    }

    fn keep<X: Executor, E>(&mut self, state: &State<X, E>, cx: &mut Context<'_>) {
        if let Some(timer) = &mut self.deadline
            && timer.as_mut().poll(cx).is_ready()
        {
            self.deadline = None;
            state.node.cancel(Interrupt::Deadline);
        }
        if let Some(limit) = self.cleanup
            && self.cleaning.is_none()
            && !self.over
            && (state.node.reason().is_some() || state.ended.get())
        {
            self.cleaning = Some(state.executor.timer(state.executor.now().saturating_add(limit)));
        }
        if let Some(timer) = &mut self.cleaning
            && timer.as_mut().poll(cx).is_ready()
        {
            self.cleaning = None;
            self.over = true;
            say(format_args!(
                "a scope's time to clean up has passed; {} of its members are dropped where they stand",
                state.members.get() + state.daemons.get()
            ));
            state.node.give_up();
        }
    }
}

pin_project! {
    /// The scope's body. None when it did not clean up in time.
    struct BodyRuns<'a, X, E, F> {
        #[pin]
        body: CatchPanic<F>,
        state: &'a State<X, E>,
        limits: &'a mut Limits,
        told: bool,
    }
}

impl<X: Executor, E, F: Future> Future for BodyRuns<'_, X, E, F> {
    type Output = Option<std::thread::Result<Ran<F::Output>>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let state = *this.state;
        this.limits.poll(state, cx);
        if state.node.is_given_up() {
            return Poll::Ready(None);
        }
        let (polled, told) = state.place.poll(|| this.body.poll(cx));
        *this.told |= told;
        match polled {
            Poll::Ready(ended) => {
                let interrupted = this.told.then(|| state.place.reason().unwrap_or(Interrupt::Shutdown));
                Poll::Ready(Some(ended.map(|output| Ran { output, interrupted })))
            }
            Poll::Pending => {
                // It may have cancelled itself just now.
                this.limits.poll(state, cx);
                state.place.waits(cx.waker());
                if state.node.is_given_up() { Poll::Ready(None) } else { Poll::Pending }
            }
        }
    }
}

/// The hooks have a time for cleaning up of their own: what used up the members' must not cost them theirs.
async fn run_hooks<X: Executor, E>(state: &State<X, E>, limits: &mut Limits) {
    limits.over = false;
    limits.cleaning = None;
    let shelter = state.node.protected_child();
    loop {
        let Some(hook) = state.hooks.borrow_mut().pop() else { return };
        let mut hook = std::pin::pin!(CatchPanic { future: shelter.run(hook) });
        let ended = std::future::poll_fn(|cx| {
            limits.poll(state, cx);
            if limits.over { Poll::Ready(None) } else { hook.as_mut().poll(cx).map(Some) }
        })
        .await;
        match ended {
            Some(Ok(_)) => {}
            Some(Err(payload)) => {
                say(format_args!("an exit hook panicked: {}", words(payload.as_ref())));
                state.note(Cause::die(payload));
            }
            None => {
                let left = state.hooks.take();
                (0..=left.len()).for_each(|_| state.abandon());
                return;
            }
        }
    }
}

impl<X, E> Clone for Scope<X, E> {
    fn clone(&self) -> Scope<X, E> {
        Scope { state: Rc::clone(&self.state) }
    }
}

impl<X, E> fmt::Debug for Scope<X, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("members", &self.state.members)
            .field("daemons", &self.state.daemons)
            .field("node", &self.state.node)
            .finish_non_exhaustive()
    }
}

impl<X: Executor, T, E: 'static> fmt::Debug for Child<X, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("finished", &self.is_finished()).finish()
    }
}

impl<X: Executor, T, E> fmt::Debug for JoinChild<X, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinChild")
    }
}
