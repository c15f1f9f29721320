//! What is dropped half-way leaves no descriptor. One test alone in its program, so that nobody else opens any.

mod common;

use std::time::Duration;

use common::{FOREVER, on_the_hosts_backends, started_then_dropped, tcp_pair, until};
use wo_net::{ListenOptions, TcpListener, TcpStream, UdpSocket, UnixStream};
use wo_runtime::error::{IoResult, errno};
use wo_runtime::fiber;

fn open() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc").count()
}

/// A listener that answers nobody any more: its backlog is full.
async fn deaf() -> IoResult<(TcpListener, Vec<TcpStream>)> {
    let before = open();
    let options = ListenOptions { backlog: 0, ..ListenOptions::default() };
    let listener = TcpListener::bind_with("127.0.0.1:0", options).await?;
    let mut queued = Vec::new();
    while let Some(stream) = TcpStream::connect_by(listener.local_addr(), Duration::from_millis(100)).await? {
        queued.push(stream);
    }
    until("the last connect's socket to be closed", || open() == before + 1 + queued.len()).await?;
    Ok((listener, queued))
}

async fn dropped_connects() -> IoResult<()> {
    let (listener, _queued) = deaf().await?;
    for _ in 0..20 {
        assert!(started_then_dropped(TcpStream::connect(listener.local_addr())).await.is_none());
    }
    assert!(TcpStream::connect_by(listener.local_addr(), Duration::from_millis(5)).await?.is_none());
    Ok(())
}

async fn happy_eyeballs() -> IoResult<()> {
    let (deaf, _queued) = deaf().await?;
    let live = TcpListener::bind("127.0.0.1:0").await?;
    let gone = TcpListener::bind("127.0.0.1:0").await?.local_addr();
    let before = open();
    let addresses = [deaf.local_addr(), gone, live.local_addr()];
    let stream = TcpStream::connect_by(&addresses[..], FOREVER).await?.expect("one of them listens");
    assert_eq!(stream.peer_addr(), live.local_addr());
    let (_server, peer) = live.accept().await?;
    assert_eq!(peer, stream.local_addr()?);
    until("the losers' sockets to be closed", || open() == before + 2).await?;

    // When all fail, the error is the first one's, and tells the others'.
    let other_gone = TcpListener::bind("127.0.0.1:0").await?.local_addr();
    let refused = TcpStream::connect([gone, other_gone]).await.unwrap_err();
    assert_eq!(refused.errno(), errno::ECONNREFUSED);
    let text = refused.to_string();
    assert!(text.contains(&gone.to_string()) && text.contains(&other_gone.to_string()), "{text}");
    Ok(())
}

async fn closed_streams() -> IoResult<()> {
    let (client, server) = tcp_pair().await?;
    client.close().await?;
    drop(server);
    let (here, there) = UnixStream::pair()?;
    let twin = here.clone();
    here.close().await?;
    twin.close().await?;
    assert_eq!(there.read(&mut [0; 1]).await?, 0);
    UdpSocket::bind("127.0.0.1:0").await?.close().await
}

async fn dropped_verbs() -> IoResult<()> {
    let (client, server) = tcp_pair().await?;
    assert!(started_then_dropped(server.read(&mut [0; 8])).await.is_none());
    assert!(started_then_dropped(client.close()).await.is_none_or(|closed| closed.is_ok()));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    assert!(started_then_dropped(listener.accept()).await.is_none());
    for _ in 0..5 {
        // Accepted by the queue, and by nobody else.
        TcpStream::connect(listener.local_addr()).await?;
    }
    Ok(())
}

async fn the_worker_pool_is_up() -> IoResult<()> {
    // Its threads and whatever the resolver opens once belong to the baseline.
    TcpStream::connect("no-such-host.invalid:80").await.unwrap_err();
    fiber::yield_now().await
}

#[test]
fn nothing_dropped_or_closed_keeps_a_descriptor() {
    on_the_hosts_backends(|| async {
        the_worker_pool_is_up().await?;
        let before = open();
        dropped_connects().await?;
        until("the sockets of dropped connects to be closed", || open() == before).await?;
        happy_eyeballs().await?;
        until("the losers' sockets to be closed", || open() == before).await?;
        closed_streams().await?;
        until("closed handles to leave nothing", || open() == before).await?;
        dropped_verbs().await?;
        until("dropped verbs to leave nothing", || open() == before).await
    });
}
