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

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::error::{IoError, say};
use crate::scope::Call;
use crate::scope::body::{Body, Finish, judge};
use crate::scope::cause::{Cause, Interrupt, Outcome, words};
use crate::scope::executor::{Boxed, Executor};
use crate::scope::member::{self, Member};
use crate::scope::node::{Kind, Node, Owned, Place, Ran, Sitting};
use crate::scope::now;
use crate::scope::options::{OnFailure, ScopeOptions};
use crate::scope::panics::CatchPanic;

/// A scope, as its body and its children see it. Clones are the same scope.
///
/// In a fiber function a closure given to [`spawn`](Scope::spawn), [`fork`](Scope::fork),
/// [`spawn_daemon`](Scope::spawn_daemon) or [`on_exit`](Scope::on_exit) of a scope is the body of a fiber, and owns
/// what it captures, where the scope goes by a plain name: the parameter of the body, a parameter or a variable whose
/// written type is called `Scope`, or a clone of one of these. One that is kept in a field is given a name first:
/// `let children: wo::Scope = server.children.clone();`.
///
/// It may be kept beyond the scope's end. Then it starts nothing, cancels nothing and keeps no hook.
///
/// # Examples
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
///
/// #[wo::main]
/// fn main() {
///     let count = Rc::new(Cell::new(0));
///     let seen = Rc::clone(&count);
///     let mut kept = None;
///     let outcome: wo::Outcome<()> = wo::scope(|s: wo::Scope| {
///         for _ in 0..3 {
///             let seen = Rc::clone(&seen);
///             s.spawn(|| seen.set(seen.get() + 1));
///         }
///         kept = Some(s.clone());
///     });
///     assert!(outcome.is_ok());
///     assert_eq!((count.get(), kept.map(|s| s.children())), (3, Some(0)));
/// }
/// ```
pub struct Scope<X, E = IoError> {
    node: Node,
    executor: X,
    error: PhantomData<fn(E) -> E>,
}

impl<X: Executor, E: 'static> Scope<X, E> {
    /// Starts a child. It is joined when the scope ends, and its error fails the scope.
    ///
    /// The body may return nothing or a `Result`. In a scope that is cancelled or has ended it never starts.
    ///
    /// # Examples
    ///
    /// ```
    /// #[wo::main]
    /// fn main() {
    ///     let outcome: wo::Outcome<(), &str> = wo::scope(|s: wo::Scope<&str>| {
    ///         s.spawn(|| Err::<(), _>("no route"));
    ///     });
    ///     assert_eq!(outcome.unwrap_err().to_string(), "failed: no route");
    /// }
    /// ```
    #[inline(always)]
    pub fn spawn<R, F>(&self, body: impl FnOnce() -> F)
    where
        R: Finish<E> + 'static,
        R::Value: 'static,
        F: Body<Result = R> + 'static,
    {
        drop(self.start(body, member::Kind::Plain));
    }

    /// Starts a child whose value can be waited for. Dropping the handle leaves the child to the scope.
    ///
    /// # Examples
    ///
    /// ```
    /// #[wo::main]
    /// fn main() {
    ///     let outcome: wo::Outcome<u32> = wo::scope(|s: wo::Scope| {
    ///         let child = s.fork(|| Ok(20));
    ///         Ok(child.join()? + 1)
    ///     });
    ///     assert_eq!(outcome.unwrap(), 21);
    /// }
    /// ```
    #[inline(always)]
    pub fn fork<R, F>(&self, body: impl FnOnce() -> F) -> Child<X, R::Value, E>
    where
        R: Finish<E> + 'static,
        R::Value: 'static,
        F: Body<Result = R> + 'static,
    {
        self.start(body, member::Kind::Plain)
    }

    /// Starts a child that does not keep the scope alive: once only daemons are left, they are interrupted.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// #[wo::main]
    /// fn main() {
    ///     let outcome: wo::Outcome<&str> = wo::scope(|s: wo::Scope| {
    ///         s.spawn_daemon(|| wo::sleep(Duration::MAX));
    ///         Ok("served")
    ///     });
    ///     assert_eq!(outcome.unwrap(), "served");
    /// }
    /// ```
    #[inline(always)]
    pub fn spawn_daemon<R, F>(&self, body: impl FnOnce() -> F)
    where
        R: Finish<E> + 'static,
        R::Value: 'static,
        F: Body<Result = R> + 'static,
    {
        drop(self.start(body, member::Kind::Daemon));
    }

    /// Cancels the body and every child. Cancelling asks work to stop; it is no failure by itself. A second time, or
    /// after the end, it does nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// #[wo::main]
    /// fn main() {
    ///     let outcome: wo::Outcome<()> = wo::scope(|s: wo::Scope| {
    ///         s.cancel();
    ///         wo::sleep(Duration::MAX)
    ///     });
    ///     assert_eq!(outcome.unwrap_err().interrupt(), Some(wo::Interrupt::Cancelled));
    /// }
    /// ```
    pub fn cancel(&self) {
        self.node.cancel(Interrupt::Cancelled);
    }

    /// Fails the scope from outside its children. After the end the error is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// #[wo::main]
    /// fn main() {
    ///     let outcome: wo::Outcome<(), &str> = wo::scope(|s: wo::Scope<&str>| {
    ///         s.spawn(|| wo::sleep(Duration::MAX).map_err(|_| "interrupted"));
    ///         s.fail("the peer has gone");
    ///     });
    ///     assert_eq!(outcome.unwrap_err().error(), Some(&"the peer has gone"));
    /// }
    /// ```
    pub fn fail(&self, error: E) {
        if !self.node.crew().has_ended() {
            self.node.note(Cause::fail(error));
        }
    }

    /// Why the scope is cancelled; none while it is not.
    ///
    /// # Examples
    ///
    /// ```
    /// #[wo::main]
    /// fn main() {
    ///     let outcome: wo::Outcome<()> = wo::scope(|s: wo::Scope| {
    ///         assert_eq!(s.cancelled(), None);
    ///         s.cancel();
    ///         assert_eq!(s.cancelled(), Some(wo::Interrupt::Cancelled));
    ///     });
    ///     assert!(outcome.is_ok(), "no checkpoint has told the body");
    /// }
    /// ```
    pub fn cancelled(&self) -> Option<Interrupt> {
        self.node.reason()
    }

    /// When time runs out for what runs in it, on the executor's clock.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.node.deadline()
    }

    /// The number of children that have not ended, daemons included.
    ///
    /// # Examples
    ///
    /// ```
    /// #[wo::main]
    /// fn main() {
    ///     let outcome: wo::Outcome<()> = wo::scope(|s: wo::Scope| {
    ///         let child = s.fork(|| wo::yield_now());
    ///         assert_eq!(s.children(), 1);
    ///         child.join()?;
    ///         assert_eq!(s.children(), 0);
    ///         Ok(())
    ///     });
    ///     assert!(outcome.is_ok());
    /// }
    /// ```
    pub fn children(&self) -> usize {
        self.node.crew().children()
    }

    /// Has `hook` run at the scope's end, after every child, sheltered from every cancel; the last registered runs
    /// first. After the end it is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::cell::RefCell;
    /// use std::rc::Rc;
    ///
    /// #[wo::main]
    /// fn main() {
    ///     let log = Rc::new(RefCell::new(Vec::new()));
    ///     let outcome: wo::Outcome<()> = wo::scope(|s: wo::Scope| {
    ///         for name in ["first", "second"] {
    ///             let log = Rc::clone(&log);
    ///             s.on_exit(|| log.borrow_mut().push(name));
    ///         }
    ///     });
    ///     assert!(outcome.is_ok());
    ///     assert_eq!(*log.borrow(), ["second", "first"]);
    /// }
    /// ```
    pub fn on_exit<F: Future<Output = ()> + 'static>(&self, hook: impl FnOnce() -> F + 'static) {
        let crew = self.node.crew();
        if !crew.has_ended() {
            crew.hook(Box::pin(async move { hook().await }));
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

    // Placed inline as far as it depends on the body, which then is made where it stays.
    #[inline(always)]
    fn start<R, F>(&self, body: impl FnOnce() -> F, kind: member::Kind) -> Child<X, R::Value, E>
    where
        R: Finish<E> + 'static,
        R::Value: 'static,
        F: Future<Output = R> + 'static,
    {
        if self.node.crew().has_ended() {
            return Child { task: None, place: self.node.owners_place(), error: PhantomData };
        }
        let place = self.node.seat();
        let member = Member::new(Sitting::at(place.clone()), body(), kind);
        Child { task: self.executor.start(member), place, error: PhantomData }
    }
}

/// A child whose value can be waited for. It may outlive its scope, and then says how the child ended.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// #[wo::main]
/// fn main() {
///     let outcome: wo::Outcome<()> = wo::scope(|s: wo::Scope| {
///         let child = s.fork(|| wo::sleep(Duration::MAX));
///         assert!(!child.is_finished());
///         // Its scope, and its siblings, go on.
///         let ended: wo::Outcome<()> = child.cancel();
///         assert_eq!(ended.unwrap_err().interrupt(), Some(wo::Interrupt::Cancelled));
///         Ok(())
///     });
///     assert!(outcome.is_ok());
/// }
/// ```
pub struct Child<X: Executor, T: 'static, E = IoError> {
    /// None when it never started.
    task: Option<X::Task<Result<T, Interrupt>>>,
    place: Place,
    error: PhantomData<fn() -> E>,
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

impl<X: Executor, T: 'static, E> Child<X, T, E> {
    /// It never started, or its end was told already.
    #[cold]
    fn has_no_end(&self) -> Cause<E> {
        Cause::interrupted(self.place.node().reason().unwrap_or(Interrupt::Cancelled))
    }
}

/// The future of [`Child::join`].
#[must_use = "it does nothing until it is awaited"]
pub struct JoinChild<X: Executor, T: 'static, E> {
    child: Child<X, T, E>,
}

impl<X: Executor, T: 'static, E: 'static> Future for JoinChild<X, T, E> {
    type Output = Outcome<T, E>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<T, E>> {
        let Some(task) = &mut self.child.task else { return Poll::Ready(Err(self.child.has_no_end())) };
        if let Poll::Ready(ended) = Pin::new(task).poll(cx) {
            self.child.task = None;
            let ended = ended.unwrap_or(Err(Interrupt::Shutdown));
            // A member that hears of another's failure is interrupted by it, whatever it makes of it.
            let _told = ended.is_err() && now::is_cancelled();
            return Poll::Ready(ended.map_err(Cause::interrupted));
        }
        if now::is_cancelled() {
            return Poll::Ready(Err(Cause::interrupted(now::interrupt().unwrap_or(Interrupt::Cancelled))));
        }
        Poll::Pending
    }
}

/// Opens a scope below the current one, runs `body` in it, and ends when everything in it has.
///
/// # Errors
///
/// Why there is no value: see [`Cause`].
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
    run(executor, |executor| Opened::with(executor, options), body).await
}

/// The same without any options.
#[inline]
pub(crate) fn open_plain<X, E, R>(
    executor: X,
    body: impl AsyncFnOnce(Scope<X, E>) -> R,
) -> impl Future<Output = Outcome<R::Value, E>>
where
    X: Executor,
    E: 'static,
    R: Finish<E>,
{
    run(executor, |_| Opened::plain(), body)
}

async fn run<X, L, E, R>(
    executor: X,
    open: impl FnOnce(&X) -> Opened<L>,
    body: impl AsyncFnOnce(Scope<X, E>) -> R,
) -> Outcome<R::Value, E>
where
    X: Executor,
    L: KeepTimes,
    E: 'static,
    R: Finish<E>,
{
    let mut opened = open(&executor);
    let scope = Scope { node: opened.node().clone(), executor: executor.clone(), error: PhantomData };
    let body = BodyRuns { body: body(scope), opened: &mut opened, told: false, error: PhantomData::<fn() -> E> };
    match body.await {
        Ok(value) if opened.ends_plainly() => Ok(value),
        own => {
            opened.node().body_left();
            std::future::poll_fn(|cx| opened.poll_left(&executor, cx)).await;
            opened.node().crew().end();
            if opened.node().crew().has_hooks() {
                // Few scopes have hooks, and all would be the larger for them.
                Box::pin(run_hooks::<L, E>(&mut opened)).await;
            }
            opened.end(own)
        }
    }
}

/// A scope whose future has not ended. Dropped half-way, its children are cancelled and left to themselves.
struct Opened<L> {
    /// It has left the tree once the scope has ended.
    owned: Owned,
    limits: L,
}

impl Opened<()> {
    #[inline]
    fn plain() -> Opened<()> {
        let owned = Owned::open(Kind::Open, None);
        owned.node().crew().begin(OnFailure::CancelSiblings);
        Opened { owned, limits: () }
    }
}

impl<X: Executor> Opened<Option<Box<Limits<X>>>> {
    fn with(executor: &X, options: ScopeOptions) -> Self {
        let limit = options.deadline.filter(|limit| *limit != Duration::MAX);
        let at = limit.map(|limit| executor.now().saturating_add(limit));
        let owned = Owned::open(Kind::Open, at);
        owned.node().crew().begin(options.on_failure);
        let over = limit == Some(Duration::ZERO);
        if over {
            owned.node().cancel(Interrupt::Deadline);
        }
        let at = at.filter(|_| !over);
        let cleanup = options.cleanup.filter(|limit| *limit != Duration::MAX);
        let limits = (at.is_some() || cleanup.is_some()).then(|| Limits::new(executor, at, cleanup));
        Opened { owned, limits }
    }
}

impl<L: KeepTimes> Opened<L> {
    /// Keeps the times.
    #[inline]
    fn keep_limits(&mut self, cx: &mut Context<'_>) {
        self.limits.keep(self.owned.node(), cx);
    }

    /// Whether everybody has left.
    fn poll_left(&mut self, executor: &impl Executor, cx: &mut Context<'_>) -> Poll<()> {
        self.keep_limits(cx);
        let node = self.node();
        now::heed(node);
        if node.crew().is_empty() {
            return Poll::Ready(());
        }
        executor.waits_for_children();
        node.owner_waits(cx.waker());
        Poll::Pending
    }

    /// What the scope came to, everything in it having ended.
    fn end<T, E: 'static>(mut self, own: Result<T, Option<Interrupt>>) -> Outcome<T, E> {
        let node = self.node();
        let abandoned = node.crew().abandoned();
        let outcome = match (node.crew().take_cause::<E>(), own) {
            (Some(cause), _) => Err(cause),
            (None, Ok(_)) if node.is_late() => Err(Cause::interrupted(Interrupt::Deadline)),
            (None, Ok(_)) if abandoned > 0 => Err(Cause::interrupted(Interrupt::CleanupTimeout)),
            (None, Ok(value)) => Ok(value),
            (None, Err(reason)) => Err(Cause::interrupted(reason.unwrap_or(Interrupt::Cancelled))),
        };
        self.owned.leave_tree();
        // Whoever opened it hears by this what has interrupted them both, and makes no failure of it.
        let _told = outcome.as_ref().is_err_and(|cause| cause.interrupt().is_some()) && now::is_cancelled();
        outcome.map_err(|cause| cause.with_abandoned(abandoned))
    }
}

impl<L> Opened<L> {
    #[inline]
    fn node(&self) -> &Node {
        self.owned.node()
    }

    /// The body has returned a value: whether that is all there is to the scope, which then has ended.
    #[inline]
    fn ends_plainly(&mut self) -> bool {
        let plainly = self.node().crew().ends_plainly();
        if plainly {
            self.owned.leave_tree();
        }
        plainly
    }
}

impl<L> Drop for Opened<L> {
    #[inline]
    fn drop(&mut self) {
        if !self.owned.has_left_tree() {
            self.dropped_half_way();
        }
    }
}

impl<L> Opened<L> {
    #[cold]
    fn dropped_half_way(&self) {
        let node = self.node();
        if !node.crew().end() {
            node.cancel(Interrupt::Cancelled);
        }
        node.body_left();
    }
}

/// What of a scope keeps its times.
trait KeepTimes {
    fn keep(&mut self, node: &Node, cx: &mut Context<'_>);

    /// Whether the time for cleaning up has passed.
    fn is_over(&self) -> bool;

    /// The time for cleaning up is to be counted anew.
    fn count_anew(&mut self);
}

/// It has none.
impl KeepTimes for () {
    #[inline(always)]
    fn keep(&mut self, _: &Node, _: &mut Context<'_>) {}

    fn is_over(&self) -> bool {
        false
    }

    fn count_anew(&mut self) {}
}

impl<X: Executor> KeepTimes for Option<Box<Limits<X>>> {
    #[inline]
    fn keep(&mut self, node: &Node, cx: &mut Context<'_>) {
        if let Some(limits) = self {
            limits.keep(node, cx);
        }
    }

    fn is_over(&self) -> bool {
        self.as_ref().is_some_and(|limits| limits.over)
    }

    fn count_anew(&mut self) {
        if let Some(limits) = self {
            limits.over = false;
            limits.cleaning = None;
        }
    }
}

/// The times of a scope that has any.
struct Limits<X> {
    executor: X,
    /// The scope is cancelled when this ends.
    deadline: Option<Boxed<()>>,
    cleanup: Option<Duration>,
    /// It is given up when this ends.
    cleaning: Option<Boxed<()>>,
    over: bool,
}

impl<X: Executor> Limits<X> {
    #[cold]
    fn new(executor: &X, deadline: Option<Duration>, cleanup: Option<Duration>) -> Box<Limits<X>> {
        Box::new(Limits {
            executor: executor.clone(),
            deadline: deadline.map(|at| executor.timer(at)),
            cleanup,
            cleaning: None,
            over: false,
        })
    }

    fn keep(&mut self, node: &Node, cx: &mut Context<'_>) {
        if let Some(timer) = &mut self.deadline
            && timer.as_mut().poll(cx).is_ready()
        {
            self.deadline = None;
            node.cancel(Interrupt::Deadline);
        }
        if let Some(limit) = self.cleanup
            && self.cleaning.is_none()
            && !self.over
            && (node.reason().is_some() || node.crew().has_ended())
        {
            self.cleaning = Some(self.executor.timer(self.executor.now().saturating_add(limit)));
        }
        if let Some(timer) = &mut self.cleaning
            && timer.as_mut().poll(cx).is_ready()
        {
            self.cleaning = None;
            self.over = true;
            say(format_args!(
                "a scope's time to clean up has passed; {} of its members are dropped where they stand",
                node.crew().len()
            ));
            node.give_up();
        }
    }
}

pin_project! {
    /// The scope's body: its value, or what interrupted it; its cause is noted then.
    struct BodyRuns<'a, L, E, F> {
        #[pin]
        body: F,
        opened: &'a mut Opened<L>,
        told: bool,
        error: PhantomData<fn() -> E>,
    }
}

impl<L: KeepTimes, E: 'static, R: Finish<E>, F: Future<Output = R>> Future for BodyRuns<'_, L, E, F> {
    type Output = Result<R::Value, Option<Interrupt>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let opened = &mut **this.opened;
        opened.keep_limits(cx);
        if opened.node().is_given_up() {
            return Poll::Ready(Err(body_given_up::<E>(opened.node())));
        }
        let sitting = &mut opened.owned.sitting;
        let (polled, told) = sitting.poll_caught(|| this.body.poll(cx));
        *this.told |= told;
        let ended = match polled {
            Ok(Poll::Ready(output)) => judge(Ok(Ran::at(sitting, output, *this.told))),
            Err(payload) => judge::<R, E>(Err(payload)),
            Ok(Poll::Pending) => {
                // It may have cancelled itself just now.
                opened.keep_limits(cx);
                opened.owned.sitting.waits(cx.waker());
                let node = opened.node();
                if node.is_given_up() {
                    return Poll::Ready(Err(body_given_up::<E>(node)));
                }
                return Poll::Pending;
            }
        };
        Poll::Ready(match ended {
            Ok(value) => Ok(value),
            Err(cause) => Err(body_failed(opened.node(), cause)),
        })
    }
}

#[cold]
fn body_failed<E: 'static>(node: &Node, cause: Cause<E>) -> Option<Interrupt> {
    let reason = cause.interrupt();
    node.note(cause);
    reason
}

/// It did not clean up in time.
#[cold]
fn body_given_up<E: 'static>(node: &Node) -> Option<Interrupt> {
    node.crew().abandon();
    body_failed(node, Cause::<E>::interrupted(Interrupt::CleanupTimeout))
}

/// The hooks have a time for cleaning up of their own: what used up the members' must not cost them theirs.
async fn run_hooks<L: KeepTimes, E: 'static>(opened: &mut Opened<L>) {
    opened.limits.count_anew();
    let Some(mut hook) = opened.node().crew().next_hook() else { return };
    let shelter = opened.owned.shelter();
    loop {
        let mut running = std::pin::pin!(CatchPanic { future: shelter.run_own(hook) });
        let ended = std::future::poll_fn(|cx| {
            opened.keep_limits(cx);
            if opened.limits.is_over() { Poll::Ready(None) } else { running.as_mut().poll(cx).map(Some) }
        })
        .await;
        let crew = opened.node().crew();
        match ended {
            Some(Ok(_)) => {}
            Some(Err(payload)) => {
                say(format_args!("an exit hook panicked: {}", words(payload.as_ref())));
                opened.node().note(Cause::<E>::die(payload));
            }
            None => {
                crew.abandon();
                while let Some(left) = crew.next_hook() {
                    drop(left);
                    crew.abandon();
                }
                break;
            }
        }
        match crew.next_hook() {
            Some(next) => hook = next,
            None => break,
        }
    }
    shelter.end();
}

impl<X: Clone, E> Clone for Scope<X, E> {
    fn clone(&self) -> Scope<X, E> {
        Scope { node: self.node.clone(), executor: self.executor.clone(), error: PhantomData }
    }
}

impl<X, E> fmt::Debug for Scope<X, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("node", &self.node).finish_non_exhaustive()
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
