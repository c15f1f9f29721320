//! What to start, and how.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output};

use crate::error::IoResult;
use crate::fiber::Call;
use crate::os::fs::File;
use crate::os::process::capture;
use crate::os::process::child::Child;
use crate::os::process::start;

/// Where one of a program's standard streams leads.
///
/// # Examples
///
/// ```
/// use wo::process::{Command, Stdio};
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let mut greeting = Command::new("echo").arg("hello").stdout(Stdio::Piped).stderr(Stdio::Null).spawn()?;
/// let output = greeting.stdout.take().expect("it is piped");
/// assert_eq!(output.read_to_end()?, b"hello\n");
/// greeting.wait()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Stdio {
    /// Where this program's own leads.
    Inherit,
    /// To a pipe, whose other end the [`Child`] holds.
    Piped,
    /// To nothing: it reads as ended and swallows what is written.
    Null,
    /// To an open file, or the end of a pipe. The program gets a descriptor of its own; a file's position is shared
    /// with this handle.
    File(File),
    /// For standard error alone: where standard output leads, in the order of the writing.
    Stdout,
}

impl From<File> for Stdio {
    fn from(file: File) -> Stdio {
        Stdio::File(file)
    }
}

/// A program to start: its arguments, its environment, its directory, its standard streams.
///
/// It starts with no signal blocked and SIGPIPE as the system has it, whatever this program does with them. It inherits
/// no other descriptor of this program's, as all of them are close-on-exec.
///
/// # Examples
///
/// ```
/// use wo::process::Command;
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let sorted = Command::new("sort").arg("--reverse").capture("a\nc\nb\n")?;
/// assert!(sorted.status.success());
/// assert_eq!(sorted.stdout, b"c\nb\na\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Command {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) only_these_variables: bool,
    /// A name and what it is set to; none removes it.
    pub(super) variables: Vec<(OsString, Option<OsString>)>,
    pub(super) directory: Option<PathBuf>,
    pub(super) group: bool,
    pub(super) kill_on_drop: bool,
    pub(super) stdin: Option<Stdio>,
    pub(super) stdout: Option<Stdio>,
    pub(super) stderr: Option<Stdio>,
}

impl Command {
    /// `program`, which is looked for along `PATH` unless it contains a slash; with no arguments, in this program's
    /// environment and directory.
    pub fn new(program: impl AsRef<OsStr>) -> Command {
        Command {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            only_these_variables: false,
            variables: Vec::new(),
            directory: None,
            group: false,
            kill_on_drop: false,
            stdin: None,
            stdout: None,
            stderr: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Command {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Command {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable of its environment. A name that is empty or has a `=` in it is refused when the program is to be
    /// started: it would arrive as another variable, or as none.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Command {
        self.variables.push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Leaves a variable of this program's environment out of its.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Command {
        self.variables.push((name.as_ref().to_owned(), None));
        self
    }

    /// Leaves all of this program's environment out of its; variables that are set, before or after, stay.
    #[must_use]
    pub fn env_clear(mut self) -> Command {
        self.only_these_variables = true;
        self
    }

    /// The directory it starts in.
    #[must_use]
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Command {
        self.directory = Some(directory.as_ref().to_owned());
        self
    }

    /// Makes it the head of a process group of its own, which [`Child::signal_group`] reaches with all it starts. A
    /// terminal's Ctrl-C then does not reach it.
    #[must_use]
    pub fn process_group(mut self) -> Command {
        self.group = true;
        self
    }

    /// Kills it when the [`Child`] is dropped before it ended. Without this it runs on.
    #[must_use]
    pub fn kill_on_drop(mut self) -> Command {
        self.kill_on_drop = true;
        self
    }

    /// Where its standard input leads; by default where this program's does.
    #[must_use]
    pub fn stdin(mut self, stdio: impl Into<Stdio>) -> Command {
        self.stdin = Some(stdio.into());
        self
    }

    /// Where its standard output leads; by default where this program's does.
    #[must_use]
    pub fn stdout(mut self, stdio: impl Into<Stdio>) -> Command {
        self.stdout = Some(stdio.into());
        self
    }

    /// Where its standard error leads; by default where this program's does.
    #[must_use]
    pub fn stderr(mut self, stdio: impl Into<Stdio>) -> Command {
        self.stderr = Some(stdio.into());
        self
    }

    /// Starts it; parks until it runs, or the system has refused it.
    ///
    /// Dropped half-way, it is not started, or killed at once.
    ///
    /// # Errors
    ///
    /// `ENOENT` when there is no such program, or no such directory; `EACCES` when it may not be run; `E2BIG` when its
    /// arguments and environment are too long; `EAGAIN` when there are too many processes; `EINVAL` for a zero byte in
    /// a text, for a variable's name that is empty or has a `=` in it, and for [`Stdio::Stdout`] anywhere but at
    /// standard error. Each names the program and the remedy.
    ///
    /// # Examples
    ///
    /// ```
    /// use wo::process::{Command, Stdio};
    ///
    /// # #[wo::main]
    /// # fn main() -> wo::IoResult<()> {
    /// let mut child = Command::new("cat").stdin(Stdio::Piped).stdout(Stdio::Piped).spawn()?;
    /// let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    /// input.write_all(b"there and back")?;
    /// input.close()?;
    /// assert_eq!(output.read_to_end()?, b"there and back");
    /// assert!(child.wait()?.success());
    /// # Ok(())
    /// # }
    /// ```
    pub fn spawn(&self) -> Call<impl Future<Output = IoResult<Child>> + use<>> {
        Call::new(start::start(self.clone()))
    }

    /// Runs it to its end, and says how it ended.
    ///
    /// Dropped or cancelled half-way, it is killed.
    ///
    /// # Errors
    ///
    /// As [`spawn`](Command::spawn); ECANCELED when the fiber was cancelled.
    pub fn status(&self) -> Call<impl Future<Output = IoResult<ExitStatus>> + use<>> {
        let command = self.clone().kill_on_drop();
        Call::new(async move { start::start(command).await?.wait().await })
    }

    /// Runs it to its end with nothing to read, and answers what it wrote to its standard output and error, where those
    /// were not led elsewhere. The rest is as with [`capture`](Command::capture).
    ///
    /// # Errors
    ///
    /// As [`capture`](Command::capture).
    pub fn output(&self) -> Call<impl Future<Output = IoResult<Output>> + use<>> {
        let mut command = self.clone();
        command.stdin.get_or_insert(Stdio::Null);
        Call::new(capture::run(command, Vec::new()))
    }

    /// Runs it to its end: writes `input` to its standard input, and reads its standard output and error meanwhile,
    /// where those were not led elsewhere, so that no full pipe holds it up. All that it writes is kept in memory.
    ///
    /// It is at its end when it has ended and its output as well: another program that it left its output to is waited
    /// for, too. When it does not read all of the input, the rest is not written; that is no error.
    ///
    /// Dropped or cancelled half-way, it is killed.
    ///
    /// # Errors
    ///
    /// As [`spawn`](Command::spawn); ECANCELED when the fiber was cancelled.
    pub fn capture<I: Into<Vec<u8>>>(&self, input: I) -> Call<impl Future<Output = IoResult<Output>> + use<I>> {
        let mut command = self.clone();
        command.stdin = Some(Stdio::Piped);
        let input = input.into();
        Call::new(capture::run(command, input))
    }
}

impl Command {
    /// The first variable that is set under a name which no variable can have.
    pub(super) fn unusable_variable(&self) -> Option<&OsStr> {
        let mut set = self.variables.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name.as_os_str());
        set.find(|name| name.is_empty() || name.as_encoded_bytes().contains(&b'='))
    }
}

/// The program and its arguments.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program.display())?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", arg.display()))
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}
