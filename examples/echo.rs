//! Sends back whatever a client sends, for any number of clients.
//!
//! `cargo run --release --example echo -- --listen 127.0.0.1:7000`, then `nc 127.0.0.1 7000`. SIGTERM or Ctrl-C ends
//! it.

use std::error::Error;

use wo::net::{TcpListener, TcpStream};
use wo::plane::buf::Slice;

mod command_line;

#[wo::main]
fn main() -> Result<(), Box<dyn Error>> {
    let address = command_line::listen("echo", "127.0.0.1:7000");
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr());
    loop {
        match listener.accept() {
            Ok((stream, _peer)) => {
                wo::spawn(|| serve(stream));
            }
            Err(stop) if stop.is_cancelled() => return Ok(()),
            // Out of descriptors, say: told once, and accepting goes on by itself when some are free.
            Err(trouble) => eprintln!("{trouble}"),
        }
    }
}

/// Serves one client until it has said all, or the program stops.
#[wo::fiber]
fn serve(stream: TcpStream) -> wo::IoResult<()> {
    let mut buf = vec![0; 16 * 1024];
    loop {
        let (received, filled) = stream.recv(buf);
        let count = received?;
        if count == 0 {
            return Ok(());
        }
        let (sent, rest) = stream.send_all(Slice::new(filled, 0..count));
        sent?;
        buf = rest.into_inner();
    }
}
