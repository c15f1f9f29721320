//! Starts an example, and stops it as a service manager would.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// A running example that listens.
pub struct Example {
    child: Child,
    stdout: BufReader<ChildStdout>,
    address: SocketAddr,
    /// What it wrote to its standard output so far, the first line included.
    wrote: String,
}

impl Example {
    /// Starts the example on a port of its own and waits until it says where it listens.
    pub fn start(name: &str, environment: &[(&str, &str)]) -> Example {
        let mut command = command(name, environment);
        command.args(["--listen", "127.0.0.1:0"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the example starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut first = String::new();
        stdout.read_line(&mut first).expect("read a line");
        let said = first.trim_end().strip_prefix("listening on ").and_then(|said| said.parse().ok());
        let address = said.unwrap_or_else(|| panic!("{name} first says where it listens, not {first:?}"));
        Example { child, stdout, address, wrote: first }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads its output on to a line that begins so.
    pub fn read_to(&mut self, beginning: &str) {
        loop {
            let mut line = String::new();
            let count = self.stdout.read_line(&mut line).expect("read a line");
            assert!(count > 0, "it ended before it said {beginning:?}: {}", self.wrote);
            self.wrote.push_str(&line);
            if line.starts_with(beginning) {
                return;
            }
        }
    }

    /// Sends SIGTERM, expects it to end well, and answers all it wrote but the first line, which names a port.
    pub fn stop(mut self) -> String {
        let _watch = Watch::over(self.child.id());
        let process = i32::try_from(self.child.id()).expect("a process's number");
        // SAFETY: the call takes numbers, and the child has not been waited for, so the number is still its own.
        assert_eq!(unsafe { libc::kill(process, libc::SIGTERM) }, 0);
        self.stdout.read_to_string(&mut self.wrote).expect("read to the end");
        let status = self.child.wait().expect("wait for the example");
        assert!(status.success(), "it ended with {status} after SIGTERM; it wrote:\n{}", self.wrote);
        self.wrote.split_once('\n').map(|(_first, rest)| rest.to_owned()).unwrap_or_default()
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        // After `stop` there is nothing left to kill; after a failed assertion there is.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Kills a process that does not end within a minute.
struct Watch {
    _ended: mpsc::Sender<()>,
}

impl Watch {
    fn over(process: u32) -> Watch {
        let (ended, waits): (_, Receiver<()>) = mpsc::channel();
        std::thread::spawn(move || {
            if waits.recv_timeout(Duration::from_secs(60)) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("process {process} has not ended a minute after SIGTERM");
                // SAFETY: the call takes numbers; the process has not been waited for while this watch lives.
                unsafe { libc::kill(i32::try_from(process).expect("a process's number"), libc::SIGKILL) };
            }
        });
        Watch { _ended: ended }
    }
}

/// Cargo puts examples beside the folder of the test binaries.
fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test binary's path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps/TEST");
    let path = profile.join("examples").join(name);
    assert!(path.is_file(), "no {}; `cargo build --example {name}` makes it", path.display());
    path
}

/// The command that starts the example in this environment and no other.
fn command(name: &str, environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(binary(name));
    for variable in ["WO_DATA", "WO_IO", "WO_SHARDS", "WO_REDUCTIONS", "WO_SEED"] {
        command.env_remove(variable);
    }
    command.envs(environment.iter().copied());
    command
}

/// Runs the example to its end.
pub fn run(name: &str, environment: &[(&str, &str)], arguments: &[&str]) -> Output {
    command(name, environment).args(arguments).stdin(Stdio::null()).output().expect("the example starts")
}

/// What an example that listens says to a command line it does not know.
pub fn listens_as_told(name: &str) {
    refuses_what_it_does_not_know(name);
    let output = run(name, &[], &["--listen=nowhere"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("resolve \"nowhere\""), "{name}: {output:?}");
}

/// What an example that takes `--listen` or nothing says to a command line it does not know.
pub fn refuses_what_it_does_not_know(name: &str) {
    for arguments in [&["--listne", "127.0.0.1:0"][..], &["more"], &["--listen"], &["-v"]] {
        let output = run(name, &[], arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name} {arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{name} {arguments:?} began all the same: {output:?}");
        assert!(said.contains(arguments[0]) && said.contains(&format!("usage: {name} ")), "{arguments:?}: {said}");
    }
    let output = run(name, &[], &["--help"]);
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).starts_with("usage: "), "{output:?}");
}

/// Runs `drive` against the example on both backends, at one shard and at the default, and compares the answers.
pub fn same_on_each<T: PartialEq + std::fmt::Debug>(name: &str, drive: impl Fn(Example) -> T) {
    let mut answers: Vec<(String, T)> = Vec::new();
    for io in ["uring", "epoll"] {
        for shards in [Some("1"), None] {
            let mut environment = vec![("WO_IO", io)];
            environment.extend(shards.map(|shards| ("WO_SHARDS", shards)));
            println!("{name} with {environment:?}");
            let answer = drive(Example::start(name, &environment));
            answers.push((format!("{environment:?}"), answer));
        }
    }
    let (first, expected) = &answers[0];
    for (other, answer) in &answers[1..] {
        assert_eq!(answer, expected, "{name} answers otherwise with {other} than with {first}");
    }
}
