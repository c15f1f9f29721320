//! Socket options.

use std::time::Duration;

use wo_runtime::plane::backend::{Backend, SocketKind, SocketOption, SocketOptionName};

use super::arm::{Arm, ip};
use crate::on_every_kernel;

const NAMES: [SocketOptionName; 9] = [
    SocketOptionName::NoDelay,
    SocketOptionName::ReuseAddress,
    SocketOptionName::ReusePort,
    SocketOptionName::KeepAlive,
    SocketOptionName::TimeToLive,
    SocketOptionName::Broadcast,
    SocketOptionName::OnlyV6,
    SocketOptionName::Linger,
    SocketOptionName::Error,
];

const ASKED: [SocketOption; 22] = [
    SocketOption::NoDelay(true),
    SocketOption::NoDelay(false),
    SocketOption::ReuseAddress(true),
    SocketOption::ReusePort(true),
    SocketOption::KeepAlive(Some(Duration::from_secs(30))),
    SocketOption::KeepAlive(Some(Duration::from_millis(2_500))),
    SocketOption::KeepAlive(Some(Duration::ZERO)),
    SocketOption::KeepAlive(Some(Duration::from_secs(100_000))),
    SocketOption::KeepAlive(Some(Duration::MAX)),
    SocketOption::KeepAlive(None),
    SocketOption::TimeToLive(1),
    SocketOption::TimeToLive(255),
    SocketOption::TimeToLive(0),
    SocketOption::TimeToLive(256),
    SocketOption::TimeToLive(u32::MAX),
    SocketOption::Broadcast(true),
    SocketOption::OnlyV6(true),
    SocketOption::OnlyV6(false),
    SocketOption::Linger(Some(Duration::from_millis(3_700))),
    SocketOption::Linger(Some(Duration::MAX)),
    SocketOption::Linger(None),
    SocketOption::Error(1),
];

fn all<B: Backend>(arm: &mut Arm<B>) {
    for domain in [socket2::Domain::IPV4, socket2::Domain::IPV6, socket2::Domain::UNIX] {
        for kind in [SocketKind::Stream, SocketKind::Datagram] {
            let fd = arm.socket(domain, kind);
            arm.note("sort", (domain, kind));
            for name in NAMES {
                arm.note("name", name);
                arm.get(&fd, name);
            }
            for option in ASKED {
                arm.set(&fd, option);
                for name in NAMES {
                    arm.get(&fd, name);
                }
            }
        }
    }
}

#[test]
fn every_option_on_every_sort_of_socket() {
    on_every_kernel!(all);
}

fn buffers<B: Backend>(arm: &mut Arm<B>) {
    let fd = arm.socket(socket2::Domain::IPV4, SocketKind::Stream);
    for bytes in [0, 1, 1_000, 5_000, 60_000] {
        arm.set(&fd, SocketOption::ReceiveBuffer(bytes));
        arm.get(&fd, SocketOptionName::ReceiveBuffer);
        arm.set(&fd, SocketOption::SendBuffer(bytes));
        arm.get(&fd, SocketOptionName::SendBuffer);
    }
}

#[test]
fn sizes_of_buffers() {
    on_every_kernel!(buffers);
}

fn inherited<B: Backend>(arm: &mut Arm<B>) {
    let listener = arm.socket(socket2::Domain::IPV4, SocketKind::Stream);
    arm.bind("bind", &listener, &ip("127.0.0.1:0"));
    arm.listen("listen", &listener, 1);
    for option in [
        SocketOption::NoDelay(true),
        SocketOption::KeepAlive(Some(Duration::from_secs(9))),
        SocketOption::Linger(Some(Duration::from_secs(4))),
        SocketOption::TimeToLive(7),
        SocketOption::ReuseAddress(true),
    ] {
        arm.set(&listener, option);
    }
    let address = arm.rig.backend().local_address(&listener).unwrap();
    let (client, connecting) = arm.rig.connect(&address);
    arm.end("connect", connecting);
    let server = arm.accept("accept", &listener).unwrap();
    for name in NAMES {
        arm.note("name", name);
        arm.get(&client, name);
        arm.get(&server, name);
    }
}

#[test]
fn what_a_connection_inherits() {
    on_every_kernel!(inherited);
}
