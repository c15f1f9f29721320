//! Socket options of the simulated kernel: kept, answered as Linux answers them, and obeyed where they matter here.
//!
//! Addresses, buffers, `OnlyV6` and a linger of zero change what happens; the others are kept and given back.

use std::time::Duration;

use crate::plane::backend::sim::net::address::Family;
use crate::plane::backend::sim::world::Errno;
use crate::plane::backend::socket::LINGER_MAX;
use crate::plane::backend::{SocketKind, SocketOption, SocketOptionName};

/// How long an idle peer is left alone, until somebody says otherwise; and how long that may be.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(7200);
const KEEP_ALIVE_SECONDS: std::ops::RangeInclusive<u64> = 1..=32_767;
/// Buffers of a new IP socket, and of a Unix socket.
const IP_BUFFER_BYTES: usize = 131_072;
const UNIX_BUFFER_BYTES: usize = 212_992;
/// The least and the most a buffer can be set to. The kernel doubles what it is asked for, up to twice its limit.
const RECEIVE_BUFFER_BYTES_MIN: usize = 2_304;
const SEND_BUFFER_BYTES_MIN: usize = 4_608;
const BUFFER_BYTES_LIMIT: usize = 212_992;

/// The options of one socket. An accepted connection starts with its listener's.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    no_delay: bool,
    pub(crate) reuse_address: bool,
    pub(crate) reuse_port: bool,
    keep_alive: bool,
    keep_alive_idle: Duration,
    pub(crate) receive_buffer: usize,
    pub(crate) send_buffer: usize,
    time_to_live: u32,
    pub(crate) broadcast: bool,
    pub(crate) only_v6: bool,
    pub(crate) linger: Option<Duration>,
}

impl Options {
    pub(crate) fn new(family: Family) -> Options {
        let buffer = if family == Family::Unix { UNIX_BUFFER_BYTES } else { IP_BUFFER_BYTES };
        Options {
            no_delay: false,
            reuse_address: false,
            reuse_port: false,
            keep_alive: false,
            keep_alive_idle: KEEP_ALIVE_IDLE,
            receive_buffer: buffer,
            send_buffer: buffer,
            time_to_live: 64,
            broadcast: false,
            only_v6: false,
            linger: None,
        }
    }

    /// Sets one, for a socket of this family and kind.
    pub(crate) fn set(
        &mut self,
        family: Family,
        kind: SocketKind,
        bound: bool,
        option: SocketOption,
    ) -> Result<(), Errno> {
        if !knows(family, kind, name_of(&option)) {
            return Err(if family == Family::Unix { libc::EOPNOTSUPP } else { libc::ENOPROTOOPT });
        }
        match option {
            SocketOption::NoDelay(on) => self.no_delay = on,
            SocketOption::ReuseAddress(on) => self.reuse_address = on,
            SocketOption::ReusePort(on) if on && family == Family::Unix => return Err(libc::EOPNOTSUPP),
            SocketOption::ReusePort(on) => self.reuse_port = on,
            SocketOption::KeepAlive(None) => self.keep_alive = false,
            SocketOption::KeepAlive(Some(idle)) => {
                // Two calls to the kernel: the first one stays when the second is refused.
                self.keep_alive = true;
                return self.set_idle(family, kind, idle);
            }
            SocketOption::ReceiveBuffer(bytes) => self.receive_buffer = granted(bytes, RECEIVE_BUFFER_BYTES_MIN),
            SocketOption::SendBuffer(bytes) => self.send_buffer = granted(bytes, SEND_BUFFER_BYTES_MIN),
            SocketOption::TimeToLive(hops) if !(1..=255).contains(&hops) => return Err(libc::EINVAL),
            SocketOption::TimeToLive(hops) => self.time_to_live = hops,
            SocketOption::Broadcast(on) => self.broadcast = on,
            SocketOption::OnlyV6(_) if bound => return Err(libc::EINVAL),
            SocketOption::OnlyV6(on) => self.only_v6 = on,
            SocketOption::Linger(span) => self.linger = span.map(|span| whole_seconds(span.min(LINGER_MAX))),
            SocketOption::Error(_) => return Err(libc::EINVAL),
        }
        Ok(())
    }

    fn set_idle(&mut self, family: Family, kind: SocketKind, idle: Duration) -> Result<(), Errno> {
        if !is_tcp(family, kind) {
            return Err(if family == Family::Unix { libc::EOPNOTSUPP } else { libc::ENOPROTOOPT });
        }
        if !KEEP_ALIVE_SECONDS.contains(&idle.as_secs()) {
            return Err(libc::EINVAL);
        }
        self.keep_alive_idle = whole_seconds(idle);
        Ok(())
    }

    /// Reads one, except the pending error, which is the socket's to tell.
    pub(crate) fn get(&self, family: Family, kind: SocketKind, name: SocketOptionName) -> Result<SocketOption, Errno> {
        // Linux has two words for it.
        let unknown = if family == Family::V6 { libc::ENOPROTOOPT } else { libc::EOPNOTSUPP };
        if !knows(family, kind, name) {
            return Err(unknown);
        }
        Ok(match name {
            SocketOptionName::NoDelay => SocketOption::NoDelay(self.no_delay),
            SocketOptionName::ReuseAddress => SocketOption::ReuseAddress(self.reuse_address),
            SocketOptionName::ReusePort => SocketOption::ReusePort(self.reuse_port),
            SocketOptionName::KeepAlive if !self.keep_alive => SocketOption::KeepAlive(None),
            SocketOptionName::KeepAlive if !is_tcp(family, kind) => return Err(unknown),
            SocketOptionName::KeepAlive => SocketOption::KeepAlive(Some(self.keep_alive_idle)),
            SocketOptionName::ReceiveBuffer => SocketOption::ReceiveBuffer(self.receive_buffer),
            SocketOptionName::SendBuffer => SocketOption::SendBuffer(self.send_buffer),
            SocketOptionName::TimeToLive => SocketOption::TimeToLive(self.time_to_live),
            SocketOptionName::Broadcast => SocketOption::Broadcast(self.broadcast),
            SocketOptionName::OnlyV6 => SocketOption::OnlyV6(self.only_v6),
            SocketOptionName::Linger => SocketOption::Linger(self.linger),
            SocketOptionName::Error => SocketOption::Error(0),
        })
    }
}

fn whole_seconds(span: Duration) -> Duration {
    Duration::from_secs(span.as_secs())
}

fn granted(bytes: usize, least: usize) -> usize {
    (bytes.min(BUFFER_BYTES_LIMIT) * 2).max(least)
}

fn name_of(option: &SocketOption) -> SocketOptionName {
    match option {
        SocketOption::NoDelay(_) => SocketOptionName::NoDelay,
        SocketOption::ReuseAddress(_) => SocketOptionName::ReuseAddress,
        SocketOption::ReusePort(_) => SocketOptionName::ReusePort,
        SocketOption::KeepAlive(_) => SocketOptionName::KeepAlive,
        SocketOption::ReceiveBuffer(_) => SocketOptionName::ReceiveBuffer,
        SocketOption::SendBuffer(_) => SocketOptionName::SendBuffer,
        SocketOption::TimeToLive(_) => SocketOptionName::TimeToLive,
        SocketOption::Broadcast(_) => SocketOptionName::Broadcast,
        SocketOption::OnlyV6(_) => SocketOptionName::OnlyV6,
        SocketOption::Linger(_) => SocketOptionName::Linger,
        SocketOption::Error(_) => SocketOptionName::Error,
    }
}

fn is_tcp(family: Family, kind: SocketKind) -> bool {
    family != Family::Unix && kind == SocketKind::Stream
}

/// Whether sockets of this sort have the option.
fn knows(family: Family, kind: SocketKind, name: SocketOptionName) -> bool {
    match name {
        SocketOptionName::NoDelay => is_tcp(family, kind),
        SocketOptionName::OnlyV6 => family == Family::V6,
        SocketOptionName::TimeToLive => family != Family::Unix,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_doubled_within_their_limits() {
        let mut options = Options::new(Family::V4);
        let mut ask = |bytes| {
            options.set(Family::V4, SocketKind::Stream, false, SocketOption::ReceiveBuffer(bytes)).unwrap();
            options.receive_buffer
        };
        assert_eq!((ask(0), ask(10_000), ask(usize::MAX)), (2_304, 20_000, 425_984));
    }

    #[test]
    fn sockets_know_only_their_own_options() {
        let options = Options::new(Family::V4);
        let ask = |family, kind, name| options.get(family, kind, name);
        assert!(ask(Family::V4, SocketKind::Stream, SocketOptionName::NoDelay).is_ok());
        assert_eq!(ask(Family::V4, SocketKind::Datagram, SocketOptionName::NoDelay), Err(libc::EOPNOTSUPP));
        assert_eq!(ask(Family::Unix, SocketKind::Stream, SocketOptionName::NoDelay), Err(libc::EOPNOTSUPP));
    }
}
