//! Names and directories.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use wo_runtime::error::{IoResult, OpKind, errno};
use wo_runtime::os::fs::{self, File, FileKind, OpenOptions};

use super::rig::{on_every_kernel, on_real_kernels};

fn refused<T: std::fmt::Debug>(answer: IoResult<T>, op: OpKind, expected: i32, context: &str) {
    let error = answer.expect_err("it must be refused");
    assert_eq!((error.op(), error.errno()), (op, expected), "{error}");
    assert_eq!(error.context(), context);
}

#[test]
fn directories_are_listed_by_name() {
    on_every_kernel(|scratch| async move {
        assert_eq!(fs::read_dir(scratch.dir()).await?, []);
        for name in ["b", "a10", "a9", "B", ".hidden", "ä", "c c"] {
            fs::write(scratch.join(name), name).await?;
        }
        fs::create_dir(scratch.join("a dir")).await?;
        let entries = fs::read_dir(scratch.dir()).await?;
        let names: Vec<&str> = entries.iter().map(|entry| entry.file_name().to_str().expect("UTF-8")).collect();
        assert_eq!(names, [".hidden", "B", "a dir", "a10", "a9", "b", "c c", "ä"]);
        for entry in &entries {
            let expected = if entry.file_name() == "a dir" { FileKind::Directory } else { FileKind::File };
            assert_eq!((entry.kind(), entry.path()), (expected, scratch.dir().join(entry.file_name())));
        }
        Ok(())
    });
}

#[test]
fn an_empty_path_can_be_seen_in_the_message() {
    on_every_kernel(|_scratch| async move {
        refused(File::open("").await.map(drop), OpKind::Open, errno::ENOENT, "\"\"");
        refused(fs::remove_file("").await, OpKind::Unlink, errno::ENOENT, "\"\"");
        Ok(())
    });
}

#[test]
fn names_are_bytes() {
    on_every_kernel(|scratch| async move {
        let name = OsStr::from_bytes(b"not \xff text");
        fs::write(scratch.dir().join(name), b"x").await?;
        let entries = fs::read_dir(scratch.dir()).await?;
        assert_eq!(entries.iter().map(fs::DirEntry::file_name).collect::<Vec<_>>(), [name]);
        fs::remove_file(entries[0].path()).await?;
        refused(
            fs::metadata(Path::new("zero\0byte")).await,
            OpKind::Stat,
            errno::EINVAL,
            "zero\0byte: the path holds a zero byte",
        );
        Ok(())
    });
}

#[test]
fn large_directories_are_listed_whole() {
    on_every_kernel(|scratch| async move {
        for number in 0..1500 {
            File::create(scratch.join(&format!("file with a longer name {number:04}"))).await?;
        }
        let entries = fs::read_dir(scratch.dir()).await?;
        assert_eq!(entries.len(), 1500);
        assert!(entries.is_sorted_by(|a, b| a.file_name() < b.file_name()));
        Ok(())
    });
}

#[test]
fn renaming_replaces_or_refuses() {
    on_every_kernel(|scratch| async move {
        let (a, b) = (scratch.join("a"), scratch.join("b"));
        fs::write(&a, "new").await?;
        fs::write(&b, "old").await?;
        let both = format!("{} to {}", a.display(), b.display());
        refused(fs::rename_noreplace(&a, &b).await, OpKind::Rename, errno::EEXIST, &both);
        assert_eq!(fs::read(&b).await?, b"old");
        fs::rename(&a, &b).await?;
        assert_eq!((fs::exists(&a).await?, fs::read(&b).await?), (false, b"new".to_vec()));
        fs::rename_noreplace(&b, &a).await?;
        assert_eq!(fs::read(&a).await?, b"new");
        refused(
            fs::rename(&b, &a).await,
            OpKind::Rename,
            errno::ENOENT,
            &format!("{} to {}", b.display(), a.display()),
        );

        // An open file keeps what it has under any name.
        let open = File::open(&a).await?;
        fs::rename(&a, scratch.join("c")).await?;
        assert_eq!(open.read_to_end().await?, b"new");
        Ok(())
    });
}

#[test]
fn removing_tells_files_from_directories() {
    on_every_kernel(|scratch| async move {
        let (dir, file) = (scratch.join("dir"), scratch.join("dir/file"));
        fs::create_dir(&dir).await?;
        fs::write(&file, "x").await?;
        let error = fs::remove_file(&dir).await.unwrap_err();
        assert_eq!(error.context(), format!("{}: it is a directory; `remove_dir` removes an empty one", dir.display()));
        let context = format!("{}: it, or a part of the path before it, is no directory", file.display());
        refused(fs::remove_dir(&file).await, OpKind::Unlink, errno::ENOTDIR, &context);
        let context = format!("{}: the directory is not empty", dir.display());
        refused(fs::remove_dir(&dir).await, OpKind::Unlink, errno::ENOTEMPTY, &context);
        fs::remove_file(&file).await?;
        fs::remove_dir(&dir).await?;
        refused(fs::remove_dir(&dir).await, OpKind::Unlink, errno::ENOENT, &dir.display().to_string());
        Ok(())
    });
}

#[test]
fn directories_are_made_with_those_above() {
    on_every_kernel(|scratch| async move {
        let deep = scratch.join("a/b/c/d");
        let context = format!("{}: the directory above it must exist; `create_dir_all` makes it", deep.display());
        refused(fs::create_dir(&deep).await, OpKind::Mkdir, errno::ENOENT, &context);
        fs::create_dir_all(&deep).await?;
        fs::create_dir_all(&deep).await?;
        fs::create_dir_all(scratch.join("a/b/")).await?;
        fs::create_dir_all("").await.expect_err("nothing has no name");
        assert!(fs::metadata(&deep).await?.is_dir());

        fs::write(scratch.join("file"), "x").await?;
        refused(fs::create_dir_all(scratch.join("file")).await, OpKind::Mkdir, errno::EEXIST, &scratch.name("file"));
        let below = scratch.join("file/below/it");
        let error = fs::create_dir_all(&below).await.unwrap_err();
        assert_eq!(error.errno(), errno::ENOTDIR, "{error}");
        Ok(())
    });
}

#[test]
fn two_fibers_make_the_same_directories() {
    on_every_kernel(|scratch| async move {
        for round in 0..20 {
            let path = scratch.join(&format!("{round}/a/b/c"));
            let makers: Vec<_> = (0..4)
                .map(|_| {
                    let path = path.clone();
                    wo_runtime::fiber::spawn(move || async move { fs::create_dir_all(path).await })
                })
                .collect();
            for maker in makers {
                maker.join().await.expect("no maker panics")?;
            }
        }
        Ok(())
    });
}

#[test]
fn syncing_files_and_directories() {
    on_every_kernel(|scratch| async move {
        let file = File::create(scratch.join("file")).await?;
        file.write_all(b"kept").await?;
        file.sync_data().await?;
        file.sync_all().await?;
        fs::sync_dir(scratch.dir()).await?;
        let error = fs::sync_dir(scratch.join("file")).await.unwrap_err();
        assert_eq!((error.op(), error.errno()), (OpKind::Open, errno::ENOTDIR), "{error}");
        let error = fs::sync_dir(scratch.join("missing")).await.unwrap_err();
        assert_eq!((error.errno(), error.context()), (errno::ENOENT, &*scratch.name("missing")));
        Ok(())
    });
}

#[test]
fn metadata_tells_what_a_path_is() {
    on_real_kernels(|scratch| async move {
        fs::write(scratch.join("file"), b"12345").await?;
        std::os::unix::fs::symlink("file", scratch.join("link")).expect("a link");
        std::os::unix::fs::symlink("nowhere", scratch.join("dangling")).expect("a link");
        let file = fs::metadata(scratch.join("file")).await?;
        assert!((file.is_file(), file.len(), file.links()) == (true, 5, 1));
        assert_eq!(file.inode(), fs::metadata(scratch.join("link")).await?.inode());
        assert!(fs::symlink_metadata(scratch.join("link")).await?.is_symlink());
        assert!(fs::exists(scratch.join("link")).await?);
        assert!(!fs::exists(scratch.join("dangling")).await?);
        assert!(!fs::exists(scratch.join("file/below")).await?);
        let std = std::fs::metadata(scratch.join("file")).expect("it is there");
        assert_eq!(file.modified(), std.modified().expect("files have a time"));
        assert_eq!(file.mode(), std::os::unix::fs::PermissionsExt::mode(&std.permissions()) & 0o7777);
        let kinds: Vec<FileKind> = fs::read_dir(scratch.dir()).await?.iter().map(fs::DirEntry::kind).collect();
        assert_eq!(kinds, [FileKind::Symlink, FileKind::File, FileKind::Symlink]);
        assert_eq!(fs::metadata("/dev/null").await?.kind(), FileKind::CharDevice);
        refused(fs::metadata("/no/such").await, OpKind::Stat, errno::ENOENT, "/no/such");
        Ok(())
    });
}

#[test]
fn a_name_that_is_too_long_is_refused_by_name() {
    on_every_kernel(|scratch| async move {
        let long = scratch.join(&"n".repeat(300));
        let error = File::create(&long).await.unwrap_err();
        assert_eq!(error.errno(), errno::ENAMETOOLONG);
        assert_eq!(error.context(), format!("{}: a name has 255 bytes at most, a path 4095", long.display()));
        Ok(())
    });
}

#[test]
fn lock_is_the_openings_and_ends_with_it() {
    on_every_kernel(|scratch| async move {
        let open = || OpenOptions::new().read(true).directory(true).open(scratch.dir());
        let (first, second) = (open().await?, open().await?);
        assert!(first.try_lock()?);
        assert!(first.try_lock()?, "asked again, it is still ours");
        assert!(!second.try_lock()?, "another opening in this process is refused as well");
        assert_eq!(second.lock_holder().await, Some(std::process::id()));
        let clone = first.clone();
        first.close().await?;
        assert!(!second.try_lock()?, "a clone holds it");
        clone.close().await?;
        assert!(second.try_lock()?);

        fs::write(scratch.join("file"), "").await?;
        let refused = OpenOptions::new().read(true).directory(true).open(scratch.join("file")).await.unwrap_err();
        assert_eq!(refused.errno(), errno::ENOTDIR);
        Ok(())
    });
}
