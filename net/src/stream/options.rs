//! Options of a stream.

use std::time::Duration;

use wo_runtime::error::IoResult;
use wo_runtime::plane::backend::{SocketOption, SocketOptionName};

use crate::explain;
use crate::family::{Family, Inet};
use crate::option;
use crate::stream::Stream;

/// The longest span SO_LINGER takes: the kernel keeps the seconds in an int, and more of them would wrap.
const LINGER_MAX: Duration = Duration::from_secs(i32::MAX as u64);

/// The kernel counts these spans in seconds, and for it a part of one would be zero, which means something else.
fn whole_seconds(span: Duration) -> Duration {
    Duration::from_secs(span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0)))
}

impl<F: Family> Stream<F> {
    /// Sets how many bytes the kernel may hold for reading. The kernel may choose another number: Linux doubles it.
    ///
    /// # Errors
    ///
    /// What the kernel answered, or ENXIO outside of a shard; so for every option.
    pub fn set_recv_buffer_size(&self, bytes: usize) -> IoResult<()> {
        self.set(SocketOption::ReceiveBuffer(bytes))
    }

    /// How many bytes the kernel may hold for reading.
    pub fn recv_buffer_size(&self) -> IoResult<usize> {
        self.get(SocketOptionName::ReceiveBuffer, |option| match option {
            SocketOption::ReceiveBuffer(bytes) => Some(bytes),
            _ => None,
        })
    }

    /// Sets how many bytes the kernel may hold for sending. The kernel may choose another number: Linux doubles it.
    pub fn set_send_buffer_size(&self, bytes: usize) -> IoResult<()> {
        self.set(SocketOption::SendBuffer(bytes))
    }

    /// How many bytes the kernel may hold for sending.
    pub fn send_buffer_size(&self) -> IoResult<usize> {
        self.get(SocketOptionName::SendBuffer, |option| match option {
            SocketOption::SendBuffer(bytes) => Some(bytes),
            _ => None,
        })
    }

    fn set(&self, option: SocketOption) -> IoResult<()> {
        option::set(&self.fd, option).map_err(|error| explain::option(error, &self.peer, option))
    }

    fn get<R>(&self, name: SocketOptionName, value: impl FnOnce(SocketOption) -> Option<R>) -> IoResult<R> {
        option::get(&self.fd, name, value).map_err(|error| explain::on(error, &self.peer))
    }
}

impl Stream<Inet> {
    /// Sends small segments at once (TCP_NODELAY), or lets the kernel gather them. Streams are born with it on.
    pub fn set_nodelay(&self, on: bool) -> IoResult<()> {
        self.set(SocketOption::NoDelay(on))
    }

    /// Whether small segments are sent at once.
    pub fn nodelay(&self) -> IoResult<bool> {
        self.get(SocketOptionName::NoDelay, |option| match option {
            SocketOption::NoDelay(on) => Some(on),
            _ => None,
        })
    }

    /// Sets what closing does with unsent bytes (SO_LINGER). None lets the kernel go on in the background; zero throws
    /// them away and resets the connection; any other span, taken up to whole seconds, makes the close itself wait, and
    /// with it the shard that closes.
    pub fn set_linger(&self, span: Option<Duration>) -> IoResult<()> {
        self.set(SocketOption::Linger(span.map(|span| whole_seconds(span).min(LINGER_MAX))))
    }

    /// How long closing waits for unsent bytes.
    pub fn linger(&self) -> IoResult<Option<Duration>> {
        self.get(SocketOptionName::Linger, |option| match option {
            SocketOption::Linger(span) => Some(span),
            _ => None,
        })
    }

    /// Probes an idle peer after this long, whole seconds, or never (SO_KEEPALIVE).
    pub fn set_keepalive(&self, idle: Option<Duration>) -> IoResult<()> {
        self.set(SocketOption::KeepAlive(idle.map(whole_seconds)))
    }

    /// After how long an idle peer is probed.
    pub fn keepalive(&self) -> IoResult<Option<Duration>> {
        self.get(SocketOptionName::KeepAlive, |option| match option {
            SocketOption::KeepAlive(idle) => Some(idle),
            _ => None,
        })
    }

    /// Sets how many hops an IPv4 packet may take (IP_TTL).
    pub fn set_ttl(&self, hops: u32) -> IoResult<()> {
        self.set(SocketOption::TimeToLive(hops))
    }

    /// How many hops an IPv4 packet may take.
    pub fn ttl(&self) -> IoResult<u32> {
        self.get(SocketOptionName::TimeToLive, |option| match option {
            SocketOption::TimeToLive(hops) => Some(hops),
            _ => None,
        })
    }
}
