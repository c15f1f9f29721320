//! Supervisors, as they are set up: who is watched, and what is done about a failure.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::actor::address::Addr;
use crate::actor::control::Control;
use crate::actor::family::{self, Child, Family, Strategy};
use crate::actor::life::{self, Actor, Life};
use crate::actor::names::{NameError, Reservation};
use crate::actor::spawn::Options;

/// Restarts within [`WITHIN`], unless told otherwise.
const RESTARTS: u32 = 3;
const WITHIN: Duration = Duration::from_secs(10);
/// How long a child may take to go down, unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a supervisor is sent: nothing. Its address serves to stop it, kill it, wait for its end or be told of it.
#[derive(Clone, Copy, Debug)]
pub enum Supervision {}

/// Watches actors, its children, and restarts those that fail.
///
/// A child is given as a function that makes its state, and has an address as soon as it is given. When it fails, by a
/// panic or an error in one of its functions, its state is dropped and made anew; its address, its name and the
/// messages that wait for it stay. A request that was being handled fails; the messages after it are handled by the new
/// state.
///
/// Children start in the order they were given, each when the one before has [`started`](Actor::started), and are taken
/// down in the reverse order. A child that is stopped or killed by somebody else has ended for good; it is not
/// restarted, and the others go on.
///
/// When restarts do not help, the supervisor gives up: it takes all its children down in reverse order, what waits for
/// them is dead-lettered, and it ends with [`Exit::GaveUp`](crate::actor::Exit::GaveUp), which its own supervisor, or
/// whoever asked with [`notify_end`](Addr::notify_end) or [`ended`](Addr::ended), is told once.
///
/// When the program stops, nothing is restarted any more.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::actor::{AskError, Reply, Supervisor, back_off};
///
/// enum Sum {
///     Add(u32),
///     Total(Reply<u32>),
/// }
///
/// #[derive(Default)]
/// struct Adder(u32);
/// #[wo::actor]
/// impl Adder {
///     fn receive(&mut self, message: Sum) {
///         match message {
///             Sum::Add(13) => panic!("not that one"),
///             Sum::Add(more) => self.0 += more,
///             Sum::Total(reply) => drop(reply.send(self.0)),
///         }
///     }
/// }
///
/// #[wo::main]
/// fn main() {
///     let mut supervisor = Supervisor::one_for_one()
///         .limit(3, Duration::from_secs(10))
///         .back_off(back_off::exponential(Duration::from_millis(1), Duration::from_secs(1)));
///     let adder = supervisor.child(Adder::default);
///     let supervisor = supervisor.start();
///     for n in [1, 13, 2, 3] {
///         adder.send(Sum::Add(n)).unwrap();
///     }
///     assert_eq!(adder.ask(Sum::Total), Ok(5));
///     supervisor.stop();
///     supervisor.ended().unwrap();
///     assert_eq!(adder.ask(Sum::Total), Err(AskError::Closed));
/// }
/// ```
#[must_use = "children run once the supervisor has been started"]
pub struct Supervisor {
    family: Family,
}

impl Supervisor {
    fn new(strategy: Strategy) -> Supervisor {
        Supervisor { family: Family::new(strategy, RESTARTS, WITHIN, PATIENCE) }
    }

    /// A child that fails is restarted; the others go on.
    pub fn one_for_one() -> Supervisor {
        Supervisor::new(Strategy::OneForOne)
    }

    /// When a child fails, the others are taken down in reverse order, and all are restarted in order.
    pub fn one_for_all() -> Supervisor {
        Supervisor::new(Strategy::OneForAll)
    }

    /// When a child fails, those given after it are taken down in reverse order; it and they are restarted in order.
    pub fn rest_for_one() -> Supervisor {
        Supervisor::new(Strategy::RestForOne)
    }

    /// Gives up at the next failure after `restarts` within the span `within`. Unless told otherwise, after 3 in ten
    /// seconds.
    pub fn limit(mut self, restarts: u32, within: Duration) -> Supervisor {
        self.family.set_limit(restarts, within);
        self
    }

    /// How long to wait before a restart, by how often that child was restarted before within the span of the limit;
    /// see [`back_off`](crate::actor::back_off). Unless told otherwise, not at all.
    pub fn back_off(mut self, back_off: impl Fn(u32) -> Duration + Send + 'static) -> Supervisor {
        self.family.set_back_off(Box::new(back_off));
        self
    }

    /// How long a child may take to go down by itself, until the verbs of its functions are cancelled; and as long
    /// again until it is left behind, which is reported. Unless told otherwise, five seconds.
    pub fn patience(mut self, span: Duration) -> Supervisor {
        self.family.set_patience(span);
        self
    }

    /// Adds a child, with an unbounded mailbox, on the shard whose turn it is. Its messages wait until it has started.
    ///
    /// # Panics
    ///
    /// Outside a program.
    pub fn child<A: Actor>(&mut self, make: impl FnMut() -> A + Send + 'static) -> Addr<A::Message> {
        self.child_with(Options::new(), make)
    }

    /// Adds a child with these options.
    ///
    /// # Panics
    ///
    /// Outside a program.
    pub fn child_with<A: Actor>(
        &mut self,
        options: Options,
        make: impl FnMut() -> A + Send + 'static,
    ) -> Addr<A::Message> {
        let control = self.family.control();
        let addr = options.place(Some(Arc::clone(&control)), supervised(make));
        self.adopt(control, addr, std::any::type_name::<A>());
        addr
    }

    /// Adds a child under a name, by which it is found once it has first started, until its end.
    ///
    /// # Errors
    ///
    /// The name is taken; no child is added.
    ///
    /// # Panics
    ///
    /// Outside a program.
    pub fn child_named<A: Actor>(
        &mut self,
        name: &str,
        options: Options,
        make: impl FnMut() -> A + Send + 'static,
    ) -> Result<Addr<A::Message>, NameError> {
        let reservation = Reservation::of(name)?;
        let control = self.family.control();
        let addr = options.place_named(reservation, Some(Arc::clone(&control)), supervised(make));
        self.adopt(control, addr, std::any::type_name::<A>());
        Ok(addr)
    }

    /// Adds another supervisor as a child. When that gives up, its children are kept, without a state, with their
    /// addresses and the messages that wait for them, until this one restarts it or gives up as well.
    ///
    /// # Panics
    ///
    /// Outside a program.
    pub fn supervisor(&mut self, supervisor: Supervisor) -> Addr<Supervision> {
        let control = self.family.control();
        let addr = supervisor.begin(Some(Arc::clone(&control)));
        self.adopt(control, addr, "a supervisor");
        addr
    }

    /// Starts the supervisor on this shard, and it its children, one after the other.
    ///
    /// # Panics
    ///
    /// Outside a program.
    pub fn start(self) -> Addr<Supervision> {
        self.begin(None)
    }

    fn begin(self, control: Option<Arc<Control>>) -> Addr<Supervision> {
        let family = self.family;
        let here = crate::shard::shard_index().unwrap_or_default();
        Options::new().shard(here).place(control, |life| life::begin(family::live(family, life)))
    }

    fn adopt<M: Send + 'static>(&mut self, control: Arc<Control>, addr: Addr<M>, what: &'static str) {
        let (mailbox, life) = addr.parts();
        self.family.adopt(Child::new(control, mailbox, life, what));
    }
}

/// Has a child's life begin on its shard.
fn supervised<A: Actor>(make: impl FnMut() -> A + Send + 'static) -> impl FnOnce(Life<A::Message>) + Send + 'static {
    move |life| life::begin(life::live_supervised(make, life))
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor").field("family", &self.family).finish()
    }
}
