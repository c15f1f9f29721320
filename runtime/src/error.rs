//! The errors of the kernel's side: what was tried, at which stage, and the system's answer.
//!
//! An [`IoError`] is four facts: `errno`, the op, the stage at which it failed, and a context that names the thing
//! it was tried on. Everything above adds meaning, never takes these away. What the runtime cannot answer to anybody
//! it says on stderr.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::io::{self, Write};

/// The result of one verb or one call to the plane.
///
/// # Examples
///
/// ```
/// #[wo::fiber]
/// fn first_line(path: &str) -> wo::IoResult<String> {
///     let text = wo::fs::read_to_string(path)?;
///     Ok(text.lines().next().unwrap_or_default().to_owned())
/// }
/// # #[wo::fiber]
/// # fn example() -> wo::IoResult<()> {
/// #     wo::fs::write("/note", "one\ntwo")?;
/// #     assert_eq!(first_line("/note")?, "one");
/// #     Ok(())
/// # }
/// # wo::Builder::new().io(wo::Selection::Sim).run(example).unwrap().unwrap();
/// ```
pub type IoResult<T> = Result<T, IoError>;

/// What was asked of the kernel.
///
/// # Examples
///
/// ```
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let refused = wo::fs::read("/nowhere").unwrap_err();
/// assert_eq!((refused.op(), refused.op().name()), (wo::OpKind::Open, "open"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum OpKind {
    /// Nothing in particular: an error of the runtime itself.
    #[default]
    None,
    /// An op that does nothing, for measuring.
    Nop,
    /// Read from a file or a pipe.
    Read,
    /// Write to a file or a pipe.
    Write,
    /// Lock a file.
    Lock,
    /// Read into several buffers.
    ReadVectored,
    /// Write from several buffers.
    WriteVectored,
    /// Receive from a connected socket.
    Recv,
    /// Send on a connected socket.
    Send,
    /// Receive a datagram and its sender's address.
    RecvFrom,
    /// Send a datagram to an address.
    SendTo,
    /// Accept a connection.
    Accept,
    /// Connect to an address.
    Connect,
    /// Close one half of a connection, or both.
    Shutdown,
    /// Make a socket.
    Socket,
    /// Bind a socket to an address.
    Bind,
    /// Start to listen.
    Listen,
    /// Read or set a socket option, or ask a socket's address.
    SocketOption,
    /// Wait for a foreign descriptor to become ready.
    Poll,
    /// Open a file.
    Open,
    /// Close a descriptor.
    Close,
    /// Ask a file's metadata.
    Stat,
    /// Wait until a file is on the disk.
    Sync,
    /// Reserve a file's space.
    Allocate,
    /// Change a file's length.
    Truncate,
    /// Move the position in a file.
    Seek,
    /// Rename a file.
    Rename,
    /// Remove a file or an empty directory.
    Unlink,
    /// Make a directory.
    Mkdir,
    /// List a directory.
    ReadDir,
    /// Run a call on the worker pool.
    Job,
    /// Look up a host name.
    Resolve,
    /// Sleep or wait for a deadline.
    Timer,
    /// Cancel an op.
    Cancel,
    /// Set up a ring, a poller or a simulated kernel.
    Setup,
    /// Wait for completions.
    Wait,
    /// Give up the processor for a turn.
    Yield,
    /// Start a fiber, or a program.
    Spawn,
    /// Send a signal to a program.
    Signal,
    /// Wait for a fiber's end.
    Join,
    /// Wait for a value or a signal from another fiber.
    Receive,
    /// Put a value into a channel.
    Put,
    /// Ask an actor.
    Ask,
}

impl OpKind {
    /// The number of kinds, for tables indexed by kind.
    pub const COUNT: usize = OpKind::Ask as usize + 1;

    /// The kind's name as it stands in messages and traces.
    pub const fn name(self) -> &'static str {
        match self {
            OpKind::None => "runtime",
            OpKind::Nop => "nop",
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Lock => "lock",
            OpKind::ReadVectored => "readv",
            OpKind::WriteVectored => "writev",
            OpKind::Recv => "recv",
            OpKind::Send => "send",
            OpKind::RecvFrom => "recv_from",
            OpKind::SendTo => "send_to",
            OpKind::Accept => "accept",
            OpKind::Connect => "connect",
            OpKind::Shutdown => "shutdown",
            OpKind::Socket => "socket",
            OpKind::Bind => "bind",
            OpKind::Listen => "listen",
            OpKind::SocketOption => "socket option",
            OpKind::Poll => "poll",
            OpKind::Open => "open",
            OpKind::Close => "close",
            OpKind::Stat => "stat",
            OpKind::Sync => "sync",
            OpKind::Allocate => "allocate",
            OpKind::Truncate => "truncate",
            OpKind::Seek => "seek",
            OpKind::Rename => "rename",
            OpKind::Unlink => "unlink",
            OpKind::Mkdir => "mkdir",
            OpKind::ReadDir => "read_dir",
            OpKind::Job => "job",
            OpKind::Resolve => "resolve",
            OpKind::Timer => "timer",
            OpKind::Cancel => "cancel",
            OpKind::Setup => "setup",
            OpKind::Wait => "wait",
            OpKind::Yield => "yield",
            OpKind::Spawn => "spawn",
            OpKind::Signal => "signal",
            OpKind::Join => "join",
            OpKind::Receive => "receive",
            OpKind::Put => "put",
            OpKind::Ask => "ask",
        }
    }
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where on its way an op failed.
///
/// # Examples
///
/// ```
/// use wo::{IoError, OpKind, Stage};
///
/// let refused = IoError::new(111, OpKind::Connect, Stage::Completion);
/// assert_eq!(refused.stage(), Stage::Completion);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Setting up the ring, the poller or the simulated kernel.
    Setup,
    /// Asking the kernel what it can do.
    Probe,
    /// Registering buffers or descriptors.
    Registration,
    /// Before the kernel saw the op: a checkpoint, a full queue, a bad argument.
    Submit,
    /// The kernel's own answer.
    Completion,
    /// Cancelling the op, or waiting for its last word.
    Cancel,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Setup => "setup",
            Stage::Probe => "probe",
            Stage::Registration => "registration",
            Stage::Submit => "submit",
            Stage::Completion => "completion",
            Stage::Cancel => "cancel",
        })
    }
}

/// What went wrong: the system's `errno`, the op, the stage, and what it was tried on.
///
/// # Examples
///
/// ```
/// use wo::Stage;
///
/// let refused = wo::IoError::new(111, wo::OpKind::Connect, Stage::Completion).with_context("127.0.0.1:9");
/// assert_eq!(refused.errno(), 111);
/// assert!(refused.to_string().starts_with("connect 127.0.0.1:9: "));
///
/// // It converts to `std::io::Error` and back without losing a word.
/// let std_error = std::io::Error::from(refused.clone());
/// assert_eq!(std_error.kind(), std::io::ErrorKind::ConnectionRefused);
/// assert_eq!(wo::IoError::from(std_error), refused);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct IoError {
    errno: i32,
    op: OpKind,
    stage: Stage,
    context: Cow<'static, str>,
}

impl IoError {
    /// An error with no context. `errno` is positive; 0 says the system was not asked.
    pub const fn new(errno: i32, op: OpKind, stage: Stage) -> IoError {
        IoError { errno, op, stage, context: Cow::Borrowed("") }
    }

    /// An error of the completion stage from a completion's negative result. That of a verb that was cancelled in
    /// flight says why. `EAGAIN`, which waiting would not mend, says that there is no thread to do it.
    #[cold]
    pub fn from_result(res: i32, op: OpKind) -> IoError {
        let error = IoError::new(-res, op, Stage::Completion);
        match (error.errno, op) {
            (errno::ECANCELED, _) => error.with_context(CANCELLED_WHY.get()),
            // There it is the peer's, or a port's that is not there.
            (errno::EAGAIN, OpKind::Connect) => error,
            (errno::EAGAIN, _) => error.with_context(NO_THREAD),
            _ => error,
        }
    }

    /// The same error, naming what it was tried on and what to do about it.
    #[must_use]
    pub fn with_context(mut self, context: impl Into<Cow<'static, str>>) -> IoError {
        self.context = context.into();
        self
    }

    /// The positive `errno`, or 0 where the system was not asked.
    pub const fn errno(&self) -> i32 {
        self.errno
    }

    /// The op that failed.
    pub const fn op(&self) -> OpKind {
        self.op
    }

    /// The stage at which it failed.
    pub const fn stage(&self) -> Stage {
        self.stage
    }

    /// What it was tried on, and the remedy where one is known; may be empty.
    pub fn context(&self) -> &str {
        &self.context
    }

    /// The class of the error in std's terms. ENODATA, the answer of an exact read that met the end of file, is of kind
    /// `UnexpectedEof`.
    pub fn kind(&self) -> io::ErrorKind {
        match self.errno {
            0 => io::ErrorKind::Other,
            errno::ENODATA => io::ErrorKind::UnexpectedEof,
            errno::EILSEQ => io::ErrorKind::InvalidData,
            errno => io::Error::from_raw_os_error(errno).kind(),
        }
    }

    /// Whether the op was cancelled: its scope was cancelled, or the program stops.
    pub const fn is_cancelled(&self) -> bool {
        self.errno == errno::ECANCELED
    }

    /// Whether time ran out.
    pub const fn is_timed_out(&self) -> bool {
        self.errno == errno::ETIMEDOUT
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.op)?;
        if !self.context.is_empty() {
            write!(f, " {}", OneLine(&self.context))?;
        }
        if self.errno != 0 {
            write!(f, ": {}", io::Error::from_raw_os_error(self.errno))?;
        }
        if self.stage != Stage::Completion {
            write!(f, " (at {})", self.stage)?;
        }
        Ok(())
    }
}

/// The most characters of a context that are shown.
const CONTEXT_CHARS_MAX: usize = 1000;

/// A context as a line to read: what names may hold and would change the line is escaped, and of a long one the middle
/// is left out, since names come first and remedies last.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.chars().count();
        let left_out =
            if count > CONTEXT_CHARS_MAX { CONTEXT_CHARS_MAX / 2..count - CONTEXT_CHARS_MAX / 2 } else { 0..0 };
        for (number, character) in self.0.chars().enumerate() {
            if left_out.contains(&number) {
                if number == left_out.start {
                    write!(f, " [..{} characters..] ", left_out.len())?;
                }
            } else if character.is_control() || turns_the_line(character) {
                write!(f, "{}", character.escape_debug())?;
            } else {
                f.write_char(character)?;
            }
        }
        Ok(())
    }
}

/// Whether it sets the direction in which text is shown, or breaks lines.
fn turns_the_line(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What `Display` says, because this is what `unwrap` and a `main` that fails show; its parts with `{:#?}`.
impl fmt::Debug for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return write!(f, "IoError({self})");
        }
        f.debug_struct("IoError")
            .field("errno", &self.errno)
            .field("op", &self.op)
            .field("stage", &self.stage)
            .field("context", &self.context)
            .finish()
    }
}

impl std::error::Error for IoError {}

/// Keeps op, stage and context: the `IoError` is the std error's source and comes back whole.
impl From<IoError> for io::Error {
    fn from(error: IoError) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}

impl From<io::Error> for IoError {
    fn from(error: io::Error) -> IoError {
        match error.downcast::<IoError>() {
            Ok(error) => error,
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(0);
                let plain = IoError::new(errno, OpKind::None, Stage::Completion);
                if errno == 0 { plain.with_context(error.to_string()) } else { plain }
            }
        }
    }
}

/// What it means that an op is refused with `EAGAIN`: nobody above a backend is asked to try again.
pub(crate) const NO_THREAD: &str = "no thread could be started for it; raise `ulimit -u`, or the container's limit of \
tasks; or have signals handled by threads that are no shards";

thread_local! {
    /// Why the op was cancelled whose answer is made right now.
    static CANCELLED_WHY: Cell<&'static str> = const { Cell::new("") };
}

/// Makes the answer of a cancelled op: its error says why.
pub(crate) fn saying_why<T>(why: &'static str, answer: impl FnOnce() -> T) -> T {
    struct Said;

    impl Drop for Said {
        fn drop(&mut self) {
            CANCELLED_WHY.set("");
        }
    }

    CANCELLED_WHY.set(why);
    let _until_answered = Said;
    answer()
}

/// Says a line on stderr. Nobody may be reading there, and that is no reason to fail: `eprintln!` would panic. It is
/// written at once: a panic on another thread is told without a look at the lock, and would land within the line.
pub(crate) fn say(words: fmt::Arguments<'_>) {
    let _ = io::stderr().lock().write_all(format!("wo: {words}\n").as_bytes());
}

/// The few `errno` values the runtime itself answers or decides by, in Linux's numbering.
///
/// They stand here because the layers above the backends may not name libc.
pub mod errno {
    /// Not permitted.
    pub const EPERM: i32 = 1;
    /// No such file or directory.
    pub const ENOENT: i32 = 2;
    /// No such process.
    pub const ESRCH: i32 = 3;
    /// Interrupted by a signal.
    pub const EINTR: i32 = 4;
    /// Input or output error.
    pub const EIO: i32 = 5;
    /// No such device or address: here, no loop on this thread.
    pub const ENXIO: i32 = 6;
    /// Bad descriptor.
    pub const EBADF: i32 = 9;
    /// Try again.
    pub const EAGAIN: i32 = 11;
    /// Out of memory, or of lockable memory.
    pub const ENOMEM: i32 = 12;
    /// Permission denied.
    pub const EACCES: i32 = 13;
    /// Busy.
    pub const EBUSY: i32 = 16;
    /// Already exists.
    pub const EEXIST: i32 = 17;
    /// Across file systems.
    pub const EXDEV: i32 = 18;
    /// Not a directory.
    pub const ENOTDIR: i32 = 20;
    /// Is a directory.
    pub const EISDIR: i32 = 21;
    /// Invalid argument.
    pub const EINVAL: i32 = 22;
    /// The system's table of open files is full.
    pub const ENFILE: i32 = 23;
    /// The process has too many open files.
    pub const EMFILE: i32 = 24;
    /// A program runs from the file.
    pub const ETXTBSY: i32 = 26;
    /// File too large.
    pub const EFBIG: i32 = 27;
    /// No space left on the device.
    pub const ENOSPC: i32 = 28;
    /// Seek on something that has no position.
    pub const ESPIPE: i32 = 29;
    /// The file system is read-only.
    pub const EROFS: i32 = 30;
    /// The other end is closed.
    pub const EPIPE: i32 = 32;
    /// Waiting would never end.
    pub const EDEADLK: i32 = 35;
    /// Name too long.
    pub const ENAMETOOLONG: i32 = 36;
    /// Not implemented.
    pub const ENOSYS: i32 = 38;
    /// Directory not empty.
    pub const ENOTEMPTY: i32 = 39;
    /// Too many symbolic links.
    pub const ELOOP: i32 = 40;
    /// No data: here, the end came before the bytes that were asked for.
    pub const ENODATA: i32 = 61;
    /// Not a valid text.
    pub const EILSEQ: i32 = 84;
    /// Not a socket.
    pub const ENOTSOCK: i32 = 88;
    /// Nowhere to send to: the socket is not connected.
    pub const EDESTADDRREQ: i32 = 89;
    /// Message too long.
    pub const EMSGSIZE: i32 = 90;
    /// A socket of another type.
    pub const EPROTOTYPE: i32 = 91;
    /// Not supported on this descriptor.
    pub const EOPNOTSUPP: i32 = 95;
    /// The socket is of another family.
    pub const EAFNOSUPPORT: i32 = 97;
    /// Address already in use.
    pub const EADDRINUSE: i32 = 98;
    /// Address not available.
    pub const EADDRNOTAVAIL: i32 = 99;
    /// No route to the network.
    pub const ENETUNREACH: i32 = 101;
    /// Connection aborted.
    pub const ECONNABORTED: i32 = 103;
    /// Connection reset by the peer.
    pub const ECONNRESET: i32 = 104;
    /// No buffer space.
    pub const ENOBUFS: i32 = 105;
    /// Already connected.
    pub const EISCONN: i32 = 106;
    /// Not connected.
    pub const ENOTCONN: i32 = 107;
    /// Timed out.
    pub const ETIMEDOUT: i32 = 110;
    /// Connection refused.
    pub const ECONNREFUSED: i32 = 111;
    /// The simulated host has no power.
    pub const EHOSTDOWN: i32 = 112;
    /// No route to the host.
    pub const EHOSTUNREACH: i32 = 113;
    /// In progress.
    pub const EINPROGRESS: i32 = 115;
    /// Disk quota used up.
    pub const EDQUOT: i32 = 122;
    /// Cancelled.
    pub const ECANCELED: i32 = 125;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_one_line_that_can_be_read() {
        let of = |context: String| IoError::new(errno::ENOENT, OpKind::Open, Stage::Completion).with_context(context);
        let odd = of("/tmp/a\nb\u{1b}[31m\u{202e}: not there".to_owned());
        assert_eq!(
            odd.to_string(),
            "open /tmp/a\\nb\\u{1b}[31m\\u{202e}: not there: No such file or directory (os error 2)"
        );
        assert_eq!(odd.context(), "/tmp/a\nb\u{1b}[31m\u{202e}: not there");
        let long = of(format!("/begins{}ends: the remedy", "/\u{e4}".repeat(3000))).to_string();
        assert!(long.starts_with("open /begins/") && long.contains("ends: the remedy: No such file"), "{long}");
        assert!(long.contains(" [..5023 characters..] ") && long.chars().count() < 1200, "{long}");
    }

    #[test]
    fn std_error_without_errno_keeps_its_words() {
        let error = IoError::from(io::Error::other("the words"));
        assert_eq!(error.errno(), 0);
        assert_eq!(error.context(), "the words");
    }

    #[test]
    fn message_names_op_context_reason_and_stage() {
        let error = IoError::new(errno::ENOSYS, OpKind::Setup, Stage::Setup).with_context("io_uring");
        assert_eq!(error.to_string(), "setup io_uring: Function not implemented (os error 38) (at setup)");
    }
}
