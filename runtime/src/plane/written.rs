//! How far a write with a deadline got.

/// What became of the bytes of a write that had a deadline.
///
/// A torn write leaves the other end with a part: a stream can be gone on with from there, or is to be closed, but the
/// whole must not be sent again.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::net::{UnixStream, Written};
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let (here, _there) = UnixStream::pair()?;
/// match here.write_all_by(b"hello", Duration::from_secs(1))? {
///     Written::All => {}
///     Written::Nothing => println!("nobody reads; try again later"),
///     Written::Torn(count) => println!("{count} bytes are gone, the rest is not"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Written {
    /// Everything was handed to the kernel.
    All,
    /// Nothing was, by the deadline: the same bytes may be sent again.
    Nothing,
    /// This many bytes were, by the deadline, and the rest was not.
    Torn(usize),
}

impl Written {
    /// `sent` of `len` bytes.
    pub fn of(sent: usize, len: usize) -> Written {
        match sent {
            _ if sent == len => Written::All,
            0 => Written::Nothing,
            _ => Written::Torn(sent),
        }
    }

    /// Whether everything was handed to the kernel.
    pub fn is_all(self) -> bool {
        self == Written::All
    }
}
