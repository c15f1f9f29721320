//! What may stand for an address, and how text becomes one.
//!
//! Literals are read on the spot and never wait. A name is only checked for what a name may look like; it is looked
//! up when the verb runs. Text that is neither is refused with the text and what was expected, and never sent to a
//! name server.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use wo_runtime::error::{IoError, IoResult, OpKind, Stage, errno};
use wo_runtime::plane::SocketAddress;

/// The longest name the name system knows, in bytes.
const NAME_BYTES_MAX: usize = 253;

/// What stands for one or several internet addresses.
///
/// That is a [`SocketAddr`], a host with a port (`("localhost", 80)`, `(Ipv4Addr::LOCALHOST, 80)`), text like
/// `"127.0.0.1:80"`, `"[::1]:80"` or `"example.org:80"`, or a slice of addresses to try in turn.
///
/// # Errors
///
/// A verb given text that is no address answers EINVAL with the text and what was expected; a name that cannot be
/// looked up, an error without errno that says so.
/// # Examples
///
/// ```
/// use std::net::Ipv4Addr;
/// use wo::net::{TcpListener, TcpStream};
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
///     let port = listener.local_addr().port();
///     TcpStream::connect(("127.0.0.1", port))?;
///     TcpStream::connect(format!("127.0.0.1:{port}"))?;
///     let error = TcpStream::connect("127.0.0.1").unwrap_err();
///     assert!(error.to_string().contains("the port is missing"));
///     Ok(())
/// }
/// ```
pub trait ToAddrs: sealed::ToAddrs {}

impl<T: sealed::ToAddrs + ?Sized> ToAddrs for T {}

/// What stands for a Unix socket's address: a path, or a [`SocketAddress`] for a name in Linux's abstract namespace.
/// # Examples
///
/// ```
/// use wo::net::{UnixListener, UnixStream};
/// use wo::plane::addr::SocketAddress;
///
/// #[wo::main]
/// fn main() -> wo::IoResult<()> {
///     let name = format!("wo-example-{}", std::process::id());
///     let address = SocketAddress::Abstract(name.into_bytes());
///     let listener = UnixListener::bind(&address)?;
///     let client = UnixStream::connect(&address)?;
///     let (server, _) = listener.accept()?;
///     client.write_all(b"hello")?;
///     let mut word = [0; 5];
///     server.read_exact(&mut word)?;
///     Ok(())
/// }
/// ```
pub trait ToUnixAddr: sealed::ToUnixAddr {}

impl<T: sealed::ToUnixAddr + ?Sized> ToUnixAddr for T {}

/// What an address turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One address.
    One(SocketAddr),
    /// Several, to be tried in this order.
    Several(Vec<SocketAddr>),
    /// A name to look up.
    Name { host: String, port: u16 },
}

/// `host:port`.
fn read(text: &str) -> IoResult<Target> {
    if let Ok(address) = text.parse() {
        return Ok(Target::One(address));
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(bad(text, "the port is missing: expected \"host:port\", like \"127.0.0.1:80\""));
    };
    let Ok(port) = port.parse() else {
        return Err(bad(text, "the port is no number from 0 to 65535: expected \"host:port\", like \"127.0.0.1:80\""));
    };
    if let Some(inside) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        // An interface by name is no literal: `[fe80::1%eth0]` is for the system to read.
        return match inside.split_once('%') {
            Some((ip, scope)) if ip.parse::<Ipv6Addr>().is_ok() && !scope.is_empty() => {
                Ok(Target::Name { host: inside.to_owned(), port })
            }
            _ => Err(bad(text, "an IPv6 address stands in the brackets, like \"[::1]:80\"")),
        };
    }
    if host.parse::<Ipv6Addr>().is_ok() {
        return Err(bad(text, "an IPv6 address stands in brackets, like \"[::1]:80\""));
    }
    host_and_port(host, port, text)
}

fn host_and_port(host: &str, port: u16, text: &str) -> IoResult<Target> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(Target::One(SocketAddr::new(ip, port)));
    }
    if host.is_empty() {
        return Err(bad(text, "the host is missing: write \"0.0.0.0\" or \"[::]\" for every address of this host"));
    }
    if host.len() > NAME_BYTES_MAX {
        return Err(bad(text, "a host's name has at most 253 bytes"));
    }
    if let Some(wrong) = host.chars().find(|c| c.is_ascii_control() || " \t/:[]@?#%\\\"<>".contains(*c)) {
        return Err(bad(text, &format!("a host's name holds no {wrong:?}: expected \"host:port\"")));
    }
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad(text, "an IPv4 address is four numbers from 0 to 255, like \"127.0.0.1\""));
    }
    Ok(Target::Name { host: host.to_owned(), port })
}

fn bad(text: &str, expected: &str) -> IoError {
    IoError::new(errno::EINVAL, OpKind::Resolve, Stage::Submit).with_context(format!("{text:?}: {expected}"))
}

/// A path as an address; one that begins with a zero byte is a name in the abstract namespace, as the kernel has it.
fn path_address(path: &Path) -> IoResult<SocketAddress> {
    match path.as_os_str().as_bytes() {
        [] => Err(IoError::new(errno::EINVAL, OpKind::Resolve, Stage::Submit)
            .with_context("the path of a Unix socket is empty: expected one like \"/run/app.sock\"")),
        [0, name @ ..] => Ok(SocketAddress::Abstract(name.to_vec())),
        // The kernel would take what stands before it for the whole path.
        bytes if bytes.contains(&0) => Err(bad(&path.to_string_lossy(), "a path holds no zero byte but a leading one")),
        _ => Ok(SocketAddress::Unix(path.to_path_buf())),
    }
}

pub(crate) mod sealed {
    use super::{IoResult, SocketAddress, Target};

    #[diagnostic::on_unimplemented(
        message = "`{Self}` stands for no internet address",
        label = "expected text like \"127.0.0.1:80\", a (host, port) pair, a `SocketAddr` or a slice of them"
    )]
    pub trait ToAddrs {
        /// What it stands for; nothing is looked up here.
        #[doc(hidden)]
        fn target(&self) -> IoResult<Target>;
    }

    #[diagnostic::on_unimplemented(
        message = "`{Self}` stands for no Unix socket's address",
        label = "expected a path, or a `SocketAddress`"
    )]
    pub trait ToUnixAddr {
        /// The address.
        #[doc(hidden)]
        fn unix_address(&self) -> IoResult<SocketAddress>;
    }
}

macro_rules! literal {
    ($($type:ty: $self:ident => $address:expr;)*) => {$(
        impl sealed::ToAddrs for $type {
                fn target(&$self) -> IoResult<Target> {
                Ok(Target::One($address))
            }
        }
    )*};
}

literal! {
    SocketAddr: self => *self;
    SocketAddrV4: self => SocketAddr::V4(*self);
    SocketAddrV6: self => SocketAddr::V6(*self);
    (IpAddr, u16): self => SocketAddr::from(*self);
    (Ipv4Addr, u16): self => SocketAddr::from(*self);
    (Ipv6Addr, u16): self => SocketAddr::from(*self);
}

macro_rules! to_addrs {
    ($($type:ty: $self:ident => $target:expr;)*) => {$(
        impl sealed::ToAddrs for $type {
                fn target(&$self) -> IoResult<Target> {
                $target
            }
        }
    )*};
}

to_addrs! {
    str: self => read(self);
    String: self => read(self);
    (&str, u16): self => host_and_port(self.0, self.1, self.0);
    (String, u16): self => host_and_port(&self.0, self.1, &self.0);
    [SocketAddr]: self => match self {
        [] => Err(IoError::new(errno::EINVAL, OpKind::Resolve, Stage::Submit)
            .with_context("the slice of addresses is empty: expected at least one")),
        [one] => Ok(Target::One(*one)),
        several => Ok(Target::Several(several.to_vec())),
    };
    Vec<SocketAddr>: self => self.as_slice().target();
}

impl<const N: usize> sealed::ToAddrs for [SocketAddr; N] {
    fn target(&self) -> IoResult<Target> {
        self.as_slice().target()
    }
}

impl<T: sealed::ToAddrs + ?Sized> sealed::ToAddrs for &T {
    fn target(&self) -> IoResult<Target> {
        (**self).target()
    }
}

macro_rules! paths {
    ($($type:ty),*) => {$(
        impl sealed::ToUnixAddr for $type {
            fn unix_address(&self) -> IoResult<SocketAddress> {
                path_address(self.as_ref())
            }
        }
    )*};
}

paths!(Path, PathBuf, str, String, OsStr);

impl sealed::ToUnixAddr for SocketAddress {
    fn unix_address(&self) -> IoResult<SocketAddress> {
        match self {
            SocketAddress::Ip(address) => Err(IoError::new(errno::EINVAL, OpKind::Resolve, Stage::Submit)
                .with_context(format!("{address}: expected a Unix socket's path"))),
            unix => Ok(unix.clone()),
        }
    }
}

impl<T: sealed::ToUnixAddr + ?Sized> sealed::ToUnixAddr for &T {
    fn unix_address(&self) -> IoResult<SocketAddress> {
        (**self).unix_address()
    }
}

#[cfg(test)]
mod tests {
    use super::sealed::{ToAddrs, ToUnixAddr};
    use super::*;

    fn one(text: &str) -> Target {
        Target::One(text.parse().unwrap())
    }

    fn name(host: &str, port: u16) -> Target {
        Target::Name { host: host.to_owned(), port }
    }

    #[test]
    fn literals_are_read_on_the_spot() {
        assert_eq!("127.0.0.1:80".target().unwrap(), one("127.0.0.1:80"));
        assert_eq!("[::1]:80".target().unwrap(), one("[::1]:80"));
        assert_eq!(("::1", 80).target().unwrap(), one("[::1]:80"));
        assert_eq!((Ipv4Addr::LOCALHOST, 80).target().unwrap(), one("127.0.0.1:80"));
        assert_eq!(String::from("0.0.0.0:0").target().unwrap(), one("0.0.0.0:0"));
        let address: SocketAddr = "10.0.0.1:1".parse().unwrap();
        assert_eq!([address].target().unwrap(), Target::One(address));
        assert_eq!([address; 2].target().unwrap(), Target::Several(vec![address; 2]));
    }

    #[test]
    fn names_are_left_to_be_looked_up() {
        assert_eq!("example.org:443".target().unwrap(), name("example.org", 443));
        assert_eq!(("localhost", 80).target().unwrap(), name("localhost", 80));
        assert_eq!("a_b-c.example.:1".target().unwrap(), name("a_b-c.example.", 1));
        assert_eq!("münchen.example:80".target().unwrap(), name("münchen.example", 80));
        assert_eq!("[fe80::1%eth0]:80".target().unwrap(), name("fe80::1%eth0", 80));
    }

    #[test]
    fn bad_text_is_refused_with_the_text_and_what_was_expected() {
        let long = format!("{}:80", "a".repeat(254));
        let cases = [
            ("", "port is missing"),
            ("localhost", "port is missing"),
            ("localhost:", "no number from 0 to 65535"),
            ("localhost:http", "no number from 0 to 65535"),
            ("localhost:65536", "no number from 0 to 65535"),
            ("localhost:-1", "no number from 0 to 65535"),
            (":80", "host is missing"),
            ("::1:80", "in brackets"),
            ("[::1:80", "no '['"),
            ("[localhost]:80", "in the brackets"),
            ("[]:80", "in the brackets"),
            ("256.0.0.1:80", "four numbers"),
            ("1.2.3:80", "four numbers"),
            ("http://example.org:80", "no ':'"),
            ("exa mple.org:80", "no ' '"),
            ("user@example.org:80", "no '@'"),
            ("nul\0.example:80", "no '\\0'"),
            (long.as_str(), "253 bytes"),
        ];
        for (text, expected) in cases {
            let error = text.target().expect_err(text);
            assert_eq!(error.errno(), errno::EINVAL, "{text:?}");
            assert!(error.to_string().contains(&format!("{text:?}")), "{error} names {text:?}");
            assert!(error.to_string().contains(expected), "{error} says {expected:?}");
        }
        assert_eq!(Vec::new().target().expect_err("no address").errno(), errno::EINVAL);
    }

    #[test]
    fn unix_addresses() {
        assert_eq!("/run/app".unix_address().unwrap(), SocketAddress::Unix("/run/app".into()));
        assert_eq!("\0app".unix_address().unwrap(), SocketAddress::Abstract(b"app".to_vec()));
        assert_eq!("".unix_address().expect_err("empty").errno(), errno::EINVAL);
        let ip = SocketAddress::Ip("127.0.0.1:1".parse().unwrap());
        assert_eq!(ip.unix_address().expect_err("an internet address").errno(), errno::EINVAL);
    }
}
