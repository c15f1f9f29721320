//! Names to addresses.
//!
//! The system's resolver waits in the calling thread, so it runs as a job on the worker pool while the fiber parks.
//! The simulated kernel has no name servers: there `localhost` is 127.0.0.1, a host of the world has the name it was
//! made with, and every other name is unknown, so that a run does not depend on the host it runs on.

use std::net::{SocketAddr, ToSocketAddrs};

use wo_runtime::error::{IoError, IoResult, OpKind, Stage, errno};
use wo_runtime::fiber;
use wo_runtime::plane::ops::Job;

use crate::addr::Target;
use crate::option::with_kernel;

/// The addresses of `target`, at least one, in the order in which to try them.
pub(crate) async fn resolve(target: Target) -> IoResult<Vec<SocketAddr>> {
    match target {
        Target::One(address) => Ok(vec![address]),
        Target::Several(addresses) => Ok(addresses),
        Target::Name { host, port } => look_up(host, port).await,
    }
}

async fn look_up(host: String, port: u16) -> IoResult<Vec<SocketAddr>> {
    let bare = host.trim_end_matches('.');
    if let Some(found) = with_kernel(OpKind::Resolve, |kernel| Ok(kernel.simulated_hosts(bare)))? {
        if found.is_empty() {
            let why = "no host of the simulated world has this name; give one that World::host made, or an address";
            return Err(unknown(&host, port, why));
        }
        return Ok(found.into_iter().map(|ip| SocketAddr::from((ip, port))).collect());
    }
    let name = host.clone();
    let job = Job::new(move || (name.as_str(), port).to_socket_addrs().map(Vec::from_iter));
    match fiber::verb(job).await {
        Ok(Ok(Ok(addresses))) if !addresses.is_empty() => Ok(interleaved(addresses)),
        Ok(Ok(Ok(_))) => Err(unknown(&host, port, "the name has no address")),
        Ok(Ok(Err(error))) => Err(refused(&host, port, &error)),
        Ok(Err(_panic)) => Err(IoError::new(errno::EIO, OpKind::Resolve, Stage::Completion)
            .with_context(format!("{host}:{port}: the resolver panicked"))),
        Err(error) => Err(IoError::new(error.errno(), OpKind::Resolve, error.stage())
            .with_context(format!("{host}:{port}: {}", error.context()))),
    }
}

fn unknown(host: &str, port: u16, why: &str) -> IoError {
    // The resolver's errors are no errno of the system.
    IoError::new(0, OpKind::Resolve, Stage::Completion).with_context(format!("{host}:{port}: {why}"))
}

fn refused(host: &str, port: u16, error: &std::io::Error) -> IoError {
    match error.raw_os_error() {
        Some(errno) => IoError::new(errno, OpKind::Resolve, Stage::Completion).with_context(format!("{host}:{port}")),
        None => unknown(
            host,
            port,
            &format!(
                "{error}; check the name, the host's resolver (/etc/resolv.conf), and whether the process has \
                 descriptors left (`ulimit -n`)"
            ),
        ),
    }
}

/// The resolver's order, with the families taking turns, so that a host with one dead family is reached soon.
fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (same, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let turns = same.len().max(other.len());
    let (mut same, mut other) = (same.into_iter(), other.into_iter());
    (0..turns).flat_map(|_| [same.next(), other.next()]).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::interleaved;

    #[test]
    fn families_take_turns_beginning_with_the_resolvers_choice() {
        let list = |text: &[&str]| text.iter().map(|address| address.parse().unwrap()).collect::<Vec<_>>();
        assert_eq!(
            interleaved(list(&["[::1]:1", "[::2]:1", "[::3]:1", "10.0.0.1:1"])),
            list(&["[::1]:1", "10.0.0.1:1", "[::2]:1", "[::3]:1"])
        );
        assert_eq!(interleaved(list(&["10.0.0.1:1", "10.0.0.2:1"])), list(&["10.0.0.1:1", "10.0.0.2:1"]));
    }
}
