//! Who may bind which address while another holds it, and who is reached at it.

use wo_runtime::plane::backend::{Backend, SocketKind, SocketOption};
use wo_runtime::plane::op::Half;
use wo_runtime::plane::{Fd, SocketAddress};

use super::arm::{Arm, at, ip};
use crate::on_every_kernel;

/// Hosts with the family of the socket that binds them, and whether it takes IPv6 alone.
const HOSTS: [(&str, bool); 8] = [
    ("127.0.0.1", false),
    ("127.0.0.2", false),
    ("0.0.0.0", false),
    ("::1", false),
    ("::", false),
    ("::", true),
    ("::ffff:127.0.0.1", false),
    ("::ffff:0.0.0.0", false),
];

fn domain_of(host: &str) -> socket2::Domain {
    if host.contains(':') { socket2::Domain::IPV6 } else { socket2::Domain::IPV4 }
}

struct Consent {
    address: bool,
    port: bool,
}

fn prepared<B: Backend>(arm: &mut Arm<B>, host: &str, only_v6: bool, kind: SocketKind, consent: &Consent) -> Fd {
    let fd = arm.socket(domain_of(host), kind);
    let backend = arm.rig.backend();
    if host.contains(':') {
        backend.set_socket_option(&fd, SocketOption::OnlyV6(only_v6)).unwrap();
    }
    backend.set_socket_option(&fd, SocketOption::ReuseAddress(consent.address)).unwrap();
    backend.set_socket_option(&fd, SocketOption::ReusePort(consent.port)).unwrap();
    fd
}

fn conflicts<B: Backend>(arm: &mut Arm<B>, kind: SocketKind) {
    let consents =
        [(false, false), (true, false), (false, true), (true, true)].map(|(address, port)| Consent { address, port });
    for (first_host, first_only) in HOSTS {
        for (second_host, second_only) in HOSTS {
            for ours in &consents {
                for theirs in &consents {
                    let first = prepared(arm, first_host, first_only, kind, ours);
                    let port = arm.port();
                    arm.rig.backend().bind(&first, &at(first_host, port)).unwrap();
                    let address = at(second_host, port);
                    let what = format!(
                        "{first_host} {first_only} then {second_host} {second_only}, address {}{}, port {}{}",
                        ours.address, theirs.address, ours.port, theirs.port
                    );
                    let second = prepared(arm, second_host, second_only, kind, theirs);
                    let bound = arm.bind(format!("{what}: bind"), &second, &address);
                    if kind == SocketKind::Datagram {
                        continue;
                    }
                    if bound {
                        arm.listen(format!("{what}: first listens"), &first, 1);
                        arm.listen(format!("{what}: second listens"), &second, 1);
                    } else {
                        arm.listen(format!("{what}: first listens"), &first, 1);
                    }
                    let third = prepared(arm, second_host, second_only, kind, theirs);
                    arm.bind(format!("{what}: bind while it listens"), &third, &address);
                }
            }
        }
    }
}

fn tcp_conflicts<B: Backend>(arm: &mut Arm<B>) {
    conflicts(arm, SocketKind::Stream);
}

fn udp_conflicts<B: Backend>(arm: &mut Arm<B>) {
    conflicts(arm, SocketKind::Datagram);
}

#[test]
fn who_may_bind_over_tcp() {
    on_every_kernel!(tcp_conflicts);
}

#[test]
fn who_may_bind_over_udp() {
    on_every_kernel!(udp_conflicts);
}

fn reached<B: Backend>(arm: &mut Arm<B>) {
    for (host, only_v6) in HOSTS {
        let plain = Consent { address: false, port: false };
        let listener = prepared(arm, host, only_v6, SocketKind::Stream, &plain);
        let port = arm.port();
        arm.bind(format!("bind {host} {only_v6}"), &listener, &at(host, port));
        arm.listen("listen", &listener, 8);
        for caller_host in ["127.0.0.1", "127.0.0.2", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1"] {
            for only_v6 in [false, true] {
                if only_v6 && !caller_host.contains(':') {
                    continue;
                }
                arm.forget_ports();
                let caller = prepared(arm, caller_host, only_v6, SocketKind::Stream, &plain);
                let target = at(caller_host, port);
                if arm.connect(format!("{caller_host} {only_v6}"), &caller, &target) == 0 {
                    arm.addresses("caller", &caller);
                    let accepted = arm.accept("accept", &listener).unwrap();
                    arm.addresses("accepted", &accepted);
                }
            }
        }
    }
}

#[test]
fn who_is_reached() {
    on_every_kernel!(reached);
}

fn refusals<B: Backend>(arm: &mut Arm<B>) {
    let hosts = ["192.0.2.1", "2001:db8::1", "127.0.0.1", "::1", "::ffff:127.0.0.1", "::ffff:192.0.2.1"];
    for kind in [SocketKind::Stream, SocketKind::Datagram] {
        for domain in [socket2::Domain::IPV4, socket2::Domain::IPV6] {
            for only_v6 in [false, true] {
                for host in hosts {
                    let what = format!("{kind:?} {domain:?} {only_v6} {host}");
                    let fd = arm.socket(domain, kind);
                    arm.set(&fd, SocketOption::OnlyV6(only_v6));
                    arm.bind(format!("{what} bind"), &fd, &at(host, 0));
                    arm.bind(format!("{what} bind again"), &fd, &at(host, 0));
                    arm.set(&fd, SocketOption::OnlyV6(only_v6));
                    if host.contains("2.1") || host.contains("db8") {
                        // Where that leads is the machine's own affair.
                        continue;
                    }
                    let fd = arm.socket(domain, kind);
                    arm.set(&fd, SocketOption::OnlyV6(only_v6));
                    let target = at(host, arm.port());
                    arm.connect(format!("{what} connect"), &fd, &target);
                    arm.bind(format!("{what} bind after it"), &fd, &at(host, 0));
                }
            }
        }
        let v4 = arm.socket(socket2::Domain::IPV4, kind);
        arm.bind("a path", &v4, &SocketAddress::Unix("/tmp/a/path/that/is/long".into()));
        arm.connect("a path", &v4, &SocketAddress::Unix("/tmp/a/path/that/is/long".into()));
    }
    let unbound = arm.socket(socket2::Domain::IPV4, SocketKind::Stream);
    arm.listen("unbound", &unbound, 1);
    arm.addresses("it has a port now", &unbound);
    let datagram = arm.socket(socket2::Domain::IPV4, SocketKind::Datagram);
    arm.listen("a datagram socket", &datagram, 1);
    arm.accept("accept on a datagram socket", &datagram);
    let unix = arm.socket(socket2::Domain::UNIX, SocketKind::Stream);
    arm.bind("an IP address for a Unix socket", &unix, &ip("127.0.0.1:0"));
    arm.connect("an IP address for a Unix socket", &unix, &ip("127.0.0.1:9"));
}

#[test]
fn refused_addresses() {
    on_every_kernel!(refusals);
}

/// The server hangs up first: its port rests, and only consent takes it over.
fn resting<B: Backend>(arm: &mut Arm<B>) {
    for (before, after) in [(false, false), (true, false), (false, true), (true, true)] {
        let first = Consent { address: before, port: false };
        let listener = prepared(arm, "127.0.0.1", false, SocketKind::Stream, &first);
        let address = at("127.0.0.1", arm.port());
        arm.bind("bind", &listener, &address);
        arm.listen("listen", &listener, 8);
        let (client, connecting) = arm.rig.connect(&address);
        arm.end("connect", connecting);
        let server = arm.accept("accept", &listener).unwrap();
        drop(listener);
        let second = Consent { address: after, port: false };
        let again = prepared(arm, "127.0.0.1", false, SocketKind::Stream, &second);
        arm.bind(format!("while a connection lives, {before} {after}"), &again, &address);
        drop(again);
        arm.shutdown("the server hangs up first", &server, Half::Write);
        arm.recv("the client sees it", &client, 8);
        arm.shutdown("and hangs up", &client, Half::Write);
        arm.recv("the server sees it", &server, 8);
        drop((client, server));
        let again = prepared(arm, "127.0.0.1", false, SocketKind::Stream, &second);
        arm.bind(format!("while the port rests, {before} {after}"), &again, &address);
    }
}

#[test]
fn resting_ports() {
    on_every_kernel!(resting);
}

fn client_closes_first<B: Backend>(arm: &mut Arm<B>) {
    let listener = arm.socket(socket2::Domain::IPV4, SocketKind::Stream);
    let address = at("127.0.0.1", arm.port());
    arm.bind("bind", &listener, &address);
    arm.listen("listen", &listener, 8);
    let (client, connecting) = arm.rig.connect(&address);
    arm.end("connect", connecting);
    let server = arm.accept("accept", &listener).unwrap();
    drop(client);
    arm.recv("the server sees it", &server, 8);
    drop((server, listener));
    let again = arm.socket(socket2::Domain::IPV4, SocketKind::Stream);
    arm.bind("the server's port is free", &again, &address);
}

#[test]
fn ports_of_those_who_close_last_are_free() {
    on_every_kernel!(client_closes_first);
}
