//! What the errors of sockets say beyond the kernel's word: on what it was tried, and the remedy.

use std::fmt::Display;

use wo_runtime::error::{IoError, OpKind, errno};
use wo_runtime::plane::SocketAddress;
use wo_runtime::plane::backend::SocketOption;
use wo_runtime::plane::current::meaning_of_enxio;

/// Ports below this one are the system's.
const PORT_FREE_MIN: u16 = 1024;

/// The error, naming what it was tried on in front of what it says already.
pub(crate) fn on(error: IoError, what: impl Display) -> IoError {
    let what = what.to_string();
    let nowhere = if error.errno() == errno::ENXIO { meaning_of_enxio() } else { None };
    let context = match (error.context(), nowhere) {
        ("", None) => what,
        ("", Some(meaning)) => format!("{what}: {meaning}"),
        (known, _) if what.is_empty() || known.starts_with(&what) => return error,
        (known, _) => format!("{what}: {known}"),
    };
    error.with_context(context)
}

fn with_remedy(error: IoError, what: &impl Display, remedy: Option<&str>) -> IoError {
    match remedy {
        Some(remedy) => error.with_context(format!("{what}: {remedy}")),
        None => on(error, what),
    }
}

/// Why a socket could not be bound to `address`, or could not listen there.
pub(crate) fn bind(error: IoError, address: &SocketAddress) -> IoError {
    let remedy = match (error.errno(), address.as_ip()) {
        (errno::EADDRINUSE, Some(_)) => {
            Some("the port is in use; end the program that has it (`ss -ltnup` shows it) or choose another port")
        }
        (errno::EADDRINUSE, None) => Some("the address is in use"),
        (errno::EADDRNOTAVAIL, Some(_)) => Some("no interface of this host has this address"),
        (errno::EACCES, Some(ip)) if ip.port() < PORT_FREE_MIN => Some(
            "a port below 1024 needs CAP_NET_BIND_SERVICE, or a lower net.ipv4.ip_unprivileged_port_start; \
             or choose one from 1024 up",
        ),
        (errno::EACCES, None) => Some("the directory must be writable for this user"),
        (errno::ENOENT, None) => Some("the directory must exist"),
        _ => None,
    };
    with_remedy(error, address, remedy)
}

/// Why `address` could not be connected to.
pub(crate) fn connect(error: IoError, address: &SocketAddress) -> IoError {
    let remedy = match (error.errno(), address.as_ip()) {
        (errno::ECONNREFUSED, Some(_)) => Some("nothing listens there"),
        (errno::ECONNREFUSED, None) => Some("nothing listens there; it is a left-over socket file, or none at all"),
        (errno::ENOENT, None) => Some("there is no such socket file; start the server first"),
        (errno::EACCES, None) => Some("the socket file must be writable for this user"),
        (errno::EPROTOTYPE, None) => Some("the socket there is of another type: a stream or datagrams"),
        (errno::EAGAIN, None) => Some("the server's backlog is full"),
        (errno::EAGAIN | errno::EADDRNOTAVAIL, Some(_)) => {
            Some("no local port is free for it; connect less often, or widen net.ipv4.ip_local_port_range")
        }
        (errno::ENETUNREACH | errno::EHOSTUNREACH, _) => Some("this host has no route there"),
        (errno::ETIMEDOUT, _) => Some("no answer; the host is down, or a firewall drops what is sent there"),
        (errno::EPERM | errno::EACCES, Some(_)) => Some("a firewall or a sandbox on this host forbids it"),
        _ => None,
    };
    with_remedy(error, address, remedy)
}

/// Why a datagram of `bytes` bytes could not be sent to `to`, or without that to the peer, from `local`.
pub(crate) fn datagram(error: IoError, bytes: usize, to: Option<&SocketAddress>, local: impl Display) -> IoError {
    let Some(to) = to else {
        return match error.errno() {
            errno::EMSGSIZE => error.with_context(format!("{local}: {}", too_long(bytes))),
            errno::EDESTADDRREQ | errno::ENOTCONN => {
                error.with_context("the socket has no peer: connect it first, or say where to send to")
            }
            _ => on(error, local),
        };
    };
    let remedy = match (error.errno(), to.as_ip()) {
        (errno::EMSGSIZE, _) => return error.with_context(format!("{to}: {}", too_long(bytes))),
        (errno::EAFNOSUPPORT, Some(_)) => Some("bind a socket of the family of the peer, IPv4 or IPv6"),
        (errno::EINVAL, Some(ip)) if ip.port() == 0 => Some("no socket has port 0"),
        (errno::EACCES, Some(ip)) if ip.is_ipv4() => Some("if it is a broadcast address, call `set_broadcast` first"),
        _ => return connect(error, to),
    };
    with_remedy(error, to, remedy)
}

fn too_long(bytes: usize) -> String {
    format!(
        "a datagram of {bytes} bytes is too long; at most 65507 go over IPv4, and a Unix socket takes what fits its \
         send buffer"
    )
}

/// Why an option of the socket at `place` was not set.
pub(crate) fn option(error: IoError, place: impl Display, option: SocketOption) -> IoError {
    let remedy = match (error.errno(), option) {
        (errno::EINVAL, SocketOption::TimeToLive(_)) => "a packet may take from 1 to 255 hops",
        (errno::EINVAL, SocketOption::KeepAlive(_)) => "a peer may be idle for 1 to 32767 seconds",
        _ => return on(error, place),
    };
    error.with_context(format!("{place}: {option:?}: {remedy}"))
}

/// A stream that ended before an exact read was satisfied.
pub(crate) fn ended_early(peer: impl Display, got: usize, wanted: usize) -> IoError {
    IoError::new(errno::ENODATA, OpKind::Recv, wo_runtime::error::Stage::Completion)
        .with_context(format!("{peer}: the stream ended after {got} of {wanted} bytes"))
}

/// A write that broke off after a part.
pub(crate) fn torn(error: IoError, peer: impl Display, sent: usize, len: usize) -> IoError {
    match sent {
        0 => on(error, peer),
        _ => on(error, format!("{peer}: after {sent} of {len} bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wo_runtime::error::Stage;

    #[test]
    fn what_is_known_already_stays() {
        let stopping = IoError::new(errno::ECANCELED, OpKind::Recv, Stage::Submit).with_context("the program stops");
        assert_eq!(on(stopping.clone(), "127.0.0.1:1").context(), "127.0.0.1:1: the program stops");
        assert_eq!(on(on(stopping, "there"), "there").context(), "there: the program stops");
    }

    #[test]
    fn a_low_port_names_the_capability() {
        let error = IoError::new(errno::EACCES, OpKind::Bind, Stage::Completion).with_context("0.0.0.0:80");
        let error = bind(error, &SocketAddress::Ip("0.0.0.0:80".parse().unwrap()));
        assert!(error.to_string().starts_with("bind 0.0.0.0:80: a port below 1024"), "{error}");
        assert!(error.to_string().contains("CAP_NET_BIND_SERVICE"), "{error}");
    }
}
