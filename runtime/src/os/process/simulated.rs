//! Starting and waiting for the scripted programs of a simulated host.
//!
//! They are the simulated kernel's own: there is no job and no system in between. The call parks as it does
//! elsewhere, so that it costs a turn, takes time, and is a place to be cancelled.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::fiber::verb;
use crate::os::fs::File;
use crate::os::process::child::{Child, Running};
use crate::os::process::command::{Command, Stdio};
use crate::plane::Fd;
use crate::plane::backend::AnyBackend;
use crate::plane::backend::Backend;
use crate::plane::backend::sim::{Invocation, Lead, ProcessHandle, Status};
use crate::plane::current::with_loop;
use crate::plane::op::Readiness;
use crate::plane::ops::{Nop, Poll};

/// A process of a simulated host.
pub(super) struct Simulated {
    handle: ProcessHandle,
    /// Readable at its end.
    end: Fd,
}

impl Simulated {
    pub(super) fn pid(&self) -> u32 {
        self.handle.pid()
    }

    pub(super) fn try_wait(&self) -> Result<Option<ExitStatus>, i32> {
        let raw = |status| match status {
            Status::Code(code) => (code & 0xff) << 8,
            Status::Signal(signal) => signal & 0x7f,
        };
        Ok(self.handle.status()?.map(|status| ExitStatus::from_raw(raw(status))))
    }

    pub(super) fn signal(&self, signal: i32) -> Result<(), i32> {
        self.handle.signal(signal)
    }

    /// Parks until it has ended.
    pub(super) async fn ended(&self) -> IoResult<Readiness> {
        verb(Poll::new(&self.end, Readiness::READABLE)).await
    }
}

pub(super) async fn start(command: Command) -> IoResult<Child> {
    let named = |error: IoError| {
        let context = format!("{:?}: {}", command.program, error.context());
        IoError::new(error.errno(), OpKind::Spawn, error.stage()).with_context(context)
    };
    verb(Nop).await.map_err(named)?;
    let invocation = invocation(&command)?;
    let leads = leads(&command)?;
    let (handle, end, [stdin, stdout, stderr]) = with_loop(OpKind::Spawn, |event_loop| match event_loop.backend() {
        AnyBackend::Sim(sim) => sim.start_process(&invocation, leads),
        other => Err(IoError::new(errno::EOPNOTSUPP, OpKind::Spawn, Stage::Submit)
            .with_context(format!("a script on {}", other.caps().backend))),
    })?;
    let name = command.to_string();
    let file = |pipe: Option<Fd>, stream| pipe.map(|fd| File::stream(fd, format!("standard {stream} of {name}")));
    Ok(Child {
        stdin: file(stdin, "input"),
        stdout: file(stdout, "output"),
        stderr: file(stderr, "error"),
        running: Running::simulated(Simulated { handle, end }, &command),
    })
}

fn invocation(command: &Command) -> IoResult<Invocation> {
    let words = std::iter::once(&command.program).chain(&command.args);
    if words.into_iter().any(|word| word.as_encoded_bytes().contains(&0)) {
        return Err(IoError::new(errno::EINVAL, OpKind::Spawn, Stage::Submit)
            .with_context(format!("{:?}: a zero byte in its name or an argument", command.program)));
    }
    let mut invocation = Invocation::new(command.program.clone(), command.args.clone());
    for (name, value) in &command.variables {
        invocation.variables.retain(|(set, _)| set != name);
        invocation.variables.extend(value.clone().map(|value| (name.clone(), value)));
    }
    invocation.directory.clone_from(&command.directory);
    Ok(invocation)
}

fn leads(command: &Command) -> IoResult<[Lead; 3]> {
    let streams = [&command.stdin, &command.stdout, &command.stderr];
    let mut leads = [Lead::Inherit; 3];
    for (place, stream) in streams.into_iter().enumerate() {
        leads[place] = match stream {
            None | Some(Stdio::Inherit) => Lead::Inherit,
            Some(Stdio::Piped) => Lead::Pipe,
            Some(Stdio::Null) => Lead::Nothing,
            Some(Stdio::Stdout) if place == 2 => Lead::Output,
            Some(Stdio::Stdout) => {
                return Err(IoError::new(errno::EINVAL, OpKind::Spawn, Stage::Submit)
                    .with_context(format!("{:?}: only standard error can follow standard output", command.program)));
            }
            Some(Stdio::File(file)) => {
                let fd = file.fd();
                let own = with_loop(OpKind::Spawn, |event_loop| Ok(event_loop.backend().owns(fd)))?;
                if !own {
                    return Err(fd.strayed(OpKind::Spawn));
                }
                Lead::Descriptor(fd.raw())
            }
        };
    }
    Ok(leads)
}
