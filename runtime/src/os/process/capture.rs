//! Running a program to its end, with all it reads and writes.
//!
//! One fiber writes the input and reads both outputs, whichever can go on, so that none waits for another: a program
//! that writes much before it reads, or the other way round, never stands still.

use std::future::poll_fn;
use std::pin::pin;
use std::process::Output;
use std::task::Poll;

use crate::error::{IoResult, errno};
use crate::os::fs::File;
use crate::os::process::command::{Command, Stdio};
use crate::os::process::start;

pub(super) async fn run(mut command: Command, input: Vec<u8>) -> IoResult<Output> {
    command.kill_on_drop = true;
    command.stdout.get_or_insert(Stdio::Piped);
    command.stderr.get_or_insert(Stdio::Piped);
    let mut child = start::start(command).await?;
    let mut written = pin!(feed(child.stdin.take(), input));
    let mut stdout = pin!(drain(child.stdout.take()));
    let mut stderr = pin!(drain(child.stderr.take()));
    let (mut fed, mut out, mut err) = (None, None, None);
    poll_fn(|cx| {
        if fed.is_none()
            && let Poll::Ready(answer) = written.as_mut().poll(cx)
        {
            fed = Some(answer);
        }
        if out.is_none()
            && let Poll::Ready(answer) = stdout.as_mut().poll(cx)
        {
            out = Some(answer);
        }
        if err.is_none()
            && let Poll::Ready(answer) = stderr.as_mut().poll(cx)
        {
            err = Some(answer);
        }
        // The first that fails ends it: a cancel is the fiber's, and anything else would leave the program stuck.
        let failed = matches!(fed, Some(Err(_))) || matches!(out, Some(Err(_))) || matches!(err, Some(Err(_)));
        if failed || fed.is_some() && out.is_some() && err.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    fed.transpose()?;
    let (stdout, stderr) = (out.transpose()?.unwrap_or_default(), err.transpose()?.unwrap_or_default());
    Ok(Output { status: child.wait().await?, stdout, stderr })
}

async fn feed(pipe: Option<File>, input: Vec<u8>) -> IoResult<()> {
    let Some(pipe) = pipe else { return Ok(()) };
    match pipe.write_all(&input).await {
        // It has read what it wanted.
        Err(error) if error.errno() == errno::EPIPE => {}
        written => written?,
    }
    pipe.close().await
}

async fn drain(pipe: Option<File>) -> IoResult<Vec<u8>> {
    match pipe {
        Some(pipe) => pipe.read_to_end().await,
        None => Ok(Vec::new()),
    }
}
