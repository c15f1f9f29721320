//! Spawning: a shard, a mailbox, and a fiber that lives there.

use crate::actor::address::Addr;
use crate::actor::crossing::State;
use crate::actor::life::{self, Actor, Life};
use crate::actor::mailbox::Mailbox;
use crate::fiber;
use crate::shard::program::here;

/// How to spawn an actor.
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
    pub fn spawn<A, Way>(self, actor: A) -> Addr<A::Message>
    where
        A: Actor + State<Way> + Send,
    {
        self.spawn_with(move || actor)
    }

    /// Spawns an actor whose state is made on the shard that takes it, so it need not be sendable.
    pub fn spawn_with<A: Actor>(self, make: impl FnOnce() -> A + Send + 'static) -> Addr<A::Message> {
        let placed = here(|here| {
            let index = match self.shard {
                Some(index) => index % here.program.shards(),
                None => here.program.next_shard(),
            };
            let (mailbox, generation) = Mailbox::begin(here.program.home(index), self.bound);
            let life = Life::unborn(mailbox, generation);
            if index == here.index {
                start(make, life);
            } else {
                // Should the program end before the call is made, dropping it ends the life.
                here.program.post(index, Box::new(move || start(make, life)));
            }
            Addr::new(mailbox, generation)
        });
        placed.expect("actors are spawned inside a program: under #[wo::main] or Builder::run")
    }
}

/// Spawns an actor whose state is made on the shard that takes it, so it need not be sendable.
///
/// # Panics
///
/// Outside a program.
pub fn spawn_with<A: Actor>(make: impl FnOnce() -> A + Send + 'static) -> Addr<A::Message> {
    Options::new().spawn_with(make)
}

/// Begins a life, at home. Should no fiber be started any more, dropping the life ends it.
fn start<A: Actor>(make: impl FnOnce() -> A, life: Life<A::Message>) {
    fiber::start_detached(life::live(make(), life.begin()));
}
