//! Unix sockets: names, streams and datagrams.

use wo_runtime::plane::backend::operand::OpenHow;
use wo_runtime::plane::backend::{Backend, SocketKind};
use wo_runtime::plane::op::{Half, RawOp, Readiness};
use wo_runtime::plane::{Fd, SocketAddress};

use super::arm::Arm;
use crate::{on_every_kernel, on_the_ring};

const NEW: OpenHow = OpenHow {
    read: true,
    write: true,
    append: false,
    create: true,
    create_new: false,
    truncate: false,
    directory: false,
    no_follow: false,
    direct: false,
    mode: 0o644,
};

fn socket<B: Backend>(arm: &mut Arm<B>, kind: SocketKind) -> Fd {
    arm.socket(socket2::Domain::UNIX, kind)
}

fn names<B: Backend>(arm: &mut Arm<B>) {
    let here = arm.file("here");
    let listener = socket(arm, SocketKind::Stream);
    arm.addresses("fresh", &listener);
    arm.listen("listen without a name", &listener, 1);
    let elsewhere = arm.file("no/where");
    arm.bind("bind in a directory that is not", &listener, &elsewhere);
    arm.bind("bind", &listener, &here);
    arm.stat("here");
    arm.bind("bind again", &listener, &here);
    let other = socket(arm, SocketKind::Stream);
    arm.bind("bind where somebody is", &other, &here);
    arm.connect("connect before it listens", &other, &here);
    arm.listen("listen", &listener, 1);
    arm.connect("connect", &other, &here);
    let server = arm.accept("accept", &listener).unwrap();
    arm.addresses("listener", &listener);
    arm.addresses("client", &other);
    arm.addresses("server", &server);
    arm.connect("connect again", &other, &here);
    arm.connect("connect of a listener", &listener, &here);
    arm.open("here", NEW);
    drop(listener);
    let late = socket(arm, SocketKind::Stream);
    arm.connect("connect to what is left", &late, &here);
    arm.bind("bind to what is left", &late, &here);
    arm.send("the connection lives on", &other, b"alive");
    arm.recv("it does", &server, 8);
    arm.with_path("here", |path| RawOp::Unlink { path, directory: false });
    arm.connect("connect to nothing", &late, &here);
    arm.bind("bind a name for the caller", &late, &here);
    arm.open("plain", NEW);
    let plain = arm.file("plain");
    let caller = socket(arm, SocketKind::Stream);
    arm.connect("connect to a plain file", &caller, &plain);
    let inside = arm.file("plain/inside");
    arm.connect("connect inside a plain file", &caller, &inside);
}

#[test]
fn names_of_unix_sockets() {
    on_every_kernel!(names);
}

fn renamed<B: Backend>(arm: &mut Arm<B>) {
    let (old, new) = (arm.file("old"), arm.file("new"));
    let listener = socket(arm, SocketKind::Stream);
    arm.bind("bind", &listener, &old);
    arm.listen("listen", &listener, 1);
    arm.rename("old", "new", true);
    let client = socket(arm, SocketKind::Stream);
    arm.connect("by the old name", &client, &old);
    arm.connect("by the new name", &client, &new);
    arm.addresses("client", &client);
    let server = arm.accept("accept", &listener).unwrap();
    arm.addresses("server", &server);
}

#[test]
fn a_renamed_socket_file() {
    on_every_kernel!(renamed);
}

fn abstract_names<B: Backend>(arm: &mut Arm<B>) {
    let name = arm.abstract_name("name");
    let listener = socket(arm, SocketKind::Stream);
    let other = socket(arm, SocketKind::Stream);
    arm.connect("nobody has the name", &other, &name);
    arm.bind("bind", &listener, &name);
    arm.bind("bind what is taken", &other, &name);
    let datagram = socket(arm, SocketKind::Datagram);
    arm.connect("another kind's name", &datagram, &name);
    arm.bind("the other kind has names of its own", &datagram, &name);
    arm.listen("listen", &listener, 1);
    arm.connect("connect", &other, &name);
    arm.addresses("client", &other);
    let server = arm.accept("accept", &listener).unwrap();
    arm.addresses("server", &server);
    drop(listener);
    let late = socket(arm, SocketKind::Stream);
    arm.connect("the name went with its socket", &late, &name);
    arm.bind("and is free", &late, &name);
}

#[test]
fn abstract_names_of_unix_sockets() {
    on_every_kernel!(abstract_names);
}

fn ends<B: Backend>(arm: &mut Arm<B>) {
    let fresh = socket(arm, SocketKind::Stream);
    arm.recv("recv on fresh", &fresh, 8);
    arm.send("send on fresh", &fresh, b"x");
    arm.accept("accept on fresh", &fresh);
    arm.shutdown("shutdown of fresh", &fresh, Half::Both);

    let (a, b) = arm.rig.pair();
    arm.addresses("pair", &a);
    arm.send("bytes", &a, b"bytes");
    arm.shutdown("half-close", &a, Half::Write);
    arm.recv("bytes", &b, 8);
    arm.recv("end", &b, 8);
    arm.send("into the closed half", &a, b"x");
    arm.send("the other way", &b, b"back");
    arm.recv("comes", &a, 8);
    arm.shutdown("again", &a, Half::Write);
    arm.shutdown("reading too", &a, Half::Read);
    arm.send("to the deaf", &b, b"x");
    arm.recv("nothing more", &a, 8);
    arm.await_trouble("shut both ways", &a);

    let (a, b) = arm.rig.pair();
    arm.send("read before the end", &b, b"before");
    drop(b);
    arm.recv("before", &a, 8);
    arm.recv("end", &a, 8);
    arm.send("no pipe", &a, b"x");
    arm.addresses("alone", &a);
    arm.shutdown("alone", &a, Half::Write);

    let (a, b) = arm.rig.pair();
    arm.send("never read", &a, b"unread");
    arm.send("read", &b, b"read");
    drop(b);
    arm.recv("read", &a, 8);
    arm.recv("reset, once", &a, 8);
    arm.recv("end", &a, 8);
    arm.send("no pipe", &a, b"x");
}

#[test]
fn ends_of_unix_streams() {
    on_every_kernel!(ends);
}

fn crowded<B: Backend>(arm: &mut Arm<B>) {
    let here = arm.file("crowded");
    let listener = socket(arm, SocketKind::Stream);
    arm.bind("bind", &listener, &here);
    arm.listen("listen", &listener, 1);
    let callers: Vec<Fd> = (0..3)
        .map(|number| {
            let fd = socket(arm, SocketKind::Stream);
            arm.connect(format!("caller {number}"), &fd, &here);
            fd
        })
        .collect();
    arm.send("sent before it is accepted", &callers[0], b"early");
    let server = arm.accept("accept", &listener).unwrap();
    arm.recv("early", &server, 8);
    drop(listener);
    arm.recv("never accepted", &callers[1], 8);
    arm.recv("and again", &callers[1], 8);
    arm.send("never accepted", &callers[1], b"x");
}

#[test]
fn crowded_unix_listeners() {
    on_every_kernel!(crowded);
}

fn letters<B: Backend>(arm: &mut Arm<B>) {
    let (a, b) = (socket(arm, SocketKind::Datagram), socket(arm, SocketKind::Datagram));
    let (at_a, at_b) = (arm.file("a"), arm.file("b"));
    arm.send_to("nobody there", &a, b"x", Some(&at_b));
    arm.bind("bind", &b, &at_b);
    arm.send_to("without a name", &a, b"unnamed", Some(&at_b));
    arm.recv_from("nobody's", &b, 16);
    arm.bind("bind", &a, &at_a);
    arm.send_to("with a name", &a, b"named", Some(&at_b));
    arm.recv_from("a's", &b, 16);
    arm.send_to("cut", &a, b"0123456789", Some(&at_b));
    arm.recv_from("cut", &b, 4);
    arm.send("no peer", &a, b"x");
    arm.recv("nothing", &a, 8);
    arm.connect("connect", &b, &at_a);
    arm.addresses("connected", &b);
    arm.send("to the peer", &b, b"hello");
    arm.recv_from("from b", &a, 16);
    let c = socket(arm, SocketKind::Datagram);
    arm.send_to("a connected one hears its peer alone", &c, b"x", Some(&at_b));
    arm.connect("so it cannot be connected to", &c, &at_b);
    arm.listen("listen", &c, 1);
    let stream = socket(arm, SocketKind::Stream);
    let at_stream = arm.file("stream");
    arm.bind("bind a stream", &stream, &at_stream);
    arm.listen("listen", &stream, 1);
    arm.send_to("a letter to a stream", &a, b"x", Some(&at_stream));
    arm.connect("a letter writer to a stream", &a, &at_stream);
    let caller = socket(arm, SocketKind::Stream);
    arm.connect("a stream to letters", &caller, &at_b);
    arm.send_to("too long", &a, &vec![0; 213_000], Some(&at_b));
    drop(a);
    arm.send("the peer is gone", &b, b"x");
    arm.send_to("to what it left", &c, b"x", Some(&at_a));
}

#[test]
fn letters_of_unix_sockets() {
    on_every_kernel!(letters);
}

fn pairs<B: Backend>(arm: &mut Arm<B>) {
    let (a, b) = arm.rig.backend().socket_pair(SocketKind::Datagram).unwrap();
    arm.addresses("pair", &a);
    arm.send("one", &a, b"one");
    arm.send("two", &a, b"");
    arm.recv_from("one", &b, 8);
    arm.recv_from("two", &b, 8);
    arm.recv("no more", &b, 8);
    arm.poll("nothing to read", &b, Readiness::READABLE);
    arm.shutdown("writing", &a, Half::Write);
    arm.send("shut", &a, b"x");
    arm.shutdown("reading", &a, Half::Read);
    arm.send("to the deaf", &b, b"x");
    arm.recv("shut", &a, 8);
    drop(a);
    arm.send("to nobody", &b, b"x");
    arm.recv("from nobody", &b, 8);
}

#[test]
fn pairs_of_unix_datagram_sockets() {
    on_the_ring!(pairs);
}

fn long_paths<B: Backend>(arm: &mut Arm<B>) {
    let fd = socket(arm, SocketKind::Stream);
    let long = SocketAddress::Unix(format!("/tmp/{}", "x".repeat(200)).into());
    arm.bind("too long", &fd, &long);
    arm.bind("nameless", &fd, &SocketAddress::Unnamed);
}

#[test]
fn paths_that_are_no_address() {
    on_every_kernel!(long_paths);
}
