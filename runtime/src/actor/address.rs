//! Addresses: plain words that reach one life of one actor.

use std::fmt;
use std::future::Future;
use std::hash::{Hash, Hasher};

use crate::actor::ask::{Ask, Reply};
use crate::actor::counters;
use crate::actor::ending;
use crate::actor::error::TrySendError;
use crate::actor::life::Exit;
use crate::actor::mailbox::place::Place;
use crate::actor::mailbox::{AnyMailbox, Mailbox, Order, Parcel, Refused};
use crate::actor::monitor::{Monitor, Notified, Waiting};
use crate::actor::sending::Sending;
use crate::error::IoResult;
use crate::fiber::{self, Call, oneshot};
use crate::plane::time::Deadline;

/// Bits of a life's number that count the lives of one program; those above tell programs of one process apart.
pub(crate) const LIFE_BITS: u32 = 44;

/// The address of an actor that takes messages of type `M`: a word to copy, store, compare and send about. It reaches
/// the one life it was given for; after that actor's end it reaches nobody, whatever takes the actor's place. A
/// supervised actor that is restarted goes on in the same life.
///
/// It also works on threads that are no shard, where nothing can park: [`try_send`](Addr::try_send),
/// [`stop`](Addr::stop), [`kill`](Addr::kill).
///
/// # Examples
///
/// ```
/// use std::collections::HashMap;
/// use wo::actor::Addr;
///
/// struct Guest;
/// #[wo::actor]
/// impl Guest {
///     fn receive(&mut self, _line: String) {}
/// }
///
/// #[wo::main]
/// fn main() {
///     let mut names: HashMap<Addr<String>, &str> = HashMap::new();
///     let (ada, bob) = (wo::spawn(Guest), wo::spawn(Guest));
///     names.insert(ada, "Ada");
///     names.insert(bob, "Bob");
///     assert_eq!(names[&ada], "Ada");
/// }
/// ```
pub struct Addr<M: 'static> {
    place: Place<M>,
    life: u64,
}

impl<M: Send + 'static> Addr<M> {
    pub(crate) fn new(mailbox: &'static Mailbox<M>, life: u64) -> Addr<M> {
        Addr { place: Place::of(mailbox), life }
    }

    #[inline]
    pub(crate) fn parts(self) -> (&'static Mailbox<M>, u64) {
        (self.place.get(), self.life)
    }

    /// Moves a message to the actor. Parks while a bounded mailbox is full; messages of one sender arrive in the order
    /// they were sent. To an actor that has ended, the message is dropped quietly; [`try_send`](Addr::try_send) tells.
    ///
    /// Dropped half-way, the message is dropped with it. A fiber that was cancelled can still send what need not wait.
    ///
    /// # Errors
    ///
    /// The message comes back when the fiber was cancelled while it waited, or when it would wait for ever: an actor
    /// with a full mailbox sends to itself, or several send to each other in a circle.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::actor::Reply;
    ///
    /// enum Count {
    ///     Add(u64),
    ///     Get(Reply<u64>),
    /// }
    ///
    /// struct Counter(u64);
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
    ///     let counter = wo::spawn(Counter(0));
    ///     for n in 1..=10 {
    ///         counter.send(Count::Add(n)).unwrap();
    ///     }
    ///     assert_eq!(counter.ask(Count::Get), Ok(55));
    /// }
    /// ```
    #[inline]
    pub fn send(self, message: M) -> Call<Sending<M>> {
        Call::new(Sending::new(self, message))
    }

    /// Moves a message to the actor, if it is taken at once. Never parks; usable from any thread.
    ///
    /// # Errors
    ///
    /// The message comes back when the mailbox is full, or the actor has ended or takes no more.
    #[inline]
    pub fn try_send(self, message: M) -> Result<(), TrySendError<M>> {
        let mut message = Some(Parcel::new(message));
        let Err(refused) = self.place.get().push(self.life, &mut message, || None) else { return Ok(()) };
        let Some(message) = message.map(Parcel::open) else { return Ok(()) };
        counters::count_unsent(self.place.get().head().home(), counters::RETURNED);
        Err(match refused {
            Refused::Full => TrySendError::Full(message),
            Refused::Closed => TrySendError::Closed(message),
        })
    }

    /// Sends a request and parks for its answer. `make` puts the [`Reply`] into the message; the actor answers through
    /// it, at once or later.
    ///
    /// Dropped half-way, the answer goes to nobody; the request is handled all the same.
    ///
    /// # Errors
    ///
    /// Why there is no answer; see [`AskError`](crate::actor::AskError). An actor that ends fails its askers at once.
    pub fn ask<T: Send + 'static>(self, make: impl FnOnce(Reply<T>) -> M) -> Call<Ask<M, T>> {
        Call::new(Ask::new(self, None, make))
    }

    /// The same with a deadline. When it passes, the handler's own verbs are cancelled; a request that still waits for
    /// its turn is not handled at all.
    ///
    /// # Errors
    ///
    /// As [`ask`](Addr::ask), and `Deadline`.
    pub fn ask_by<T: Send + 'static>(
        self,
        make: impl FnOnce(Reply<T>) -> M,
        deadline: impl Into<Deadline>,
    ) -> Call<Ask<M, T>> {
        Call::new(Ask::new(self, deadline.into().instant(fiber::now()), make))
    }

    /// The actor takes no more messages, handles those it has, and ends. False when it had ended.
    ///
    /// Inside one of the actor's own functions it takes effect when the function has returned.
    pub fn stop(self) -> bool {
        self.place.get().order(self.life, Order::Drain)
    }

    /// As [`stop`](Addr::stop), but what it has not handled by the deadline is dropped: then the actor is killed. False
    /// when it had ended.
    pub fn stop_by(self, deadline: impl Into<Deadline>) -> bool {
        ending::stop_by(self.place.get(), self.life, deadline.into())
    }

    /// The actor ends now: what it waits for is cancelled, what is queued is dropped. False when it had ended.
    pub fn kill(self) -> bool {
        self.place.get().order(self.life, Order::Kill)
    }

    /// Whether the actor takes messages.
    pub fn is_open(self) -> bool {
        self.place.get().head().is_open(self.life)
    }

    /// Parks until the actor has ended, and tells how. An actor that had ended before is told as `Exit::Gone`.
    ///
    /// # Errors
    ///
    /// ECANCELED when the fiber was cancelled; EDEADLK when an actor waits for its own end.
    pub fn ended(self) -> Call<impl Future<Output = IoResult<Exit>>> {
        Call::new(async move {
            ending::refuse_own_end(self.place.get().head())?;
            let (monitor, told) = oneshot::oneshot();
            match self.place.get().monitor(self.life, Box::new(Waiting(monitor))) {
                Ok(()) => told.recv().await,
                Err(_) => Ok(Exit::Gone),
            }
        })
    }

    /// Has the actor at `to` sent a message when this one ends, exactly once; when it had ended before, at once, with
    /// `Exit::Gone`. The message arrives whatever bound the mailbox of `to` has; when `to` has ended it is dropped.
    ///
    /// `make` runs where this actor ends; should it panic, that is reported and nothing is sent.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::actor::{Exit, Reply};
    ///
    /// struct Quick;
    ///
    /// #[wo::actor]
    /// impl Quick {
    ///     fn receive(&mut self, _: ()) {}
    /// }
    ///
    /// enum Watch {
    ///     Ended(Exit),
    ///     Seen(Reply<Vec<Exit>>),
    /// }
    ///
    /// struct Watcher(Vec<Exit>);
    ///
    /// #[wo::actor]
    /// impl Watcher {
    ///     fn receive(&mut self, message: Watch) {
    ///         match message {
    ///             Watch::Ended(exit) => self.0.push(exit),
    ///             Watch::Seen(reply) => drop(reply.send(self.0.clone())),
    ///         }
    ///     }
    /// }
    ///
    /// #[wo::main]
    /// fn main() {
    ///     let (quick, watcher) = (wo::spawn(Quick), wo::spawn(Watcher(Vec::new())));
    ///     quick.notify_end(watcher, Watch::Ended);
    ///     quick.stop();
    ///     quick.ended().unwrap();
    ///     assert_eq!(watcher.ask(Watch::Seen).unwrap(), [Exit::Stopped]);
    /// }
    /// ```
    pub fn notify_end<N: Send + 'static>(self, to: Addr<N>, make: impl FnOnce(Exit) -> N + Send + 'static) {
        let notified: Box<dyn Monitor> = Box::new(Notified { to, make });
        if let Err(notified) = self.place.get().monitor(self.life, notified) {
            notified.tell(&Exit::Gone);
        }
    }
}

impl<M> Addr<M> {
    /// The life's number among those of its program.
    fn number(self) -> u64 {
        self.life & ((1 << LIFE_BITS) - 1)
    }
}

impl<M> Clone for Addr<M> {
    fn clone(&self) -> Addr<M> {
        *self
    }
}

impl<M> Copy for Addr<M> {}

impl<M> PartialEq for Addr<M> {
    fn eq(&self, other: &Addr<M>) -> bool {
        self.life == other.life && self.place == other.place
    }
}

impl<M> Eq for Addr<M> {}

/// Depends on the order in which the program's actors were spawned, never on where they lie in memory.
impl<M> Hash for Addr<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number().hash(state);
    }
}

impl<M> fmt::Debug for Addr<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Addr({})", self.number())
    }
}
