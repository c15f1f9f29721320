//! Deadlines: "nothing by then" is a value, zero and none are the plain verb, and no byte is lost or sent twice.

mod common;

use std::time::Duration;

use common::{FOREVER, numbered, on_every_backend, tcp_pair, until};
use wo_net::{TcpListener, TcpStream, UdpSocket, UnixStream, Written};
use wo_runtime::error::{IoError, errno};
use wo_runtime::fiber;

const SOON: Duration = Duration::from_millis(5);

#[test]
fn nothing_by_then_is_a_value() {
    on_every_backend(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        assert!(listener.accept_by(SOON).await?.is_none());
        let client = TcpStream::connect(listener.local_addr()).await?;
        let (server, _) = listener.accept_by(FOREVER).await?.expect("a client has connected");
        let mut buf = [0; 4];
        assert_eq!(server.read_by(&mut buf, SOON).await?, None);
        let (received, back) = server.recv_by(Vec::with_capacity(4), SOON).await;
        assert_eq!((received?, back.capacity()), (None, 4));
        assert_eq!(server.read_exact_by(&mut buf, SOON).await?, None);
        assert_eq!(server.recv_exact_by(vec![0; 4].into_boxed_slice(), SOON).await.0?, None);

        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        assert_eq!(socket.recv_from_by(Vec::with_capacity(4), SOON).await.0?, None);
        assert_eq!(socket.recv_by(Vec::with_capacity(4), SOON).await.0?, None);
        assert_eq!(socket.read_from_by(&mut buf, SOON).await?, None);

        client.write_all(b"late").await?;
        assert_eq!(server.read_by(&mut buf, FOREVER).await?, Some(4));
        assert_eq!(&buf, b"late");
        client.close().await?;
        assert_eq!(server.read_by(&mut buf, FOREVER).await?, Some(0), "the end of file is no silence");
        Ok(())
    });
}

#[test]
fn zero_and_none_are_the_plain_verb() {
    on_every_backend(|| async {
        let (client, server) = tcp_pair().await?;
        let writer = fiber::spawn(move || async move {
            fiber::sleep(SOON).await?;
            client.write_all(b"12").await?;
            Ok::<_, IoError>(client)
        });
        let mut byte = [0; 1];
        assert_eq!(server.read_by(&mut byte, Duration::ZERO).await?, Some(1));
        assert_eq!(server.read_by(&mut byte, None).await?, Some(1));
        assert_eq!(server.write_all_by(b"x", Duration::ZERO).await?, Written::All);
        drop(writer.join().await.unwrap()?);
        Ok(())
    });
}

#[test]
fn a_deadline_that_has_passed_touches_nothing() {
    on_every_backend(|| async {
        let (client, server) = tcp_pair().await?;
        let past = fiber::now();
        fiber::sleep(Duration::from_millis(1)).await?;
        assert_eq!(client.write_all_by(b"never", past).await?, Written::Nothing);
        assert_eq!(client.write_by(b"never", past).await?, None);
        client.write_all(b"now").await?;
        let mut buf = [0; 8];
        assert_eq!(server.read_by(&mut buf, past).await?, None);
        assert_eq!(server.read(&mut buf).await?, 3);
        assert_eq!(&buf[..3], b"now");
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        assert!(TcpStream::connect_by(listener.local_addr(), past).await?.is_none());
        Ok(())
    });
}

#[test]
fn a_verb_with_a_deadline_that_is_met_is_the_plain_verb() {
    on_every_backend(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let client = TcpStream::connect_by(listener.local_addr(), FOREVER).await?.expect("it listens");
        let (server, _) = listener.accept().await?;
        assert_eq!(client.write_all_by(b"abc", FOREVER).await?, Written::All);
        let (sent, buf) = client.send_all_by("def", FOREVER).await;
        assert_eq!((sent?, buf), (Written::All, "def"));
        assert_eq!(client.write_by(b"g", FOREVER).await?, Some(1));
        assert_eq!(client.send_by("h", FOREVER).await.0?, Some(1));
        let mut buf = [0; 4];
        assert_eq!(server.read_exact_by(&mut buf, FOREVER).await?, Some(()));
        assert_eq!(&buf, b"abcd");
        let (received, buf) = server.recv_exact_by(vec![0; 4].into_boxed_slice(), FOREVER).await;
        assert_eq!((received?, &*buf), (Some(()), &b"efgh"[..]));
        Ok(())
    });
}

#[test]
fn what_an_exact_read_took_stays_readable() {
    on_every_backend(|| async {
        let (client, server) = tcp_pair().await?;
        client.write_all(b"0123456789").await?;
        let mut buf = [0; 64];
        assert_eq!(server.read_exact_by(&mut buf, SOON).await?, None);
        assert_eq!(server.recv_exact_by(vec![0; 64].into_boxed_slice(), SOON).await.0?, None);
        client.write_all(b"abc").await?;
        let mut all = [0; 13];
        server.read_exact(&mut all).await?;
        assert_eq!(&all, b"0123456789abc");

        // The same at the end of file: the error says how far it came, and the bytes are still there.
        client.write_all(b"tail").await?;
        client.close().await?;
        let early = server.read_exact(&mut buf).await.unwrap_err();
        assert_eq!((early.errno(), early.kind()), (errno::ENODATA, std::io::ErrorKind::UnexpectedEof));
        assert!(early.to_string().contains("after 4 of 64 bytes"), "{early}");
        let early = server.recv_exact(vec![0; 64].into_boxed_slice()).await.0.unwrap_err();
        assert!(early.to_string().contains("after 4 of 64 bytes"), "{early}");
        assert_eq!(server.read(&mut buf).await?, 4);
        assert_eq!(&buf[..4], b"tail");
        assert_eq!(server.read(&mut buf).await?, 0);
        Ok(())
    });
}

#[test]
fn deadlines_beside_arrivals_lose_no_byte() {
    on_every_backend(|| async {
        let (client, server) = tcp_pair().await?;
        let sent = numbered(500);
        let expected = sent.clone();
        let writer = fiber::spawn(move || async move {
            for byte in sent.chunks(1) {
                client.write_all(byte).await?;
                fiber::sleep(Duration::from_micros(300)).await?;
            }
            client.close().await
        });
        let mut all = Vec::new();
        let mut buf = [0; 7];
        let mut round = 0;
        loop {
            round += 1;
            let span = Duration::from_micros(100 + 50 * (round % 9));
            let got = match round % 3 {
                0 => server.read_by(&mut buf, span).await?.map(|count| buf[..count].to_vec()),
                1 => {
                    let (received, back) = server.recv_by(Vec::with_capacity(5), span).await;
                    received?.map(|_| back)
                }
                _ => {
                    server.read_exact_by(&mut buf[..2], span).await.map(|all| all.map(|()| buf[..2].to_vec())).or_else(
                        // The last byte alone is no pair.
                        |error| if error.errno() == errno::ENODATA { Ok(None) } else { Err(error) },
                    )?
                }
            };
            match got {
                Some(bytes) if bytes.is_empty() => break,
                Some(bytes) => all.extend(bytes),
                None => {}
            }
        }
        assert_eq!(all, expected);
        writer.join().await.unwrap()
    });
}

#[test]
fn a_torn_write_says_so_and_can_be_gone_on_with() {
    on_every_backend(|| async {
        let (here, there) = UnixStream::pair()?;
        let bytes = numbered(4 << 20);
        // Nobody reads, so at some point nothing more fits.
        let mut sent = 0;
        loop {
            match here.write_all_by(&bytes[sent..], SOON).await? {
                Written::All => panic!("4 MiB fit the socket's buffers"),
                Written::Torn(part) => sent += part,
                Written::Nothing if sent > 0 => break,
                Written::Nothing => {}
            }
        }
        // The others of the kind count alike, should a stalled machine have called it full too early.
        let (again, back) = here.send_all_by(bytes[sent..].to_vec(), SOON).await;
        assert_eq!(back, &bytes[sent..], "the buffer comes back whole");
        match again? {
            Written::All => panic!("4 MiB fit the socket's buffers"),
            Written::Torn(part) => sent += part,
            Written::Nothing => {}
        }
        sent += here.write_by(&bytes[sent..], SOON).await?.unwrap_or(0);
        sent += here.send_by(bytes[sent..].to_vec(), SOON).await.0?.unwrap_or(0);

        let reader = fiber::spawn(move || async move {
            let mut all = vec![0; 4 << 20];
            there.read_exact(&mut all).await?;
            Ok::<_, IoError>(all)
        });
        here.write_all(&bytes[sent..]).await?;
        assert_eq!(reader.join().await.unwrap()?, bytes);
        Ok(())
    });
}

#[test]
fn an_accept_that_came_too_late_is_the_next_ones() {
    on_every_backend(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        assert!(listener.accept_by(SOON).await?.is_none());
        let client = TcpStream::connect(listener.local_addr()).await?;
        until("the connection", || client.peer_addr() == listener.local_addr()).await?;
        let (_, peer) = listener.accept_by(FOREVER).await?.expect("it has connected");
        assert_eq!(peer, client.local_addr()?);
        Ok(())
    });
}
