//! The programs of this system as a capability.

use std::future::Future;
use std::os::unix::process::ExitStatusExt;

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::os::process::{Child, Command, Output, Stdio};
use crate::scope::Call;
use crate::scope::capability::{self, Captured, ExitStatus, Proc, Process};

/// The programs of this system, or the scripts of a simulated host.
///
/// # Examples
///
/// ```
/// use wo::capability::{Command, ExitStatus, LiveProc, Proc};
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let captured = LiveProc.capture(&Command::new("sh").arg("-c").arg("cat; exit 3"), b"x")?;
/// assert_eq!((captured.status, captured.stdout.as_slice()), (ExitStatus::Code(3), b"x".as_slice()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveProc;

fn command(of: &capability::Command) -> Command {
    let mut command = Command::new(of.program()).args(of.args()).kill_on_drop();
    for (name, value) in of.vars() {
        command = command.env(name, value);
    }
    if let Some(dir) = of.dir() {
        command = command.current_dir(dir);
    }
    if of.has_new_group() { command.process_group() } else { command }
}

fn status(of: std::process::ExitStatus) -> ExitStatus {
    match of.signal() {
        Some(signal) => ExitStatus::Signal(signal),
        None => ExitStatus::Code(of.code().unwrap_or_default()),
    }
}

impl Proc for LiveProc {
    type Process = LiveProcess;

    fn spawn(&self, of: &capability::Command) -> Call<impl Future<Output = IoResult<LiveProcess>>> {
        let command = command(of).stdin(Stdio::Piped).stdout(Stdio::Piped).stderr(Stdio::Piped);
        Call::new(async move { Ok(LiveProcess { child: command.spawn().await?, ended: None }) })
    }

    fn capture(&self, of: &capability::Command, input: &[u8]) -> Call<impl Future<Output = IoResult<Captured>>> {
        let (command, input) = (command(of), input.to_vec());
        Call::new(async move {
            let Output { status: ended, stdout, stderr } = command.capture(input).await?;
            Ok(Captured { status: status(ended), stdout, stderr })
        })
    }
}

/// A program of this system. Dropped, it is killed, unless it has ended.
///
/// # Examples
///
/// ```
/// use wo::capability::{Command, ExitStatus, LiveProc, LiveProcess, Proc, Process};
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let mut sleeping: LiveProcess = LiveProc.spawn(&Command::new("sleep").arg("60"))?;
/// sleeping.kill(9)?;
/// assert_eq!(sleeping.wait()?, ExitStatus::Signal(9));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LiveProcess {
    child: Child,
    ended: Option<ExitStatus>,
}

fn not_piped(kind: OpKind) -> IoError {
    IoError::new(errno::EPIPE, kind, Stage::Submit).with_context("this stream of the program is closed")
}

impl Process for LiveProcess {
    fn id(&self) -> Option<u32> {
        self.child.id().filter(|_| self.ended.is_none())
    }

    fn write_stdin(&mut self, bytes: &[u8]) -> Call<impl Future<Output = IoResult<()>>> {
        Call::new(async move {
            match &self.child.stdin {
                Some(stdin) => stdin.write_all(bytes).await,
                None => Err(not_piped(OpKind::Write)),
            }
        })
    }

    fn close_stdin(&mut self) {
        self.child.stdin = None;
    }

    fn read_stdout(&mut self, into: &mut [u8]) -> Call<impl Future<Output = IoResult<usize>>> {
        Call::new(async move {
            match &self.child.stdout {
                Some(stdout) => stdout.read_into(into).await,
                None => Err(not_piped(OpKind::Read)),
            }
        })
    }

    fn read_stderr(&mut self, into: &mut [u8]) -> Call<impl Future<Output = IoResult<usize>>> {
        Call::new(async move {
            match &self.child.stderr {
                Some(stderr) => stderr.read_into(into).await,
                None => Err(not_piped(OpKind::Read)),
            }
        })
    }

    fn wait(&mut self) -> Call<impl Future<Output = IoResult<ExitStatus>>> {
        Call::new(async move {
            if let Some(ended) = self.ended {
                return Ok(ended);
            }
            let ended = status(self.child.wait().await?);
            self.ended = Some(ended);
            Ok(ended)
        })
    }

    fn kill(&mut self, signal: i32) -> IoResult<()> {
        if self.ended.is_some() {
            return Err(IoError::new(errno::ESRCH, OpKind::Spawn, Stage::Completion).with_context("it has ended"));
        }
        self.child.signal(signal)
    }
}
