//! Serving as a server and its peers see it: exchanges, limits, places, shards.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{on_every_backend, on_the_simulated_backend};
use wo_net::{Acceptors, Limits, ListenOptions, Next, TcpListener, TcpStream, UnixListener, serve};
use wo_runtime::error::{IoError, IoResult, errno};
use wo_runtime::fiber;
use wo_runtime::plane::backend::Selection;
use wo_runtime::shard::{self, Builder};

const REAL: [Selection; 2] = [Selection::Uring, Selection::Epoll];

/// An exchange: four bytes there, the same four back. `quit` closes, `oops` fails, `boom` panics, `hang` never answers.
async fn exchange(stream: TcpStream) -> IoResult<Next> {
    let (received, word) = stream.recv_exact(Vec::with_capacity(4)).await;
    received?;
    match &word[..] {
        b"quit" => return Ok(Next::Close),
        b"oops" => {
            return Err(IoError::new(errno::EIO, wo_runtime::error::OpKind::None, wo_runtime::error::Stage::Submit));
        }
        b"boom" => panic!("as planned"),
        b"hang" => fiber::sleep(Duration::MAX).await?,
        _ => {}
    }
    stream.write_all(&word).await?;
    Ok(Next::Again)
}

async fn says(stream: &TcpStream, word: &[u8; 4]) -> IoResult<Vec<u8>> {
    stream.write_all(word).await?;
    let (answered, answer) = stream.recv_exact(Vec::with_capacity(4)).await;
    answered.map(|()| answer)
}

async fn meets_the_end(stream: &TcpStream) -> bool {
    let (received, _) = stream.recv(Vec::with_capacity(1)).await;
    match received {
        Ok(count) => count == 0,
        Err(error) => error.errno() == errno::ECONNRESET,
    }
}

#[test]
fn a_connection_has_one_exchange_after_the_other_and_ends_as_its_handler_says() {
    on_every_backend(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr();
        drop(fiber::spawn(|| serve(listener, Limits::default(), exchange)));
        let (steady, quitting, failing, panicking) = (
            TcpStream::connect(address).await?,
            TcpStream::connect(address).await?,
            TcpStream::connect(address).await?,
            TcpStream::connect(address).await?,
        );
        for word in [b"here", b"ther", b"mmmm"] {
            assert_eq!(says(&steady, word).await?, word);
        }
        // Two requests in one go, and one in two parts.
        steady.write_all(b"one_two_thr").await?;
        let (received, answers) = steady.recv_exact(Vec::with_capacity(8)).await;
        received?;
        assert_eq!(answers, b"one_two_");
        steady.write_all(b"e").await?;
        let (received, answer) = steady.recv_exact(Vec::with_capacity(4)).await;
        received?;
        assert_eq!(answer, b"thre");
        for (stream, word) in [(&quitting, b"quit"), (&failing, b"oops"), (&panicking, b"boom")] {
            stream.write_all(word).await?;
            assert!(meets_the_end(stream).await);
        }
        assert_eq!(says(&steady, b"last").await?, b"last");
        Ok(())
    });
}

#[test]
fn the_idle_and_the_slow_are_evicted_at_their_limits_and_counted() {
    on_the_simulated_backend(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr();
        let limits = Limits { idle: Duration::from_secs(12), exchange: Duration::from_secs(5), ..Limits::default() };
        drop(fiber::spawn(move || serve(listener, limits, exchange)));
        let begun = fiber::now();
        let after = |stream: TcpStream| async move {
            assert!(meets_the_end(&stream).await);
            fiber::now() - begun
        };
        let idle = TcpStream::connect(address).await?;
        let slow = TcpStream::connect(address).await?;
        slow.write_all(b"ha").await?;
        let hanging = TcpStream::connect(address).await?;
        hanging.write_all(b"hang").await?;
        // One that says something every now and then is legal for as long as it likes.
        let legal = TcpStream::connect(address).await?;
        let slow = fiber::spawn(move || after(slow));
        let hanging = fiber::spawn(move || after(hanging));
        let idle = fiber::spawn(move || after(idle));
        for _ in 0..4 {
            fiber::sleep(Duration::from_secs(10)).await?;
            assert_eq!(says(&legal, b"well").await?, b"well");
        }
        let near = |at: Duration, seconds: u64| {
            (Duration::ZERO..Duration::from_secs(1)).contains(&(at - Duration::from_secs(seconds)))
        };
        assert!(near(slow.join().await.unwrap(), 5));
        assert!(near(hanging.join().await.unwrap(), 5));
        assert!(near(idle.join().await.unwrap(), 12));
        Ok(())
    });
}

#[test]
fn no_more_connections_are_open_than_allowed_and_the_next_gets_the_place_of_one_that_ended() {
    on_every_backend(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr();
        let limits = Limits { connections: 2, ..Limits::default() };
        drop(fiber::spawn(move || serve(listener, limits, exchange)));
        let first = TcpStream::connect(address).await?;
        let second = TcpStream::connect(address).await?;
        assert_eq!(says(&first, b"here").await?, b"here");
        assert_eq!(says(&second, b"here").await?, b"here");
        // It is connected, by the kernel's backlog, but not served.
        let third = TcpStream::connect(address).await?;
        third.write_all(b"wait").await?;
        let nothing = third.recv_by(Vec::with_capacity(4), Duration::from_millis(50)).await.0?;
        assert_eq!(nothing, None);
        first.write_all(b"quit").await?;
        let (received, answer) = third.recv_exact(Vec::with_capacity(4)).await;
        received?;
        assert_eq!(answer, b"wait");
        Ok(())
    });
}

#[test]
fn a_stop_ends_the_serving_with_its_counts() {
    on_every_backend(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr();
        let serving = fiber::spawn(|| serve(listener, Limits::default(), exchange));
        let stream = TcpStream::connect(address).await?;
        assert_eq!(says(&stream, b"here").await?, b"here");
        let failing = TcpStream::connect(address).await?;
        failing.write_all(b"oops").await?;
        assert!(meets_the_end(&failing).await);
        fiber::protect(|| async move {
            shard::stop();
            // This fiber is sheltered; the server is not.
            let served = loop {
                if serving.is_finished() {
                    break serving.join().await.unwrap().unwrap();
                }
                fiber::yield_now().await.unwrap();
            };
            assert_eq!((served.accepted, served.failed, served.idle, served.slow), (2, 1, 0, 0));
        })
        .await;
        Ok(())
    });
}

/// Serves on three shards; how many of forty connections were served on each.
fn spread(io: Selection, acceptors: Acceptors) -> Vec<usize> {
    let places = Arc::new(Mutex::new(vec![0; 3]));
    let seen = Arc::clone(&places);
    let ended = Builder::new().io(io).shards(3).run(move || async move {
        let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
        let listener = TcpListener::bind_with("127.0.0.1:0", options).await?;
        let address = listener.local_addr();
        let counted = move |stream: TcpStream| {
            let seen = Arc::clone(&seen);
            async move {
                seen.lock().unwrap()[shard::shard_index().unwrap()] += 1;
                exchange(stream).await
            }
        };
        let limits = Limits { acceptors, ..Limits::default() };
        drop(fiber::spawn(move || serve(listener, limits, counted)));
        let mut open = Vec::new();
        for _ in 0..39 {
            let stream = TcpStream::connect(address).await?;
            assert_eq!(says(&stream, b"here").await?, b"here");
            open.push(stream);
        }
        Ok::<_, IoError>(())
    });
    ended.unwrap().unwrap();
    Arc::into_inner(places).expect("the program has ended").into_inner().unwrap()
}

#[test]
fn one_acceptor_gives_each_shard_as_many_and_an_acceptor_on_each_takes_its_own() {
    for io in REAL {
        assert_eq!(spread(io, Acceptors::One), [13, 13, 13], "on {io}");
        let places = spread(io, Acceptors::EveryShard);
        assert_eq!(places.iter().sum::<usize>(), 39);
        // By hash: that one shard gets none of 39 happens once in millions of runs.
        assert!(places.iter().all(|count| *count > 0), "on {io}: {places:?}");
    }
}

#[test]
fn acceptors_everywhere_need_a_port_that_may_be_shared() {
    for io in REAL {
        let refused = Builder::new().io(io).shards(2).run(move || async move {
            let everywhere = Limits { acceptors: Acceptors::EveryShard, ..Limits::default() };
            let alone = TcpListener::bind("127.0.0.1:0").await?;
            let tcp = serve(alone, everywhere, exchange).await.unwrap_err();
            let path = std::env::temp_dir().join(format!("wo-serve-{}-{io}", std::process::id()));
            let unix = UnixListener::bind(path.as_path()).await?;
            let unix = serve(unix, everywhere, |_| async { Ok(Next::Close) }).await.unwrap_err();
            std::fs::remove_file(path).unwrap();
            Ok::<_, IoError>((tcp, unix))
        });
        let (tcp, unix) = refused.unwrap().unwrap();
        assert!(tcp.errno() == errno::EADDRINUSE, "{tcp}");
        assert!(unix.errno() == errno::EOPNOTSUPP && unix.to_string().contains("Acceptors::One"), "{unix}");
    }
}

#[test]
fn a_serving_that_is_dropped_ends_its_acceptors_on_every_shard() {
    for io in REAL {
        let ended = Builder::new().io(io).shards(2).run(|| async {
            let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
            let listener = TcpListener::bind_with("127.0.0.1:0", options).await?;
            let address = listener.local_addr();
            let limits = Limits { acceptors: Acceptors::EveryShard, ..Limits::default() };
            let served: BTreeSet<usize> = {
                let mut serving = Box::pin(serve(listener, limits, |stream: TcpStream| async move {
                    stream.write_all(&[shard::shard_index().unwrap() as u8]).await?;
                    exchange(stream).await
                }));
                // Until both shards have served: then both acceptors are there.
                let clients = fiber::spawn(move || async move {
                    let mut shards = BTreeSet::new();
                    while shards.len() < 2 {
                        let stream = TcpStream::connect(address).await?;
                        stream.write_all(b"here").await?;
                        let (received, place) = stream.recv_exact(Vec::with_capacity(1)).await;
                        received?;
                        shards.insert(usize::from(place[0]));
                    }
                    Ok::<_, IoError>(shards)
                });
                let mut clients = Box::pin(clients.join());
                std::future::poll_fn(|cx| {
                    assert!(serving.as_mut().poll(cx).is_pending());
                    clients.as_mut().poll(cx)
                })
                .await
                .unwrap()?
            };
            assert_eq!(served.len(), 2);
            // The address is free as soon as the last acceptor has heard of it.
            let tries = AtomicUsize::new(0);
            while TcpStream::connect(address).await.is_ok() {
                assert!(tries.fetch_add(1, Ordering::Relaxed) < 100_000, "somebody still listens");
                fiber::yield_now().await?;
            }
            Ok::<_, IoError>(())
        });
        ended.unwrap().unwrap();
    }
}
