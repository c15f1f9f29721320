//! Whole programs in simulated worlds: hosts, networks, crashes, and the same run again for the same seed.

#![allow(clippy::duplicate_mod, reason = "each example brings the command line they share")]

mod arms;
#[path = "../support/backends.rs"]
mod backends;
#[path = "../support/child.rs"]
mod child;
#[path = "../support/example.rs"]
mod example;
mod examples;
mod hostile;
mod hosts;
mod network;
mod processes;
mod rate;
mod replay;
mod strays;
mod sweep;
mod time;
mod waits;
mod whole;

use std::net::Ipv4Addr;

use wo::net::{TcpListener, TcpStream};

/// Sends back what each client sends, until the program stops.
#[wo::fiber]
pub fn echo_server() -> wo::IoResult<()> {
    let listener = TcpListener::bind("0.0.0.0:7000")?;
    loop {
        let (stream, _peer) = listener.accept()?;
        wo::spawn(|| echo(stream));
    }
}

#[wo::fiber]
fn echo(stream: TcpStream) -> wo::IoResult<()> {
    let mut buf = [0; 1024];
    loop {
        let count = stream.read(&mut buf)?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&buf[..count])?;
    }
}

/// Asks an echo server once.
#[wo::fiber]
pub fn ask(server: Ipv4Addr, words: String) -> wo::IoResult<String> {
    let stream = TcpStream::connect((server, 7000))?;
    stream.write_all(words.as_bytes())?;
    let mut answer = vec![0; words.len()];
    stream.read_exact(&mut answer)?;
    Ok(String::from_utf8(answer).expect("it is what was sent"))
}
