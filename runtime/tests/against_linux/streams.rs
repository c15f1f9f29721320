//! Connected streams: ends, halves, resets, and calls in the wrong phase.

use wo_runtime::plane::backend::{Backend, SocketKind, SocketOption, SocketOptionName};
use wo_runtime::plane::op::{Half, NO_OFFSET, RawOp, Readiness};

use super::arm::{Arm, ip};
use crate::{on_every_kernel, on_the_ring};

fn tcp_ends<B: Backend>(arm: &mut Arm<B>) {
    let (client, server, _listener) = arm.tcp();
    arm.send("request", &client, b"request");
    arm.recv("first part", &server, 3);
    arm.recv("second part", &server, 64);
    arm.recv("nothing", &server, 64);
    arm.shutdown("half-close", &client, Half::Write);
    arm.recv("end", &server, 64);
    arm.recv("end again", &server, 64);
    arm.send("into the closed half", &client, b"x");
    arm.send("reply", &server, b"reply");
    arm.recv("reply comes", &client, 64);
    arm.shutdown("half-close again", &client, Half::Write);
    arm.shutdown("the other half", &server, Half::Write);
    arm.recv("end of the reply", &client, 64);
    arm.await_trouble("both ends said goodbye", &client);
    arm.await_trouble("and the other sees it", &server);
    for (name, end) in [("client", &client), ("server", &server)] {
        arm.shutdown(format!("shut the rest of {name}"), end, Half::Both);
        arm.recv(format!("{name} reads"), end, 8);
        arm.send(format!("{name} writes"), end, b"x");
    }
}

/// Data for an end that has shut both halves resets the connection.
fn sending_to_a_deaf_end<B: Backend>(arm: &mut Arm<B>) {
    let (client, server, _listener) = arm.tcp();
    arm.send("before", &server, b"before");
    arm.poll("it came", &client, Readiness::READABLE);
    arm.shutdown("shut both halves", &client, Half::Both);
    arm.recv("what came before", &client, 16);
    arm.recv("then the end", &client, 16);
    arm.send("after", &server, b"after");
    arm.await_trouble("reset", &server);
    arm.recv("at the deaf end", &client, 16);
    arm.recv("and again", &client, 16);
    arm.recv("at the other", &server, 16);
    arm.send("once more", &server, b"x");
    arm.get(&client, SocketOptionName::Error);
}

#[test]
fn sending_to_a_deaf_end_of_tcp() {
    on_every_kernel!(sending_to_a_deaf_end);
}

#[test]
fn ends_of_tcp() {
    on_every_kernel!(tcp_ends);
}

fn closing_with_bytes_unread_resets<B: Backend>(arm: &mut Arm<B>) {
    let (client, server, _listener) = arm.tcp();
    arm.send("early bytes", &server, b"ten bytes!");
    arm.poll("they arrive", &client, Readiness::READABLE);
    arm.send("unread bytes", &client, b"unread");
    arm.poll("they arrive too", &server, Readiness::READABLE);
    drop(server);
    arm.await_trouble("reset", &client);
    arm.recv("bytes from before", &client, 64);
    arm.recv("the reset, once", &client, 64);
    arm.recv("then the end", &client, 64);
    arm.send("no sending", &client, b"x");
    arm.send("still none", &client, b"x");
    arm.addresses("after the reset", &client);
    arm.shutdown("after the reset", &client, Half::Write);
}

#[test]
fn resets_of_tcp() {
    on_every_kernel!(closing_with_bytes_unread_resets);
}

fn reset_seen_by_a_sender<B: Backend>(arm: &mut Arm<B>) {
    let (client, server, _listener) = arm.tcp();
    arm.send("unread bytes", &client, b"unread");
    arm.poll("they arrive", &server, Readiness::READABLE);
    drop(server);
    arm.await_trouble("reset", &client);
    arm.send("the reset, once", &client, b"x");
    arm.send("then no pipe", &client, b"x");
    arm.recv("and the end", &client, 8);
}

#[test]
fn resets_of_tcp_while_sending() {
    on_every_kernel!(reset_seen_by_a_sender);
}

fn sending_to_a_closed_end<B: Backend>(arm: &mut Arm<B>) {
    let (client, server, _listener) = arm.tcp();
    drop(server);
    arm.recv("the end", &client, 8);
    arm.send("nobody knows yet", &client, b"lost");
    arm.await_trouble("now it is known", &client);
    arm.get(&client, SocketOptionName::Error);
    arm.send("no pipe", &client, b"x");
    arm.recv("still the end", &client, 8);
}

#[test]
fn sending_to_a_closed_end_of_tcp() {
    on_every_kernel!(sending_to_a_closed_end);
}

fn the_pending_error<B: Backend>(arm: &mut Arm<B>) {
    let (client, server, _listener) = arm.tcp();
    arm.send("unread bytes", &client, b"unread");
    arm.poll("they arrive", &server, Readiness::READABLE);
    drop(server);
    arm.await_trouble("reset", &client);
    arm.get(&client, SocketOptionName::Error);
    arm.get(&client, SocketOptionName::Error);
    arm.recv("the error was taken", &client, 8);
}

#[test]
fn pending_errors_are_taken_once() {
    on_every_kernel!(the_pending_error);
}

fn a_linger_of_zero_resets<B: Backend>(arm: &mut Arm<B>) {
    let (client, server, _listener) = arm.tcp();
    arm.set(&server, SocketOption::Linger(Some(std::time::Duration::ZERO)));
    drop(server);
    arm.await_trouble("reset", &client);
    arm.recv("reset", &client, 8);
}

#[test]
fn a_linger_of_zero_resets_tcp() {
    on_every_kernel!(a_linger_of_zero_resets);
}

fn wrong_phase<B: Backend>(arm: &mut Arm<B>) {
    let fresh = arm.socket(socket2::Domain::IPV4, SocketKind::Stream);
    arm.addresses("fresh", &fresh);
    arm.recv("recv on fresh", &fresh, 8);
    arm.send("send on fresh", &fresh, b"x");
    arm.accept("accept on fresh", &fresh);
    arm.shutdown("shutdown of fresh", &fresh, Half::Both);
    let fresh = arm.socket(socket2::Domain::IPV4, SocketKind::Stream);
    arm.poll("poll of fresh", &fresh, Readiness { writable: true, ..Readiness::READABLE });

    let (client, server, listener) = arm.tcp();
    let address = arm.rig.backend().local_address(&listener).unwrap();
    arm.addresses("listener", &listener);
    arm.addresses("client", &client);
    arm.addresses("server", &server);
    arm.recv("recv on listener", &listener, 8);
    arm.send("send on listener", &listener, b"x");
    arm.connect("connect of a listener", &listener, &address);
    arm.connect("connect of a connected one", &client, &address);
    arm.listen("listen on a connected one", &client, 1);
    arm.listen("listen again", &listener, 2);
    arm.bind("bind a connected one", &client, &ip("127.0.0.1:0"));
    arm.accept("accept on a connected one", &client);
    arm.poll("a listener without callers", &listener, Readiness::READABLE);

    arm.shutdown("shutdown of a listener's writing", &listener, Half::Write);
    let accept = arm.rig.start(RawOp::Accept { fd: listener.raw(), multishot: false });
    arm.rig.backend().flush().unwrap();
    arm.shutdown("shutdown of a listener's reading", &listener, Half::Read);
    arm.end("accept on a listener shut down", accept);
    let late = arm.socket(socket2::Domain::IPV4, SocketKind::Stream);
    arm.connect("connect to a listener shut down", &late, &address);
    arm.connect("and again", &late, &address);
    arm.poll("after the refusal", &late, Readiness::WRITABLE);
}

#[test]
fn calls_in_the_wrong_phase() {
    on_every_kernel!(wrong_phase);
}

fn readiness_of_streams<B: Backend>(arm: &mut Arm<B>) {
    let (client, server, listener) = arm.tcp();
    let address = arm.rig.backend().local_address(&listener).unwrap();
    arm.poll("connected", &client, Readiness { writable: true, ..Readiness::READABLE });
    arm.poll("nothing to read", &client, Readiness::READABLE);
    arm.send("bytes", &server, b"bytes");
    arm.poll("something to read", &client, Readiness::READABLE);
    arm.shutdown("end", &server, Half::Write);
    arm.recv("bytes", &client, 8);
    arm.poll("end to read", &client, Readiness::READABLE);
    let (_another, connecting) = arm.rig.connect(&address);
    arm.end("another connects", connecting);
    arm.poll("a caller waits", &listener, Readiness::READABLE);
    let (a, b) = arm.rig.pair();
    arm.poll("unix pair", &a, Readiness { writable: true, ..Readiness::READABLE });
    drop(b);
    arm.poll("unix peer gone", &a, Readiness { writable: true, ..Readiness::READABLE });
}

#[test]
fn readiness() {
    on_every_kernel!(readiness_of_streams);
}

fn plain_reads_and_writes<B: Backend>(arm: &mut Arm<B>) {
    let (client, server, _listener) = arm.tcp();
    arm.write("write", &client, b"written");
    let bytes = arm.read("read", &server, 64);
    arm.note("read", bytes);
    arm.read("read of nothing", &server, 0);
    arm.write("write of nothing", &client, b"");
    arm.send("send of nothing", &client, b"");
    arm.recv("recv of nothing waits", &server, 0);
    arm.send("bytes", &client, b"x");
    arm.recv("recv of nothing", &server, 0);
    arm.recv("the byte is still there", &server, 8);
    let room = arm.rig.room(8).slice();
    arm.op("truncate", RawOp::Truncate { fd: client.raw(), len: 0 });
    arm.op("sync", RawOp::Sync { fd: client.raw(), data_only: false });
    arm.op("allocate", RawOp::Allocate { fd: client.raw(), offset: 0, len: 1, keep_size: false });
    arm.recv_from("recv_from on a stream", &server, 8);
    arm.send("for recv_from", &client, b"stream");
    arm.recv_from("recv_from on a stream", &server, 8);
    let (reading, _writing) = arm.rig.backend().pipe().unwrap();
    arm.op("recv on a pipe", RawOp::Recv { fd: reading.raw(), buf: room });
    arm.op("accept on a pipe", RawOp::Accept { fd: reading.raw(), multishot: false });
    arm.op("shutdown of a pipe", RawOp::Shutdown { fd: reading.raw(), half: Half::Both });
    arm.op("recv on nothing", RawOp::Recv { fd: 999_999, buf: room });
    arm.op("read on nothing", RawOp::Read { fd: 999_999, buf: room, offset: NO_OFFSET });
    arm.op("close of nothing", RawOp::Close { fd: 999_999 });
    let answer = arm.rig.backend().listen(&reading, 1);
    arm.call("listen on a pipe", answer);
    let answer = arm.rig.backend().local_address(&reading).map(|_| ());
    arm.call("address of a pipe", answer);
}

#[test]
fn reads_writes_and_strangers() {
    on_the_ring!(plain_reads_and_writes);
}

/// A listener of one: two may wait, a third dials in vain until somebody was accepted.
fn backlog<B: Backend>(arm: &mut Arm<B>) {
    let listener = arm.socket(socket2::Domain::IPV4, SocketKind::Stream);
    arm.bind("bind", &listener, &ip("127.0.0.1:0"));
    arm.listen("listen", &listener, 1);
    let address = arm.rig.backend().local_address(&listener).unwrap();
    let mut callers = Vec::new();
    for caller in 0..3 {
        let (fd, connecting) = arm.rig.connect(&address);
        arm.end(format!("caller {caller}"), connecting);
        callers.push(fd);
    }
    drop(callers.remove(0));
    arm.accept("a caller that hung up is accepted", &listener);
    let accepted = arm.accept("the second", &listener);
    arm.accept("nobody else", &listener);
    drop(accepted);
    // Closing the listener resets whoever was not accepted.
    let (late, connecting) = arm.rig.connect(&address);
    arm.end("a late caller", connecting);
    drop(listener);
    arm.recv("never accepted", &late, 8);
}

#[test]
fn backlogs() {
    on_every_kernel!(backlog);
}

/// A full pipe of sockets: what is sent is bounded, and goes on when something was read.
fn bounded<B: Backend>(arm: &mut Arm<B>) {
    for unix in [true, false] {
        let (a, b, _listener) = if unix {
            let (a, b) = arm.rig.pair();
            (a, b, None)
        } else {
            let (a, b, listener) = arm.tcp();
            (a, b, Some(listener))
        };
        let chunk = vec![7; 100_000];
        let buf = arm.rig.bytes(&chunk).slice();
        let mut sent = 0usize;
        // Buffers are bounded: within a few megabytes a send waits.
        let waiting = loop {
            let send = arm.rig.start(RawOp::Send { fd: a.raw(), buf, all: true });
            let mut patience = 0;
            while !arm.rig.is_done(send) && patience < 10 {
                arm.rig.backend().wait(Some(std::time::Duration::from_millis(1))).unwrap();
                arm.rig.reap();
                patience += 1;
            }
            if !arm.rig.is_done(send) {
                break send;
            }
            let count = arm.rig.finish(send);
            assert!(count > 0, "send: {count}");
            sent += count as usize;
            assert!(sent < 64 << 20, "nothing bounds what is sent");
        };
        let room = arm.rig.room(1 << 16);
        let mut got = 0;
        while !arm.rig.is_done(waiting) {
            let recv = arm.rig.run(RawOp::Recv { fd: b.raw(), buf: room.slice() });
            assert!(recv > 0, "recv: {recv}");
            got += recv as usize;
        }
        sent += arm.rig.finish(waiting) as usize;
        arm.shutdown("end", &a, Half::Write);
        loop {
            match arm.rig.run(RawOp::Recv { fd: b.raw(), buf: room.slice() }) {
                0 => break,
                count => got += usize::try_from(count).unwrap(),
            }
        }
        arm.note("nothing lost", (sent == got, unix));
    }
}

#[test]
fn buffers_are_bounded() {
    on_every_kernel!(bounded);
}
