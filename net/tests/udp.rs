//! UDP as a user sees it.

mod common;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use common::{FOREVER, has_ipv6, numbered, on_every_backend, on_the_hosts_backends};
use wo_net::UdpSocket;
use wo_runtime::error::errno;

#[test]
fn datagrams_go_whole_and_name_their_sender() {
    on_every_backend(|| async {
        let here = UdpSocket::bind("127.0.0.1:0").await?;
        let there = UdpSocket::bind(("localhost", 0)).await?;
        let (sent, buf) = here.send_to(numbered(1200), there.local_addr()?).await;
        assert_eq!((sent?, buf.len()), (1200, 1200));
        assert_eq!(here.write_to(b"two", &there.local_addr()?).await?, 3);
        assert_eq!(here.send_to_by("three", there.local_addr()?, FOREVER).await.0?, Some(5));
        let (received, bytes) = there.recv_from(Vec::with_capacity(2000)).await;
        assert_eq!(received?, (1200, here.local_addr()?));
        assert_eq!(bytes, numbered(1200));
        let mut buf = [0; 8];
        assert_eq!(there.read_from(&mut buf).await?, (3, here.local_addr()?));
        assert_eq!(&buf[..3], b"two");
        assert_eq!(there.read_from_by(&mut buf, FOREVER).await?, Some((5, here.local_addr()?)));
        Ok(())
    });
}

#[test]
fn of_a_peer_with_several_addresses_one_of_the_sockets_family_is_taken() {
    on_every_backend(|| async {
        let here = UdpSocket::bind("127.0.0.1:0").await?;
        let there = UdpSocket::bind("127.0.0.1:0").await?;
        let port = there.local_addr()?.port();
        let both = [SocketAddr::from((Ipv6Addr::LOCALHOST, port)), SocketAddr::from((Ipv4Addr::LOCALHOST, port))];
        here.send_to("hello", &both[..]).await.0?;
        assert_eq!(there.recv(Vec::with_capacity(8)).await.1, b"hello");
        // None is: the first is tried.
        assert!(here.send_to("hello", &both[..1]).await.0.is_err());
        Ok(())
    });
}

#[test]
fn a_connected_socket_hears_its_peer_alone() {
    on_every_backend(|| async {
        let here = UdpSocket::bind("127.0.0.1:0").await?;
        let peer = UdpSocket::bind("127.0.0.1:0").await?;
        let stranger = UdpSocket::bind("127.0.0.1:0").await?;
        here.connect(peer.local_addr()?).await?;
        assert_eq!(here.peer_addr()?, peer.local_addr()?);
        stranger.write_to(b"psst", here.local_addr()?).await?;
        peer.write_to(b"hello", here.local_addr()?).await?;
        let (received, bytes) = here.recv(Vec::with_capacity(16)).await;
        assert_eq!((received?, bytes.as_slice()), (5, &b"hello"[..]));
        assert_eq!(here.send("one").await.0?, 3);
        assert_eq!(here.write(b"two").await?, 3);
        for expected in ["one", "two"] {
            let (received, bytes) = peer.recv_by(Vec::with_capacity(16), FOREVER).await;
            assert_eq!(received?, Some(3));
            assert_eq!(bytes, expected.as_bytes());
        }
        Ok(())
    });
}

#[test]
fn a_longer_datagram_is_cut_to_the_buffer() {
    on_every_backend(|| async {
        let here = UdpSocket::bind("127.0.0.1:0").await?;
        let there = UdpSocket::bind("127.0.0.1:0").await?;
        here.send_to("a long one", there.local_addr()?).await.0?;
        here.send_to("next", there.local_addr()?).await.0?;
        let (received, bytes) = there.recv_from(Vec::with_capacity(6)).await;
        assert_eq!((received?.0, bytes.as_slice()), (6, &b"a long"[..]));
        assert_eq!(there.recv(Vec::with_capacity(6)).await.1, b"next");
        Ok(())
    });
}

#[test]
fn empty_datagrams_arrive() {
    on_every_backend(|| async {
        let here = UdpSocket::bind("127.0.0.1:0").await?;
        let there = UdpSocket::bind("127.0.0.1:0").await?;
        assert_eq!(here.write_to(b"", there.local_addr()?).await?, 0);
        assert_eq!(there.recv_from(Vec::with_capacity(6)).await.0?, (0, here.local_addr()?));
        Ok(())
    });
}

#[test]
fn what_cannot_be_sent_says_why() {
    on_every_backend(|| async {
        let here = UdpSocket::bind("127.0.0.1:0").await?;
        let unconnected = here.send("to whom?").await.0.unwrap_err();
        assert!(matches!(unconnected.errno(), errno::EDESTADDRREQ | errno::ENOTCONN), "{unconnected}");
        assert!(unconnected.to_string().contains("connect it first"), "{unconnected}");
        let (too_long, buf) = here.send_to(vec![0; 70_000], here.local_addr()?).await;
        let too_long = too_long.unwrap_err();
        assert_eq!((too_long.errno(), buf.len()), (errno::EMSGSIZE, 70_000));
        assert!(too_long.to_string().contains("70000 bytes is too long"), "{too_long}");
        let bad = here.send_to("x", "nowhere").await.0.unwrap_err();
        assert_eq!(bad.errno(), errno::EINVAL);
        let no_room = here.recv_from(Vec::new()).await.0.unwrap_err();
        assert_eq!(no_room.errno(), errno::EINVAL, "{no_room}");
        Ok(())
    });
}

#[test]
fn the_unspecified_v6_address_takes_v4() {
    on_every_backend(|| async {
        if !has_ipv6().await {
            return Ok(());
        }
        let both = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).await?;
        let four = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        four.write_to(b"hi", (Ipv4Addr::LOCALHOST, both.local_addr()?.port())).await?;
        let mut buf = [0; 2];
        let (_, sender) = both.read_from(&mut buf).await?;
        let mapped = SocketAddr::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), four.local_addr()?.port());
        assert_eq!(sender, mapped);
        both.write_to(b"yo", sender).await?;
        assert_eq!(four.read_from(&mut buf).await?.0, 2);
        Ok(())
    });
}

#[test]
fn options() {
    on_every_backend(|| async {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        assert!(!socket.broadcast()?);
        socket.set_broadcast(true)?;
        assert!(socket.broadcast()?);
        socket.set_recv_buffer_size(10_000)?;
        assert!(socket.recv_buffer_size()? >= 10_000);
        socket.set_ttl(3)?;
        socket.close().await
    });
}

#[test]
fn a_closed_port_is_told_to_a_connected_socket() {
    // The simulated network loses such datagrams silently, as a firewall would.
    on_the_hosts_backends(|| async {
        let gone = UdpSocket::bind("127.0.0.1:0").await?.local_addr()?;
        let here = UdpSocket::bind("127.0.0.1:0").await?;
        here.connect(gone).await?;
        here.write(b"anybody?").await?;
        let (received, _) = here.recv_by(Vec::with_capacity(4), FOREVER).await;
        assert_eq!(received.unwrap_err().errno(), errno::ECONNREFUSED);
        Ok(())
    });
}

#[test]
fn a_refusal_names_the_remedy() {
    on_every_backend(|| async {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        let other_family = socket.send_to("?", "[::1]:9").await.0.unwrap_err();
        assert!(other_family.to_string().contains("bind a socket of the family of the peer"), "{other_family}");
        let no_port = socket.send_to("?", "127.0.0.1:0").await.0.unwrap_err();
        assert!(no_port.to_string().contains("no socket has port 0"), "{no_port}");
        let everybody = socket.send_to("?", "255.255.255.255:9").await.0.unwrap_err();
        assert!(everybody.to_string().contains("`set_broadcast`"), "{everybody}");
        let no_peer = socket.peer_addr().unwrap_err();
        assert!(no_peer.to_string().contains("connect it first"), "{no_peer}");
        for hops in [0, 256, u32::MAX] {
            let hops = socket.set_ttl(hops).unwrap_err();
            assert!(hops.to_string().contains("from 1 to 255 hops"), "{hops}");
        }
        Ok(())
    });
}
