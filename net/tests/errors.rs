//! Errors name what was tried, on what, and what to do about it.

mod common;

use std::future::Future;
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::time::Duration;

use common::{on_every_backend, on_the_hosts_backends, tcp_pair};
use wo_net::{ListenOptions, TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream};
use wo_runtime::error::{IoError, OpKind, errno};
use wo_runtime::shard::Builder;

#[track_caller]
fn says(error: &IoError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{text:?} says {part:?}");
    }
}

#[test]
fn refused() {
    on_every_backend(|| async {
        let address = TcpListener::bind("127.0.0.1:0").await?.local_addr();
        let error = TcpStream::connect(address).await.unwrap_err();
        assert_eq!((error.errno(), error.op()), (errno::ECONNREFUSED, OpKind::Connect));
        says(&error, &["connect", &address.to_string(), "nothing listens there"]);
        Ok(())
    });
}

#[test]
fn in_use() {
    on_every_backend(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr();
        let error = TcpListener::bind(address).await.unwrap_err();
        assert_eq!(error.errno(), errno::EADDRINUSE);
        says(&error, &[&address.to_string(), "the port is in use", "choose another port"]);
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        let error = UdpSocket::bind(socket.local_addr()?).await.unwrap_err();
        assert_eq!(error.errno(), errno::EADDRINUSE);

        let shared = ListenOptions { reuse_port: true, ..ListenOptions::default() };
        let one = TcpListener::bind_with("127.0.0.1:0", shared).await?;
        TcpListener::bind_with(one.local_addr(), shared).await?;
        Ok(())
    });
}

#[test]
fn a_path_too_long_for_a_socket_is_named_once() {
    on_every_backend(|| async {
        let path = format!("/tmp/{}", "long".repeat(40));
        for error in [
            UnixListener::bind(&path).await.map(drop).unwrap_err(),
            UnixStream::connect(&path).await.map(drop).unwrap_err(),
        ] {
            assert_eq!(error.errno(), errno::ENAMETOOLONG);
            says(&error, &[&path, "107 bytes"]);
            assert_eq!(error.to_string().matches(&path).count(), 1, "{error}");
        }
        Ok(())
    });
}

#[test]
fn an_address_that_is_not_this_hosts() {
    on_every_backend(|| async {
        let error = TcpListener::bind("192.0.2.1:0").await.unwrap_err();
        assert_eq!(error.errno(), errno::EADDRNOTAVAIL);
        says(&error, &["bind 192.0.2.1:0", "no interface of this host"]);
        Ok(())
    });
}

#[test]
fn text_that_is_no_address() {
    on_every_backend(|| async {
        for error in [
            TcpStream::connect("localhost").await.map(drop).unwrap_err(),
            TcpStream::connect_by("localhost", Duration::from_secs(1)).await.map(drop).unwrap_err(),
            TcpListener::bind("localhost").await.map(drop).unwrap_err(),
            UdpSocket::bind("localhost").await.map(drop).unwrap_err(),
        ] {
            assert_eq!(error.errno(), errno::EINVAL);
            says(&error, &["\"localhost\"", "the port is missing", "host:port"]);
        }
        let none: [SocketAddr; 0] = [];
        assert_eq!(TcpStream::connect(none).await.unwrap_err().errno(), errno::EINVAL);
        Ok(())
    });
}

#[test]
fn a_name_nobody_knows() {
    on_every_backend(|| async {
        let error = TcpStream::connect("no-such-host.invalid:80").await.unwrap_err();
        assert_eq!(error.op(), OpKind::Resolve);
        says(&error, &["resolve no-such-host.invalid:80"]);
        Ok(())
    });
}

#[test]
fn a_peer_that_has_gone() {
    on_every_backend(|| async {
        let (client, server) = tcp_pair().await?;
        // Closing with unread bytes resets the connection.
        client.write_all(b"unread").await?;
        let peer = client.peer();
        server.close().await?;
        let error = loop {
            if let Err(error) = client.write_all(&[0; 1000]).await {
                break error;
            }
        };
        assert!(matches!(error.errno(), errno::EPIPE | errno::ECONNRESET), "{error}");
        says(&error, &["send", &peer]);

        let (client, server) = tcp_pair().await?;
        server.shutdown(Shutdown::Write).await?;
        let error = server.send_all(vec![1; 10]).await.0.unwrap_err();
        assert_eq!(error.errno(), errno::EPIPE, "{error}");
        drop(client);
        Ok(())
    });
}

#[test]
fn a_reset_after_some_bytes() {
    on_every_backend(|| async {
        let (client, server) = tcp_pair().await?;
        client.write_all(b"0123456789").await?;
        client.set_linger(Some(Duration::ZERO))?;
        client.close().await?;
        let mut buf = [0; 10];
        server.read_exact(&mut buf).await?;
        assert_eq!(&buf, b"0123456789");
        let error = server.read(&mut buf).await.unwrap_err();
        assert_eq!(error.errno(), errno::ECONNRESET);
        says(&error, &["recv", &server.peer()]);
        Ok(())
    });
}

#[test]
fn a_buffer_without_room_is_no_end_of_file() {
    on_every_backend(|| async {
        let (client, server) = tcp_pair().await?;
        client.write_all(b"x").await?;
        let error = server.recv(Vec::new()).await.0.unwrap_err();
        assert_eq!(error.errno(), errno::EINVAL);
        says(&error, &["no room", "with_capacity"]);
        assert_eq!(server.read(&mut []).await?, 0);
        assert_eq!(server.read(&mut [0; 2]).await?, 1, "nothing was lost");
        assert_eq!(server.write(&[]).await?, 0);
        server.write_all(&[]).await?;
        server.send_all("").await.0?;
        server.read_exact(&mut []).await
    });
}

#[test]
fn a_port_of_the_systems() {
    on_the_hosts_backends(|| async {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, 1)).await {
            // As root, or where the sysctl allows it.
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.errno(), errno::EACCES);
                says(&error, &["127.0.0.1:1", "below 1024", "CAP_NET_BIND_SERVICE"]);
            }
        }
        Ok(())
    });
}

#[test]
fn outside_of_a_shard_every_call_says_so() {
    let error = wo_net::UnixStream::pair().unwrap_err();
    assert_eq!(error.errno(), errno::ENXIO);
    says(&error, &["no wo shard runs on this thread"]);
    let (here, _there) = Builder::new().run(|| async { wo_net::UnixStream::pair() }).unwrap().unwrap();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Err(error)) = std::pin::pin!(here.write_all(b"x")).poll(&mut cx) else {
        panic!("it neither waits nor writes");
    };
    assert_eq!(error.errno(), errno::ENXIO);
    says(&error, &["no wo shard runs on this thread"]);
}
