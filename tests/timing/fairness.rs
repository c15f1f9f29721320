//! No fiber starves another: not one that yields for ever, and not one whose verbs are always ready.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use wo::net::{TcpListener, TcpStream};
use wo::{BackendKind, Channel, Ticker};

use crate::alone;
use crate::backends::{EVERY, REAL, on_every_backend, run, those_of};
use crate::process::thread_time;

#[wo::fiber]
fn echo_back(stream: TcpStream) {
    let mut buf = [0; 64];
    loop {
        let count = stream.read(&mut buf).expect("read");
        if count == 0 {
            return;
        }
        stream.write_all(&buf[..count]).expect("write");
    }
}

#[wo::fiber]
fn one_echo() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let client = TcpStream::connect(listener.local_addr()).expect("connect");
    let (stream, _peer) = listener.accept().expect("accept");
    let server = wo::spawn(|| echo_back(stream));
    for round in 0..10_u8 {
        client.write_all(&[round; 16]).expect("write");
        let mut reply = [0; 16];
        client.read_exact(&mut reply).expect("read");
        assert_eq!(reply, [round; 16]);
    }
    drop(client);
    server.join().expect("the server ended");
}

fn is_real() -> bool {
    wo::backend().is_some_and(|caps| caps.backend != BackendKind::Sim)
}

#[wo::fiber]
fn beside_a_storm_of_yields() {
    let begun = thread_time();
    wo::spawn(|| {
        loop {
            wo::yield_now().expect("yield");
        }
    });
    let ticks = Rc::new(Cell::new(0));
    let counter = ticks.clone();
    let sleeper = wo::spawn(|| {
        for _ in 0..20 {
            wo::sleep(Duration::from_millis(10)).expect("sleep");
            counter.set(counter.get() + 1);
        }
    });
    let echo = wo::spawn(one_echo);
    wo::sleep(Duration::from_millis(250)).expect("sleep");
    // What the system gave to other programs meanwhile is no part of the 250 ms.
    while is_real() && thread_time() - begun < Duration::from_millis(250) {
        wo::sleep(Duration::from_millis(10)).expect("sleep");
    }
    assert!(ticks.get() >= 18, "{} ticks of 10 ms in 250 ms", ticks.get());
    assert!(echo.is_finished(), "the echo starved");
    echo.join().expect("the echo ended");
    sleeper.join().expect("the sleeper ended");
}

#[test]
fn r33_yield_storm() {
    let _alone = alone();
    on_every_backend(beside_a_storm_of_yields);
}

/// A turn is counted in reductions, and unoptimised ones take far longer.
const REDUCTIONS: u32 = if cfg!(debug_assertions) { 100 } else { 4000 };

/// Takes from a channel that is always full, without a yield of its own. Plain `async`: no back-edge counts here, only
/// the verbs do.
async fn drain_for_ever() {
    let channel = Channel::new(8);
    for number in 0..8 {
        channel.try_put(number).expect("room");
    }
    for number in 0_u64.. {
        assert_eq!(channel.take().await.expect("take"), number);
        channel.try_put(number + 8).expect("room");
    }
}

/// Verbs that are always ready, in a loop that counts itself.
#[wo::fiber]
fn receive_for_ever() {
    loop {
        let (sender, receiver) = wo::oneshot();
        sender.send(1).expect("the receiver is here");
        assert_eq!(receiver.recv().expect("recv"), 1);
    }
}

#[wo::fiber]
fn ticks_beside_a_drain() {
    wo::spawn(drain_for_ever);
    ticks_beside_it();
}

#[wo::fiber]
fn ticks_beside_ready_verbs() {
    wo::spawn(receive_for_ever);
    ticks_beside_it();
}

#[wo::fiber]
fn ticks_beside_it() {
    // The thread is busy all the while; what the system gives to other programs is no part of the 100 ms.
    let begun = thread_time();
    let mut ticker = Ticker::new(Duration::from_millis(1));
    let mut ticks = 0;
    while thread_time() - begun < Duration::from_millis(100) {
        ticker.tick().expect("tick");
        ticks += 1;
    }
    assert!(ticks >= 80, "{ticks} ticks of 1 ms in 100 ms");
}

#[test]
fn r34_always_ready() {
    let _alone = alone();
    for backend in those_of(REAL) {
        run(backend, |builder| builder.reductions(REDUCTIONS), ticks_beside_a_drain);
        run(backend, |builder| builder.reductions(REDUCTIONS), ticks_beside_ready_verbs);
    }
}

/// Reads of a file that never ends complete at once, or nearly.
#[wo::fiber]
fn ticks_beside_ready_reads() {
    let zero = wo::fs::File::open("/dev/zero").expect("open");
    wo::spawn(|| {
        let mut buf = vec![0; 64];
        loop {
            let (read, back) = zero.read(buf);
            assert_eq!(read.expect("read"), 64);
            buf = back;
        }
    });
    ticks_beside_a_drain();
}

#[test]
fn r34_always_ready_reads() {
    let _alone = alone();
    for backend in those_of(REAL) {
        run(backend, |builder| builder.reductions(REDUCTIONS), ticks_beside_ready_reads);
    }
}

/// A hot loop without a verb in it, beside fibers that want their turn.
#[wo::fiber]
fn beside_a_hot_loop() {
    let turns = Rc::new(Cell::new(0_u64));
    let counter = turns.clone();
    wo::spawn(|| {
        loop {
            counter.set(counter.get() + 1);
        }
    });
    let echo = wo::spawn(one_echo);
    echo.join().expect("the echo ended");
    assert!(turns.get() > 0);
}

#[test]
fn f2_a_hot_loop_starves_nobody() {
    let _alone = alone();
    on_every_backend(beside_a_hot_loop);
}

#[wo::fiber]
fn three_hot_loops() -> String {
    let trace = Rc::new(std::cell::RefCell::new(String::new()));
    let mut fibers = Vec::new();
    for name in ["a", "b", "c"] {
        let trace = trace.clone();
        fibers.push(wo::spawn(|| {
            for _ in 0..50 {
                trace.borrow_mut().push_str(name);
            }
        }));
    }
    for fiber in fibers {
        fiber.join().expect("a loop ended");
    }
    trace.borrow().clone()
}

#[test]
fn f2_a_budget_of_one_is_round_robin() {
    let _alone = alone();
    for backend in those_of(EVERY) {
        let trace = run(backend, |builder| builder.reductions(1), three_hot_loops);
        // Spawning is a loop with a budget too, so the first have a head start; then each turn is one letter.
        let steady = &trace[trace.find("bc").unwrap_or(0)..];
        let steady = &steady[..steady.len().min(90)];
        assert!(steady.len() >= 90, "on {backend}: {trace}");
        let turns: Vec<char> = steady.chars().collect();
        assert!(turns.windows(4).all(|turn| turn[0] == turn[3] && turn[0] != turn[1]), "on {backend}: {trace}");
        assert_eq!(trace, run(backend, |builder| builder.reductions(1), three_hot_loops), "on {backend}");
        let whole = run(backend, |builder| builder, three_hot_loops);
        assert_eq!(whole, "a".repeat(50) + &"b".repeat(50) + &"c".repeat(50), "on {backend}");
    }
}
