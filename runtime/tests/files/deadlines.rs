//! Reads and writes with a deadline: nothing by then is a value, and loses nothing.

use std::io::SeekFrom;
use std::time::Duration;

use wo_runtime::error::errno;
use wo_runtime::fiber;
use wo_runtime::os::fs::{File, OpenOptions};
use wo_runtime::os::io::pipe;
use wo_runtime::plane::{Deadline, Instant, Written};

use super::rig::{on_every_kernel, on_every_kernel_and_budget, poll_once};

const SOON: Duration = Duration::from_millis(3);

#[test]
fn nothing_by_then_is_none_and_the_next_read_gets_what_comes() {
    on_every_kernel(|_| async {
        let (reader, writer) = pipe()?;
        let before = fiber::now();
        let (read, buf) = reader.read_by(Vec::with_capacity(16), SOON).await;
        assert_eq!((read?, buf.capacity()), (None, 16));
        assert!(fiber::now() - before >= SOON);
        assert_eq!(reader.read_into_by(&mut [0; 16], SOON).await?, None);
        writer.write_all(b"hello").await?;
        let mut into = [0; 16];
        assert_eq!(reader.read_into_by(&mut into, SOON).await?, Some(5));
        assert_eq!(&into[..5], b"hello");
        drop(writer);
        assert_eq!(reader.read_by(Vec::with_capacity(16), SOON).await.0?, Some(0), "the end is no none");
        Ok(())
    });
}

#[test]
fn a_deadline_that_has_passed_still_brings_what_is_there_or_none() {
    on_every_kernel(|_| async {
        let (reader, writer) = pipe()?;
        let past = Deadline::At(Instant::ORIGIN);
        assert_eq!(reader.read_by(Vec::with_capacity(16), past).await.0?, None);
        assert_eq!(writer.write_by(b"late".to_vec(), past).await.0?, None);
        assert_eq!(writer.write_all_by(b"late", past).await?, Written::Nothing);
        assert_eq!(writer.write_all_by(b"", past).await?, Written::All);
        writer.write_all(b"in time").await?;
        assert_eq!(reader.read(Vec::with_capacity(16)).await.0?, 7, "nothing was written before");
        Ok(())
    });
}

#[test]
fn no_byte_is_lost_to_deadlines() {
    on_every_kernel_and_budget(|_| async {
        let (reader, writer) = pipe()?;
        let writing = fiber::spawn(move || async move {
            for number in 0..200_u8 {
                // Now before a deadline of the reader's, now behind it, and now in the very moment.
                fiber::sleep(Duration::from_micros(u64::from(number % 7) * 20)).await?;
                writer.write_all(&[number; 3]).await?;
            }
            writer.close().await
        });
        let mut read = Vec::new();
        let mut turns = 0;
        loop {
            turns += 1;
            if turns % 2 == 0 {
                let (exact, buf) = reader.read_exact_by(vec![0; 5], Duration::from_micros(60)).await;
                match exact {
                    Ok(Some(())) => read.extend(buf),
                    Ok(None) => {}
                    Err(error) => {
                        assert_eq!(error.errno(), errno::ENODATA, "{error}");
                        read.extend(reader.read_to_end().await?);
                        break;
                    }
                }
            } else {
                let (some, buf) = reader.read_by(Vec::with_capacity(4), Duration::from_micros(60)).await;
                match some? {
                    Some(0) => break,
                    Some(_) => read.extend(buf),
                    None => {}
                }
            }
        }
        let expected: Vec<u8> = (0..200).flat_map(|number| [number; 3]).collect();
        assert!(read == expected, "{} bytes of {}", read.len(), expected.len());
        writing.join().await.expect("the writer does not panic")
    });
}

#[test]
fn an_exact_read_by_then_has_all_or_leaves_all() {
    on_every_kernel(|scratch| async move {
        let (reader, writer) = pipe()?;
        writer.write_all(b"half").await?;
        let (read, _) = reader.read_exact_by(vec![0; 8], SOON).await;
        assert_eq!(read?, None);
        writer.write_all(b"full").await?;
        let (read, buf) = reader.read_exact_by(vec![0; 8], SOON).await;
        assert_eq!((read?, &buf[..]), (Some(()), &b"halffull"[..]));

        let path = scratch.join("position");
        let file = OpenOptions::new().read(true).write(true).create(true).open(&path).await?;
        file.write_all(b"0123456789").await?;
        file.seek(SeekFrom::Start(2)).await?;
        let (read, _) = file.read_exact_by(vec![0; 3], Deadline::At(Instant::ORIGIN)).await;
        assert_eq!(read?, None);
        assert_eq!(file.seek(SeekFrom::Current(0)).await?, 2, "the position has not moved");
        let (read, buf) = file.read_exact_by(vec![0; 3], Duration::from_secs(60)).await;
        assert_eq!((read?, &buf[..]), (Some(()), &b"234"[..]));
        assert_eq!(file.seek(SeekFrom::Current(0)).await?, 5);
        let (read, buf) = file.read_exact_by(vec![0; 9], Duration::from_secs(60)).await;
        assert_eq!((read.unwrap_err().errno(), &buf[..5]), (errno::ENODATA, &b"56789"[..]));
        Ok(())
    });
}

#[test]
fn a_torn_write_says_so_and_can_be_gone_on_with() {
    on_every_kernel(|_| async {
        let (reader, writer) = pipe()?;
        let bytes: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
        let mut span = SOON;
        let count = loop {
            match writer.write_all_by(&bytes, span).await? {
                Written::Torn(count) => break count,
                // The deadline came before the first byte was taken, on a machine that is busy.
                Written::Nothing => span *= 2,
                Written::All => panic!("a pipe holds less than that"),
            }
        };
        assert_eq!(writer.write_by(vec![0; 5000], SOON).await.0?, None, "it is full");
        assert_eq!(writer.write_all_by(&[0; 5000], SOON).await?, Written::Nothing);
        let rest = bytes[count..].to_vec();
        let writing = fiber::spawn(move || async move {
            let written = writer.write_all_by(&rest, Duration::from_secs(60)).await;
            writer.close().await?;
            written
        });
        assert!(reader.read_to_end().await? == bytes);
        assert_eq!(writing.join().await.expect("the writer does not panic")?, Written::All);
        Ok(())
    });
}

#[test]
fn who_waits_for_its_turn_has_a_deadline_too() {
    on_every_kernel(|_| async {
        let (reader, writer) = pipe()?;
        let mut first = Box::pin(reader.read(Vec::with_capacity(4)));
        assert!(poll_once(first.as_mut()).await.is_none());
        assert_eq!(reader.read_by(Vec::with_capacity(4), SOON).await.0?, None);
        assert_eq!(reader.read_exact_by(vec![0; 4], SOON).await.0?, None);

        let mut full = Box::pin(writer.write_all(&[7; 200_000]));
        assert!(poll_once(full.as_mut()).await.is_none());
        assert_eq!(writer.write_by(b"behind".to_vec(), SOON).await.0?, None);
        assert_eq!(writer.write_all_by(b"behind", SOON).await?, Written::Nothing);

        // They have left the queue: those who come after have their turn.
        assert_eq!(first.await.0?, 4);
        let third = reader.read_by(vec![0; 4], Duration::from_secs(60)).await;
        assert_eq!(third.0?, Some(4));
        Ok(())
    });
}

#[test]
fn no_deadline_is_the_plain_verb() {
    on_every_kernel(|scratch| async move {
        let path = scratch.join("plain");
        let file = File::create(&path).await?;
        assert_eq!(file.write_by(b"abc".to_vec(), Duration::ZERO).await.0?, Some(3));
        assert_eq!(file.write_all_by(b"def", None).await?, Written::All);
        file.close().await?;
        let file = File::open(&path).await?;
        assert_eq!(file.read_by(Vec::with_capacity(4), Duration::ZERO).await.0?, Some(4));
        assert_eq!(file.read_exact_by(vec![0; 2], Deadline::None).await.0?, Some(()));
        assert_eq!(file.read_into_by(&mut [0; 2], Duration::MAX).await?, Some(0));
        assert_eq!(file.write_by(b"x".to_vec(), SOON).await.0.unwrap_err().errno(), errno::EBADF);
        Ok(())
    });
}
