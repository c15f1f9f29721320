//! Pipes, FIFOs, devices, standard streams, foreign descriptors.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use wo_runtime::error::errno;
use wo_runtime::fiber;
use wo_runtime::os::fs::{self, File, OpenOptions};
use wo_runtime::os::io::{pipe, readable, writable};

use super::rig::{on_every_kernel, on_every_kernel_and_budget, on_real_kernels, pattern, poll_once, start_and_drop};

#[test]
fn what_goes_into_a_pipe_comes_out() {
    on_every_kernel(|_| async {
        let (reader, writer) = pipe()?;
        let sent = pattern(1_000_000);
        let bytes = sent.clone();
        let writing = fiber::spawn(move || async move {
            writer.write_all(&bytes).await?;
            writer.close().await
        });
        assert!(reader.read_to_end().await? == sent);
        assert_eq!(reader.read(Vec::with_capacity(1)).await.0?, 0, "the end stays the end");
        writing.join().await.expect("the writer does not panic")
    });
}

#[test]
fn writers_to_one_stream_do_not_mix_their_bytes() {
    on_every_kernel(|_| async {
        let (reader, writer) = pipe()?;
        let writers: Vec<_> = (0..3u8)
            .map(|letter| {
                let writer = writer.clone();
                fiber::spawn(move || async move { writer.write_all(&vec![letter; 300_000]).await })
            })
            .collect();
        drop(writer);
        let read = reader.read_to_end().await?;
        assert_eq!(read.len(), 900_000);
        assert_eq!(read.chunk_by(|a, b| a == b).map(<[u8]>::len).collect::<Vec<_>>(), [300_000; 3]);
        for writer in writers {
            writer.join().await.expect("no writer panics")?;
        }
        Ok(())
    });
}

#[test]
fn a_reader_that_waits_holds_up_no_writer() {
    on_every_kernel(|_| async {
        let (reader, writer) = pipe()?;
        let mut waits = Box::pin(reader.read(Vec::with_capacity(4)));
        assert!(poll_once(waits.as_mut()).await.is_none());
        writer.write_all(b"go on").await?;
        assert_eq!(waits.await.1, b"go o");
        Ok(())
    });
}

#[test]
fn bytes_of_a_dropped_read_go_to_the_next() {
    on_every_kernel_and_budget(|_| async {
        let (reader, writer) = pipe()?;
        let mut expected = Vec::new();
        let mut read = Vec::new();
        for round in 0..300u32 {
            let bytes = round.to_le_bytes();
            expected.extend_from_slice(&bytes);
            // Before or after its bytes are there; an exact read may have a part of them already, and one that has all
            // it wants has answered.
            let mut answered = None;
            if round % 3 == 0 {
                writer.write_all(&bytes).await?;
                answered = poll_once(std::pin::pin!(reader.read(Vec::with_capacity(64)))).await.map(|(_, buf)| buf);
            } else {
                let mut dropped = Box::pin(reader.read_exact(vec![0; 6]));
                assert!(poll_once(dropped.as_mut()).await.is_none(), "nothing, or too little, is kept for it");
                writer.write_all(&bytes).await?;
                if round % 3 == 1 {
                    fiber::yield_now().await?;
                    answered = poll_once(dropped.as_mut()).await.map(|(_, buf)| buf);
                }
            }
            read.extend(answered.unwrap_or_default());
            if round % 5 == 0 {
                let (count, buf) = reader.read(Vec::with_capacity(3)).await;
                assert_eq!(count?, buf.len());
                read.extend_from_slice(&buf);
            }
        }
        drop(writer);
        read.extend(reader.read_to_end().await?);
        let same = read.iter().zip(&expected).take_while(|(a, b)| a == b).count();
        assert_eq!((same, read.len()), (expected.len(), expected.len()), "the bytes differ from {same} on");
        Ok(())
    });
}

#[test]
fn an_exact_read_that_fails_gives_a_streams_bytes_back() {
    on_every_kernel(|_| async {
        let (reader, writer) = pipe()?;
        writer.write_all(b"abc").await?;
        drop(writer);
        let (read, buf) = reader.read_exact(vec![0; 5]).await;
        assert_eq!(read.unwrap_err().context(), "pipe: it ended after 3 of 5 bytes");
        assert_eq!(&buf[..3], b"abc");
        assert_eq!(reader.read_to_end().await?, b"abc");
        Ok(())
    });
}

#[test]
fn a_pipe_nobody_reads_is_an_error_and_no_signal() {
    on_every_kernel(|_| async {
        let (reader, writer) = pipe()?;
        drop(reader);
        let error = writer.write_all(b"lost").await.unwrap_err();
        assert_eq!(error.errno(), errno::EPIPE);
        assert_eq!(error.context(), "pipe: nobody reads its other end any more");
        Ok(())
    });
}

#[test]
fn streams_have_no_positions() {
    on_every_kernel(|_| async {
        let (reader, writer) = pipe()?;
        writer.write_all(b"abc").await?;
        let error = reader.seek(io::SeekFrom::Start(0)).await.unwrap_err();
        assert_eq!(error.errno(), errno::ESPIPE, "{error}");
        assert_eq!(reader.read_at(vec![0; 2], 0).await.0.unwrap_err().errno(), errno::ESPIPE);
        assert_eq!(writer.write_at("x", 0).await.0.unwrap_err().errno(), errno::ESPIPE);
        assert_eq!(reader.read(Vec::with_capacity(8)).await.1, b"abc", "nothing was taken");
        Ok(())
    });
}

#[test]
fn r52_devices_and_fifos_read_and_write() {
    on_real_kernels(|scratch| async move {
        let null = OpenOptions::new().read(true).write(true).open("/dev/null").await?;
        null.write_all(&pattern(100_000)).await?;
        assert_eq!(null.read(Vec::with_capacity(8)).await.0?, 0);
        assert_eq!(fs::read("/dev/null").await?, b"");
        let zero = File::open("/dev/zero").await?;
        let (read, buf) = zero.read_exact(vec![1; 10_000]).await;
        read?;
        assert!(buf.iter().all(|byte| *byte == 0));

        let fifo = scratch.join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs");
        assert!(made.success());
        let path = fifo.clone();
        let writing = fiber::spawn(move || async move {
            let end = OpenOptions::new().write(true).open(path).await?;
            end.write_all(b"through ").await?;
            end.write_all(b"the fifo").await
        });
        // Opening waits for the other end; reading ends when that is closed.
        assert_eq!(fs::read(&fifo).await?, b"through the fifo");
        writing.join().await.expect("the writer does not panic")
    });
}

#[test]
fn foreign_descriptors_are_waited_for() {
    on_real_kernels(|_| async {
        let (mut ours, mut theirs) = UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("a socket can be non-blocking");
        assert!(writable(&ours).await?.writable);

        let reader = ours.try_clone().expect("a clone");
        let waiting = fiber::spawn(move || async move { readable(&reader).await });
        fiber::yield_now().await?;
        assert!(!waiting.is_finished(), "nothing is there to read");
        theirs.write_all(b"now").expect("room in a new socket");
        let ready = waiting.join().await.expect("the waiter does not panic")?;
        assert!(ready.readable && !ready.hangup, "{ready:?}");
        let mut bytes = [0; 3];
        ours.read_exact(&mut bytes).expect("it was readable");
        assert_eq!(&bytes, b"now");

        // A wait that is dropped takes nothing, and the descriptor may be waited for again, or closed.
        assert!(start_and_drop(readable(&ours)).await);
        theirs.write_all(b"then").expect("room in the socket");
        assert!(readable(&ours).await?.readable);
        let mut rest = [0; 4];
        ours.read_exact(&mut rest).expect("it was readable");
        drop(theirs);
        let ready = readable(&ours).await?;
        assert!(ready.hangup || ready.readable, "{ready:?}");
        assert_eq!(ours.read(&mut rest).expect("the end of file"), 0);
        Ok(())
    });
}

#[test]
fn the_wait_owns_what_it_is_given() {
    on_real_kernels(|_| async {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let waiting = fiber::spawn(readable(ours));
        fiber::yield_now().await?;
        drop(theirs);
        assert!(waiting.join().await.expect("the waiter does not panic").is_ok());
        Ok(())
    });
}

#[test]
fn standard_output_takes_bytes_and_stays_open() {
    on_real_kernels(|_| async {
        wo_runtime::os::io::stdout()?.write_all(b"").await?;
        wo_runtime::os::io::stderr()?.write_all(b"a line from a test\n").await?;
        wo_runtime::os::io::stderr()?.close().await?;
        wo_runtime::os::io::stderr()?.write_all(b"another\n").await?;
        Ok(())
    });
}
