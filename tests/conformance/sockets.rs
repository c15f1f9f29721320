//! One port, two families.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wo::net::{ListenOptions, TcpListener, TcpStream};
use wo_runtime::error::errno::ECONNREFUSED;

use crate::backends::on_every_backend;

fn listen_options(only_v6: bool) -> ListenOptions {
    ListenOptions { only_v6, ..ListenOptions::default() }
}

fn at(ip: impl Into<IpAddr>, port: u16) -> SocketAddr {
    SocketAddr::new(ip.into(), port)
}

#[wo::fiber]
fn takes_both_families() {
    let listener = TcpListener::bind_with("[::]:0", listen_options(false)).expect("bind");
    let port = listener.local_addr().port();
    let client = TcpStream::connect(at(Ipv4Addr::LOCALHOST, port)).expect("connect");
    let (server, peer) = listener.accept().expect("accept");
    // The peer is shown as the socket has it: mapped into IPv6.
    let mapped = at(Ipv4Addr::LOCALHOST.to_ipv6_mapped(), client.local_addr().expect("local_addr").port());
    assert_eq!(peer, mapped);
    assert_eq!(server.peer_addr(), mapped);
    client.write_all(b"4").expect("write");
    let mut byte = [0; 1];
    server.read_exact(&mut byte).expect("read");

    let client = TcpStream::connect(at(Ipv6Addr::LOCALHOST, port)).expect("connect");
    let (_server, peer) = listener.accept().expect("accept");
    assert_eq!(peer, client.local_addr().expect("local_addr"));
}

/// The same port of each family by itself, then of one alone. The system chooses it for IPv4, where many are taken.
#[wo::fiber]
fn each_family_by_itself() {
    let v4 = TcpListener::bind(at(Ipv4Addr::UNSPECIFIED, 0)).expect("bind");
    let port = v4.local_addr().port();
    let v6 = TcpListener::bind_with(at(Ipv6Addr::UNSPECIFIED, port), listen_options(true)).expect("bind beside it");
    let client = TcpStream::connect(at(Ipv4Addr::LOCALHOST, port)).expect("connect");
    let (_server, peer) = v4.accept().expect("accept");
    assert_eq!(peer, client.local_addr().expect("local_addr"));
    let client = TcpStream::connect(at(Ipv6Addr::LOCALHOST, port)).expect("connect");
    let (_server, peer) = v6.accept().expect("accept");
    assert_eq!(peer, client.local_addr().expect("local_addr"));

    v4.close().expect("close");
    let refused = TcpStream::connect(at(Ipv4Addr::LOCALHOST, port)).expect_err("IPv6 alone is served");
    assert_eq!(refused.errno(), ECONNREFUSED, "{refused}");
    assert!(refused.to_string().contains(&format!("127.0.0.1:{port}")), "{refused}");
    TcpStream::connect(at(Ipv6Addr::LOCALHOST, port)).expect("connect");
}

#[test]
fn r46_dual_stack() {
    on_every_backend(takes_both_families);
}

#[test]
fn r46_only_v6() {
    on_every_backend(each_family_by_itself);
}
