//! Addresses of sockets, in one type for every family.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr};

use crate::error::{IoError, IoResult, OpKind, Stage, errno};

/// Where a socket is: an IP address and port, a path, or nowhere.
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SocketAddress {
    /// An IPv4 or IPv6 address and port.
    Ip(SocketAddr),
    /// A Unix socket at a path.
    Unix(PathBuf),
    /// A Unix socket in Linux's abstract namespace: a name that is no file.
    Abstract(Vec<u8>),
    /// A Unix socket without a name.
    Unnamed,
}

impl SocketAddress {
    /// The IP address and port, if it is one.
    pub fn as_ip(&self) -> Option<SocketAddr> {
        match self {
            SocketAddress::Ip(address) => Some(*address),
            _ => None,
        }
    }

    /// The path, if it is a Unix socket's.
    pub fn as_path(&self) -> Option<&Path> {
        match self {
            SocketAddress::Unix(path) => Some(path),
            _ => None,
        }
    }

    /// The family of sockets that can use it.
    pub fn domain(&self) -> Domain {
        match self {
            SocketAddress::Ip(address) => Domain::for_address(*address),
            _ => Domain::UNIX,
        }
    }

    /// The address in the kernel's layout; a path too long for it is refused, naming the path.
    pub(crate) fn to_kernel(&self, op: OpKind) -> IoResult<SockAddr> {
        let unix = |path: &Path| {
            SockAddr::unix(path).map_err(|_| {
                IoError::new(errno::ENAMETOOLONG, op, Stage::Submit).with_context(format!(
                    "{self}: a Unix socket's path has at most 107 bytes and no zero byte; use a shorter one"
                ))
            })
        };
        match self {
            SocketAddress::Ip(address) => Ok(SockAddr::from(*address)),
            SocketAddress::Unix(path) => unix(path),
            SocketAddress::Abstract(name) => {
                use std::os::unix::ffi::OsStrExt;
                let mut path = vec![0];
                path.extend_from_slice(name);
                unix(Path::new(std::ffi::OsStr::from_bytes(&path)))
            }
            SocketAddress::Unnamed => Err(IoError::new(errno::EINVAL, op, Stage::Submit)
                .with_context("an unnamed Unix socket has no address to reach it at")),
        }
    }

    /// The address the kernel wrote, if it is of a family known here.
    pub(crate) fn from_kernel(address: &SockAddr) -> Option<SocketAddress> {
        if let Some(ip) = address.as_socket() {
            return Some(SocketAddress::Ip(ip));
        }
        if !address.is_unix() {
            return None;
        }
        Some(if let Some(path) = address.as_pathname() {
            SocketAddress::Unix(path.to_path_buf())
        } else if let Some(name) = address.as_abstract_namespace() {
            SocketAddress::Abstract(name.to_vec())
        } else {
            SocketAddress::Unnamed
        })
    }
}

impl From<SocketAddr> for SocketAddress {
    fn from(address: SocketAddr) -> SocketAddress {
        SocketAddress::Ip(address)
    }
}

impl From<&Path> for SocketAddress {
    fn from(path: &Path) -> SocketAddress {
        SocketAddress::Unix(path.to_path_buf())
    }
}

/// `ip:port`, `unix:PATH`, `unix:@NAME` for an abstract name, `unix` without one.
impl fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketAddress::Ip(address) => address.fmt(f),
            SocketAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            SocketAddress::Abstract(name) => write!(f, "unix:@{}", name.escape_ascii()),
            SocketAddress::Unnamed => f.write_str("unix"),
        }
    }
}

impl fmt::Debug for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
