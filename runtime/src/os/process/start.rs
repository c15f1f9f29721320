//! Starting a program, on the worker pool.
//!
//! What the job gives back is a process that nobody knows yet: dropped on its way to the fiber, it is killed. The fiber
//! then takes the ends of the pipes into its loop's hands.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::fiber::home::Home;
use crate::fiber::{self, verb};
use crate::os::fs::File;
use crate::os::process::child::{Child, Running};
use crate::os::process::command::{Command, Stdio};
use crate::os::process::{orphans, simulated};
use crate::plane::backend::{BackendKind, os};
use crate::plane::current::with_loop;
use crate::plane::ops::Job;

/// A process that nobody knows yet, and this program's ends of its pipes.
struct Started {
    running: Running,
    pipes: [Option<OwnedFd>; 3],
}

pub(super) async fn start(command: Command) -> IoResult<Child> {
    let is_simulated = with_loop(OpKind::Spawn, |event_loop| Ok(event_loop.caps().backend == BackendKind::Sim))?;
    if let Some(name) = command.unusable_variable() {
        return Err(refused(errno::EINVAL, Stage::Submit, &command).with_context(format!(
            "{:?}: no variable of its environment can be called {name:?}: a name is not empty and has no `=`",
            command.program
        )));
    }
    if is_simulated {
        return simulated::start(command).await;
    }
    orphans::look_after();
    let home = fiber::home_here();
    let (name, kill_on_drop) = (command.to_string(), command.kill_on_drop);
    let started = match verb(Job::new(move || spawn(command, home))).await? {
        Ok(started) => started?,
        Err(panic) => resume_unwind(panic),
    };
    let Started { mut running, pipes } = started;
    running.kill_on_drop = kill_on_drop;
    let [stdin, stdout, stderr] = pipes;
    Ok(Child {
        stdin: end(stdin, "input", &name)?,
        stdout: end(stdout, "output", &name)?,
        stderr: end(stderr, "error", &name)?,
        running,
    })
}

/// This program's end of a pipe, in the hands of this shard's loop.
fn end(pipe: Option<OwnedFd>, stream: &str, name: &str) -> IoResult<Option<File>> {
    let Some(pipe) = pipe else { return Ok(None) };
    let fd = with_loop(OpKind::Spawn, |event_loop| Ok(os::adopt(event_loop.backend(), pipe)))?;
    Ok(Some(File::stream(fd, format!("standard {stream} of {name}"))))
}

/// Runs on the pool.
fn spawn(command: Command, home: Option<&'static Home>) -> IoResult<Started> {
    let mut std = std::process::Command::new(&command.program);
    std.args(&command.args);
    if command.only_these_variables {
        std.env_clear();
    }
    for (name, value) in &command.variables {
        match value {
            Some(value) => std.env(name, value),
            None => std.env_remove(name),
        };
    }
    if let Some(directory) = &command.directory {
        std.current_dir(directory);
    }
    if command.group {
        std.process_group(0);
    }
    let streams = streams(&command, &mut std).map_err(|error| explain(&error, &command))?;
    // A child inherits what its starter blocks.
    let child = os::with_no_signal_blocked(|| std.spawn()).map_err(|error| explain(&error, &command))?;
    // What the command holds of the pipes is the child's now; as long as it is open here, no reader meets the end.
    drop(std);
    let running = Running::new(child, &command, home)?;
    Ok(Started { running, pipes: streams })
}

/// Leads the streams where the command says; answers this program's ends of the pipes.
fn streams(command: &Command, std: &mut std::process::Command) -> io::Result<[Option<OwnedFd>; 3]> {
    let misplaced = || io::Error::new(io::ErrorKind::InvalidInput, "only standard error can follow standard output");
    let stdin = match command.stdin.as_ref().unwrap_or(&Stdio::Inherit) {
        Stdio::Inherit => None,
        Stdio::Null => {
            std.stdin(std::process::Stdio::null());
            None
        }
        Stdio::Piped => {
            let (reader, writer) = io::pipe()?;
            std.stdin(reader);
            Some(OwnedFd::from(writer))
        }
        Stdio::File(file) => {
            std.stdin(os::for_a_child(file.fd())?);
            None
        }
        Stdio::Stdout => return Err(misplaced()),
    };
    // Standard error may want another of the same.
    let mut shared = None;
    let stdout = match command.stdout.as_ref().unwrap_or(&Stdio::Inherit) {
        Stdio::Inherit => None,
        Stdio::Null => {
            std.stdout(std::process::Stdio::null());
            None
        }
        Stdio::Piped => {
            let (reader, writer) = io::pipe()?;
            shared = Some(OwnedFd::from(writer.try_clone()?));
            std.stdout(writer);
            Some(OwnedFd::from(reader))
        }
        Stdio::File(file) => {
            let own = os::for_a_child(file.fd())?;
            shared = Some(own.try_clone()?);
            std.stdout(own);
            None
        }
        Stdio::Stdout => return Err(misplaced()),
    };
    let stderr = match command.stderr.as_ref().unwrap_or(&Stdio::Inherit) {
        Stdio::Inherit => None,
        Stdio::Null => {
            std.stderr(std::process::Stdio::null());
            None
        }
        Stdio::Piped => {
            let (reader, writer) = io::pipe()?;
            std.stderr(writer);
            Some(OwnedFd::from(reader))
        }
        Stdio::File(file) => {
            std.stderr(os::for_a_child(file.fd())?);
            None
        }
        Stdio::Stdout => {
            match (shared.take(), command.stdout.as_ref()) {
                (Some(shared), _) => std.stderr(shared),
                (None, Some(Stdio::Null)) => std.stderr(std::process::Stdio::null()),
                (None, _) => std.stderr(io::stdout()),
            };
            None
        }
    };
    Ok([stdin, stdout, stderr])
}

fn refused(errno: i32, stage: Stage, command: &Command) -> IoError {
    IoError::new(errno, OpKind::Spawn, stage).with_context(format!("{:?}", command.program))
}

/// What the system said of it, and the remedy.
fn explain(error: &io::Error, command: &Command) -> IoError {
    let Some(errno) = error.raw_os_error() else {
        // std refuses a zero byte before the system sees it, and the above what makes no sense.
        return refused(errno::EINVAL, Stage::Submit, command).with_context(format!("{:?}: {error}", command.program));
    };
    let remedy = match (errno, &command.directory) {
        (errno::ENOENT | errno::ENOTDIR, Some(directory)) if !directory.is_dir() => {
            format!("there is no directory {directory:?} to start it in")
        }
        (errno::ENOENT, _) if command.program.as_encoded_bytes().contains(&b'/') => {
            "there is no such file, or no interpreter that its first line names".to_owned()
        }
        (errno::ENOENT, _) => "no such program in the directories of PATH".to_owned(),
        (errno::EACCES, _) => "it is no program, or may not be run by this user; see its permissions".to_owned(),
        (libc::ENOEXEC, _) => "neither a program for this machine nor a script that begins with #!".to_owned(),
        (libc::E2BIG, _) => {
            "arguments and environment are too long; pass what is large through a file or pipe".to_owned()
        }
        (errno::EAGAIN, _) => "too many processes; raise `ulimit -u`, or the container's limit of tasks".to_owned(),
        (errno::ENOMEM, _) => "the system has no memory for another process".to_owned(),
        (errno::EMFILE, _) => "the process has too many files open; close some, or raise `ulimit -n`".to_owned(),
        (errno::ENFILE, _) => "the system has too many files open; raise fs.file-max".to_owned(),
        (errno::ETXTBSY, _) => "it is open for writing; close it first".to_owned(),
        _ => return refused(errno, Stage::Completion, command),
    };
    refused(errno, Stage::Completion, command).with_context(format!("{:?}: {remedy}", command.program))
}
