//! Programs that only a script knows: the double of [`Proc`].

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::rc::Rc;
use std::task::{Poll, Waker};

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::scope::call::Call;
use crate::scope::capability::{Captured, Command, ExitStatus, Proc, Process};
use crate::scope::now::{is_cancelled, why};

/// SIGKILL, by which a capture that is cancelled ends its program.
const KILL: i32 = 9;

/// What a program does: what it writes, and how it ends.
///
/// # Examples
///
/// ```
/// use wo::capability::{Command, ExitStatus, Proc, Script, SimProc};
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let proc = SimProc::new().on("git status --short", Script::new().stdout(" M src/lib.rs\n"));
///     let captured = proc.capture(&Command::new("git").arg("status").arg("--short"), b"")?;
///     assert_eq!(captured.status, ExitStatus::Code(0));
///     assert_eq!(captured.stdout, b" M src/lib.rs\n");
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// None until it is killed.
    status: Option<ExitStatus>,
}

impl Default for Script {
    fn default() -> Script {
        Script::new()
    }
}

impl Script {
    /// Writes nothing and exits with code 0.
    pub const fn new() -> Script {
        Script { stdout: Vec::new(), stderr: Vec::new(), status: Some(ExitStatus::Code(0)) }
    }

    /// Writes this to its standard output.
    #[must_use]
    pub fn stdout(mut self, bytes: impl Into<Vec<u8>>) -> Script {
        self.stdout = bytes.into();
        self
    }

    /// Writes this to its standard error.
    #[must_use]
    pub fn stderr(mut self, bytes: impl Into<Vec<u8>>) -> Script {
        self.stderr = bytes.into();
        self
    }

    /// Exits with this code, once it has written.
    #[must_use]
    pub const fn exit(mut self, code: i32) -> Script {
        self.status = Some(ExitStatus::Code(code));
        self
    }

    /// Is ended by this signal, once it has written.
    #[must_use]
    pub const fn signal(mut self, signal: i32) -> Script {
        self.status = Some(ExitStatus::Signal(signal));
        self
    }

    /// Goes on until it is killed.
    #[must_use]
    pub const fn until_killed(mut self) -> Script {
        self.status = None;
        self
    }
}

/// Programs by their command lines. Clones are the same programs.
///
/// # Examples
///
/// ```
/// use wo::capability::{Command, Proc, Script, SimProc};
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let proc = SimProc::new().on("wc -l", Script::new().stdout("2\n"));
/// proc.capture(&Command::new("wc").arg("-l"), b"one\ntwo\n")?;
/// let ran = proc.ran();
/// assert_eq!((ran[0].0.line().as_str(), ran[0].1.as_slice()), ("wc -l", b"one\ntwo\n".as_slice()));
/// assert!(proc.capture(&Command::new("ls"), b"").is_err(), "there is no such program");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct SimProc(Rc<RefCell<State>>);

#[derive(Debug, Default)]
struct State {
    scripts: BTreeMap<String, Script>,
    ran: Vec<(Command, Rc<RefCell<Vec<u8>>>)>,
}

impl SimProc {
    /// No program at all.
    pub fn new() -> SimProc {
        SimProc::default()
    }

    /// The program that this line starts does as `script` says; see [`Command::line`].
    #[must_use]
    pub fn on(self, line: impl Into<String>, script: Script) -> SimProc {
        self.0.borrow_mut().scripts.insert(line.into(), script);
        self
    }

    /// What was run so far, in order, each with what was written to its standard input.
    pub fn ran(&self) -> Vec<(Command, Vec<u8>)> {
        self.0.borrow().ran.iter().map(|(command, input)| (command.clone(), input.borrow().clone())).collect()
    }

    fn start(&self, command: &Command) -> IoResult<SimProcess> {
        if is_cancelled() {
            return Err(IoError::new(errno::ECANCELED, OpKind::Spawn, Stage::Submit).with_context(why()));
        }
        let mut state = self.0.borrow_mut();
        let Some(script) = state.scripts.get(&command.line()).cloned() else {
            return Err(IoError::new(errno::ENOENT, OpKind::Spawn, Stage::Completion)
                .with_context(format!("no script for `{}`", command.line())));
        };
        let input = Rc::default();
        state.ran.push((command.clone(), Rc::clone(&input)));
        let id = u32::try_from(state.ran.len()).unwrap_or(u32::MAX);
        let Script { stdout, stderr, status } = script;
        Ok(SimProcess { id: Some(id), input: Some(input), stdout, stderr, status, waiting: Vec::new() })
    }
}

impl Proc for SimProc {
    type Process = SimProcess;

    fn spawn(&self, command: &Command) -> Call<impl Future<Output = IoResult<SimProcess>>> {
        Call::new(ready(self.start(command)))
    }

    fn capture(&self, command: &Command, input: &[u8]) -> Call<impl Future<Output = IoResult<Captured>>> {
        let started = self.start(command);
        Call::new(async move {
            let mut process = started?;
            process.write_stdin(input).await?;
            process.close_stdin();
            let status = match process.wait().await {
                Ok(status) => status,
                Err(error) => {
                    process.kill(KILL)?;
                    return Err(error);
                }
            };
            Ok(Captured { status, stdout: process.stdout, stderr: process.stderr })
        })
    }
}

/// A program of a [`SimProc`].
///
/// # Examples
///
/// ```
/// use wo::capability::{Command, ExitStatus, Proc, Process, Script, SimProc};
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let proc = SimProc::new().on("server", Script::new().until_killed());
/// let mut server = proc.spawn(&Command::new("server"))?;
/// server.kill(15)?;
/// assert_eq!(server.wait()?, ExitStatus::Signal(15));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SimProcess {
    id: Option<u32>,
    input: Option<Rc<RefCell<Vec<u8>>>>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    status: Option<ExitStatus>,
    waiting: Vec<Waker>,
}

fn take(from: &mut Vec<u8>, into: &mut [u8]) -> usize {
    let count = from.len().min(into.len());
    into[..count].copy_from_slice(&from[..count]);
    from.drain(..count);
    count
}

fn checkpoint(kind: OpKind) -> IoResult<()> {
    if is_cancelled() { Err(IoError::new(errno::ECANCELED, kind, Stage::Submit).with_context(why())) } else { Ok(()) }
}

impl Process for SimProcess {
    fn id(&self) -> Option<u32> {
        self.id
    }

    fn write_stdin(&mut self, bytes: &[u8]) -> Call<impl Future<Output = IoResult<()>>> {
        let written = checkpoint(OpKind::Write).and_then(|()| match &self.input {
            Some(input) => {
                input.borrow_mut().extend_from_slice(bytes);
                Ok(())
            }
            None => {
                Err(IoError::new(errno::EPIPE, OpKind::Write, Stage::Completion).with_context("its input is closed"))
            }
        });
        Call::new(ready(written))
    }

    fn close_stdin(&mut self) {
        self.input = None;
    }

    fn read_stdout(&mut self, into: &mut [u8]) -> Call<impl Future<Output = IoResult<usize>>> {
        Call::new(ready(checkpoint(OpKind::Read).map(|()| take(&mut self.stdout, into))))
    }

    fn read_stderr(&mut self, into: &mut [u8]) -> Call<impl Future<Output = IoResult<usize>>> {
        Call::new(ready(checkpoint(OpKind::Read).map(|()| take(&mut self.stderr, into))))
    }

    fn wait(&mut self) -> Call<impl Future<Output = IoResult<ExitStatus>>> {
        Call::new(std::future::poll_fn(move |cx| {
            if let Some(status) = self.status {
                self.id = None;
                return Poll::Ready(Ok(status));
            }
            if let Err(error) = checkpoint(OpKind::Wait) {
                return Poll::Ready(Err(error));
            }
            self.waiting.push(cx.waker().clone());
            Poll::Pending
        }))
    }

    fn kill(&mut self, signal: i32) -> IoResult<()> {
        if self.id.is_none() {
            return Err(IoError::new(errno::ESRCH, OpKind::Spawn, Stage::Completion).with_context("it has ended"));
        }
        self.status.get_or_insert(ExitStatus::Signal(signal));
        self.waiting.drain(..).for_each(Waker::wake);
        Ok(())
    }
}
