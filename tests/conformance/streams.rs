//! Both halves of a connection: closing one, writing into a closed one.

use std::net::Shutdown;

use wo::net::{TcpListener, TcpStream, UnixStream};
use wo_runtime::error::errno::{ECONNRESET, ENOTCONN, EPIPE};

use crate::backends::{on_every_backend, on_real_backends};
use crate::child::{self, test_path};

const REPLY_BYTES: usize = 64 * 1024;

#[wo::fiber]
fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr();
    let client = TcpStream::connect(address).expect("connect");
    let (server, _peer) = listener.accept().expect("accept");
    (client, server)
}

/// Reads to the end of the stream, then replies and closes.
#[wo::fiber]
fn reply_at_end_of_file(server: TcpStream) -> Vec<u8> {
    let mut request = Vec::new();
    let mut buf = [0; 512];
    loop {
        let count = server.read(&mut buf).expect("read");
        if count == 0 {
            break;
        }
        request.extend_from_slice(&buf[..count]);
    }
    let reply: Vec<u8> = (0..REPLY_BYTES).map(|at| (at % 251) as u8).collect();
    server.write_all(&reply).expect("the write half is still open");
    request
}

#[wo::fiber]
fn half_close() {
    let (client, server) = tcp_pair();
    let server = wo::spawn(|| reply_at_end_of_file(server));
    client.write_all(b"the whole request").expect("write");
    client.shutdown(Shutdown::Write).expect("shutdown");
    let mut reply = Vec::new();
    let mut buf = vec![0; 1000];
    loop {
        let count = client.read(&mut buf).expect("read");
        if count == 0 {
            break;
        }
        reply.extend_from_slice(&buf[..count]);
    }
    assert_eq!(reply.len(), REPLY_BYTES);
    assert!(reply.iter().enumerate().all(|(at, &byte)| byte == (at % 251) as u8));
    assert_eq!(server.join().expect("the server ended"), b"the whole request");
    // The half is closed already; the system may say that the peer has gone meanwhile.
    if let Err(error) = client.shutdown(Shutdown::Write) {
        assert_eq!(error.errno(), ENOTCONN, "{error}");
    }
    let refused = client.write_all(b"more").expect_err("the write half is closed");
    assert_eq!(refused.errno(), EPIPE, "{refused}");
}

#[test]
fn r44_half_close() {
    on_every_backend(half_close);
}

#[wo::fiber]
fn shut_under_a_read(reader: TcpStream, other_end: TcpStream) {
    let handle = reader.clone();
    let read = wo::spawn(|| {
        let mut buf = [0; 16];
        handle.read(&mut buf)
    });
    // One turn of the loop, so that the read is pending.
    wo::sleep(std::time::Duration::from_millis(1)).expect("sleep");
    assert!(!read.is_finished());
    reader.shutdown(Shutdown::Read).expect("shutdown");
    let read = read.join().expect("the reader ended");
    assert_eq!(read.expect("the end of the stream is no error"), 0);
    drop(other_end);
}

#[wo::fiber]
fn shut_under_reads() {
    let (client, server) = tcp_pair();
    shut_under_a_read(client, server);
    let (client, server) = tcp_pair();
    shut_under_a_read(server, client);
}

#[test]
fn r44_shutdown_ends_a_pending_read() {
    on_every_backend(shut_under_reads);
}

/// Writes until the peer's absence is noticed, which the first write may not.
#[wo::fiber]
fn write_until_refused(stream: TcpStream) -> i32 {
    loop {
        if let Err(error) = stream.write_all(&[7; 4096]) {
            return error.errno();
        }
    }
}

#[wo::fiber]
fn write_to_the_departed() {
    let (client, server) = tcp_pair();
    drop(server);
    let errno = write_until_refused(client);
    assert!([EPIPE, ECONNRESET].contains(&errno), "errno {errno}");

    let (left, right) = UnixStream::pair().expect("pair");
    drop(right);
    assert_eq!(left.write_all(b"x").expect_err("nobody reads").errno(), EPIPE);
    let (sent, _buf) = left.send(b"y".to_vec());
    assert_eq!(sent.expect_err("nobody reads").errno(), EPIPE);

    // A pipe without a reader answers likewise: the runtime never lets SIGPIPE through.
    let (read_end, write_end) = wo::io::pipe().expect("pipe");
    drop(read_end);
    assert_eq!(write_end.write_all(b"z").expect_err("nobody reads").errno(), EPIPE);
}

#[test]
fn r24_sigpipe_default() {
    child::run(test_path!(), || {
        // SAFETY: the default action is no handler that could run.
        assert_ne!(unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) }, libc::SIG_ERR);
        on_real_backends(write_to_the_departed);
    });
}

#[test]
fn r24_write_to_the_departed() {
    on_every_backend(write_to_the_departed);
}
