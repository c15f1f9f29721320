//! Running other programs.

use std::future::Future;

use crate::error::IoResult;
use crate::scope::call::Call;

/// What to run, and how.
///
/// # Examples
///
/// ```
/// use wo::capability::Command;
///
/// let status = Command::new("git").arg("status").arg("--short").current_dir("/srv/app").env("LC_ALL", "C");
/// assert_eq!(status.line(), "git status --short");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    dir: Option<String>,
    new_group: bool,
}

impl Command {
    /// `program`, looked for along the `PATH`, without arguments, in this program's environment and directory.
    pub fn new(program: impl Into<String>) -> Command {
        Command { program: program.into(), args: Vec::new(), env: Vec::new(), dir: None, new_group: false }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Command {
        self.args.push(arg.into());
        self
    }

    /// Sets a variable of its environment, beside those of this program.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Command {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The directory it runs in.
    #[must_use]
    pub fn current_dir(mut self, dir: impl Into<String>) -> Command {
        self.dir = Some(dir.into());
        self
    }

    /// Makes it the head of a process group of its own, so that it can be killed with all it starts.
    #[must_use]
    pub fn new_group(mut self) -> Command {
        self.new_group = true;
        self
    }

    /// The program.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Its arguments.
    pub fn args(&self) -> &[String] {
        &self.args
    }

    /// The variables that were set.
    pub fn vars(&self) -> &[(String, String)] {
        &self.env
    }

    /// The directory, if one was set.
    pub fn dir(&self) -> Option<&str> {
        self.dir.as_deref()
    }

    /// Whether it gets a process group of its own.
    pub const fn has_new_group(&self) -> bool {
        self.new_group
    }

    /// Program and arguments, separated by spaces.
    pub fn line(&self) -> String {
        let mut line = self.program.clone();
        for arg in &self.args {
            line.push(' ');
            line.push_str(arg);
        }
        line
    }
}

/// How a program ended.
///
/// # Examples
///
/// ```
/// use wo::capability::ExitStatus;
///
/// assert!(ExitStatus::Code(0).ok());
/// assert!(!ExitStatus::Code(1).ok() && !ExitStatus::Signal(9).ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl ExitStatus {
    /// Whether it exited with code 0.
    pub const fn ok(self) -> bool {
        matches!(self, ExitStatus::Code(0))
    }
}

/// What a program came to that was run to its end.
///
/// # Examples
///
/// ```
/// use wo::capability::{Command, ExitStatus, Proc, Script, SimProc};
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let proc = SimProc::new().on("make", Script::new().stderr("no target\n").exit(2));
/// let captured = proc.capture(&Command::new("make"), b"")?;
/// assert_eq!(captured.status, ExitStatus::Code(2));
/// assert!(captured.stdout.is_empty() && captured.stderr == b"no target\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to its standard error.
    pub stderr: Vec<u8>,
}

/// Starts other programs.
///
/// # Examples
///
/// ```
/// use wo::capability::{Command, Proc, Script, SimProc};
///
/// /// What is changed in a working copy, as `git` tells it.
/// #[wo::fiber]
/// fn changed(proc: &impl Proc) -> wo::IoResult<usize> {
///     let captured = proc.capture(&Command::new("git").arg("status").arg("--short"), b"")?;
///     Ok(String::from_utf8_lossy(&captured.stdout).lines().count())
/// }
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let git = SimProc::new().on("git status --short", Script::new().stdout(" M a\n M b\n"));
///     assert_eq!(changed(&git)?, 2);
///     Ok(())
/// }
/// ```
pub trait Proc {
    /// A program that runs.
    type Process: Process + 'static;

    /// Starts a program, with pipes for its standard streams.
    ///
    /// # Errors
    ///
    /// ENOENT or EACCES when there is no such program, and what else the system answers.
    fn spawn(&self, command: &Command) -> Call<impl Future<Output = IoResult<Self::Process>>>;

    /// Runs a program to its end: writes `input` to it, and reads what it writes meanwhile, so that no full pipe can
    /// hold it up.
    ///
    /// # Errors
    ///
    /// As [`spawn`](Proc::spawn); ECANCELED when the fiber was cancelled, and the program is killed then.
    fn capture(&self, command: &Command, input: &[u8]) -> Call<impl Future<Output = IoResult<Captured>>>;
}

/// A program that runs, as whoever started it sees it.
///
/// # Examples
///
/// ```
/// use wo::capability::{Command, ExitStatus, LiveProc, Proc, Process};
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let mut cat = LiveProc.spawn(&Command::new("cat"))?;
/// cat.write_stdin(b"there and back")?;
/// cat.close_stdin();
/// let mut piece = [0; 64];
/// let count = cat.read_stdout(&mut piece)?;
/// assert_eq!(&piece[..count], b"there and back");
/// assert_eq!(cat.wait()?, ExitStatus::Code(0));
/// # Ok(())
/// # }
/// ```
pub trait Process {
    /// Its number; none after a `wait` that succeeded.
    fn id(&self) -> Option<u32>;

    /// Writes to its standard input.
    ///
    /// # Errors
    ///
    /// EPIPE when it does not read any more, ECANCELED when the fiber was cancelled.
    fn write_stdin(&mut self, bytes: &[u8]) -> Call<impl Future<Output = IoResult<()>>>;

    /// Closes its standard input: it reads the end.
    fn close_stdin(&mut self);

    /// Reads from its standard output; 0 is the end.
    ///
    /// # Errors
    ///
    /// ECANCELED when the fiber was cancelled, and what else the system answers.
    fn read_stdout(&mut self, into: &mut [u8]) -> Call<impl Future<Output = IoResult<usize>>>;

    /// Reads from its standard error; 0 is the end.
    ///
    /// # Errors
    ///
    /// ECANCELED when the fiber was cancelled, and what else the system answers.
    fn read_stderr(&mut self, into: &mut [u8]) -> Call<impl Future<Output = IoResult<usize>>>;

    /// Parks until it has ended, and says how. A second time it says the same.
    ///
    /// # Errors
    ///
    /// ECANCELED when the fiber was cancelled; the program goes on.
    fn wait(&mut self) -> Call<impl Future<Output = IoResult<ExitStatus>>>;

    /// Sends it a signal.
    ///
    /// # Errors
    ///
    /// ESRCH after a `wait` that succeeded.
    fn kill(&mut self, signal: i32) -> IoResult<()>;
}

impl<P: Proc> Proc for &P {
    type Process = P::Process;

    fn spawn(&self, command: &Command) -> Call<impl Future<Output = IoResult<P::Process>>> {
        P::spawn(self, command)
    }

    fn capture(&self, command: &Command, input: &[u8]) -> Call<impl Future<Output = IoResult<Captured>>> {
        P::capture(self, command, input)
    }
}
