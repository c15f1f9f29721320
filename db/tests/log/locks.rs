//! One owner at a time.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wo_db::log::error::OpenError;
use wo_runtime::shard::Builder;

use super::rig::{Files, commit, files, on_every_kernel, on_real_kernels, open, put_files, refusal};

/// Names the directory to the process that holds it.
const HELD: &str = "WO_DB_TEST_HELD";

#[test]
fn db14_second_opening_in_the_same_process_is_refused() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        let (log, ..) = open(&dir).await?;
        expect_held(&refusal(&dir).await, &dir, std::process::id());
        commit(&log, 1, b"unaffected").await?;
        log.close().await?;
        let (log, _, model) = open(&dir).await?;
        assert_eq!(model.rows.len(), 1);
        // Without a word: nothing was on its way, so nobody has to be waited for.
        drop(log);
        open(&dir).await?;
        Ok(())
    });
}

fn expect_held(refused: &OpenError, held: &Path, by: u32) {
    match refused {
        OpenError::AlreadyOpen { dir, pid } => assert_eq!((dir.as_path(), *pid), (held, Some(by))),
        other => panic!("{other}"),
    }
}

/// The other process: opens the directory, commits whenever it is told to, and says so.
#[test]
fn db14_holder() {
    let Ok(dir) = std::env::var(HELD) else { return };
    Builder::new()
        .run(move || async move {
            let (log, ..) = open(dir.as_ref()).await.expect("the first opening");
            for (key, line) in (0..).zip(std::io::stdin().lock().lines()) {
                drop(line);
                commit(&log, key, b"held").await.expect("the holder is unaffected");
                println!("committed {key}");
            }
        })
        .expect("it runs");
}

#[test]
fn db14_second_process_is_refused_until_the_first_is_gone() {
    on_real_kernels(|scratch| async move {
        let dir = scratch.dir();
        let mut holder = Command::new(std::env::current_exe()?)
            .args(["--exact", "log::locks::db14_holder", "--nocapture"])
            .env(HELD, &dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut tell = holder.stdin.take().expect("piped");
        let mut said = BufReader::new(holder.stdout.take().expect("piped")).lines();
        let mut committed = |key: u64| {
            writeln!(tell).expect("the holder listens");
            let expected = format!("committed {key}");
            assert!(said.any(|line| line.expect("the holder speaks").contains(&expected)));
        };
        committed(0);
        let held = files(&dir).await;
        let before = Instant::now();
        expect_held(&refusal(&dir).await, &dir, holder.id());
        assert!(before.elapsed() < Duration::from_secs(1));
        assert!(files(&dir).await == held, "the refusal changed nothing, and left nothing");
        committed(1);

        // The lock is on the directory itself: neither a name nor a file can be taken away from under it.
        let elsewhere = scratch.join("elsewhere");
        std::fs::rename(&dir, &elsewhere)?;
        expect_held(&refusal(&elsewhere).await, &elsewhere, holder.id());
        std::fs::rename(scratch.join("elsewhere"), &dir)?;
        committed(2);

        holder.kill()?;
        holder.wait()?;
        let (log, _, model) = open(&dir).await?;
        assert_eq!(model.rows.len(), 3);
        log.close().await?;
        Ok(())
    });
}

#[test]
fn db14_no_file_that_is_deleted_lets_a_second_one_in() {
    on_every_kernel(|scratch| async move {
        let dir = scratch.dir();
        let (log, ..) = open(&dir).await?;
        commit(&log, 1, b"held").await?;
        // There is no lock file; whatever is there may go, and the directory itself is locked.
        put_files(&dir, &Files::new()).await;
        expect_held(&refusal(&dir).await, &dir, std::process::id());
        assert!(files(&dir).await.is_empty(), "the refusal left nothing");
        drop(log);
        Ok(())
    });
}

/// A child between its fork and its exec has a copy of every descriptor, and with them a share of every lock.
#[test]
fn a_directory_that_was_closed_is_free_whoever_has_a_share_of_its_lock() {
    on_real_kernels(|scratch| async move {
        let dir = scratch.dir();
        let (log, ..) = open(&dir).await?;
        let mut shares: Vec<OwnedFd> = Vec::new();
        for entry in std::fs::read_dir("/proc/self/fd")? {
            let entry = entry?;
            if std::fs::read_link(entry.path()).is_ok_and(|opened| opened == dir) {
                let number = entry.file_name().to_str().and_then(|number| number.parse().ok()).expect("a number");
                // SAFETY: the log has it open, and is closed further down.
                shares.push(unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()?);
            }
        }
        assert!(!shares.is_empty(), "the directory itself is locked");
        log.close().await?;
        let (log, ..) = open(&dir).await?;
        // And one that is dropped lets go as well, once nothing is on its way.
        drop(log);
        open(&dir).await?;
        drop(shares);
        Ok(())
    });
}

#[test]
fn places_that_are_no_directories_are_refused_by_name() {
    on_real_kernels(|scratch| async move {
        std::fs::create_dir_all(scratch.join(""))?;
        std::fs::write(scratch.join("file"), "mine")?;
        std::os::unix::fs::symlink(scratch.join("loop"), scratch.join("loop"))?;
        for name in ["file", "file/data", "loop", "loop/data"] {
            let dir = scratch.join(name);
            match refusal(&dir).await {
                OpenError::Io { path, error } => {
                    assert!(path.starts_with(scratch.join("")), "{}", path.display());
                    assert!(error.errno() > 0);
                }
                other => panic!("{name}: {other}"),
            }
        }
        assert_eq!(std::fs::read(scratch.join("file"))?, b"mine");
        // What is missing is made, with what is missing above it.
        drop(open(&scratch.join("a/b/c")).await?);
        assert!(scratch.join("a/b/c/log.0").exists());
        Ok(())
    });
}
