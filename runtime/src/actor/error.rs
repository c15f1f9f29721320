//! What can become of a message, in types.

use std::fmt;

/// A send that parked in vain; the message comes back.
///
/// # Examples
///
/// ```
/// use wo::actor::SendError;
///
/// let refused = SendError::Cancelled("hello");
/// assert!(!refused.is_full());
/// assert_eq!(refused.into_message(), "hello");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError<M> {
    /// The mailbox is full and would stay so for ever: its actor sends to itself, or actors with full mailboxes send to
    /// each other in a circle.
    Full(M),
    /// The fiber was cancelled while it waited for room.
    Cancelled(M),
}

impl<M> SendError<M> {
    /// The message.
    pub fn into_message(self) -> M {
        match self {
            SendError::Full(message) | SendError::Cancelled(message) => message,
        }
    }

    /// Whether the mailbox was full, for ever.
    pub const fn is_full(&self) -> bool {
        matches!(self, SendError::Full(_))
    }
}

impl<M> fmt::Display for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Full(_) => "the actor's mailbox is full, and the actors wait for each other in a circle",
            SendError::Cancelled(_) => "the fiber was cancelled while it waited for room in the actor's mailbox",
        })
    }
}

impl<M> fmt::Debug for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_full() { "Full(..)" } else { "Cancelled(..)" })
    }
}

impl<M> std::error::Error for SendError<M> {}

/// A message that was not taken at once; it comes back.
///
/// # Examples
///
/// ```
/// use wo::actor::{Options, TrySendError};
///
/// struct Sink;
///
/// #[wo::actor]
/// impl Sink {
///     fn receive(&mut self, _: u32) {}
/// }
///
/// #[wo::main]
/// fn main() {
///     let sink = Options::new().bound(1).spawn(Sink);
///     sink.try_send(1).unwrap();
///     let refused = sink.try_send(2).unwrap_err();
///     assert!(refused.is_full());
///     assert_eq!(refused.into_message(), 2);
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<M> {
    /// The mailbox is full.
    Full(M),
    /// The actor has ended, or takes no more messages.
    Closed(M),
}

impl<M> TrySendError<M> {
    /// The message.
    pub fn into_message(self) -> M {
        match self {
            TrySendError::Full(message) | TrySendError::Closed(message) => message,
        }
    }

    /// Whether the mailbox was full.
    pub const fn is_full(&self) -> bool {
        matches!(self, TrySendError::Full(_))
    }
}

impl<M> fmt::Display for TrySendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "the actor's mailbox is full",
            TrySendError::Closed(_) => "the actor has ended, or takes no more messages",
        })
    }
}

impl<M> fmt::Debug for TrySendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_full() { "Full(..)" } else { "Closed(..)" })
    }
}

impl<M> std::error::Error for TrySendError<M> {}

/// Why an ask has no answer.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::actor::AskError;
///
/// struct Slow;
///
/// #[wo::actor]
/// impl Slow {
///     #[message]
///     fn nap(&mut self) {
///         let _ = wo::sleep(Duration::from_secs(3600));
///     }
/// }
///
/// #[wo::main]
/// fn main() {
///     let slow = wo::spawn(Slow);
///     assert_eq!(slow.nap_by(Duration::from_millis(1)), Err(AskError::Deadline));
///     slow.kill();
///     let _ = slow.ended();
///     assert_eq!(slow.nap(), Err(AskError::Closed));
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AskError {
    /// The actor had ended, or took no more messages, when it was asked.
    Closed,
    /// The actor ended before it answered: its state, which had kept the reply, or its handler, which a kill cut short.
    Stopped,
    /// The handler panicked.
    Panicked,
    /// The handler failed, before it answered.
    Failed,
    /// The handler dropped the request without an answer.
    NoReply,
    /// Time ran out; the handler's own verbs are cancelled.
    Deadline,
    /// The actor asks itself, or actors ask each other in a circle, each in the middle of answering the one before: the
    /// answer could never come. Asks with a deadline end by themselves and are not looked at.
    Deadlock,
    /// The fiber that asked was cancelled.
    Cancelled,
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AskError::Closed => "the actor has ended, or takes no more messages",
            AskError::Stopped => "the actor ended before it answered",
            AskError::Panicked => "the actor's handler panicked",
            AskError::Failed => "the actor's handler failed before it answered",
            AskError::NoReply => "the actor's handler dropped the request without an answer",
            AskError::Deadline => "no answer before the deadline",
            AskError::Deadlock => "the actors ask each other in a circle; the answer could never come",
            AskError::Cancelled => "the fiber that asked was cancelled",
        })
    }
}

impl std::error::Error for AskError {}
