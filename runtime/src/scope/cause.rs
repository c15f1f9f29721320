//! How a piece of concurrent work ended: with a value, or for a cause.
//!
//! Three causes, and the difference matters to whoever retries: a failure is an answer of the work's own and may be
//! tried again; a defect is a panic, and an interruption is somebody's will, and neither is ever tried again. When
//! several children of a scope end badly the first cause is kept, and the others are counted.

use std::any::Any;
use std::fmt;

use crate::error::IoError;

/// Why work was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Interrupt {
    /// Somebody cancelled its scope.
    Cancelled,
    /// Time ran out.
    Deadline,
    /// Another contender of a race won.
    RaceLost,
    /// The program stops.
    Shutdown,
    /// Only daemons were left in its scope.
    Daemon,
}

impl fmt::Display for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Interrupt::Cancelled => "cancelled",
            Interrupt::Deadline => "out of time",
            Interrupt::RaceLost => "another won the race",
            Interrupt::Shutdown => "the program is stopping",
            Interrupt::Daemon => "only daemons were left",
        })
    }
}

/// The first thing that went wrong.
pub enum First<E> {
    /// It failed, with its own error.
    Fail(E),
    /// It panicked, with this payload.
    Die(Box<dyn Any + Send>),
    /// It was interrupted.
    Interrupted(Interrupt),
}

/// Why there is no value: the first cause, and how many came after it.
///
/// # Examples
///
/// ```
/// use wo_runtime::scope::{Cause, Interrupt};
///
/// let cause: Cause<String> = Cause::interrupted(Interrupt::Deadline);
/// assert!(cause.is_timeout());
/// assert_eq!(cause.to_string(), "interrupted: out of time");
/// ```
pub struct Cause<E = IoError> {
    first: First<E>,
    suppressed: u32,
}

/// What a scope or a fork of it yields.
pub type Outcome<T, E = IoError> = Result<T, Cause<E>>;

impl<E> Cause<E> {
    /// A failure.
    pub const fn fail(error: E) -> Cause<E> {
        Cause { first: First::Fail(error), suppressed: 0 }
    }

    /// A panic.
    pub fn die(payload: Box<dyn Any + Send>) -> Cause<E> {
        Cause { first: First::Die(payload), suppressed: 0 }
    }

    /// An interruption.
    pub const fn interrupted(reason: Interrupt) -> Cause<E> {
        Cause { first: First::Interrupted(reason), suppressed: 0 }
    }

    /// The first cause.
    pub const fn first(&self) -> &First<E> {
        &self.first
    }

    /// The first cause, taken out.
    pub fn into_first(self) -> First<E> {
        self.first
    }

    /// How many causes came after the first.
    pub const fn suppressed(&self) -> u32 {
        self.suppressed
    }

    /// The error, if it failed.
    pub const fn error(&self) -> Option<&E> {
        match &self.first {
            First::Fail(error) => Some(error),
            _ => None,
        }
    }

    /// The reason, if it was interrupted.
    pub const fn interrupt(&self) -> Option<Interrupt> {
        match &self.first {
            First::Interrupted(reason) => Some(*reason),
            _ => None,
        }
    }

    /// Whether it panicked.
    pub const fn is_panic(&self) -> bool {
        matches!(self.first, First::Die(_))
    }

    /// Whether time ran out.
    pub const fn is_timeout(&self) -> bool {
        matches!(self.first, First::Interrupted(Interrupt::Deadline))
    }

    /// Counts causes that came after this one.
    #[must_use]
    pub const fn with_suppressed(mut self, more: u32) -> Cause<E> {
        self.suppressed = self.suppressed.saturating_add(more);
        self
    }
}

impl<E> From<E> for Cause<E> {
    fn from(error: E) -> Cause<E> {
        Cause::fail(error)
    }
}

/// `failed: ...`, `panicked: ...` or `interrupted: ...`, and how many more.
impl<E: fmt::Display> fmt::Display for Cause<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.first {
            First::Fail(error) => write!(f, "failed: {error}")?,
            First::Die(payload) => write!(f, "panicked: {}", words(payload.as_ref()))?,
            First::Interrupted(reason) => write!(f, "interrupted: {reason}")?,
        }
        if self.suppressed > 0 {
            write!(f, " (and {} more)", self.suppressed)?;
        }
        Ok(())
    }
}

impl<E: fmt::Debug> fmt::Debug for Cause<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = match &self.first {
            First::Fail(error) => {
                let mut tuple = f.debug_tuple("Fail");
                tuple.field(error);
                tuple
            }
            First::Die(payload) => {
                let mut tuple = f.debug_tuple("Die");
                tuple.field(&words(payload.as_ref()));
                tuple
            }
            First::Interrupted(reason) => {
                let mut tuple = f.debug_tuple("Interrupted");
                tuple.field(reason);
                tuple
            }
        };
        if self.suppressed > 0 {
            tuple.field(&format_args!("+{} suppressed", self.suppressed));
        }
        tuple.finish()
    }
}

impl<E: fmt::Debug> fmt::Debug for First<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            First::Fail(error) => f.debug_tuple("Fail").field(error).finish(),
            First::Die(payload) => f.debug_tuple("Die").field(&words(payload.as_ref())).finish(),
            First::Interrupted(reason) => f.debug_tuple("Interrupted").field(reason).finish(),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for Cause<E> {}

/// The words of a panic, where it carried any.
pub(crate) fn words(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(a payload that is no text)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_reads_like_a_sentence() {
        assert_eq!(Cause::fail("no route").with_suppressed(2).to_string(), "failed: no route (and 2 more)");
        assert_eq!(Cause::<&str>::die(Box::new("oh")).to_string(), "panicked: oh");
        assert_eq!(Cause::<&str>::interrupted(Interrupt::Daemon).to_string(), "interrupted: only daemons were left");
        assert_eq!(format!("{:?}", Cause::fail(3).with_suppressed(1)), "Fail(3, +1 suppressed)");
    }
}
