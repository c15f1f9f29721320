//! Typed calls on an address.
//!
//! `#[wo::actor]` generates them for methods marked `#[message]`: as methods of a trait object, which is what an
//! address of that message type dereferences to. So they are found on any such address without an import, and each has
//! the visibility and the types its own method has.

use std::ops::Deref;

use crate::actor::address::Addr;
use crate::actor::ask::{Ask, Reply};
use crate::actor::error::{AskError, SendError};
use crate::actor::life::Actor;
use crate::actor::running::Returned;
use crate::fiber::{self, Call};
use crate::plane::time::Deadline;

/// Messages whose addresses have calls of their own. `#[wo::actor]` implements it.
pub trait Calls: Sized + 'static {
    /// What has the calls as its methods.
    type Calls: ?Sized;

    /// The calls of the actor at this address.
    fn calls(address: &Addr<Self>) -> &Self::Calls;
}

impl<M: Calls> Deref for Addr<M> {
    type Target = M::Calls;

    #[inline]
    fn deref(&self) -> &M::Calls {
        M::calls(self)
    }
}

/// What the calls do. They are told the actor rather than its messages, and give futures without a name: so that all of
/// a message may cross shards is demanded where the actor is made, and not again in each call.
#[doc(hidden)]
pub mod call {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use super::{Actor, Addr, Ask, AskError, Call, Deadline, Reply, SendError, fiber};

    /// Sends a message.
    #[inline]
    pub fn send<A: Actor>(
        address: Addr<A::Message>,
        message: A::Message,
    ) -> Call<impl Future<Output = Result<(), SendError<A::Message>>>> {
        address.send(message)
    }

    /// Asks, with a deadline or without; `name` is the message's.
    #[inline]
    pub fn ask<A: Actor, T: Send + 'static, F: FnOnce(Reply<T>) -> A::Message, N: Fn() -> &'static str + Copy>(
        address: Addr<A::Message>,
        make: F,
        deadline: Option<Deadline>,
        name: N,
    ) -> Call<impl Future<Output = Result<T, AskError>>> {
        let deadline = deadline.and_then(|deadline| deadline.instant(fiber::now()));
        Call::new(Named { ask: Ask::new(address, deadline, make), name })
    }

    /// An ask of a message that has a name, which takes no place.
    struct Named<M: Send + 'static, T: Send + 'static, N> {
        ask: Ask<M, T>,
        name: N,
    }

    impl<M: Send + 'static, T: Send + 'static, N> Unpin for Named<M, T, N> {}

    impl<M: Send + 'static, T: Send + 'static, N: Fn() -> &'static str + Copy> Future for Named<M, T, N> {
        type Output = Result<T, AskError>;

        #[inline]
        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, AskError>> {
            let this = self.get_mut();
            this.ask.poll_named(cx, this.name)
        }
    }
}

/// What the functions of an actor may give to its loop: nothing, or a `Result` whose error fails the actor.
#[doc(hidden)]
pub fn handled(returned: impl Returned) {
    returned.returned();
}
