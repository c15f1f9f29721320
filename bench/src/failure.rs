//! What went wrong, said for the person at the terminal: what was tried, on what, and what to do about it.

use std::fmt;
use std::io;

/// A benchmark, or one subject of it, that could not go on.
#[derive(Debug, thiserror::Error)]
pub struct Failure {
    tried: String,
    cause: String,
    remedy: Option<&'static str>,
}

impl Failure {
    /// A failure while doing `tried`, because of `cause`.
    pub fn new(tried: impl Into<String>, cause: impl fmt::Display) -> Self {
        Failure { tried: tried.into(), cause: cause.to_string(), remedy: None }
    }

    /// The same failure with what to do about it.
    pub fn remedy(mut self, remedy: &'static str) -> Self {
        self.remedy = Some(remedy);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.tried, self.cause)?;
        match self.remedy {
            Some(remedy) => write!(f, " ({remedy})"),
            None => Ok(()),
        }
    }
}

/// Names what an operating-system call was for.
pub trait Tried<T> {
    /// Turns the error into a [`Failure`] while doing `what`.
    fn tried(self, what: impl Into<String>) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> Tried<T> for Result<T, E> {
    fn tried(self, what: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|error| {
            let error: io::Error = error.into();
            let failure = Failure::new(what, &error);
            match error.raw_os_error() {
                Some(libc::EMFILE | libc::ENFILE) => failure.remedy("raise the limit of open files, `ulimit -n 20000`"),
                Some(libc::ENOMEM) => failure.remedy("raise the limit of locked memory, `ulimit -l`"),
                Some(libc::EPERM | libc::ENOSYS) => failure
                    .remedy("the kernel or its sandbox refuses the call; io_uring needs Linux 6.1 and permission"),
                _ => failure,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_was_tried_why_not_and_what_to_do() {
        let error: Result<(), _> = Err(io::Error::from_raw_os_error(libc::EMFILE));
        let text = error.tried("connect to 127.0.0.1:9").unwrap_err().to_string();
        assert!(text.starts_with("connect to 127.0.0.1:9: "), "{text}");
        assert!(text.contains("ulimit -n"), "{text}");
    }
}
