//! Unix sockets as a user sees them, left-over socket files among them.

mod common;

use std::rc::Rc;
use std::time::Duration;

use common::{FOREVER, Folder, numbered, on_every_backend, on_the_hosts_backends};
use wo_net::{ListenOptions, SocketAddress, UnixDatagram, UnixListener, UnixStream};
use wo_runtime::error::errno;
use wo_runtime::fiber;

#[test]
fn streams_and_their_peers() {
    on_every_backend(|| async {
        let folder = Folder::new();
        let path = folder.path("socket");
        let listener = UnixListener::bind(&path).await?;
        assert_eq!(listener.local_addr(), SocketAddress::Unix(path.clone()));
        let client = UnixStream::connect(path.as_path()).await?;
        let (server, peer) = listener.accept().await?;
        assert_eq!(peer, SocketAddress::Unnamed);
        assert_eq!((server.peer(), client.peer()), ("unix".into(), "unix".into()));
        assert_eq!(client.peer_addr().as_path(), Some(path.as_path()));
        let sent = numbered(300_000);
        let bytes = sent.clone();
        let writer = fiber::spawn(move || async move {
            client.write_all(&bytes).await?;
            client.close().await
        });
        let mut all = vec![0; 300_000];
        server.read_exact(&mut all).await?;
        assert_eq!(all, sent);
        assert_eq!(server.read(&mut all).await?, 0);
        writer.join().await.unwrap()?;
        assert!(listener.accept_by(Duration::from_millis(1)).await?.is_none());
        Ok(())
    });
}

#[test]
fn a_left_over_socket_file_is_replaced() {
    on_every_backend(|| async {
        let folder = Folder::new();
        let path = folder.path("socket");
        for _ in 0..3 {
            let listener = UnixListener::bind(&path).await?;
            let client = UnixStream::connect(&path).await?;
            listener.accept().await?;
            drop(client);
            // The file stays; so does one of a program that was killed.
            drop(listener);
            let refused = UnixStream::connect(&path).await.unwrap_err();
            assert_eq!(refused.errno(), errno::ECONNREFUSED, "{refused}");
            assert!(refused.to_string().contains("left-over"), "{refused}");
        }
        // A datagram socket takes the path over as well, and back.
        let datagrams = UnixDatagram::bind(&path).await?;
        drop(datagrams);
        UnixListener::bind(&path).await?;
        Ok(())
    });
}

#[test]
fn a_live_socket_is_left_alone() {
    on_every_backend(|| async {
        let folder = Folder::new();
        let path = folder.path("socket");
        let listener = UnixListener::bind(&path).await?;
        for refused in [
            UnixListener::bind(&path).await.map(drop).unwrap_err(),
            UnixDatagram::bind(&path).await.map(drop).unwrap_err(),
        ] {
            assert_eq!(refused.errno(), errno::EADDRINUSE);
            let text = refused.to_string();
            assert!(text.contains(path.to_str().unwrap()) && text.contains("another server"), "{text}");
        }
        let client = UnixStream::connect(&path).await?;
        loop {
            // Those who asked whether it lives came first, and went.
            let (server, _) = listener.accept_by(FOREVER).await?.expect("the client has connected");
            client.write_all(b"x").await?;
            if server.read(&mut [0; 1]).await? == 1 {
                break;
            }
        }

        let datagrams = UnixDatagram::bind(folder.path("datagrams")).await?;
        let refused = UnixListener::bind(folder.path("datagrams")).await.unwrap_err();
        assert_eq!(refused.errno(), errno::EADDRINUSE, "{refused}");
        UnixDatagram::unbound()?.write_to(b"alive", folder.path("datagrams")).await?;
        assert_eq!(datagrams.recv(Vec::with_capacity(8)).await.1, b"alive");
        Ok(())
    });
}

#[test]
fn a_full_backlog_makes_clients_wait_and_is_no_left_over() {
    on_every_backend(|| async {
        let folder = Folder::new();
        let path = folder.path("socket");
        let listener = UnixListener::bind_with(&path, ListenOptions { backlog: 2, ..ListenOptions::default() }).await?;
        let mut queued = Vec::new();
        while let Some(stream) = UnixStream::connect_by(&path, Duration::from_millis(100)).await? {
            queued.push(stream);
        }
        assert!(!queued.is_empty());
        let refused = UnixListener::bind(&path).await.unwrap_err();
        assert_eq!(refused.errno(), errno::EADDRINUSE, "{refused}");
        let waiting = fiber::spawn(move || async move { UnixStream::connect(&path).await });
        fiber::yield_now().await?;
        for _ in queued {
            listener.accept().await?;
        }
        waiting.join().await.unwrap()?;
        Ok(())
    });
}

#[test]
fn what_is_no_socket_is_never_removed() {
    on_the_hosts_backends(|| async {
        let folder = Folder::new();
        std::fs::write(folder.path("file"), "precious").unwrap();
        std::fs::create_dir(folder.path("folder")).unwrap();
        std::os::unix::fs::symlink(folder.path("file"), folder.path("link")).unwrap();
        for (name, what) in [("file", "a file"), ("folder", "a directory"), ("link", "a symbolic link")] {
            let refused = UnixListener::bind(folder.path(name)).await.unwrap_err();
            assert_eq!(refused.errno(), errno::EADDRINUSE, "{refused}");
            assert!(refused.to_string().contains(what), "{refused}");
            assert!(refused.to_string().contains(folder.path(name).to_str().unwrap()), "{refused}");
            assert!(folder.path(name).symlink_metadata().is_ok(), "{name} is still there");
        }
        assert_eq!(std::fs::read_to_string(folder.path("file")).unwrap(), "precious");
        Ok(())
    });
}

#[test]
fn paths_that_cannot_be() {
    on_every_backend(|| async {
        let folder = Folder::new();
        let missing = UnixStream::connect(folder.path("nobody")).await.unwrap_err();
        assert_eq!(missing.errno(), errno::ENOENT);
        assert!(missing.to_string().contains("no such socket file"), "{missing}");
        let no_folder = UnixListener::bind(folder.path("no/such/folder")).await.unwrap_err();
        assert_eq!(no_folder.errno(), errno::ENOENT);
        assert!(no_folder.to_string().contains("directory must exist"), "{no_folder}");
        let long = UnixListener::bind(folder.path(&"x".repeat(200))).await.unwrap_err();
        assert_eq!(long.errno(), errno::ENAMETOOLONG, "{long}");
        let cut_short = UnixListener::bind(folder.path("here\0after")).await.unwrap_err();
        assert_eq!(cut_short.errno(), errno::EINVAL, "{cut_short}");
        assert!(cut_short.to_string().contains("no zero byte"), "{cut_short}");
        assert!(!folder.path("here").exists(), "nothing is bound to the part before it");
        let empty = UnixListener::bind("").await.unwrap_err();
        assert_eq!(empty.errno(), errno::EINVAL, "{empty}");
        Ok(())
    });
}

#[test]
fn abstract_names() {
    on_the_hosts_backends(|| async {
        let name = SocketAddress::Abstract(format!("wo-net-test-{}", std::process::id()).into_bytes());
        let listener = UnixListener::bind(&name).await?;
        let _client = UnixStream::connect(&name).await?;
        let (server, _) = listener.accept().await?;
        assert_eq!(server.local_addr()?, name);
        assert_eq!(UnixListener::bind(&name).await.unwrap_err().errno(), errno::EADDRINUSE);
        Ok(())
    });
}

#[test]
fn datagrams_are_answered_at_their_senders_path() {
    on_every_backend(|| async {
        let folder = Folder::new();
        let here = UnixDatagram::bind(folder.path("here")).await?;
        let there = UnixDatagram::bind(folder.path("there")).await?;
        assert_eq!(here.local_addr()?, SocketAddress::Unix(folder.path("here")));
        here.send_to("ping", folder.path("there")).await.0?;
        let (received, bytes) = there.recv_from(Vec::with_capacity(16)).await;
        let (_, sender) = received?;
        assert_eq!((bytes.as_slice(), &sender), (&b"ping"[..], &SocketAddress::Unix(folder.path("here"))));
        there.write_to(b"pong", &sender).await?;
        let mut buf = [0; 4];
        assert_eq!(here.read_from(&mut buf).await?.0, 4);
        assert_eq!(&buf, b"pong");

        let nameless = UnixDatagram::unbound()?;
        nameless.connect(folder.path("there")).await?;
        nameless.send("from nobody").await.0?;
        assert_eq!(there.recv_from(Vec::with_capacity(16)).await.0?, (11, SocketAddress::Unnamed));
        Ok(())
    });
}

#[test]
fn a_full_receiver_makes_the_sender_wait() {
    on_every_backend(|| async {
        let (here, there) = UnixDatagram::pair()?;
        let here = Rc::new(here);
        let sender = fiber::spawn(move || async move {
            for number in 0..2000_u32 {
                here.write(&number.to_le_bytes()).await?;
            }
            Ok::<_, wo_runtime::error::IoError>(())
        });
        for number in 0..2000_u32 {
            let (received, bytes) = there.recv(Vec::with_capacity(8)).await;
            assert_eq!(received?, 4);
            assert_eq!(bytes, number.to_le_bytes());
        }
        sender.join().await.unwrap()
    });
}

#[test]
fn a_send_to_a_full_receiver_has_its_deadline() {
    on_every_backend(|| async {
        let folder = Folder::new();
        let there = UnixDatagram::bind(folder.path("there")).await?;
        let here = UnixDatagram::unbound()?;
        let mut sent = 0_u32;
        while here
            .send_to_by(sent.to_le_bytes().to_vec(), folder.path("there"), Duration::from_millis(20))
            .await
            .0?
            .is_some()
        {
            sent += 1;
        }
        here.connect(folder.path("there")).await?;
        assert_eq!(here.send_by("one more", Duration::from_millis(5)).await.0?, None);
        for number in 0..sent {
            assert_eq!(there.recv(Vec::with_capacity(8)).await.1, number.to_le_bytes());
        }
        assert_eq!(here.send_by("one more", FOREVER).await.0?, Some(8));
        assert_eq!(there.recv(Vec::with_capacity(8)).await.1, b"one more");
        Ok(())
    });
}

#[test]
fn large_datagrams() {
    on_every_backend(|| async {
        let (here, there) = UnixDatagram::pair()?;
        let bytes = numbered(100_000);
        assert_eq!(here.write(&bytes).await?, 100_000);
        let mut all = vec![0; 100_001];
        assert_eq!(there.read_from(&mut all).await?.0, 100_000);
        assert_eq!(&all[..100_000], bytes);
        Ok(())
    });
}
