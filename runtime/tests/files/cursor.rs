//! Where a handle stands: turns, what a dropped verb leaves behind, appending.

use std::cell::RefCell;
use std::io::SeekFrom;
use std::rc::Rc;

use wo_runtime::error::{OpKind, errno};
use wo_runtime::fiber;
use wo_runtime::os::fs::{self, File, OpenOptions};

use super::rig::{on_every_kernel, on_every_kernel_and_budget, poll_once, start_and_drop};

#[test]
fn r50_two_reads_at_once_give_disjoint_halves() {
    on_every_kernel_and_budget(|scratch| async move {
        fs::write(scratch.join("file"), b"0123456789abcdefghij").await?;
        let file = File::open(scratch.join("file")).await?;
        let halves: Vec<_> = (0..2)
            .map(|_| {
                let file = file.clone();
                fiber::spawn(move || async move { file.read(Vec::with_capacity(10)).await })
            })
            .collect();
        let mut read = Vec::new();
        for half in halves {
            let (count, buf) = half.join().await.expect("no reader panics");
            assert_eq!(count?, 10);
            read.push(buf);
        }
        assert_eq!(read, [b"0123456789", b"abcdefghij"], "first come, first served");
        assert_eq!(file.read(Vec::with_capacity(10)).await.0?, 0);

        // Started in one fiber, both in flight, the second one awaited first.
        file.seek(SeekFrom::Start(0)).await?;
        let mut first = Box::pin(file.read(Vec::with_capacity(10)));
        let mut second = Box::pin(file.read(Vec::with_capacity(10)));
        assert!(poll_once(first.as_mut()).await.is_none());
        assert!(poll_once(second.as_mut()).await.is_none());
        assert_eq!(first.await.1, b"0123456789");
        assert_eq!(second.await.1, b"abcdefghij");
        Ok(())
    });
}

#[test]
fn r50_positional_verbs_leave_the_position_alone() {
    on_every_kernel(|scratch| async move {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).open(scratch.join("file")).await?;
        file.write_all(b"0123456789").await?;
        file.seek(SeekFrom::Start(2)).await?;
        file.read_exact_at(vec![0; 5], 5).await.0?;
        file.write_all_at("XX", 0).await.0?;
        file.read_vectored_at(vec![vec![0; 2]], 4).await.0?;
        file.write_vectored_at(vec!["Y"], 9).await.0?;
        assert_eq!(file.read_to_end().await?, b"2345678Y");
        assert_eq!(fs::read(scratch.join("file")).await?, b"XX2345678Y");
        Ok(())
    });
}

#[test]
fn reads_and_writes_share_the_position() {
    on_every_kernel(|scratch| async move {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).open(scratch.join("file")).await?;
        let (written, _) = file.write(b"hello world".to_vec()).await;
        assert_eq!(written?, 11);
        assert_eq!(file.seek(SeekFrom::Current(-5)).await?, 6);
        file.write_all(b"W").await?;
        let (read, buf) = file.read_exact(vec![0; 4]).await;
        read?;
        assert_eq!(&buf[..], b"orld");
        let clone = file.clone();
        file.seek(SeekFrom::Start(0)).await?;
        let mut borrowed = [0; 5];
        assert_eq!(clone.read_into(&mut borrowed).await?, 5);
        assert_eq!(&borrowed, b"hello");
        assert_eq!(file.read_to_end().await?, b" World");
        Ok(())
    });
}

#[test]
fn positions_are_refused_that_no_file_has() {
    on_every_kernel(|scratch| async move {
        fs::write(scratch.join("file"), b"12345").await?;
        let file = File::open(scratch.join("file")).await?;
        file.seek(SeekFrom::Start(3)).await?;
        for to in [SeekFrom::Current(-4), SeekFrom::End(-6), SeekFrom::Start(1 << 63), SeekFrom::Current(i64::MAX)] {
            let error = file.seek(to).await.unwrap_err();
            assert_eq!((error.op(), error.errno()), (OpKind::Seek, errno::EINVAL), "{to:?}: {error}");
        }
        assert_eq!(file.read_to_end().await?, b"45");
        assert_eq!(file.seek(SeekFrom::End(10)).await?, 15);
        assert_eq!(file.read(Vec::with_capacity(4)).await.0?, 0);
        Ok(())
    });
}

#[test]
fn a_dropped_read_has_read_nothing() {
    on_every_kernel_and_budget(|scratch| async move {
        fs::write(scratch.join("file"), b"0123456789").await?;
        for _ in 0..100 {
            let file = File::open(scratch.join("file")).await?;
            assert_eq!(file.read(Vec::with_capacity(2)).await.1, b"01");
            start_and_drop(file.read(Vec::with_capacity(4))).await;
            start_and_drop(file.read_exact(Vec::with_capacity(4))).await;
            start_and_drop(file.read_to_end()).await;
            let (read, buf) = file.read_exact(Vec::with_capacity(8)).await;
            read?;
            assert_eq!(buf, b"23456789");
        }
        Ok(())
    });
}

#[test]
fn a_dropped_write_never_lands_on_a_later_one() {
    on_every_kernel(|scratch| async move {
        let path = scratch.join("file");
        let (mut landed, mut lost) = (0, 0);
        for round in 0..200 {
            let file = File::create(&path).await?;
            assert_eq!(file.seek(SeekFrom::Start(0)).await?, 0);
            let mut dropped = Box::pin(file.write(vec![b'a'; 100_000]));
            assert!(poll_once(dropped.as_mut()).await.is_none());
            // Before the kernel has seen it, while it is under way, or when it has landed and nobody has asked.
            match round % 3 {
                0 => {}
                1 => fiber::yield_now().await?,
                _ => while fs::metadata(&path).await?.is_empty() {},
            }
            drop(dropped);
            file.write_all(&[b'b'; 100_000]).await?;
            let bytes = fs::read(&path).await?;
            let begins = bytes.iter().position(|byte| *byte == b'b').expect("the second write is there");
            assert!(bytes[..begins].iter().all(|byte| *byte == b'a'));
            assert!(bytes[begins..] == [b'b'; 100_000], "the second write is whole, {begins} bytes in");
            if begins > 0 { landed += 1 } else { lost += 1 }
        }
        assert!(landed >= 66, "the dropped write landed {landed} times, and {lost} times not");
        Ok(())
    });
}

#[test]
fn whoever_waits_for_a_turn_and_goes_away_is_passed_over() {
    on_every_kernel_and_budget(|scratch| async move {
        fs::write(scratch.join("file"), b"0123456789").await?;
        let file = File::open(scratch.join("file")).await?;
        file.seek(SeekFrom::Start(0)).await?;
        let mut first = Box::pin(file.read(Vec::with_capacity(2)));
        let mut gone = Box::pin(file.read(Vec::with_capacity(2)));
        let mut last = Box::pin(file.read(Vec::with_capacity(2)));
        assert!(poll_once(first.as_mut()).await.is_none());
        assert!(poll_once(gone.as_mut()).await.is_none());
        assert!(poll_once(last.as_mut()).await.is_none());
        drop(gone);
        assert_eq!(first.await.1, b"01");
        assert_eq!(last.await.1, b"23");
        Ok(())
    });
}

#[test]
fn appending_writers_do_not_overwrite_each_other() {
    on_every_kernel(|scratch| async move {
        let path = scratch.join("log");
        fs::write(&path, b"head\n").await?;
        let mut options = OpenOptions::new();
        options.read(true).append(true);
        let shared = options.open(&path).await?;
        let writers: Vec<_> = (0..20)
            .map(|writer| {
                let (shared, path) = (shared.clone(), path.clone());
                fiber::spawn(move || async move {
                    // Half of them through one handle, half through handles of their own.
                    let own = if writer % 2 == 0 { shared } else { OpenOptions::new().append(true).open(path).await? };
                    for line in 0..10 {
                        own.write_all(format!("{writer:02} {line}\n").as_bytes()).await?;
                    }
                    Ok::<_, wo_runtime::error::IoError>(())
                })
            })
            .collect();
        for writer in writers {
            writer.join().await.expect("no writer panics")?;
        }
        let text = fs::read_to_string(&path).await?;
        let mut lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines.remove(0)), (201, "head"));
        for writer in 0..20 {
            let own: Vec<&str> =
                lines.iter().copied().filter(|line| line.starts_with(&format!("{writer:02}"))).collect();
            let expected: Vec<String> = (0..10).map(|line| format!("{writer:02} {line}")).collect();
            assert_eq!(own, expected);
        }
        // Appending has not moved the position the reads use.
        assert_eq!(shared.read(Vec::with_capacity(5)).await.1, b"head\n");
        Ok(())
    });
}

#[test]
fn stopping_ends_the_waits_for_a_turn() {
    on_every_kernel(|_| async {
        let (reader, _writer) = wo_runtime::os::io::pipe()?;
        let answers = Rc::new(RefCell::new(Vec::new()));
        for _ in 0..3 {
            let (reader, answers) = (reader.clone(), Rc::clone(&answers));
            let _detached = fiber::spawn(move || async move {
                let answer = reader.read(Vec::with_capacity(8)).await.0;
                answers.borrow_mut().push(answer);
            });
        }
        fiber::yield_now().await?;
        wo_runtime::shard::stop();
        while answers.borrow().len() < 3 {
            fiber::yield_turn().await;
        }
        for answer in answers.take() {
            let error = answer.expect_err("nothing was written");
            assert!(error.is_cancelled(), "{error}");
            assert!(error.context().starts_with("pipe"), "{error}");
        }
        Ok(())
    });
}
