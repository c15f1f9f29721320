//! Spawning: a shard, a mailbox, and a fiber that lives there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::actor::address::{Addr, LIFE_BITS};
use crate::actor::control::Control;
use crate::actor::counters;
use crate::actor::crossing::State;
use crate::actor::guard::Failure;
use crate::actor::life::{self, Actor, Life};
use crate::actor::mailbox::Mailbox;
use crate::actor::names::{NameError, Reservation};
use crate::shard::program::{Here, here};

/// How to spawn an actor.
///
/// # Examples
///
/// ```
/// use wo::actor::{Options, TrySendError};
///
/// struct Sink;
/// #[wo::actor]
/// impl Sink {
///     fn receive(&mut self, _: u32) {}
/// }
///
/// #[wo::main]
/// fn main() {
///     let sink = Options::new().bound(1).spawn(Sink);
///     sink.try_send(1).unwrap();
///     assert_eq!(sink.try_send(2), Err(TrySendError::Full(2)));
///     sink.send(2).unwrap(); // parks until there is room
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    bound: Option<usize>,
    shard: Option<usize>,
}

impl Options {
    /// An unbounded mailbox, on the shard whose turn it is.
    pub fn new() -> Options {
        Options::default()
    }

    /// A mailbox of at most `messages`, at least 1; senders park for room.
    #[must_use]
    pub fn bound(mut self, messages: usize) -> Options {
        self.bound = Some(messages.max(1));
        self
    }

    /// On this shard, counted from 0, rather than the one whose turn it is; past the last one it wraps around.
    #[must_use]
    pub fn shard(mut self, index: usize) -> Options {
        self.shard = Some(index);
        self
    }

    /// Spawns an actor; its state moves to the shard that takes it.
    ///
    /// # Panics
    ///
    /// Outside a program.
    #[track_caller]
    pub fn spawn<A, Way>(self, actor: A) -> Addr<A::Message>
    where
        A: Actor + State<Way> + Send,
    {
        self.place(None, |life| life::begin(life::live(actor, life)))
    }

    /// Spawns an actor whose state is made on the shard that takes it, so it need not be sendable. Should `make` panic,
    /// the actor has ended so.
    ///
    /// # Panics
    ///
    /// Outside a program.
    #[track_caller]
    pub fn spawn_with<A: Actor>(self, make: impl FnOnce() -> A + Send + 'static) -> Addr<A::Message> {
        self.place(None, begin(make))
    }

    /// Spawns an actor under a name, by which [`lookup`](crate::actor::lookup) finds it once its `started` has
    /// returned. The name is free again when the actor has ended, also when it failed to start.
    ///
    /// # Errors
    ///
    /// The name is taken, or no program runs on this thread; nothing is spawned.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::actor::{self, NameError, Options, Reply};
    ///
    /// struct Echo;
    /// #[wo::actor]
    /// impl Echo {
    ///     fn receive(&mut self, reply: Reply<&'static str>) {
    ///         let _ = reply.send("hello");
    ///     }
    /// }
    ///
    /// #[wo::main]
    /// fn main() {
    ///     let echo = Options::new().spawn_named("echo", Echo).unwrap();
    ///     let taken = Options::new().spawn_named("echo", Echo).unwrap_err();
    ///     assert!(matches!(taken, NameError::Taken { .. }));
    ///     assert_eq!(echo.ask(|reply| reply), Ok("hello"));
    ///     assert_eq!(actor::lookup("echo"), Some(echo));
    /// }
    /// ```
    #[track_caller]
    pub fn spawn_named<A, Way>(self, name: &str, actor: A) -> Result<Addr<A::Message>, NameError>
    where
        A: Actor + State<Way> + Send,
    {
        let reservation = Reservation::of(name)?;
        Ok(self.place_named(reservation, None, |life| life::begin(life::live(actor, life))))
    }

    /// Spawns an actor under a name, whose state is made on the shard that takes it; see
    /// [`spawn_named`](Options::spawn_named).
    ///
    /// # Errors
    ///
    /// The name is taken, or no program runs on this thread; nothing is spawned.
    #[track_caller]
    pub fn spawn_named_with<A: Actor>(
        self,
        name: &str,
        make: impl FnOnce() -> A + Send + 'static,
    ) -> Result<Addr<A::Message>, NameError> {
        let reservation = Reservation::of(name)?;
        Ok(self.place_named(reservation, None, begin(make)))
    }

    /// Gives a life a shard and a mailbox, and has it begin there.
    #[track_caller]
    pub(crate) fn place<M: Send + 'static>(
        self,
        control: Option<Arc<Control>>,
        live: impl FnOnce(Life<M>) + Send + 'static,
    ) -> Addr<M> {
        in_program(|here| {
            let (index, mut life) = self.prepare(here);
            life.control = control;
            let addr = Addr::new(life.mailbox, life.number());
            send_home(here, index, life, live);
            addr
        })
    }

    /// The same under a name.
    #[track_caller]
    pub(crate) fn place_named<M: Send + 'static>(
        self,
        reservation: Reservation,
        control: Option<Arc<Control>>,
        live: impl FnOnce(Life<M>) + Send + 'static,
    ) -> Addr<M> {
        in_program(|here| {
            let (index, mut life) = self.prepare(here);
            life.control = control;
            life.awaited = true;
            let addr = Addr::new(life.mailbox, life.number());
            reservation.give_to(addr);
            send_home(here, index, life, live);
            addr
        })
    }

    fn prepare<M: Send + 'static>(self, here: &Here) -> (usize, Life<M>) {
        let shards = here.program.shards();
        let index = self.shard.map_or_else(|| here.program.next_shard(), |index| index % shards);
        let before = here.program.home(here.index).tally.count(counters::LIVES);
        // Every shard counts the lives it spawns, and no two numbers are the same.
        let count = before * shards as u64 + here.index as u64 + 1;
        let number = here.program.number() << LIFE_BITS | count & ((1 << LIFE_BITS) - 1);
        let mailbox = Mailbox::begin(here.program.home(index), number, self.bound);
        (index, Life { mailbox, control: None, awaited: false, has_ended: false })
    }
}

#[track_caller]
fn in_program<R>(call: impl FnOnce(&Here) -> R) -> R {
    here(call).expect("actors are spawned inside a program: under #[wo::main] or Builder::run")
}

/// Has a life begin on its shard. Should the program end before that, dropping the call ends the life.
fn send_home<M: Send + 'static>(here: &Here, index: usize, life: Life<M>, live: impl FnOnce(Life<M>) + Send + 'static) {
    if index == here.index {
        live(life);
    } else {
        here.program.post(index, Box::new(move || live(life)));
    }
}

/// Makes a state and lives with it.
fn begin<A: Actor>(make: impl FnOnce() -> A + Send + 'static) -> impl FnOnce(Life<A::Message>) + Send + 'static {
    move |life| match catch_unwind(AssertUnwindSafe(make)) {
        Ok(actor) => life::begin(life::live(actor, life)),
        Err(payload) => life.end(Failure::Panic(payload).exit::<A>()),
    }
}

/// Spawns an actor whose state is made on the shard that takes it, so it need not be sendable.
///
/// # Panics
///
/// Outside a program.
///
/// # Examples
///
/// ```
/// use std::rc::Rc;
/// use wo::actor::{self, Reply};
///
/// struct Shared(Rc<str>);
/// #[wo::actor]
/// impl Shared {
///     fn receive(&mut self, reply: Reply<usize>) {
///         let _ = reply.send(Rc::strong_count(&self.0));
///     }
/// }
///
/// # #[wo::fiber]
/// # fn example() {
/// // On two shards.
/// let shared = actor::spawn_with(|| Shared(Rc::from("never leaves its shard")));
/// assert_eq!(shared.ask(|reply| reply), Ok(1));
/// # }
/// # wo::Builder::new().shards(2).run(example).unwrap();
/// ```
#[track_caller]
pub fn spawn_with<A: Actor>(make: impl FnOnce() -> A + Send + 'static) -> Addr<A::Message> {
    Options::new().spawn_with(make)
}
