//! One `spawn` for all that can be spawned: actors, and the bodies of fibers.
//!
//! The two overlap in no type, but the compiler cannot know that of types to come. So [`Spawn`] carries a parameter
//! that tells them apart, [`AsActor`] or [`AsFiber`]; for any one type one of them holds, and the compiler finds it.

use crate::actor::address::Addr;
use crate::actor::crossing::State;
use crate::actor::life::Actor;
use crate::actor::spawn::Options;
use crate::fiber::{self, IntoFiber, JoinHandle};

/// The kind of what [`Actor`] is implemented for.
#[derive(Debug)]
pub enum AsActor {}

/// The kind of what [`IntoFiber`] is implemented for.
#[derive(Debug)]
pub enum AsFiber {}

/// What [`spawn`] takes.
#[diagnostic::on_unimplemented(
    message = "WO-E221: `{Self}` cannot be spawned: it has no `receive`, and is no fiber's body",
    label = "this is neither an actor nor a fiber's body",
    note = "an actor has one: `#[wo::actor] impl ... {{ fn receive(&mut self, message: Message) {{ ... }} }}`",
    note = "a fiber is spawned with a closure written inside the parentheses, `wo::spawn(|| f(x))`, in a function \
            under `#[wo::fiber]` or `#[wo::main]`",
    note = "in ordinary async Rust it is an async closure: `wo::spawn(async || f(x).await)`"
)]
pub trait Spawn<Kind> {
    /// What spawning it gives: an address, or a handle to join.
    type Handle;
    /// What moves to another shard with it.
    type Moves;

    /// Spawns it.
    #[track_caller]
    fn spawn(self) -> Self::Handle
    where
        Self::Moves: Send;
}

#[diagnostic::do_not_recommend]
impl<A: Actor> Spawn<AsActor> for A {
    type Handle = Addr<A::Message>;
    type Moves = A;

    #[track_caller]
    fn spawn(self) -> Addr<A::Message>
    where
        A: Send,
    {
        Options::new().spawn(self)
    }
}

#[diagnostic::do_not_recommend]
impl<B: IntoFiber> Spawn<AsFiber> for B {
    type Handle = JoinHandle<B::Output>;
    /// Nothing: a fiber starts where it is spawned.
    type Moves = ();

    #[track_caller]
    fn spawn(self) -> JoinHandle<B::Output> {
        fiber::spawn(self)
    }
}

/// Spawns an actor, and gives its address; or starts a fiber, and gives a handle to join it.
///
/// An actor is a value whose type is one, by `#[wo::actor]`. Its state moves to the shard whose turn it is, and its
/// mailbox is unbounded; [`Options`] has the choice of both. It starts in its turn, not before this returns; messages
/// sent meanwhile wait. An unbounded mailbox grows with what waits in it: each message takes its own size and 16 bytes
/// more, in a buffer that doubles as it fills and shrinks when the actor has caught up. For state that cannot move
/// there is [`spawn_with`](crate::actor::spawn_with).
///
/// A fiber's body is a call of a fiber function, or a closure, of which a fiber function makes a body. It starts on
/// this shard in its turn, and owns what it captures. It goes on when the handle is dropped; when `main` returns it is
/// unwound. Where the shard is ending, the body is dropped at once and joining says so. What a fiber returns goes to
/// whoever joins it; of one whose handle was dropped it is dropped, be it an error, so such a fiber deals with its
/// errors itself, or is the child of a [`scope`](crate::fiber::scope), whose failure is the scope's. A panic is said on
/// stderr in any case.
///
/// `Kind` and `Way` are for the compiler to find.
///
/// # Panics
///
/// Outside a program.
///
/// # Examples
///
/// ```
/// use wo::actor::Reply;
///
/// struct Counter(u64);
///
/// enum Count {
///     Add(u64),
///     Get(Reply<u64>),
/// }
///
/// #[wo::actor]
/// impl Counter {
///     fn receive(&mut self, message: Count) {
///         match message {
///             Count::Add(more) => self.0 += more,
///             Count::Get(reply) => drop(reply.send(self.0)),
///         }
///     }
/// }
///
/// #[wo::main]
/// fn main() {
///     let counter = wo::spawn(Counter(40));
///     let adds = wo::spawn(|| counter.send(Count::Add(2)));
///     adds.join().expect("it does not panic").expect("nothing cancels this");
///     assert_eq!(counter.ask(Count::Get), Ok(42));
/// }
/// ```
#[track_caller]
pub fn spawn<Kind, Way, S>(what: S) -> S::Handle
where
    S: Spawn<Kind>,
    S::Moves: State<Way> + Send,
{
    what.spawn()
}

/// A demand for the macros to write down.
#[doc(hidden)]
pub const fn is_actor<A: Actor>() {}
