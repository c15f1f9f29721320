//! UDP.

use wo_runtime::plane::Fd;
use wo_runtime::plane::backend::{Backend, SocketKind, SocketOption, SocketOptionName};
use wo_runtime::plane::op::{Half, RawOp, Readiness};

use super::arm::{Arm, at, at_port_of, ip};
use crate::{on_every_kernel, on_the_ring};

fn bound<B: Backend>(arm: &mut Arm<B>, host: &str) -> Fd {
    let address = at(host, arm.port());
    let fd = arm.socket(address.domain(), SocketKind::Datagram);
    arm.bind("bind", &fd, &address);
    fd
}

fn letters<B: Backend>(arm: &mut Arm<B>) {
    let a = bound(arm, "127.0.0.1");
    let b = bound(arm, "127.0.0.1");
    let at_b = arm.rig.backend().local_address(&b).unwrap();
    arm.send_to("one", &a, b"one", Some(&at_b));
    arm.send_to("an empty one", &a, b"", Some(&at_b));
    arm.send_to("a long one", &a, b"0123456789", Some(&at_b));
    arm.recv_from("one", &b, 16);
    arm.recv_from("empty", &b, 16);
    arm.recv_from("cut", &b, 4);
    arm.recv_from("no more", &b, 16);
    arm.send_to("without address", &a, b"x", None);
    arm.send("send without peer", &a, b"x");
    arm.recv("recv of nothing", &a, 8);
    arm.addresses("unconnected", &a);
    arm.send_to("to a later reader", &a, b"cut by recv", Some(&at_b));
    arm.recv("recv cuts as well", &b, 3);
    arm.send_to("too long", &a, &vec![0; 65_508], Some(&at_b));
    arm.send_to("as long as can be", &a, &vec![0; 65_507], Some(&at_b));
    arm.poll("it came", &b, Readiness::READABLE);
    let fresh = arm.socket(socket2::Domain::IPV4, SocketKind::Datagram);
    arm.addresses("fresh", &fresh);
    arm.send_to("from a fresh socket", &fresh, b"x", Some(&at_b));
    arm.addresses("bound by sending", &fresh);
    arm.send_to("to port 0", &a, b"x", Some(&ip("127.0.0.1:0")));
    arm.send_to("to another family", &a, b"x", Some(&at_port_of("::1", &at_b)));
    arm.send_to("to everybody", &a, b"x", Some(&ip("255.255.255.255:9")));
    arm.send_to("to any", &a, b"any", Some(&at_port_of("0.0.0.0", &at_b)));
}

#[test]
fn letters_of_udp() {
    on_every_kernel!(letters);
}

fn connected<B: Backend>(arm: &mut Arm<B>) {
    let a = bound(arm, "127.0.0.1");
    let b = bound(arm, "127.0.0.1");
    let c = bound(arm, "127.0.0.1");
    let [at_a, at_b, at_c] = [&a, &b, &c].map(|fd| arm.rig.backend().local_address(fd).unwrap());
    arm.send_to("before the connect", &c, b"early", Some(&at_a));
    arm.poll("it came", &a, Readiness::READABLE);
    arm.connect("connect", &a, &at_b);
    arm.addresses("connected", &a);
    arm.recv("what came before stays", &a, 8);
    arm.send_to("from a stranger", &c, b"stranger", Some(&at_a));
    arm.recv("a stranger is not heard", &a, 16);
    arm.send("to the peer", &a, b"hello");
    arm.recv_from("the peer hears", &b, 16);
    arm.send_to("the peer answers", &b, b"there", Some(&at_a));
    arm.recv("heard", &a, 16);
    arm.send_to("to another than the peer", &a, b"aside", Some(&at_c));
    arm.recv_from("heard there", &c, 16);
    drop(b);
    arm.send("nobody there", &a, b"x");
    arm.await_trouble("refused", &a);
    arm.recv("refused, once", &a, 8);
    arm.recv("then nothing", &a, 8);
    arm.send("nobody there", &a, b"x");
    arm.await_trouble("refused", &a);
    arm.send("refused while sending", &a, b"x");
    arm.await_trouble("refused for the one before", &a);
    arm.get(&a, SocketOptionName::Error);
    arm.send_to("an unconnected sender is not told", &c, b"x", Some(&at_b));
    arm.await_trouble("no trouble", &c);
}

#[test]
fn connected_udp() {
    on_every_kernel!(connected);
}

fn families<B: Backend>(arm: &mut Arm<B>) {
    let dual = bound(arm, "::");
    let at_dual = arm.rig.backend().local_address(&dual).unwrap();
    let v4 = bound(arm, "127.0.0.1");
    let at_v4 = arm.rig.backend().local_address(&v4).unwrap();
    arm.send_to("IPv4 to both", &v4, b"four", Some(&at_port_of("127.0.0.1", &at_dual)));
    arm.recv_from("shown mapped", &dual, 16);
    arm.send_to("mapped", &dual, b"mapped", Some(&at_port_of("::ffff:127.0.0.1", &at_v4)));
    arm.recv_from("seen as IPv4", &v4, 16);
    arm.send_to("plain IPv4 on an IPv6 socket", &dual, b"plain", Some(&at_v4));
    arm.recv_from("works too", &v4, 16);
    let only = arm.socket(socket2::Domain::IPV6, SocketKind::Datagram);
    arm.set(&only, SocketOption::OnlyV6(true));
    arm.send_to("mapped on IPv6 alone", &only, b"x", Some(&at_port_of("::ffff:127.0.0.1", &at_v4)));
    arm.send_to("plain IPv4 on IPv6 alone", &only, b"x", Some(&at_v4));
}

#[test]
fn families_of_udp() {
    on_every_kernel!(families);
}

fn shut<B: Backend>(arm: &mut Arm<B>) {
    let a = bound(arm, "127.0.0.1");
    let b = bound(arm, "127.0.0.1");
    let at_b = arm.rig.backend().local_address(&b).unwrap();
    arm.shutdown("unconnected", &b, Half::Write);
    arm.connect("connect", &a, &at_b);
    let buf = arm.rig.room(8).slice();
    let recv = arm.rig.start(RawOp::Recv { fd: a.raw(), buf });
    arm.rig.backend().flush().unwrap();
    arm.shutdown("reading", &a, Half::Read);
    arm.end("a pending recv ends", recv);
    arm.recv("so does a later one", &a, 8);
    arm.shutdown("writing", &a, Half::Write);
    arm.send("no sending", &a, b"x");
    arm.poll("shut", &a, Readiness::READABLE);
}

#[test]
fn shutdown_of_udp() {
    on_the_ring!(shut);
}
