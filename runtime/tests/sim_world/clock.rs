//! Virtual time.

use std::time::{Duration, SystemTime};

use wo_runtime::error::OpKind;
use wo_runtime::plane::backend::operand::FileStat;
use wo_runtime::plane::backend::{Backend, SocketKind, SocketOption};
use wo_runtime::plane::op::{Half, RawOp};
use wo_runtime::plane::{Instant, SocketAddress};

use super::world;

#[test]
fn m2_a_month_passes_at_once() {
    let mut rig = world();
    let month = Duration::from_secs(30 * 86_400);
    rig.backend().wait(Some(month)).unwrap();
    assert_eq!(rig.backend().now(), Instant::ORIGIN + month);
    for _ in 0..1000 {
        rig.backend().wait(Some(Duration::from_nanos(1))).unwrap();
    }
    assert_eq!(rig.backend().now() - Instant::ORIGIN, month + Duration::from_nanos(1000));
}

#[test]
fn a_wait_ends_at_the_event_not_at_its_timeout() {
    let mut rig = world();
    let (_listener, address) = rig.listener();
    let (_client, connecting) = rig.connect(&address);
    rig.backend().wait(Some(Duration::from_secs(1000))).unwrap();
    rig.reap();
    assert!(rig.is_done(connecting));
    // There and back over the loopback, and the completion's own way.
    let taken = rig.backend().now() - Instant::ORIGIN;
    assert!((Duration::from_micros(20)..Duration::from_micros(52)).contains(&taken), "{taken:?}");
}

#[test]
fn m9_a_world_where_nothing_can_happen_says_so() {
    let mut rig = world();
    let (a, _b) = rig.pair();
    let buf = rig.room(8).slice();
    let recv = rig.start(RawOp::Recv { fd: a.raw(), buf });
    let error = rig.backend().wait(None).unwrap_err();
    assert_eq!((error.errno(), error.op()), (libc::EDEADLK, OpKind::Wait));
    let words = error.to_string();
    assert!(words.contains("quiescent") && words.contains("recv on descriptor 3"), "{words}");
    // The waker is no event, but ends the wait.
    rig.backend().waker().wake();
    rig.backend().wait(None).unwrap();
    assert!(rig.backend().wait(None).is_err());
    rig.backend().control().hold_completions();
    rig.cancel(recv);
    let words = rig.backend().wait(None).unwrap_err().to_string();
    assert!(words.contains("1 completions are held back") && words.contains("no op is in flight"), "{words}");
    rig.backend().control().release_all();
    assert_eq!(rig.finish(recv), -libc::ECANCELED);
    // A timeout of for ever is none.
    assert!(rig.backend().wait(Some(Duration::MAX)).is_err());
}

/// A loop that never waits, having always something to run, sees its ops end and its timers fall due all the same.
#[test]
fn a_busy_loop_does_not_stop_the_clock() {
    let mut rig = world();
    let (a, b) = rig.pair();
    let room = rig.room(8);
    let recv = rig.start(RawOp::Recv { fd: a.raw(), buf: room.slice() });
    let bytes = rig.bytes(b"x").slice();
    let send = rig.start(RawOp::Send { fd: b.raw(), buf: bytes, all: true });
    rig.backend().flush().unwrap();
    for _ in 0..200 {
        if rig.backend().has_completions() {
            rig.reap();
        }
    }
    assert!(rig.is_done(recv) && rig.is_done(send), "looking is enough");
    let start = rig.backend().now();
    for _ in 0..10_000 {
        rig.backend().wait(Some(Duration::ZERO)).unwrap();
    }
    let taken = rig.backend().now() - start;
    // Each look takes longer the more there were.
    assert!((Duration::from_millis(490)..=Duration::from_millis(530)).contains(&taken), "{taken:?}");
    for _ in 0..10_000 {
        rig.backend().flush().unwrap();
    }
    assert!(rig.backend().now() - start > Duration::from_secs(2));
    // One that waits in between keeps exact times.
    let start = rig.backend().now();
    for _ in 0..1000 {
        rig.backend().wait(Some(Duration::from_millis(1))).unwrap();
        rig.backend().flush().unwrap();
    }
    assert_eq!(rig.backend().now() - start, Duration::from_secs(1));
}

#[test]
fn a_dial_nobody_takes_is_given_up_after_127_seconds() {
    let mut rig = world();
    let (listener, address) = rig.listener();
    rig.backend().listen(&listener, 0).unwrap();
    let (_one, first) = rig.connect(&address);
    assert_eq!(rig.finish(first), 0);
    let start = rig.backend().now();
    let (_two, second) = rig.connect(&address);
    rig.backend().wait(Some(Duration::from_secs(600))).unwrap();
    rig.reap();
    assert_eq!(rig.finish(second), -libc::ETIMEDOUT);
    let taken = rig.backend().now() - start;
    assert!((Duration::from_secs(127)..Duration::from_millis(127_001)).contains(&taken), "{taken:?}");

    // One that finds room on a later try is connected then.
    let start = rig.backend().now();
    let (_three, third) = rig.connect(&address);
    rig.backend().wait(Some(Duration::from_millis(1500))).unwrap();
    assert!(!rig.is_done(third));
    let accepted = rig.run(RawOp::Accept { fd: listener.raw(), multishot: false });
    drop(rig.backend().adopt(accepted));
    assert_eq!(rig.finish(third), 0);
    let taken = rig.backend().now() - start;
    assert!((Duration::from_secs(3)..Duration::from_millis(3_001)).contains(&taken), "{taken:?}");
}

#[test]
fn a_port_rests_for_a_minute() {
    let mut rig = world();
    let (listener, address) = rig.listener();
    let (client, connecting) = rig.connect(&address);
    assert_eq!(rig.finish(connecting), 0);
    let raw = rig.run(RawOp::Accept { fd: listener.raw(), multishot: false });
    let server = rig.backend().adopt(raw);
    drop(listener);
    assert_eq!(rig.run(RawOp::Shutdown { fd: server.raw(), half: Half::Write }), 0);
    assert_eq!(rig.recv(&client, 8), b"");
    drop((server, client));
    let bind = |rig: &mut super::World, reuse| {
        let fd = rig.backend().socket(address.domain(), SocketKind::Stream).unwrap();
        rig.backend().set_socket_option(&fd, SocketOption::ReuseAddress(reuse)).unwrap();
        rig.backend().bind(&fd, &address).map_err(|error| error.errno())
    };
    assert_eq!(bind(&mut rig, false), Err(libc::EADDRINUSE));
    rig.backend().wait(Some(Duration::from_millis(59_900))).unwrap();
    assert_eq!(bind(&mut rig, false), Err(libc::EADDRINUSE));
    rig.backend().wait(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(bind(&mut rig, false), Ok(()));
}

#[test]
fn files_have_the_worlds_time() {
    let mut rig = world();
    let day = Duration::from_secs(1_704_067_200);
    rig.backend().wait(Some(Duration::from_secs(100))).unwrap();
    let path = rig.path("/tmp/new".as_ref());
    assert_eq!(rig.run(RawOp::Mkdir { path, mode: 0o755 }), 0);
    let into = rig.operand(FileStat::default());
    assert_eq!(rig.run(RawOp::StatPath { path, follow: true, into }), 0);
    // SAFETY: the op on it has ended, and the rig keeps it.
    let modified = unsafe { into.as_ref() }.modified();
    assert_eq!(modified, SystemTime::UNIX_EPOCH + day + Duration::from_secs(100));
}

#[test]
fn the_host_is_alone() {
    let mut rig = world();
    for (elsewhere, kind) in [("192.0.2.1:9", SocketKind::Stream), ("[2001:db8::1]:9", SocketKind::Datagram)] {
        let address = SocketAddress::from(elsewhere.parse::<std::net::SocketAddr>().unwrap());
        let fd = rig.backend().socket(address.domain(), kind).unwrap();
        let to = rig.operand(wo_runtime::plane::backend::operand::PeerAddress::new(&address).unwrap());
        assert_eq!(rig.run(RawOp::Connect { fd: fd.raw(), address: to }), -libc::ENETUNREACH);
    }
    let error = rig.backend().foreign(0).unwrap_err();
    assert_eq!(error.errno(), libc::EBADF);
    assert!(error.to_string().contains("does not exist in a simulated world"), "{error}");
}
