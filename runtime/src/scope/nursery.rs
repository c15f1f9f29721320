//! Scopes: a body and its children end together.
//!
//! The body counts as a member. When it has returned, the scope waits for every child, on every path and whatever is
//! cancelled; a scope never abandons one. The first failure or panic, of a child or of the body, cancels the others or
//! lets them finish, as the policy says; it is the scope's cause, and later ones are counted. Once only daemons are
//! left they are interrupted. Then the exit hooks run, the last registered first, sheltered from every cancel; and then
//! the scope has its outcome.
//!
//! A child that is spawned into a scope that has ended, or before its first poll into one that is cancelled, never
//! starts: what it captured is dropped.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

use crate::error::{IoError, say};
use crate::scope::body::{Finish, judge};
use crate::scope::cancel::{Node, current};
use crate::scope::cause::{Cause, Interrupt, Outcome, words};
use crate::scope::executor::{Boxed, Executor};

/// What a child's failure does to its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// They are cancelled.
    #[default]
    CancelSiblings,
    /// They finish.
    Collect,
}

/// A scope, as its body and its children see it. Clones are the same scope.
pub struct Scope<X, E = IoError> {
    state: Rc<State<X, E>>,
}

struct State<X, E> {
    executor: X,
    node: Node,
    on_failure: OnFailure,
    /// Members that keep the scope alive: the body and its plain children.
    members: Cell<usize>,
    daemons: Cell<usize>,
    cause: RefCell<Option<Cause<E>>>,
    hooks: RefCell<Vec<Boxed<()>>>,
    joiner: Cell<Option<Waker>>,
    ended: Cell<bool>,
}

impl<X: Executor, E: 'static> Scope<X, E> {
    /// Starts a child. It is joined when the scope ends.
    pub fn spawn<R, F>(&self, body: impl FnOnce() -> F)
    where
        R: Finish<E> + 'static,
        F: Future<Output = R> + 'static,
    {
        drop(self.fork(body));
    }

    /// Starts a child whose value can be waited for. Dropping the handle leaves the child to the scope.
    pub fn fork<R, F>(&self, body: impl FnOnce() -> F) -> Child<R::Value, E>
    where
        R: Finish<E> + 'static,
        R::Value: 'static,
        F: Future<Output = R> + 'static,
    {
        self.start(body, false)
    }

    /// Starts a child that does not keep the scope alive: once only daemons are left, they are interrupted.
    pub fn spawn_daemon<R, F>(&self, body: impl FnOnce() -> F)
    where
        R: Finish<E> + 'static,
        F: Future<Output = R> + 'static,
    {
        drop(self.start(body, true));
    }

    /// Cancels the body and every child. Cancelling asks work to stop; it is no failure by itself.
    pub fn cancel(&self) {
        self.state.node.cancel(Interrupt::Cancelled);
    }

    /// Fails the scope from outside its children.
    pub fn fail(&self, error: E) {
        self.state.note(Cause::fail(error));
    }

    /// Why the scope is cancelled; none while it is not.
    pub fn cancelled(&self) -> Option<Interrupt> {
        self.state.node.reason()
    }

    /// Has `hook` run at the scope's end, after every child, sheltered from every cancel; the last registered runs
    /// first. After the end it is dropped.
    pub fn on_exit<F: Future<Output = ()> + 'static>(&self, hook: impl FnOnce() -> F + 'static) {
        if !self.state.ended.get() {
            self.state.hooks.borrow_mut().push(Box::pin(async move { hook().await }));
        }
    }

    fn start<R, F>(&self, body: impl FnOnce() -> F, daemon: bool) -> Child<R::Value, E>
    where
        R: Finish<E> + 'static,
        F: Future<Output = R> + 'static,
    {
        let told = Rc::new(Told { outcome: RefCell::new(None), waker: Cell::new(None) });
        let child = Child { told: Rc::clone(&told) };
        let state = Rc::clone(&self.state);
        if state.ended.get() {
            told.tell(Err(Cause::interrupted(state.node.reason().unwrap_or(Interrupt::Cancelled))));
            return child;
        }
        let count = if daemon { &state.daemons } else { &state.members };
        count.set(count.get() + 1);
        let seat = Seat { state: Rc::clone(&state), told, daemon };
        let node = state.node.child();
        let body = body();
        state.executor.start(async move {
            // Dropping the seat, on whichever way out, gives the place up.
            let mut seat = seat;
            if let Some(reason) = node.reason() {
                drop(body);
                return seat.end(Err(Cause::interrupted(reason)));
            }
            let ended = CatchPanic { future: node.run(body) }.await;
            seat.end(judge(ended));
        });
        child
    }
}

impl<X, E> State<X, E> {
    /// A cause comes up: the first is kept, and cancels the others if the policy says so. Interruptions are somebody's
    /// will already, and cancel nobody.
    fn note(&self, cause: Cause<E>) {
        let bad = cause.interrupt().is_none();
        let mut kept = self.cause.borrow_mut();
        match kept.take() {
            None if bad => *kept = Some(cause),
            None => {}
            Some(first) => *kept = Some(if bad { first.with_suppressed(1) } else { first }),
        }
        drop(kept);
        if bad && self.on_failure == OnFailure::CancelSiblings {
            self.node.cancel(Interrupt::Cancelled);
        }
    }

    /// A member left.
    fn left(&self, daemon: bool) {
        let count = if daemon { &self.daemons } else { &self.members };
        count.set(count.get() - 1);
        if self.members.get() == 0 && !daemon {
            self.node.cancel(Interrupt::Daemon);
        }
        if self.members.get() == 0
            && self.daemons.get() == 0
            && let Some(joiner) = self.joiner.take()
        {
            joiner.wake();
        }
    }
}

/// A child's place in its scope.
struct Seat<X, T, E> {
    state: Rc<State<X, E>>,
    told: Rc<Told<T, E>>,
    daemon: bool,
}

impl<X, T, E> Seat<X, T, E> {
    fn end(&mut self, outcome: Outcome<T, E>) {
        let outcome = match outcome {
            Ok(value) => Ok(value),
            // The scope keeps the cause; whoever joins this child hears that it ended badly.
            Err(cause) => {
                let told = match cause.interrupt() {
                    Some(reason) => Cause::interrupted(reason),
                    None => Cause::interrupted(Interrupt::Cancelled),
                };
                if !(self.daemon && cause.interrupt().is_some()) {
                    self.state.note(cause);
                }
                Err(told)
            }
        };
        self.told.tell(outcome);
    }
}

impl<X, T, E> Drop for Seat<X, T, E> {
    fn drop(&mut self) {
        self.told.tell_if_silent();
        self.state.left(self.daemon);
    }
}

struct Told<T, E> {
    outcome: RefCell<Option<Outcome<T, E>>>,
    waker: Cell<Option<Waker>>,
}

impl<T, E> Told<T, E> {
    fn tell(&self, outcome: Outcome<T, E>) {
        self.outcome.borrow_mut().get_or_insert(outcome);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn tell_if_silent(&self) {
        if self.outcome.borrow().is_none() {
            self.tell(Err(Cause::interrupted(Interrupt::Shutdown)));
        }
    }
}

/// A child whose value can be waited for.
pub struct Child<T, E = IoError> {
    told: Rc<Told<T, E>>,
}

impl<T, E> Child<T, E> {
    /// Whether the child has ended.
    pub fn is_finished(&self) -> bool {
        self.told.outcome.borrow().is_some()
    }

    /// Ends with the child. When the one who waits is cancelled first, it is interrupted, and the child goes on.
    pub fn join(self) -> JoinChild<T, E> {
        JoinChild { told: self.told }
    }
}

/// The future of [`Child::join`].
#[must_use = "it does nothing until it is awaited"]
pub struct JoinChild<T, E> {
    told: Rc<Told<T, E>>,
}

impl<T, E> Future for JoinChild<T, E> {
    type Output = Outcome<T, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<T, E>> {
        if let Some(outcome) = self.told.outcome.borrow_mut().take() {
            return Poll::Ready(outcome);
        }
        if crate::scope::cancel::is_cancelled() {
            let reason = current().and_then(|node| node.reason()).unwrap_or(Interrupt::Shutdown);
            return Poll::Ready(Err(Cause::interrupted(reason)));
        }
        self.told.waker.set(Some(cx.waker().clone()));
        Poll::Pending
    }
}

/// Opens a scope below the current one, runs `body` in it, and ends when everything in it has.
pub async fn open<X, E, R, F>(
    executor: X,
    on_failure: OnFailure,
    body: impl FnOnce(Scope<X, E>) -> F,
) -> Outcome<R::Value, E>
where
    X: Executor,
    E: 'static,
    R: Finish<E>,
    F: Future<Output = R>,
{
    let node = current().map_or_else(Node::root, |outer| outer.child());
    let state = Rc::new(State {
        executor,
        node: node.clone(),
        on_failure,
        members: Cell::new(1),
        daemons: Cell::new(0),
        cause: RefCell::new(None),
        hooks: RefCell::default(),
        joiner: Cell::new(None),
        ended: Cell::new(false),
    });
    let leave = Leave(Rc::clone(&state));
    let body = body(Scope { state: Rc::clone(&state) });
    let ended = CatchPanic { future: node.run(body) }.await;
    let own = match judge::<R, E>(ended) {
        Ok(value) => Some(value),
        Err(cause) => {
            // A body that is interrupted because a child failed has nothing of its own to add.
            state.note(cause);
            None
        }
    };
    drop(leave);
    Joined { state: Rc::clone(&state) }.await;
    state.ended.set(true);
    run_hooks(&state).await;
    let cause = state.cause.borrow_mut().take();
    match (own, cause) {
        (_, Some(cause)) => Err(cause),
        (Some(value), None) => Ok(value),
        (None, None) => Err(Cause::interrupted(node.reason().unwrap_or(Interrupt::Cancelled))),
    }
}

/// The body leaves its scope; when its future is dropped half-way, the children are cancelled.
struct Leave<X, E>(Rc<State<X, E>>);

impl<X, E> Drop for Leave<X, E> {
    fn drop(&mut self) {
        self.0.left(false);
    }
}

/// Ends when no member is left.
struct Joined<X, E> {
    state: Rc<State<X, E>>,
}

impl<X, E> Future for Joined<X, E> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.state.members.get() == 0 && self.state.daemons.get() == 0 {
            return Poll::Ready(());
        }
        self.state.joiner.set(Some(cx.waker().clone()));
        Poll::Pending
    }
}

async fn run_hooks<X, E>(state: &State<X, E>) {
    let shelter = state.node.protected_child();
    loop {
        let Some(hook) = state.hooks.borrow_mut().pop() else { return };
        if let Err(payload) = (CatchPanic { future: shelter.run(hook) }).await {
            say(format_args!("an exit hook panicked: {}", words(payload.as_ref())));
            state.note(Cause::die(payload));
        }
    }
}

pin_project! {
    /// A panic of the future is its answer.
    struct CatchPanic<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for CatchPanic<F> {
    type Output = std::thread::Result<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.project().future;
        match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(polled) => polled.map(Ok),
            Err(payload) => Poll::Ready(Err(payload)),
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

impl<T, E> fmt::Debug for Child<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("finished", &self.is_finished()).finish()
    }
}

impl<T, E> fmt::Debug for JoinChild<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinChild")
    }
}
