//! A program that was started here.
//!
//! The process stays a zombie, and its number its own, until it is waited for here; the handle's lock orders that
//! before every signal. So a signal meets this process or none, whoever else was given the number since. Waiting asks
//! for this one process by its descriptor, never for any child, and leaves other children to whoever started them.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::fiber::Call;
use crate::fiber::home::Home;
use crate::os::fs::File;
use crate::os::io::readable;
use crate::os::process::command::Command;
use crate::os::process::orphans;
use crate::os::process::simulated::Simulated;

/// A program that was started by [`Command::spawn`], and this program's ends of its pipes.
///
/// Dropping it closes the pipes, which were not taken out, and leaves the program running, unless
/// [`kill_on_drop`](Command::kill_on_drop) was asked for; either way it leaves no zombie as long as a shard runs here.
///
/// # Examples
///
/// ```
/// use wo::process::Command;
///
/// # #[wo::main]
/// # fn main() -> wo::IoResult<()> {
/// let mut sleeping = Command::new("sleep").arg("60").spawn()?;
/// assert!(sleeping.try_wait()?.is_none(), "it runs");
/// sleeping.kill()?;
/// assert!(!sleeping.wait()?.success());
/// # Ok(())
/// # }
/// ```
pub struct Child {
    /// What it reads is written here, if its standard input is [`Piped`](crate::os::process::Stdio::Piped). It meets
    /// the end when this is closed.
    pub stdin: Option<File>,
    /// What it writes to its standard output is read here, if that is piped.
    pub stdout: Option<File>,
    /// What it writes to its standard error is read here, if that is piped.
    pub stderr: Option<File>,
    pub(super) running: Running,
}

/// Why a process of the system's cannot be waited for.
const UNREAPED: &str = ": somebody else has waited for it, or SIGCHLD is ignored in this process";

/// The system's process, or a simulated host's.
enum Process {
    System(OwnedFd, Pid),
    Simulated(Simulated),
}

/// A process, until it is waited for.
pub(super) struct Running {
    /// None once it was given to the orphans.
    process: Option<Process>,
    pid: u32,
    name: String,
    ended: Mutex<Option<ExitStatus>>,
    heads_group: bool,
    /// The shard it was started from.
    home: Option<&'static Home>,
    pub(super) kill_on_drop: bool,
}

impl Running {
    /// Takes over what std started. Killed when it is dropped, until somebody says otherwise.
    pub(super) fn new(child: std::process::Child, command: &Command, home: Option<&'static Home>) -> IoResult<Running> {
        let name = command.to_string();
        let pid = Pid::from_child(&child);
        let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| {
            // Without a descriptor there would be no way to wait for it.
            let mut child = child;
            let _ = child.kill();
            let _ = child.wait();
            let why = match errno.raw_os_error() {
                errno::ENOSYS => ": this needs Linux 5.4, or a seccomp filter that allows pidfd_open",
                errno::EPERM => ": a seccomp filter refuses it; allow pidfd_open in the filter",
                errno::EMFILE => ": the process has too many files open; close some, or raise `ulimit -n`",
                // It has ended, and was not left for the one who started it.
                libc::ESRCH => UNREAPED,
                _ => "",
            };
            IoError::new(errno.raw_os_error(), OpKind::Spawn, Stage::Completion)
                .with_context(format!("a descriptor of the process of {name}{why}"))
        })?;
        let number = pid.as_raw_nonzero().get().unsigned_abs();
        let mut running = Running::with(Process::System(process, pid), number, command);
        running.home = home;
        Ok(running)
    }

    /// Takes over what a simulated host started.
    pub(super) fn simulated(process: Simulated, command: &Command) -> Running {
        let pid = process.pid();
        let mut running = Running::with(Process::Simulated(process), pid, command);
        running.kill_on_drop = command.kill_on_drop;
        running
    }

    fn with(process: Process, pid: u32, command: &Command) -> Running {
        Running {
            process: Some(process),
            pid,
            name: command.to_string(),
            ended: Mutex::new(None),
            heads_group: command.group,
            home: None,
            kill_on_drop: true,
        }
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("it is given away by the drop alone")
    }

    fn ended(&self) -> MutexGuard<'_, Option<ExitStatus>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_wait(&self) -> IoResult<Option<ExitStatus>> {
        let mut ended = self.ended();
        if ended.is_none() {
            let reaped = match self.process() {
                Process::System(process, _) => reap(process),
                Process::Simulated(process) => process.try_wait(),
            };
            *ended = reaped.map_err(|errno| {
                let why = match errno {
                    libc::ECHILD => UNREAPED,
                    _ => "",
                };
                IoError::new(errno, OpKind::Wait, Stage::Completion).with_context(format!("{}{why}", self.name))
            })?;
        }
        Ok(*ended)
    }

    /// Sends a signal to the process, or to all in its group.
    fn send(&self, signal: i32, to_group: bool) -> IoResult<()> {
        let named = |errno| {
            IoError::new(errno, OpKind::Signal, Stage::Submit).with_context(format!("{signal} to {}", self.name))
        };
        let ended = self.ended();
        if ended.is_some() {
            return Err(named(libc::ESRCH));
        }
        let number = signal;
        let signal = Signal::from_named_raw(signal).ok_or_else(|| named(errno::EINVAL))?;
        match self.process() {
            Process::System(_, pid) if to_group => {
                rustix::process::kill_process_group(*pid, signal).map_err(|errno| named(errno.raw_os_error()))
            }
            Process::System(process, _) => {
                rustix::process::pidfd_send_signal(process, signal).map_err(|errno| named(errno.raw_os_error()))
            }
            // A script starts nothing that could be in its group.
            Process::Simulated(process) => process.signal(number).map_err(|errno| match errno {
                errno::ENOSYS => IoError::new(errno, OpKind::Signal, Stage::Submit)
                    .with_context(format!("{number} to {}: the simulated kernel stops no process half-way", self.name)),
                errno => named(errno),
            }),
        }
    }

    /// Parks until it may have ended.
    async fn ended_or_so(&self) -> IoResult<()> {
        match self.process() {
            Process::System(process, _) => readable(process).await.map(drop),
            Process::Simulated(process) => process.ended().await.map(drop),
        }
    }
}

/// Waits for a process without parking; none as long as it runs.
pub(super) fn reap(process: &OwnedFd) -> Result<Option<ExitStatus>, i32> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    let answer = rustix::io::retry_on_intr(|| rustix::process::waitid(WaitId::PidFd(process.as_fd()), options));
    let Some(status) = answer.map_err(|errno| errno.raw_os_error())? else { return Ok(None) };
    let raw = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (code & 0xff) << 8,
        (None, Some(signal)) => signal | if status.dumped() { 0x80 } else { 0 },
        (None, None) => return Ok(None),
    };
    Ok(Some(ExitStatus::from_raw(raw)))
}

impl Drop for Running {
    fn drop(&mut self) {
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.is_some() {
            return;
        }
        match self.process.take() {
            Some(Process::System(process, _)) => {
                if self.kill_on_drop {
                    // It may have ended by itself.
                    let _ = rustix::process::pidfd_send_signal(&process, Signal::KILL);
                }
                if let Ok(None) = reap(&process) {
                    orphans::adopt(process, self.home);
                }
            }
            Some(Process::Simulated(process)) if self.kill_on_drop => {
                // As above. Its host forgets it with the descriptor.
                let _ = process.signal(libc::SIGKILL);
            }
            Some(Process::Simulated(_)) | None => {}
        }
    }
}

impl Child {
    /// The process's number; none once it was waited for, as the system may give the number to another then.
    pub fn id(&self) -> Option<u32> {
        let ended = self.running.ended();
        ended.is_none().then_some(self.running.pid)
    }

    /// Parks until it has ended, and says how. Several fibers may wait; asked again, it says the same.
    ///
    /// Its standard input stays open if it was not taken out or closed: a program that reads to the end waits for that.
    /// Dropped half-way, nothing is lost.
    ///
    /// # Errors
    ///
    /// ECANCELED when the fiber was cancelled; ECHILD when something else in this process waits for every child, or
    /// ignores SIGCHLD.
    pub fn wait(&self) -> Call<impl Future<Output = IoResult<ExitStatus>>> {
        Call::new(async move {
            loop {
                if let Some(status) = self.running.try_wait()? {
                    return Ok(status);
                }
                self.running.ended_or_so().await?;
            }
        })
    }

    /// How it ended; none as long as it runs. Never parks.
    ///
    /// # Errors
    ///
    /// As [`wait`](Child::wait), but for the cancel.
    pub fn try_wait(&self) -> IoResult<Option<ExitStatus>> {
        self.running.try_wait()
    }

    /// Kills it (SIGKILL). It has ended when [`wait`](Child::wait) says so.
    ///
    /// # Errors
    ///
    /// ESRCH once it was waited for, EPERM when it runs as another user by now.
    pub fn kill(&self) -> IoResult<()> {
        self.signal(libc::SIGKILL)
    }

    /// Sends it a signal, by number.
    ///
    /// # Errors
    ///
    /// As [`kill`](Child::kill); EINVAL for what is no signal.
    pub fn signal(&self, signal: i32) -> IoResult<()> {
        self.running.send(signal, false)
    }

    /// Sends a signal to it and all in its process group, which is what it started, and what that started, unless they
    /// left it.
    ///
    /// # Errors
    ///
    /// ESRCH once it was waited for: signal the group before, since another group may have its number then. EINVAL when
    /// it has no [`process_group`](Command::process_group) of its own.
    pub fn signal_group(&self, signal: i32) -> IoResult<()> {
        if !self.running.heads_group {
            return Err(IoError::new(errno::EINVAL, OpKind::Signal, Stage::Submit).with_context(format!(
                "{}: it shares this program's process group; start it with Command::process_group",
                self.running.name
            )));
        }
        self.running.send(signal, true)
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("command", &self.running.name).field("id", &self.id()).finish_non_exhaustive()
    }
}
