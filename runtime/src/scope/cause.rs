//! How a piece of concurrent work ended: with a value, or for a cause.
//!
//! Three causes, and the difference matters to whoever retries: a failure is an answer of the work's own and may be
//! tried again; a defect is a panic, and an interruption is somebody's will, and neither is ever tried again. When
//! several children of a scope end badly the first cause is kept, and the others are counted.

use std::any::Any;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::error::{IoError, OpKind, Stage, errno};

/// Why work was interrupted.
///
/// # Examples
///
/// ```
/// use wo::Cause;
///
/// assert_eq!(wo::Interrupt::Daemon.to_string(), "only daemons were left");
/// let cause: Cause<&str> = Cause::interrupted(wo::Interrupt::Shutdown);
/// assert_eq!(cause.interrupt(), Some(wo::Interrupt::Shutdown));
/// ```
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
    /// Another of its scope failed or panicked. Whoever joins the one that did hears this as well: the cause itself is
    /// its scope's.
    SiblingFailed,
    /// Its scope's time for cleaning up had passed, and it was dropped where it stood.
    CleanupTimeout,
}

impl Interrupt {
    /// As it stands in sentences.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Interrupt::Cancelled => "cancelled",
            Interrupt::Deadline => "out of time",
            Interrupt::RaceLost => "another won the race",
            Interrupt::Shutdown => "the program is stopping",
            Interrupt::Daemon => "only daemons were left",
            Interrupt::SiblingFailed => "another of its scope failed",
            Interrupt::CleanupTimeout => "it did not clean up in time",
        }
    }
}

impl fmt::Display for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// The first thing that went wrong.
///
/// # Examples
///
/// ```
/// use wo::{Cause, First};
///
/// let words = match Cause::fail("no route").into_first() {
///     First::Fail(error) => error.to_owned(),
///     First::Die(panic) => panic.message(),
///     First::Interrupted(reason) => reason.to_string(),
/// };
/// assert_eq!(words, "no route");
/// ```
pub enum First<E> {
    /// It failed, with its own error.
    Fail(E),
    /// It panicked.
    Die(Panic),
    /// It was interrupted.
    Interrupted(Interrupt),
}

/// What a panic carried.
///
/// # Examples
///
/// ```
/// use wo::Panic;
///
/// let payload = std::panic::catch_unwind(|| panic!("as planned")).unwrap_err();
/// assert_eq!(Panic::new(payload).message(), "as planned");
/// ```
pub struct Panic {
    /// What a panic carries may move, but not be looked at from several threads; errors are asked for both.
    payload: Mutex<Box<dyn Any + Send>>,
}

impl Panic {
    /// Wraps what a panic carried.
    pub fn new(payload: Box<dyn Any + Send>) -> Panic {
        Panic { payload: Mutex::new(payload) }
    }

    /// Its words, where it carried any.
    pub fn message(&self) -> String {
        words(self.payload.lock().unwrap_or_else(PoisonError::into_inner).as_ref()).to_owned()
    }

    /// What it carried, for [`std::panic::resume_unwind`].
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.payload.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panic").field(&self.message()).finish()
    }
}

/// Why there is no value: the first cause, and how many came after it.
///
/// It is an error like any other: `?` turns it into a `Box<dyn Error + Send + Sync>`, and one of an [`IoError`] into an
/// `IoError`, an interruption being ECANCELED, or ETIMEDOUT when time ran out. What `main` returns is printed as a
/// sentence.
///
/// # Examples
///
/// ```
/// use wo::Cause;
///
/// let cause: Cause<String> = Cause::interrupted(wo::Interrupt::Deadline);
/// assert!(cause.is_timeout());
/// assert_eq!(cause.to_string(), "interrupted: out of time");
/// ```
pub struct Cause<E = IoError> {
    first: First<E>,
    suppressed: u32,
    abandoned: u32,
}

/// What a scope or a fork of it yields.
///
/// Where one stands in another, a race in a timeout say, `Ok(..?)` hands its cause on as an error of the outer one's
/// kind; handed on as it is, it would be a failure whose error is a cause.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::schedule::recurs;
///
/// #[wo::main]
/// fn main() {
///     let quickest: wo::Outcome<&str> = wo::retry(recurs(2), || {
///         Ok(wo::timeout(Duration::from_secs(1), || Ok(wo::race((|| Ok("tea"), || Ok("milk")))?))?)
///     });
///     assert_eq!(quickest.expect("one of them is there"), "tea");
/// }
/// ```
///
/// ```
/// use wo::Cause;
///
/// fn or_nothing(outcome: wo::Outcome<u32, &str>) -> wo::Outcome<u32, &str> {
///     match outcome {
///         Err(cause) if cause.is_timeout() => Ok(0),
///         other => other,
///     }
/// }
/// assert_eq!(or_nothing(Err(Cause::interrupted(wo::Interrupt::Deadline))).unwrap(), 0);
/// assert_eq!(or_nothing(Err(Cause::fail("no route"))).unwrap_err().error(), Some(&"no route"));
/// ```
pub type Outcome<T, E = IoError> = Result<T, Cause<E>>;

impl<E> Cause<E> {
    /// A failure.
    pub const fn fail(error: E) -> Cause<E> {
        Cause { first: First::Fail(error), suppressed: 0, abandoned: 0 }
    }

    /// A panic.
    pub fn die(payload: Box<dyn Any + Send>) -> Cause<E> {
        Cause { first: First::Die(Panic::new(payload)), suppressed: 0, abandoned: 0 }
    }

    /// An interruption.
    pub const fn interrupted(reason: Interrupt) -> Cause<E> {
        Cause { first: First::Interrupted(reason), suppressed: 0, abandoned: 0 }
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
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::Cause;
    ///
    /// let cause = Cause::fail("no route").with_suppressed(2);
    /// assert_eq!((cause.suppressed(), cause.to_string().as_str()), (2, "failed: no route (and 2 more)"));
    /// ```
    pub const fn suppressed(&self) -> u32 {
        self.suppressed
    }

    /// How many did not clean up in time and were dropped where they stood.
    pub const fn abandoned(&self) -> u32 {
        self.abandoned
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

    /// Whether work was dropped because it did not clean up in time.
    pub const fn is_cleanup_timeout(&self) -> bool {
        self.abandoned > 0 || matches!(self.first, First::Interrupted(Interrupt::CleanupTimeout))
    }

    /// Counts work that did not clean up in time.
    pub(crate) const fn with_abandoned(mut self, more: u32) -> Cause<E> {
        self.abandoned = self.abandoned.saturating_add(more);
        self
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

impl<E> Cause<E> {
    /// `failed: ...`, `panicked: ...` or `interrupted: ...`, and how many more.
    fn write(
        &self,
        f: &mut fmt::Formatter<'_>,
        error: impl FnOnce(&E, &mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        match &self.first {
            First::Fail(cause) => {
                f.write_str("failed: ")?;
                error(cause, f)?;
            }
            First::Die(panic) => write!(f, "panicked: {}", panic.message())?,
            First::Interrupted(reason) => write!(f, "interrupted: {reason}")?,
        }
        if self.suppressed > 0 {
            write!(f, " (and {} more)", self.suppressed)?;
        }
        if self.abandoned > 0 {
            write!(f, " ({} dropped while still cleaning up)", self.abandoned)?;
        }
        Ok(())
    }
}

impl<E: fmt::Display> fmt::Display for Cause<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, |error, f| error.fmt(f))
    }
}

/// The same sentence, with the error as it is told to programmers: this is what `main` and `unwrap` print.
impl<E: fmt::Debug> fmt::Debug for Cause<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, |error, f| error.fmt(f))
    }
}

/// An interruption is ECANCELED, ETIMEDOUT when time ran out; a panic is an error without a number.
impl From<Cause<IoError>> for IoError {
    fn from(cause: Cause<IoError>) -> IoError {
        let number = match &cause.first {
            First::Interrupted(Interrupt::Deadline) => errno::ETIMEDOUT,
            First::Interrupted(_) => errno::ECANCELED,
            First::Die(_) | First::Fail(_) => 0,
        };
        let words = cause.to_string();
        match cause.first {
            First::Fail(error) => error,
            _ => IoError::new(number, OpKind::Join, Stage::Cancel).with_context(format!("a scope, {words}")),
        }
    }
}

impl<E: fmt::Debug> fmt::Debug for First<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            First::Fail(error) => f.debug_tuple("Fail").field(error).finish(),
            First::Die(panic) => f.debug_tuple("Die").field(&panic.message()).finish(),
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
        assert_eq!(format!("{:?}", Cause::fail("no").with_suppressed(1)), "failed: \"no\" (and 1 more)");
        assert_eq!(
            Cause::<&str>::interrupted(Interrupt::CleanupTimeout).with_abandoned(1).to_string(),
            "interrupted: it did not clean up in time (1 dropped while still cleaning up)"
        );
    }

    #[test]
    fn a_cause_is_an_error_that_may_go_anywhere() {
        fn anywhere<T: std::error::Error + Send + Sync + 'static>() {}
        anywhere::<Cause<IoError>>();
        let late = IoError::from(Cause::<IoError>::interrupted(Interrupt::Deadline));
        assert_eq!(late.errno(), errno::ETIMEDOUT);
        let own = IoError::new(errno::EPIPE, OpKind::Write, Stage::Completion);
        assert_eq!(IoError::from(Cause::fail(own.clone())), own);
    }
}
