//! What a program does that a simulated host runs as a process: a list of steps.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// One of the two streams a program writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Output,
    Error,
}

/// One thing a program does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Writes all of it, waiting for room where it has to.
    Write(Stream, Vec<u8>),
    Sleep(Duration),
    /// Reads so many lines, or to the end of its input, and writes them to its output where it is told to.
    Read {
        lines: Option<u32>,
        copy: bool,
    },
    Exit(i32),
    /// Is ended by this signal.
    Die(i32),
    /// Goes on until it is killed.
    Linger,
}

/// What a program does, step by step, when a simulated host runs it. After the last step it exits with code 0.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use wo::process::Command;
/// use wo::sim::{Script, World};
///
/// let mut world = World::new(1);
/// let host = world.host("builder");
/// host.program("make", |made| {
///     let script = Script::new().stdout("compiling\n").sleep(Duration::from_secs(90));
///     if made.args.is_empty() { script.stderr("no target\n").exit(2) } else { script.stdout("done\n") }
/// });
/// let program = world.start(&host, || async {
///     let good = Command::new("make").arg("all").output().await?;
///     let bad = Command::new("make").output().await?;
///     Ok::<_, wo::IoError>((good, bad))
/// });
/// let (good, bad) = world.finish(program)??;
/// assert!(good.status.success() && good.stdout == b"compiling\ndone\n");
/// assert!(bad.status.code() == Some(2) && bad.stderr == b"no target\n");
/// assert_eq!(world.elapsed().as_secs(), 180);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    pub(super) steps: Vec<Step>,
    pub(super) ignored: BTreeSet<i32>,
}

impl Script {
    /// Does nothing.
    pub fn new() -> Script {
        Script::default()
    }

    fn then(mut self, step: Step) -> Script {
        self.steps.push(step);
        self
    }

    /// Writes this to its standard output. It waits for a reader when the pipe is full, and dies by SIGPIPE when there
    /// is none any more.
    #[must_use]
    pub fn stdout(self, bytes: impl Into<Vec<u8>>) -> Script {
        self.then(Step::Write(Stream::Output, bytes.into()))
    }

    /// Writes this to its standard error, likewise.
    #[must_use]
    pub fn stderr(self, bytes: impl Into<Vec<u8>>) -> Script {
        self.then(Step::Write(Stream::Error, bytes.into()))
    }

    /// Does nothing for so long.
    #[must_use]
    pub fn sleep(self, span: Duration) -> Script {
        self.then(Step::Sleep(span))
    }

    /// Copies its standard input to its standard output, to the end.
    #[must_use]
    pub fn copy(self) -> Script {
        self.then(Step::Read { lines: None, copy: true })
    }

    /// Reads its standard input to the end, and does nothing with it.
    #[must_use]
    pub fn read_to_end(self) -> Script {
        self.then(Step::Read { lines: None, copy: false })
    }

    /// Reads so many lines of its standard input, or what there is, and does nothing with them.
    #[must_use]
    pub fn read_lines(self, count: u32) -> Script {
        self.then(Step::Read { lines: Some(count), copy: false })
    }

    /// Copies so many lines of its standard input, or what there is, to its standard output.
    #[must_use]
    pub fn copy_lines(self, count: u32) -> Script {
        self.then(Step::Read { lines: Some(count), copy: true })
    }

    /// Exits with this code, of which the lowest byte counts; what was added after it never happens.
    #[must_use]
    pub fn exit(self, code: i32) -> Script {
        self.then(Step::Exit(code))
    }

    /// Is ended by this signal, as by a crash.
    #[must_use]
    pub fn signal(self, signal: i32) -> Script {
        self.then(Step::Die(signal))
    }

    /// Goes on until it is killed.
    #[must_use]
    pub fn until_killed(self) -> Script {
        self.then(Step::Linger)
    }

    /// From its start on it takes no notice of this signal. SIGKILL cannot be ignored.
    #[must_use]
    pub fn ignoring(mut self, signal: i32) -> Script {
        self.ignored.insert(signal);
        self
    }
}

/// How a program was started, as its script sees it.
///
/// # Examples
///
/// ```
/// use wo::process::Command;
/// use wo::sim::{Script, World};
///
/// let mut world = World::new(1);
/// let host = world.host("shell");
/// host.program("greet", |greeted| {
///     let name = greeted.variable("NAME").and_then(|name| name.to_str()).unwrap_or("nobody");
///     Script::new().stdout(format!("hello, {name}"))
/// });
/// let program = world.start(&host, || async { Command::new("greet").env("NAME", "Ada").output().await });
/// assert_eq!(world.finish(program)??.stdout, b"hello, Ada");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invocation {
    /// Its name, as it was given.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The variables that were set for it, in order; a simulated host has no others.
    pub variables: Vec<(OsString, OsString)>,
    /// The directory it starts in, when one was named.
    pub directory: Option<PathBuf>,
}

impl Invocation {
    pub(crate) fn new(program: OsString, args: Vec<OsString>) -> Invocation {
        Invocation { program, args, variables: Vec::new(), directory: None }
    }

    /// The value of a variable that was set for it.
    pub fn variable(&self, name: &str) -> Option<&OsString> {
        self.variables.iter().rev().find(|(set, _)| set == name).map(|(_, value)| value)
    }
}
