//! An accept that is dropped half-way keeps or closes what it accepted.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream as StdStream;
use std::pin::pin;
use std::time::Duration;

use wo::net::{TcpListener, TcpStream};
use wo_runtime::error::errno::ECONNRESET;
use wo_runtime::plane::backend::Selection;

use crate::backends::{on_real_backends, run, those_of};
use crate::child::{self, test_path};
use crate::poll;
use crate::process::open_descriptors;

const ROUNDS: usize = 500;

/// When the accept is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Before the loop runs: the kernel may not have it yet.
    AtOnce,
    /// Once the kernel has it.
    WithTheKernel,
    /// Once a client has come, and the loop has not looked.
    Answered,
}

const MOMENTS: [Moment; 3] = [Moment::AtOnce, Moment::WithTheKernel, Moment::Answered];

// 1. An accept is polled once, which arms it.   2. It is dropped at its moment, and the loop does not run.
// 3. A client connects, and the kernel may complete the accept nobody waits for.   4. The next accept must get it.
// 5. Another client connects, and the listener goes: that client must be told.   6. No descriptor is left.
async fn dropped_accepts_with_clients_of_std() {
    let before = open_descriptors();
    for round in 0..ROUNDS {
        let moment = MOMENTS[round % MOMENTS.len()];
        let life = format!("round {round}, {moment:?}");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr();
        let number = [u8::try_from(round % 251).expect("below 251")];
        let mut accept = Some(Box::pin(listener.accept()));
        let first = poll::once(accept.as_mut().expect("it is there").as_mut()).await;
        assert!(first.is_none(), "{life}: nobody has connected");
        if moment != Moment::AtOnce {
            // One turn of the loop.
            wo::sleep(Duration::from_millis(1)).await.expect("sleep");
        }
        if moment != Moment::Answered {
            accept = None;
        }
        let mut client = StdStream::connect(address).expect("connect");
        client.write_all(&number).expect("write");
        drop(accept);
        match listener.accept_by(Duration::from_secs(1)).await.expect("accept") {
            Some((served, peer)) => {
                assert_eq!(peer, client.local_addr().expect("local_addr"), "{life}");
                let (read, bytes) = served.recv(Vec::with_capacity(8)).await;
                assert_eq!(read.as_ref().ok(), Some(&1), "{life}: {read:?}");
                assert_eq!(bytes, number, "{life}");
                drop(client);
            }
            None => told_of_the_end(client, &life).await,
        }
        assert!(poll::once(pin!(listener.accept())).await.is_none(), "{life}: one client is one connection");
        let late = StdStream::connect(address).expect("connect");
        if round % 2 == 0 {
            // Long enough for the armed accept to bring it to a queue from which nobody takes it.
            wo::sleep(Duration::from_millis(1)).await.expect("sleep");
        }
        drop(listener);
        told_of_the_end(late, &life).await;
        // The armed accept shares the listener's descriptor until the kernel's last word.
        while open_descriptors() > before {
            wo::yield_now().await.expect("yield");
        }
    }
}

/// The client reads the end of the stream, or a reset. The loop runs meanwhile.
async fn told_of_the_end(mut client: StdStream, life: &str) {
    client.set_nonblocking(true).expect("a socket can be non-blocking");
    loop {
        match client.read(&mut [0; 8]) {
            Ok(count) => return assert_eq!(count, 0, "{life}: nobody serves this client"),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{life}: {error}"),
        }
        wo::yield_now().await.expect("yield");
    }
}

#[test]
fn r1_cancel_accept_orphan() {
    child::run(test_path!(), || {
        let before = open_descriptors();
        on_real_backends(dropped_accepts_with_clients_of_std);
        assert_eq!(open_descriptors(), before, "descriptors outlive the program");
    });
}

async fn dropped_accepts_with_clients_of_wo() {
    for round in 0..ROUNDS {
        let moment = MOMENTS[round % MOMENTS.len()];
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr();
        let number = [u8::try_from(round % 251).expect("below 251")];
        let mut accept = Some(Box::pin(listener.accept()));
        let first = poll::once(accept.as_mut().expect("it is there").as_mut()).await;
        assert!(first.is_none(), "round {round}: nobody has connected");
        if moment == Moment::WithTheKernel {
            wo::sleep(Duration::from_millis(1)).await.expect("sleep");
        }
        if moment != Moment::Answered {
            accept = None;
        }
        let client = TcpStream::connect(address).await.expect("connect");
        client.write_all(&number).await.expect("write");
        drop(accept);
        let accepted = listener.accept_by(Duration::from_secs(1)).await.expect("accept");
        let (served, peer) = accepted.expect("the dropped accept kept the client");
        assert_eq!(peer, client.local_addr().expect("local_addr"), "round {round}");
        let mut byte = [0; 1];
        served.read_exact(&mut byte).await.expect("read");
        assert_eq!(byte, number, "round {round}");
        assert!(poll::once(pin!(listener.accept())).await.is_none(), "round {round}: one client is one connection");
        let late = TcpStream::connect(address).await.expect("connect");
        if round % 2 == 0 {
            wo::sleep(Duration::from_millis(1)).await.expect("sleep");
        }
        drop(listener);
        match late.read(&mut byte).await {
            Ok(count) => assert_eq!(count, 0, "round {round}: nobody serves this client"),
            Err(error) => assert_eq!(error.errno(), ECONNRESET, "round {round}: {error}"),
        }
    }
}

#[test]
fn r1_cancel_accept_orphan_in_the_simulator() {
    for backend in those_of(&[Selection::Sim]) {
        run(backend, |builder| builder, dropped_accepts_with_clients_of_wo);
    }
}
