//! What the verbs make of short transfers, full disks and failed syncs, and of completions that come at any moment.

use std::io::SeekFrom;

use wo_runtime::error::{IoResult, OpKind, errno};
use wo_runtime::fiber;
use wo_runtime::os::fs::{self, File, OpenOptions};
use wo_runtime::os::io::pipe;
use wo_runtime::plane::backend::sim::SimControl;
use wo_runtime::plane::backend::{AnyBackend, Selection};
use wo_runtime::plane::current::with_loop;
use wo_runtime::shard::Builder;

use super::rig::{pattern, poll_once};

/// Runs `body` in a simulated world, with its fault controls.
fn in_a_world<F: Future<Output = IoResult<()>> + 'static>(body: impl FnOnce(SimControl) -> F + 'static) {
    let ran = Builder::new().io(Selection::Sim).run(|| async {
        let control = with_loop(OpKind::None, |event_loop| match event_loop.backend() {
            AnyBackend::Sim(sim) => Ok(sim.control()),
            other => panic!("not a simulated world: {other:?}"),
        })?;
        body(control).await
    });
    ran.expect("the program runs to its end").unwrap_or_else(|error| panic!("{error}"));
}

async fn both(path: &str) -> IoResult<File> {
    OpenOptions::new().read(true).write(true).create(true).open(path).await
}

#[test]
fn short_transfers_go_on_where_they_ended() {
    in_a_world(|control| async move {
        let file = both("/tmp/file").await?;
        let bytes = pattern(200_000);
        let shorten = |kind| [1, 1000, 65_536, 3].map(|len| control.short_next(kind, len));

        shorten(OpKind::Write);
        file.write_all_at(bytes.clone(), 5).await.0?;
        shorten(OpKind::Read);
        let (read, buf) = file.read_exact_at(Vec::with_capacity(bytes.len()), 5).await;
        read?;
        assert!(buf == bytes);

        shorten(OpKind::Write);
        file.write_all(&bytes).await?;
        file.seek(SeekFrom::Start(0)).await?;
        shorten(OpKind::Read);
        let (read, buf) = file.read_exact(Vec::with_capacity(150_000)).await;
        read?;
        assert!(buf == bytes[..150_000]);
        shorten(OpKind::Read);
        assert!(file.read_to_end().await?[..50_000] == bytes[150_000..]);

        shorten(OpKind::Write);
        fs::write("/tmp/whole", &bytes).await?;
        shorten(OpKind::Read);
        assert!(fs::read("/tmp/whole").await? == bytes);
        Ok(())
    });
}

#[test]
fn a_full_disk_is_told_with_what_was_written() {
    in_a_world(|control| async move {
        let file = both("/tmp/file").await?;
        for whole in [false, true] {
            file.seek(SeekFrom::Start(0)).await?;
            control.short_next(OpKind::Write, 4);
            control.fail_next(OpKind::Write, errno::ENOSPC);
            let error = if whole {
                file.write_all(b"0123456789").await.unwrap_err()
            } else {
                file.write_all_at("0123456789", 0).await.0.unwrap_err()
            };
            assert_eq!(error.errno(), errno::ENOSPC);
            assert_eq!(error.context(), "/tmp/file: after 4 of 10 bytes: the file system is full");
        }
        assert_eq!(file.seek(SeekFrom::Current(0)).await?, 4, "the position stands behind what was written");
        assert_eq!(fs::read("/tmp/file").await?, b"0123");

        control.answer_next(OpKind::Write, 0);
        let error = file.write_all(b"x").await.unwrap_err();
        assert_eq!((error.errno(), error.context()), (errno::EIO, "/tmp/file: it takes no more bytes"));
        Ok(())
    });
}

#[test]
fn failed_reads_leave_the_position_and_a_streams_bytes() {
    in_a_world(|control| async move {
        let file = both("/tmp/file").await?;
        file.write_all(b"0123456789").await?;
        file.seek(SeekFrom::Start(2)).await?;
        control.fail_next(OpKind::Read, errno::EIO);
        assert_eq!(file.read(vec![7; 4]).await.0.unwrap_err().errno(), errno::EIO);
        control.short_next(OpKind::Read, 3);
        control.fail_next(OpKind::Read, errno::EIO);
        assert_eq!(file.read_to_end().await.unwrap_err().errno(), errno::EIO);
        assert_eq!(file.read_to_end().await?, b"23456789", "nothing of it was read");

        file.seek(SeekFrom::Start(2)).await?;
        control.short_next(OpKind::Read, 3);
        control.fail_next(OpKind::Read, errno::EIO);
        let (read, buf) = file.read_exact(vec![0; 6]).await;
        assert_eq!(read.unwrap_err().context(), "/tmp/file: after 3 of 6 bytes");
        assert_eq!(&buf[..3], b"234");
        assert_eq!(file.read_to_end().await?, b"56789", "the buffer has what is missing here");

        let (reader, writer) = pipe()?;
        writer.write_all(b"abcdef").await?;
        drop(writer);
        control.short_next(OpKind::Read, 2);
        control.fail_next(OpKind::Read, errno::EIO);
        assert_eq!(reader.read_to_end().await.unwrap_err().errno(), errno::EIO);
        assert_eq!(reader.read_to_end().await?, b"abcdef");
        Ok(())
    });
}

#[test]
fn a_failed_sync_says_what_it_means() {
    in_a_world(|control| async move {
        let file = both("/tmp/file").await?;
        control.fail_next(OpKind::Sync, errno::EIO);
        let error = file.sync_data().await.unwrap_err();
        assert_eq!((error.op(), error.errno()), (OpKind::Sync, errno::EIO));
        assert!(error.context().starts_with("/tmp/file: what was written since the last sync may be lost"), "{error}");
        Ok(())
    });
}

#[test]
fn the_next_reader_waits_for_a_dropped_reads_last_word() {
    in_a_world(|control| async move {
        let (reader, writer) = pipe()?;
        writer.write_all(b"first second").await?;
        control.hold_completions();
        let mut dropped = Box::pin(reader.read(Vec::with_capacity(6)));
        assert!(poll_once(dropped.as_mut()).await.is_none());
        while control.held().is_empty() {
            fiber::yield_turn().await;
        }
        // The kernel has read; nobody knows yet, and the reader goes.
        drop(dropped);
        let mut next = Box::pin(reader.read(Vec::with_capacity(20)));
        for _ in 0..3 {
            assert!(poll_once(next.as_mut()).await.is_none(), "the bytes in front are still on their way");
            fiber::yield_turn().await;
        }
        control.release_all();
        let (read, buf) = next.await;
        assert_eq!((read?, &buf[..]), (6, &b"first "[..]));
        assert_eq!(reader.read(Vec::with_capacity(20)).await.1, b"second");
        Ok(())
    });
}

#[test]
fn the_next_writer_waits_for_a_dropped_writes_last_word() {
    in_a_world(|control| async move {
        let file = both("/tmp/file").await?;
        control.hold_completions();
        let mut dropped = Box::pin(file.write(b"landed ".to_vec()));
        assert!(poll_once(dropped.as_mut()).await.is_none());
        while control.held().is_empty() {
            fiber::yield_turn().await;
        }
        drop(dropped);
        let mut next = Box::pin(file.write_all(b"behind it"));
        for _ in 0..3 {
            assert!(poll_once(next.as_mut()).await.is_none(), "nobody knows where the first one ended");
            fiber::yield_turn().await;
        }
        assert_eq!(control.held().len(), 1, "the second one is not with the kernel");
        control.release_all();
        next.await?;
        assert_eq!(fs::read("/tmp/file").await?, b"landed behind it");
        Ok(())
    });
}

#[test]
fn a_file_opened_for_nobody_is_closed() {
    in_a_world(|control| async move {
        fs::write("/tmp/file", b"x").await?;
        let before = control.open_descriptors();
        control.hold_completions();
        let mut dropped = Box::pin(File::open("/tmp/file"));
        assert!(poll_once(dropped.as_mut()).await.is_none());
        while control.held().is_empty() {
            fiber::yield_turn().await;
        }
        assert_eq!(control.open_descriptors(), before + 1, "it was opened, and nobody knows yet");
        drop(dropped);
        control.release_all();
        // An op behind it, so that its last word was told.
        fs::metadata("/tmp/file").await?;
        assert_eq!(control.open_descriptors(), before);
        Ok(())
    });
}

#[test]
fn durable_write_meets_what_was_ordered_for_writes_and_for_syncs() {
    in_a_world(|control| async move {
        let file = both("/tmp/file").await?;
        control.short_next(OpKind::Write, 3);
        assert_eq!(file.write_durable_at("abcdef", 0).await.0?, 3);
        control.fail_next(OpKind::Sync, errno::EIO);
        assert_eq!(file.write_durable_at("xyz", 0).await.0.unwrap_err().errno(), errno::EIO);
        assert_eq!(file.write_durable_at("def", 3).await.0?, 3);
        assert_eq!(fs::read("/tmp/file").await?, b"abcdef");
        Ok(())
    });
}
