//! Worlds in which nothing can happen any more say who waits for what.

use wo::net::UdpSocket;
use wo::sim::World;
use wo::{Builder, RunError, Selection};

#[wo::fiber]
fn wait_in_vain() -> wo::IoResult<usize> {
    wo::spawn_named("listener", || receive());
    let (sender, receiver) = wo::oneshot::oneshot::<usize>();
    let kept = sender;
    let got = receiver.recv();
    drop(kept);
    got
}

#[wo::fiber]
fn receive() -> wo::IoResult<usize> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let (count, _) = socket.recv(vec![0; 8]);
    count
}

/// Every fiber that waits is named, with what it waits in.
#[test]
fn m9_a_deadlock_names_every_fiber_and_its_wait() {
    let mut world = World::new(9);
    let (one, two) = (world.host("one"), world.host("two"));
    let first = world.start(&one, wait_in_vain());
    let second = world.start(&two, receive());
    let error = world.run().unwrap_err();
    assert_eq!(error.errno(), libc::EDEADLK);
    let words = error.to_string();
    for expected in [
        "quiescent",
        "one: fiber 0 (main) waits in receive",
        "one: fiber 1 (listener) waits in recv",
        "two: fiber 0 (main) waits in recv",
        "two: in flight: recv",
    ] {
        assert!(words.contains(expected), "{expected:?} is missing in {words}");
    }
    for program in [first, second] {
        let ended = program.take().unwrap();
        assert!(matches!(&ended, Err(RunError::Kernel(error)) if error.errno() == libc::EDEADLK), "{ended:?}");
    }
    // The same of a program alone, without a world to build.
    let alone = Builder::new().io(Selection::Sim).shards(2).run(wait_in_vain());
    let words = alone.unwrap_err().to_string();
    assert!(words.contains("shard 0, fiber 1 (listener) waits in recv"), "{words}");
}

/// A timer that is due some day is no deadlock; one that never is, is.
#[test]
fn m9_a_timer_that_never_comes_keeps_nobody_waiting() {
    let mut world = World::new(9);
    let host = world.host("sleeper");
    let never = world.start(&host, sleep_for_ever());
    assert!(matches!(world.finish(never), Err(RunError::Kernel(error)) if error.errno() == libc::EDEADLK));
}

#[wo::fiber]
fn sleep_for_ever() -> wo::IoResult<()> {
    wo::sleep(std::time::Duration::MAX)
}
