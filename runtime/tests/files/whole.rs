//! Whole files in one call, and opening and closing them.

use std::io;

use wo_runtime::error::{IoError, OpKind, errno};
use wo_runtime::os::fs::{self, File, OpenOptions};

use super::rig::{on_every_kernel, on_real_kernels, pattern};

#[test]
fn what_is_written_is_read() {
    on_every_kernel(|scratch| async move {
        let path = scratch.join("file");
        for len in [0, 1, 4095, 4096, 4097, 65_536, 65_537, 3_000_001] {
            let bytes = pattern(len);
            fs::write(&path, &bytes).await?;
            assert!(fs::read(&path).await? == bytes, "{len} bytes");
            assert_eq!(fs::metadata(&path).await?.len(), len as u64);
        }
        fs::write(&path, "short again").await?;
        assert_eq!(fs::read_to_string(&path).await?, "short again");
        Ok(())
    });
}

#[test]
fn files_that_say_they_are_empty_are_read_to_their_end() {
    on_real_kernels(|_| async {
        let status = fs::read_to_string("/proc/self/status").await?;
        assert!(status.starts_with("Name:") && status.ends_with('\n'), "{status}");
        // Longer than the first room made for it.
        let maps = fs::read("/proc/self/maps").await?;
        assert!(maps.len() > 4096, "{} bytes", maps.len());
        assert!(maps.ends_with(b"\n"));
        Ok(())
    });
}

#[test]
fn text_that_is_none_is_refused_by_name_and_place() {
    on_every_kernel(|scratch| async move {
        fs::write(scratch.join("text"), b"ok\xff").await?;
        let refused = fs::read_to_string(scratch.join("text")).await.unwrap_err();
        assert_eq!(refused.errno(), errno::EILSEQ);
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        assert_eq!(refused.context(), format!("{}: not UTF-8 from byte 2 on", scratch.name("text")));
        Ok(())
    });
}

#[test]
fn options_mean_what_they_mean_in_std() {
    on_every_kernel(|scratch| async move {
        let path = scratch.join("file");
        let fails = |opened: Result<File, IoError>, expected: i32| {
            let error = opened.expect_err("it must not open");
            assert_eq!(error.errno(), expected, "{error}");
            assert!(error.context().starts_with(&scratch.name("file")), "{error}");
            assert_eq!(error.op(), OpKind::Open);
        };
        fails(OpenOptions::new().read(true).open(&path).await, errno::ENOENT);
        fails(OpenOptions::new().open(&path).await, errno::EINVAL);
        fails(OpenOptions::new().read(true).create(true).open(&path).await, errno::EINVAL);
        fails(OpenOptions::new().append(true).truncate(true).open(&path).await, errno::EINVAL);
        assert!(!fs::exists(&path).await?, "a refused open makes nothing");

        OpenOptions::new().write(true).create_new(true).open(&path).await?.write_all(b"first").await?;
        fails(OpenOptions::new().write(true).create_new(true).open(&path).await, errno::EEXIST);
        OpenOptions::new().write(true).create(true).open(&path).await?.write_all(b"F").await?;
        assert_eq!(fs::read(&path).await?, b"First");
        OpenOptions::new().write(true).truncate(true).open(&path).await?;
        assert_eq!(fs::read(&path).await?, b"");
        Ok(())
    });
}

#[test]
fn a_file_is_read_and_written_only_as_it_was_opened() {
    on_every_kernel(|scratch| async move {
        let path = scratch.join("file");
        let written = File::create(&path).await?;
        let (read, buf) = written.read_at(vec![7; 4], 0).await;
        let error = read.unwrap_err();
        assert_eq!((error.errno(), &buf[..]), (errno::EBADF, &[7; 4][..]), "the buffer comes back as it was");
        assert_eq!(error.context(), format!("{}: it is not open for reading", scratch.name("file")));

        let read = File::open(&path).await?;
        let (written, buf) = read.write_at(b"no".to_vec(), 0).await;
        assert_eq!((written.unwrap_err().errno(), &buf[..]), (errno::EBADF, &b"no"[..]));
        let error = read.write_all(b"no").await.unwrap_err();
        assert_eq!(error.context(), format!("{}: it is not open for writing", scratch.name("file")));
        Ok(())
    });
}

#[test]
fn a_directory_is_no_file() {
    on_every_kernel(|scratch| async move {
        let error = File::create(scratch.dir()).await.unwrap_err();
        assert_eq!(error.errno(), errno::EISDIR, "{error}");
        let error = fs::read(scratch.dir()).await.unwrap_err();
        assert_eq!(error.errno(), errno::EISDIR, "{error}");
        assert!(error.context().ends_with("`read_dir` lists it"), "{error}");
        Ok(())
    });
}

#[test]
fn closing_answers_and_clones_keep_it_open() {
    on_every_kernel(|scratch| async move {
        let file = File::create(scratch.join("file")).await?;
        let clone = file.clone();
        file.close().await?;
        clone.write_all(b"still open").await?;
        clone.close().await?;
        assert_eq!(fs::read(scratch.join("file")).await?, b"still open");
        Ok(())
    });
}

#[test]
fn descriptors_of_dropped_files_and_opens_are_closed() {
    on_real_kernels(|scratch| async move {
        fs::write(scratch.join("file"), b"x").await?;
        let open = || std::fs::read_dir("/proc/self/fd").map(Iterator::count).expect("/proc");
        // Tests run side by side in one process, so the others' descriptors come and go: a leak of ours is in
        // proportion to the rounds.
        let before = open();
        for _ in 0..400 {
            File::open(scratch.join("file")).await?;
            super::rig::start_and_drop(File::open(scratch.join("file"))).await;
        }
        wo_runtime::fiber::sleep(std::time::Duration::from_millis(20)).await?;
        assert!(open() < before + 300, "{} descriptors before, {} after", before, open());
        Ok(())
    });
}

#[test]
fn files_may_be_sent() {
    fn sent<T: Send + Sync>() {}
    sent::<File>();
    sent::<OpenOptions>();
    sent::<fs::DirEntry>();
    sent::<fs::Metadata>();
}

#[test]
fn outside_of_a_shard_a_verb_says_so() {
    let mut read = Box::pin(fs::read("/proc/version"));
    let polled = read.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    let std::task::Poll::Ready(Err(error)) = polled else { panic!("{polled:?}") };
    assert_eq!(error.errno(), errno::ENXIO, "{error}");
}
