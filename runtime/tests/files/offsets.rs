//! Reading and writing at offsets.

use std::io;

use wo_runtime::error::errno;
use wo_runtime::os::fs::{self, File, OpenOptions};
use wo_runtime::plane::buf::{Buf, BufPool, IoBuf, Slice};

use super::rig::{on_every_kernel, pattern, start_and_drop};

fn both() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options
}

#[test]
fn any_owned_buffer_goes_in_and_comes_back() {
    on_every_kernel(|scratch| async move {
        let file = both().open(scratch.join("file")).await?;
        let pool = BufPool::new(2, 16)?;
        let mut pooled = pool.take().expect("free");
        pooled.extend_from_slice(b"pool");

        let (written, vec) = file.write_at(b"vec-".to_vec(), 0).await;
        assert_eq!((written?, &vec[..]), (4, &b"vec-"[..]));
        file.write_all_at(Box::from(*b"box-"), 4).await.0?;
        file.write_all_at(pooled, 8).await.0?;
        file.write_all_at("-str", 12).await.0?;
        file.write_all_at(String::from("-own"), 16).await.0?;
        file.write_all_at(Slice::new(b"xx-cutxx".to_vec(), 2..6), 20).await.0?;
        assert_eq!(pool.available(), 2, "the pool's buffer came back and went home");

        let (read, boxed) = file.read_at(vec![0u8; 9].into_boxed_slice(), 4).await;
        assert_eq!((read?, &boxed[..]), (9, &b"box-pool-"[..]));
        let (read, buf) = file.read_at(pool.take().expect("free"), 12).await;
        assert_eq!((read?, &buf[..]), (12, &b"-str-own-cut"[..]));
        let (read, buf) = file.read_at(Buf::from_owner([0u8; 3]), 21).await;
        assert_eq!((read?, &buf[..]), (3, &b"cut"[..]));
        // A slice is read into within its bounds, and what lies around it stays.
        let (read, slice) = file.read_at(Slice::new(b"ABCDEF".to_vec(), 1..4), 0).await;
        assert_eq!((read?, &slice.into_inner()[..]), (3, &b"AvecEF"[..]));
        Ok(())
    });
}

#[test]
fn reads_end_short_at_the_end() {
    on_every_kernel(|scratch| async move {
        fs::write(scratch.join("file"), b"0123456789").await?;
        let file = File::open(scratch.join("file")).await?;
        let (read, buf) = file.read_at(Vec::with_capacity(100), 7).await;
        assert_eq!((read?, &buf[..]), (3, &b"789"[..]));
        let (read, buf) = file.read_at(buf, 10).await;
        assert_eq!((read?, &buf[..]), (0, &b""[..]));
        assert_eq!(file.read_at(buf, 1 << 40).await.0?, 0);

        let (read, buf) = file.read_exact_at(vec![0; 4], 6).await;
        read?;
        assert_eq!(&buf[..], b"6789");
        let (read, buf) = file.read_exact_at(vec![0; 4], 8).await;
        let error = read.unwrap_err();
        assert_eq!((error.errno(), error.kind()), (errno::ENODATA, io::ErrorKind::UnexpectedEof));
        assert_eq!(error.context(), format!("{}: it ended after 2 of 4 bytes", scratch.name("file")));
        assert_eq!(&buf[..2], b"89");
        Ok(())
    });
}

#[test]
fn r50_offsets_have_64_bits_and_holes_read_as_zeros() {
    on_every_kernel(|scratch| async move {
        const FAR: u64 = (5 << 30) + 123;
        let file = both().open(scratch.join("sparse")).await?;
        file.write_all_at("far", FAR).await.0?;
        assert_eq!(file.metadata().await?.len(), FAR + 3);
        let (read, buf) = file.read_exact_at(vec![1; 6], FAR - 3).await;
        read?;
        assert_eq!(&buf[..], b"\0\0\0far");
        let (read, buf) = file.read_at(vec![1; 8], 1 << 32).await;
        assert_eq!((read?, &buf[..]), (8, &[0; 8][..]));
        assert!(file.metadata().await?.allocated() < 1 << 20, "the hole takes no space");

        // The position moves across the same distances.
        assert_eq!(file.seek(io::SeekFrom::End(-3)).await?, FAR);
        assert_eq!(file.read(Vec::with_capacity(9)).await.1, b"far");
        assert_eq!(file.seek(io::SeekFrom::Current(0)).await?, FAR + 3);
        file.seek(io::SeekFrom::Start(1 << 33)).await?;
        file.write_all(b"farther").await?;
        assert_eq!(file.metadata().await?.len(), (1 << 33) + 7);
        Ok(())
    });
}

#[test]
fn offsets_nothing_can_have_are_refused() {
    on_every_kernel(|scratch| async move {
        let file = both().open(scratch.join("file")).await?;
        file.write_all(b"abc").await?;
        file.seek(io::SeekFrom::Start(0)).await?;
        // The last one is the number that stands for "no offset" further down.
        for offset in [1 << 63, u64::MAX - 1, u64::MAX] {
            let (read, buf) = file.read_at(vec![9; 3], offset).await;
            assert_eq!((read.unwrap_err().errno(), &buf[..]), (errno::EINVAL, &[9; 3][..]), "{offset}");
            assert_eq!(file.write_at("xyz", offset).await.0.unwrap_err().errno(), errno::EINVAL, "{offset}");
            assert_eq!(file.read_vectored_at(vec![vec![9; 3]], offset).await.0.unwrap_err().errno(), errno::EINVAL);
        }
        assert_eq!(file.read(Vec::with_capacity(9)).await.1, b"abc", "the position has not moved");
        Ok(())
    });
}

#[test]
fn vectored_transfers_go_in_order() {
    on_every_kernel(|scratch| async move {
        let file = both().open(scratch.join("file")).await?;
        let parts = vec![b"ab".to_vec(), Vec::new(), b"cde".to_vec(), b"f".to_vec()];
        let (written, parts) = file.write_vectored_at(parts, 1).await;
        assert_eq!((written?, parts.len()), (6, 4));
        assert_eq!(fs::read(scratch.join("file")).await?, b"\0abcdef");

        let rooms = vec![Vec::with_capacity(3), Vec::new(), Vec::with_capacity(2), b"old".to_vec(), vec![1; 5]];
        let (read, rooms) = file.read_vectored_at(rooms, 0).await;
        assert_eq!(read?, 7);
        assert_eq!(rooms, [&b"\0ab"[..], b"", b"cd", b"ef", b""], "each holds only what was read");

        // More parts than one op carries: the count is short, and what was read is in the first of them.
        let many: Vec<Vec<u8>> = (0..2000).map(|_| b"x".to_vec()).collect();
        let (written, many) = file.write_vectored_at(many, 0).await;
        assert_eq!((written?, many.len()), (1024, 2000));
        let rooms: Vec<Box<[u8]>> = (0..2000).map(|_| vec![0; 1].into_boxed_slice()).collect();
        let (read, rooms) = file.read_vectored_at(rooms, 0).await;
        assert_eq!(read?, 1024);
        assert!(rooms[..1024].iter().all(|room| **room == *b"x") && rooms[1024..].iter().all(|room| **room == [0]));

        assert_eq!(file.read_vectored_at(Vec::<Vec<u8>>::new(), 0).await.0?, 0);
        assert_eq!(file.write_vectored_at(vec![Vec::new(), Vec::new()], 0).await.0?, 0);
        Ok(())
    });
}

#[test]
fn length_and_space_are_set() {
    on_every_kernel(|scratch| async move {
        let file = both().open(scratch.join("file")).await?;
        file.write_all(b"0123456789").await?;
        file.set_len(4).await?;
        assert_eq!(fs::read(scratch.join("file")).await?, b"0123");
        file.set_len(6).await?;
        assert_eq!(fs::read(scratch.join("file")).await?, b"0123\0\0");
        // The position stays behind the end, and the next write leaves a hole.
        file.write_all(b"x").await?;
        assert_eq!(fs::read(scratch.join("file")).await?, b"0123\0\0\0\0\0\0x");
        file.allocate(0, 20_000).await?;
        let stat = file.metadata().await?;
        assert_eq!(stat.len(), 20_000);
        assert!(stat.allocated() >= 20_000, "{}", stat.allocated());
        let error = file.allocate(0, 0).await.unwrap_err();
        assert_eq!(error.errno(), errno::EINVAL, "{error}");
        Ok(())
    });
}

#[test]
fn many_at_once_do_not_meet() {
    on_every_kernel(|scratch| async move {
        let file = both().open(scratch.join("file")).await?;
        let bytes = pattern(64 * 1024);
        let writers: Vec<_> = bytes
            .chunks(1024)
            .enumerate()
            .map(|(index, chunk)| {
                let (file, chunk) = (file.clone(), chunk.to_vec());
                wo_runtime::fiber::spawn(move || async move { file.write_all_at(chunk, index as u64 * 1024).await.0 })
            })
            .collect();
        for writer in writers {
            writer.join().await.expect("no writer panics")?;
        }
        let (read, buf) = file.read_exact_at(Vec::with_capacity(bytes.len()), 0).await;
        read?;
        assert!(buf == bytes);
        Ok(())
    });
}

#[test]
fn r6_buffer_outlives_the_kernels_use_of_it() {
    use std::cell::Cell;
    use std::rc::Rc;

    /// A buffer that says when it is freed. Under an address sanitizer a freed one would be caught being written.
    struct Flagged(Box<[u8]>, Rc<Cell<bool>>);
    impl Drop for Flagged {
        fn drop(&mut self) {
            self.1.set(true);
        }
    }
    // SAFETY: the bytes are a box's, which do not move with it.
    unsafe impl IoBuf for Flagged {
        fn as_ptr(&self) -> *const u8 {
            self.0.as_ptr()
        }
        fn len(&self) -> usize {
            self.0.len()
        }
    }
    // SAFETY: as above.
    unsafe impl wo_runtime::plane::buf::IoBufMut for Flagged {
        fn as_mut_ptr(&mut self) -> *mut u8 {
            self.0.as_mut_ptr()
        }
        fn capacity(&self) -> usize {
            self.0.len()
        }
        unsafe fn set_len(&mut self, _len: usize) {}
    }

    on_every_kernel(|_| async {
        let (reader, writer) = wo_runtime::os::io::pipe()?;
        let freed = Rc::new(Cell::new(false));
        // The turn is taken and the read is with the kernel; nothing will come on this pipe but its cancel.
        assert!(start_and_drop(reader.read(Flagged(Box::new([0; 64]), Rc::clone(&freed)))).await);
        assert!(!freed.get(), "the kernel has not said its last word yet");
        while !freed.get() {
            wo_runtime::fiber::yield_now().await?;
        }
        writer.write_all(b"later").await?;
        assert_eq!(reader.read(Vec::with_capacity(9)).await.1, b"later");
        Ok(())
    });
}

#[test]
fn durable_write_lands_at_its_offset_and_answers_its_count() {
    on_every_kernel(|scratch| async move {
        let file = OpenOptions::new().read(true).write(true).create(true).open(scratch.join("file")).await?;
        let (count, buf) = file.write_durable_at(b"second".to_vec(), 5).await;
        assert_eq!((count?, buf), (6, b"second".to_vec()));
        assert_eq!(file.write_durable_at("first", 0).await.0?, 5);
        assert_eq!(fs::read(scratch.join("file")).await?, b"firstsecond");

        let reading = File::open(scratch.join("file")).await?;
        let refused = reading.write_durable_at("no", 0).await.0.unwrap_err();
        assert_eq!(refused.errno(), errno::EBADF);
        assert!(refused.to_string().contains(&scratch.name("file")), "{refused}");
        assert_eq!(file.write_durable_at("no", u64::MAX).await.0.unwrap_err().errno(), errno::EINVAL);
        Ok(())
    });
}
