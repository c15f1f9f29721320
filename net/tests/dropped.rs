//! Futures dropped half-way: what they had received is the next reader's, in order.

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use common::{on_every_backend, read_to_end, started_then_dropped, tcp_pair};
use wo_net::{TcpListener, TcpStream, UdpSocket, UnixDatagram};
use wo_runtime::error::{IoError, OpKind};
use wo_runtime::fiber;

#[test]
fn dropped_reads_leave_their_bytes_in_order() {
    on_every_backend(|| async {
        let (client, server) = tcp_pair().await?;
        let mut expected = Vec::new();
        let mut got = Vec::new();
        let mut buf = [0; 5];
        for round in 0..200_u32 {
            // A read in flight, bytes that may reach it before its cancel does, and a reader that goes away.
            let part = round.to_le_bytes();
            let delivered = match round % 4 {
                0 => started_then_dropped(server.read(&mut buf)).await.map(|count| buf[..count.unwrap()].to_vec()),
                1 => started_then_dropped(server.recv(Vec::with_capacity(9))).await.map(|(_, bytes)| bytes),
                2 => started_then_dropped(server.read_exact(&mut buf)).await.map(|_| buf.to_vec()),
                _ => started_then_dropped(server.recv_exact(vec![0; 6].into_boxed_slice()))
                    .await
                    .map(|(_, bytes)| bytes.into_vec()),
            };
            got.extend(delivered.into_iter().flatten());
            client.write_all(&part).await?;
            expected.extend(part);
            if round % 7 == 0 {
                fiber::yield_now().await?;
            }
        }
        client.close().await?;
        got.extend(read_to_end(&server).await?);
        assert_eq!(got, expected);
        Ok(())
    });
}

#[test]
fn an_exact_read_dropped_in_the_middle_gives_back_what_it_had() {
    on_every_backend(|| async {
        let (client, server) = tcp_pair().await?;
        for owned in [false, true] {
            let reader = server.clone();
            let doomed = fiber::spawn(move || async move {
                let mut buf = [0; 64];
                let exact = async {
                    if owned {
                        let _ = reader.recv_exact(vec![0; 64].into_boxed_slice()).await;
                    } else {
                        let _ = reader.read_exact(&mut buf).await;
                    }
                };
                // The exact read takes the first half, waits for the rest, and is dropped by the sleep.
                let mut exact = std::pin::pin!(exact);
                let mut sleep = std::pin::pin!(fiber::sleep(Duration::from_millis(20)));
                std::future::poll_fn(|cx| {
                    use std::future::Future;
                    assert!(exact.as_mut().poll(cx).is_pending(), "64 bytes never come");
                    sleep.as_mut().poll(cx)
                })
                .await
            });
            client.write_all(b"first half,").await?;
            doomed.join().await.unwrap()?;
            client.write_all(b" second half").await?;
            let mut all = [0; 23];
            server.read_exact(&mut all).await?;
            assert_eq!(&all, b"first half, second half", "owned: {owned}");
        }
        Ok(())
    });
}

#[test]
fn a_dropped_accept_leaves_the_client_to_the_next() {
    on_every_backend(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        for _ in 0..50 {
            assert!(started_then_dropped(listener.accept()).await.is_none());
            let client = TcpStream::connect(listener.local_addr()).await?;
            client.write_all(b"x").await?;
            let (server, peer) = listener.accept().await?;
            assert_eq!(peer, client.local_addr()?);
            server.read_exact(&mut [0; 1]).await?;
        }
        Ok(())
    });
}

#[test]
fn a_dropped_receive_leaves_its_datagram_with_its_sender() {
    on_every_backend(|| async {
        let here = UdpSocket::bind("127.0.0.1:0").await?;
        let there = UdpSocket::bind("127.0.0.1:0").await?;
        for round in 0..100_u8 {
            // One receive meets a datagram that is there already, another one that comes when it has been dropped.
            let mut got = Vec::new();
            there.write_to(&[round, 1], here.local_addr()?).await?;
            got.extend(started_then_dropped(here.recv_from(Vec::with_capacity(16))).await);
            if round % 2 == 0 {
                fiber::yield_now().await?;
            }
            got.extend(started_then_dropped(here.recv_from(Vec::with_capacity(16))).await);
            there.write_to(&[], here.local_addr()?).await?;
            there.write_to(&[round, 2], here.local_addr()?).await?;
            while got.len() < 3 {
                got.push(here.recv_from(Vec::with_capacity(16)).await);
            }
            for ((received, bytes), expected) in got.into_iter().zip([&[round, 1][..], &[], &[round, 2]]) {
                assert_eq!(received?, (expected.len(), there.local_addr()?));
                assert_eq!(bytes, expected);
            }
        }
        let (a, b) = UnixDatagram::pair()?;
        assert!(started_then_dropped(b.recv(Vec::with_capacity(2))).await.is_none());
        a.write(b"one").await?;
        a.write(b"two").await?;
        // The first went to a buffer of two bytes, or waited in the socket for this one.
        let (received, bytes) = b.recv(Vec::with_capacity(16)).await;
        received?;
        assert!(b"one".starts_with(&bytes) && bytes.len() >= 2, "{bytes:?}");
        assert_eq!(b.recv(Vec::with_capacity(16)).await.1, b"two");
        Ok(())
    });
}

#[test]
fn a_stopped_program_cancels_its_verbs_and_says_so() {
    on_every_backend(|| async {
        let (client, server) = tcp_pair().await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let peer = server.peer();
        let said = Rc::new(RefCell::new(Vec::new()));
        let (reads, accepts) = (Rc::clone(&said), Rc::clone(&said));
        let reader = fiber::spawn(move || async move {
            let error = server.read(&mut [0; 8]).await.unwrap_err();
            reads.borrow_mut().push(error);
        });
        let acceptor = fiber::spawn(move || async move {
            let error = listener.accept().await.unwrap_err();
            accepts.borrow_mut().push(error);
        });
        fiber::sleep(Duration::from_millis(1)).await?;
        wo_runtime::shard::stop();
        while !(reader.is_finished() && acceptor.is_finished()) {
            // Joining would be cancelled too.
            let _ = fiber::yield_now().await;
        }
        for error in said.borrow().iter() {
            assert!(error.is_cancelled(), "{error}");
            assert!(error.op() == OpKind::Accept || error.to_string().contains(&peer), "{error}");
        }
        assert_eq!(said.borrow().len(), 2);
        let refused = client.write_all(b"x").await.unwrap_err();
        assert!(refused.is_cancelled(), "{refused}");
        Ok::<_, IoError>(())
    });
}
