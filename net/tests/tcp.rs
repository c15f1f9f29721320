//! TCP as a user sees it: bytes arrive whole and in order, halves close, addresses and options are what they were.

mod common;

use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::time::Duration;

use common::{FOREVER, has_ipv6, numbered, on_every_backend, on_the_simulated_backend, read_to_end, tcp_pair};
use wo_net::{ListenOptions, TcpListener, TcpStream};
use wo_runtime::error::errno;
use wo_runtime::fiber;
use wo_runtime::plane::buf::Slice;

#[test]
fn an_echo_through_every_kind_of_transfer() {
    on_every_backend(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr();
        let server = fiber::spawn(move || async move {
            let (stream, _) = listener.accept().await?;
            let mut buf = Vec::with_capacity(100);
            loop {
                let (received, back) = stream.recv(buf).await;
                if received? == 0 {
                    return stream.close().await;
                }
                let (sent, back) = stream.send_all(back).await;
                sent?;
                buf = back;
            }
        });
        let stream = TcpStream::connect(address).await?;
        let mut buf = [0; 5];

        stream.write_all(b"hello").await?;
        stream.read_exact(&mut buf).await?;
        assert_eq!(&buf, b"hello");

        let (sent, text) = stream.send("world").await;
        assert_eq!((sent?, text), (5, "world"));
        let (received, boxed) = stream.recv_exact(vec![0; 5].into_boxed_slice()).await;
        received?;
        assert_eq!(&*boxed, b"world");

        assert_eq!(stream.write(b"abc").await?, 3);
        let (received, part) = stream.recv_exact(Slice::new(b"____--".to_vec(), 1..4)).await;
        received?;
        assert_eq!(part.into_inner(), b"_abc--");

        stream.shutdown(Shutdown::Write).await?;
        assert_eq!(stream.read(&mut buf).await?, 0);
        server.join().await.unwrap()
    });
}

#[test]
fn partial_writes_go_on_where_they_stopped() {
    on_every_backend(|| async {
        let (client, server) = tcp_pair().await?;
        client.set_send_buffer_size(4096)?;
        let sent = numbered(3_000_001);
        let expected = [sent.clone(), sent.clone()].concat();
        let writer = fiber::spawn(move || async move {
            client.write_all(&sent).await?;
            let (result, sent) = client.send_all(sent).await;
            result?;
            assert_eq!(sent.len(), 3_000_001, "the buffer comes back whole");
            client.close().await
        });
        assert_eq!(read_to_end(&server).await?, expected);
        writer.join().await.unwrap()
    });
}

#[test]
fn an_exact_receive_gathers_small_pieces() {
    on_every_backend(|| async {
        let (client, server) = tcp_pair().await?;
        let bytes = numbered(200_000);
        let sent = bytes.clone();
        let writer = fiber::spawn(move || async move {
            for piece in sent.chunks(777) {
                client.write_all(piece).await?;
                fiber::yield_now().await?;
            }
            Ok::<_, wo_runtime::error::IoError>(client)
        });
        let mut borrowed = vec![0; 100_000];
        server.read_exact(&mut borrowed).await?;
        assert_eq!(borrowed, &bytes[..100_000]);
        let (received, owned) = server.recv_exact(vec![0; 100_000].into_boxed_slice()).await;
        received?;
        assert_eq!(&*owned, &bytes[100_000..]);
        drop(writer.join().await.unwrap()?);
        Ok(())
    });
}

#[test]
fn a_half_closed_connection_still_answers() {
    on_every_backend(|| async {
        let (client, server) = tcp_pair().await?;
        client.write_all(b"question").await?;
        client.shutdown(Shutdown::Write).await?;
        assert_eq!(read_to_end(&server).await?, b"question");
        let answer = numbered(1 << 16);
        let sent = answer.clone();
        let writer = fiber::spawn(move || async move {
            server.write_all(&sent).await?;
            server.close().await
        });
        assert_eq!(read_to_end(&client).await?, answer);
        writer.join().await.unwrap()?;
        match client.shutdown(Shutdown::Write).await {
            Ok(()) => {}
            Err(error) => assert_eq!(error.errno(), errno::ENOTCONN, "{error}"),
        }
        Ok(())
    });
}

#[test]
fn shutting_the_reading_half_ends_a_read_that_waits() {
    on_every_backend(|| async {
        let (_client, server) = tcp_pair().await?;
        let reader = server.clone();
        let waiting = fiber::spawn(move || async move { reader.read(&mut [0; 8]).await });
        fiber::yield_now().await?;
        server.shutdown(Shutdown::Read).await?;
        assert_eq!(waiting.join().await.unwrap()?, 0);
        Ok(())
    });
}

#[test]
fn a_clone_keeps_the_connection_open() {
    on_every_backend(|| async {
        let (client, server) = tcp_pair().await?;
        let twin = client.clone();
        client.close().await?;
        twin.write_all(b"still here").await?;
        let mut buf = [0; 10];
        server.read_exact(&mut buf).await?;
        assert_eq!(&buf, b"still here");
        twin.close().await?;
        assert_eq!(server.read(&mut buf).await?, 0);
        Ok(())
    });
}

#[test]
fn addresses() {
    on_every_backend(|| async {
        let (client, server) = tcp_pair().await?;
        assert_eq!(client.peer_addr(), server.local_addr()?);
        assert_eq!(server.peer_addr(), client.local_addr()?);
        assert_eq!(server.peer(), client.local_addr()?.to_string());
        assert_eq!(server.peer_addr().ip(), Ipv4Addr::LOCALHOST);
        assert!(format!("{server:?}").starts_with("TcpStream"), "{server:?}");
        Ok(())
    });
}

#[test]
fn everything_that_stands_for_an_address() {
    on_every_backend(|| async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr();
        let port = address.port();
        let text = format!("localhost:{port}");
        for stream in [
            TcpStream::connect(address).await?,
            TcpStream::connect(&address).await?,
            TcpStream::connect(("127.0.0.1", port)).await?,
            TcpStream::connect((address.ip(), port)).await?,
            TcpStream::connect(&text).await?,
            TcpStream::connect(text.as_str()).await?,
            TcpStream::connect((String::from("localhost"), port)).await?,
            TcpStream::connect(&[address][..]).await?,
        ] {
            let (accepted, peer) = listener.accept().await?;
            assert_eq!((accepted.local_addr()?, peer), (address, stream.local_addr()?));
        }
        Ok(())
    });
}

#[test]
fn options() {
    on_every_backend(|| async {
        let (client, server) = tcp_pair().await?;
        assert!(client.nodelay()?, "born with it");
        assert!(server.nodelay()?, "inherited from the listener");
        client.set_nodelay(false)?;
        assert!(!client.nodelay()?);
        client.set_linger(Some(Duration::from_secs(2)))?;
        assert_eq!(client.linger()?, Some(Duration::from_secs(2)));
        client.set_linger(Some(Duration::from_millis(500)))?;
        assert_eq!(client.linger()?, Some(Duration::from_secs(1)), "zero would reset the connection");
        client.set_linger(Some(Duration::MAX))?;
        assert_eq!(client.linger()?, Some(Duration::from_secs(i32::MAX as u64)));
        client.set_linger(None)?;
        assert_eq!(client.linger()?, None);
        client.set_keepalive(Some(Duration::from_secs(77)))?;
        assert_eq!(client.keepalive()?, Some(Duration::from_secs(77)));
        client.set_keepalive(Some(Duration::from_millis(500)))?;
        assert_eq!(client.keepalive()?, Some(Duration::from_secs(1)));
        client.set_keepalive(None)?;
        assert_eq!(client.keepalive()?, None);
        client.set_ttl(42)?;
        assert_eq!(client.ttl()?, 42);
        client.set_send_buffer_size(10_000)?;
        assert!(client.send_buffer_size()? >= 10_000);
        client.set_recv_buffer_size(10_000)?;
        assert!(client.recv_buffer_size()? >= 10_000);
        assert_eq!(client.take_error()?, None);
        Ok(())
    });
}

#[test]
fn nodelay_can_be_left_off() {
    on_every_backend(|| async {
        let options = ListenOptions { nodelay: false, ..ListenOptions::default() };
        let listener = TcpListener::bind_with("127.0.0.1:0", options).await?;
        let _client = TcpStream::connect(listener.local_addr()).await?;
        assert!(!listener.accept().await?.0.nodelay()?);
        Ok(())
    });
}

#[test]
fn the_unspecified_v6_address_takes_v4_unless_told_otherwise() {
    on_every_backend(|| async {
        if !has_ipv6().await {
            return Ok(());
        }
        let both = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).await?;
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, both.local_addr().port())).await?;
        let (_server, peer) = both.accept().await?;
        let mapped = SocketAddr::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), client.local_addr()?.port());
        assert_eq!(peer, mapped);

        let only_v6 = ListenOptions { only_v6: true, ..ListenOptions::default() };
        let six = TcpListener::bind_with((Ipv6Addr::UNSPECIFIED, 0), only_v6).await?;
        let port = six.local_addr().port();
        let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap_err();
        assert_eq!(refused.errno(), errno::ECONNREFUSED);
        let four = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?;
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        four.accept().await?;
        TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await?;
        six.accept().await?;
        Ok(())
    });
}

#[test]
fn a_dropped_listener_frees_its_address_and_what_it_held() {
    on_every_backend(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr();
        let first = TcpStream::connect(address).await?;
        let waiting = TcpStream::connect(address).await?;
        let (_server, _) = listener.accept().await?;
        listener.close().await?;
        match waiting.read_by(&mut [0; 1], FOREVER).await {
            Ok(ended) => assert_eq!(ended, Some(0), "never accepted, and closed"),
            Err(error) => assert_eq!(error.errno(), errno::ECONNRESET, "{error}"),
        }
        let again = TcpListener::bind(address).await?;
        TcpStream::connect(address).await?;
        again.accept().await?;
        drop(first);
        Ok(())
    });
}

#[test]
fn a_dead_first_address_costs_the_stagger_and_no_more() {
    // In virtual time the stagger is exact.
    on_the_simulated_backend(|| async {
        let deaf =
            TcpListener::bind_with("127.0.0.1:0", ListenOptions { backlog: 0, ..ListenOptions::default() }).await?;
        let mut queued = Vec::new();
        while let Some(stream) = TcpStream::connect_by(deaf.local_addr(), Duration::from_secs(1)).await? {
            queued.push(stream);
        }
        let live = TcpListener::bind("127.0.0.1:0").await?;
        let gone = TcpListener::bind("127.0.0.1:0").await?.local_addr();

        for (addresses, staggers) in [
            (vec![live.local_addr(), deaf.local_addr()], 0),
            (vec![deaf.local_addr(), live.local_addr()], 1),
            (vec![deaf.local_addr(), deaf.local_addr(), live.local_addr()], 2),
            // One that fails makes room at once.
            (vec![gone, gone, live.local_addr()], 0),
        ] {
            let start = fiber::now();
            let stream = TcpStream::connect(&addresses[..]).await?;
            assert_eq!(stream.peer_addr(), live.local_addr());
            let took = fiber::now() - start;
            let least = Duration::from_millis(250) * staggers;
            assert!(took >= least && took < least + Duration::from_millis(100), "{took:?} for {addresses:?}");
        }
        Ok(())
    });
}

#[test]
fn handles_may_go_to_other_threads() {
    fn may_go<T: Send + Sync>() {}
    may_go::<TcpStream>();
    may_go::<TcpListener>();
    may_go::<wo_net::UdpSocket>();
    may_go::<wo_net::UnixStream>();
    may_go::<wo_net::UnixListener>();
    may_go::<wo_net::UnixDatagram>();
}

#[test]
fn a_hundred_connections_at_once() {
    on_every_backend(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr();
        let server = fiber::spawn(move || async move {
            for _ in 0..100 {
                let (stream, _) = listener.accept().await?;
                let _ = fiber::spawn(move || async move {
                    let mut buf = [0; 64];
                    while let Ok(count @ 1..) = stream.read(&mut buf).await {
                        stream.write_all(&buf[..count]).await?;
                    }
                    stream.close().await
                });
            }
            Ok::<_, wo_runtime::error::IoError>(())
        });
        let clients: Vec<_> = (0..100_u64)
            .map(|number| {
                fiber::spawn(move || async move {
                    let stream = TcpStream::connect(address).await?;
                    for round in 0..20 {
                        let sent = (number << 32 | round).to_le_bytes();
                        stream.write_all(&sent).await?;
                        let mut back = [0; 8];
                        stream.read_exact(&mut back).await?;
                        assert_eq!(back, sent);
                    }
                    Ok::<_, wo_runtime::error::IoError>(())
                })
            })
            .collect();
        for client in clients {
            client.join().await.unwrap()?;
        }
        server.join().await.unwrap()
    });
}
