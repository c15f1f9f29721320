//! An accept that is dropped half-way keeps or closes what it accepted.

use std::io::{Read, Write};
use std::pin::pin;
use std::time::Duration;

use wo::net::{TcpListener, TcpStream};
use wo_runtime::plane::backend::Selection;

use crate::backends::{on_real_backends, run, those_of};
use crate::child::{self, test_path};
use crate::poll;
use crate::process::open_descriptors;

const ROUNDS: usize = 500;

// 1. An accept is polled once, so the kernel has it.   2. It is dropped, and the loop does not run.
// 3. A client connects and the kernel completes the accept nobody waits for.   4. The next accept must get it.
async fn dropped_accepts_with_clients_of_std() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr();
    let mut baseline = None;
    for round in 0..ROUNDS {
        let number = [u8::try_from(round % 251).expect("below 251")];
        assert!(poll::once(pin!(listener.accept())).await.is_none(), "round {round}: nobody has connected");
        let mut client = std::net::TcpStream::connect(address).expect("connect");
        client.write_all(&number).expect("write");
        match listener.accept_by(Duration::from_secs(1)).await.expect("accept") {
            Some((served, peer)) => {
                assert_eq!(peer, client.local_addr().expect("local_addr"), "round {round}");
                let (read, bytes) = served.recv(Vec::with_capacity(8)).await;
                assert_eq!(read.as_ref().ok(), Some(&1), "round {round}: {read:?}");
                assert_eq!(bytes, number, "round {round}");
            }
            None => assert_eq!(client.read(&mut [0; 8]).unwrap_or(0), 0, "round {round}: the client was forgotten"),
        }
        drop(client);
        let open = open_descriptors();
        let baseline = *baseline.get_or_insert(open);
        assert_eq!(open, baseline, "round {round}: descriptors leak");
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
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr();
    for round in 0..ROUNDS {
        let number = [u8::try_from(round % 251).expect("below 251")];
        assert!(poll::once(pin!(listener.accept())).await.is_none(), "round {round}: nobody has connected");
        let client = TcpStream::connect(address).await.expect("connect");
        client.write_all(&number).await.expect("write");
        let accepted = listener.accept_by(Duration::from_secs(1)).await.expect("accept");
        let (served, peer) = accepted.expect("the dropped accept kept the client");
        assert_eq!(peer, client.local_addr().expect("local_addr"), "round {round}");
        let mut byte = [0; 1];
        served.read_exact(&mut byte).await.expect("read");
        assert_eq!(byte, number, "round {round}");
    }
}

#[test]
fn r1_cancel_accept_orphan_in_the_simulator() {
    for backend in those_of(&[Selection::Sim]) {
        run(backend, |builder| builder, dropped_accepts_with_clients_of_wo);
    }
}
