//! Connects that fail, each in its own way, and leave nothing behind.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use wo::net::{ListenOptions, TcpListener, TcpStream};
use wo_runtime::error::OpKind;
use wo_runtime::error::errno::{ECONNREFUSED, ENETUNREACH};
use wo_runtime::plane::backend::Selection;

use crate::backends::{on_every_backend, on_real_backends, run, those_of};
use crate::child::{self, test_path};
use crate::poll;
use crate::process::open_descriptors;

/// A listener whose queue is full: the system drops further attempts without a word, so a connect to it waits.
struct Deaf {
    listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl Deaf {
    fn address(&self) -> SocketAddr {
        self.listener.local_addr()
    }
}

#[wo::fiber]
fn deaf_listener() -> Deaf {
    let none = ListenOptions { backlog: 0, ..ListenOptions::default() };
    let listener = TcpListener::bind_with("127.0.0.1:0", none).expect("bind");
    // A queue of none has room for one; what does not get in any more is left in the middle of its handshake.
    let mut queued = Vec::new();
    while let Some(stream) =
        TcpStream::connect_by(listener.local_addr(), Duration::from_millis(100)).expect("running late is no error")
    {
        queued.push(stream);
    }
    Deaf { listener, _queued: queued }
}

#[wo::fiber]
fn refused() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr();
    drop(listener);
    let error = TcpStream::connect(address).expect_err("nobody listens");
    assert_eq!((error.errno(), error.op()), (ECONNREFUSED, OpKind::Connect), "{error}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[test]
fn r48_connect_errors_refused() {
    on_every_backend(refused);
}

#[wo::fiber]
fn unreachable_address() {
    let error = TcpStream::connect("127.0.0.1:80").expect_err("the network is down");
    assert_eq!((error.errno(), error.op()), (ENETUNREACH, OpKind::Connect), "{error}");
    assert!(error.to_string().contains("127.0.0.1:80"), "{error}");
}

/// The simulated host has its loopback and nothing else.
#[wo::fiber]
fn unreachable_from_a_lonely_host() {
    let error = TcpStream::connect("192.0.2.1:80").expect_err("there is no such network");
    assert_eq!((error.errno(), error.op()), (ENETUNREACH, OpKind::Connect), "{error}");
    assert!(error.to_string().contains("192.0.2.1:80"), "{error}");
}

#[test]
fn r48_connect_errors_unreachable() {
    for backend in those_of(&[Selection::Sim]) {
        run(backend, |builder| builder, unreachable_from_a_lonely_host);
    }
    child::run(test_path!(), || {
        // SAFETY: the call takes no pointers; this thread gets a network of its own, with every interface down.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            println!("skipped: a network of its own takes CAP_SYS_ADMIN");
            return;
        }
        on_real_backends(unreachable_address);
    });
}

#[wo::fiber]
fn timed_out() {
    let deaf = deaf_listener();
    let start = wo::now();
    let connected = TcpStream::connect_by(deaf.address(), Duration::from_millis(50)).expect("running late is no error");
    assert!(connected.is_none());
    assert!(wo::now().since(start) >= Duration::from_millis(50), "it gave up early");
}

#[test]
fn r48_connect_errors_timeout() {
    on_every_backend(timed_out);
}

#[wo::fiber]
fn first_address_dead() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let alive = listener.local_addr();

    // One that refuses is passed over at once, one that is silent after a moment.
    let gone = TcpListener::bind("127.0.0.1:0").expect("bind");
    let refusing = gone.local_addr();
    drop(gone);
    let stream = TcpStream::connect([refusing, alive].as_slice()).expect("the second address is alive");
    assert_eq!(stream.peer_addr(), alive);
    listener.accept().expect("accept");

    let deaf = deaf_listener();
    let stream = TcpStream::connect([deaf.address(), alive].as_slice()).expect("the second address is alive");
    assert_eq!(stream.peer_addr(), alive);
    listener.accept().expect("accept");

    // With none alive the error is that of an address, by name.
    let error = TcpStream::connect([refusing, refusing].as_slice()).expect_err("both are dead");
    assert_eq!(error.errno(), ECONNREFUSED, "{error}");
    assert!(error.to_string().contains(&refusing.to_string()), "{error}");
}

#[test]
fn r48_connect_errors_happy_eyeballs() {
    on_every_backend(first_address_dead);
}

async fn dropped_connects() {
    const ROUNDS: usize = 100;
    let deaf = deaf_listener().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let alive = listener.local_addr();
    // What the runtime opens for itself on first use does not count.
    drop(TcpStream::connect(alive).await.expect("connect"));
    listener.accept().await.expect("accept");
    let before = open_descriptors();
    for _ in 0..ROUNDS {
        // Dropped at once, and dropped once the kernel has it; one that would wait and one that would succeed.
        for address in [deaf.address(), alive] {
            assert!(poll::once(pin!(TcpStream::connect(address))).await.is_none());
            let given_up = poll::at_most(Duration::from_micros(1), TcpStream::connect(address)).await;
            drop(given_up);
        }
    }
    // The listener's queue holds descriptors of its own until they are accepted.
    while let Some(accepted) = listener.accept_by(Duration::from_millis(20)).await.expect("accept") {
        drop(accepted);
    }
    assert_eq!(open_descriptors(), before);
}

#[test]
fn r48_dropped_connect_leaves_no_descriptor() {
    child::run(test_path!(), || on_real_backends(dropped_connects));
}
