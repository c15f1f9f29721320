//! Files and directories, in whatever file system the backend has.

use std::path::Path;

use wo_runtime::plane::backend::Backend;
use wo_runtime::plane::backend::operand::{FileKind, FileStat, IoVecs, Listing, OpenHow};
use wo_runtime::plane::op::{NO_OFFSET, RawOp, RawSlice};

use super::rig::{Rig, Subject};

const PLAIN: OpenHow = OpenHow {
    read: true,
    write: true,
    append: false,
    create: false,
    create_new: false,
    truncate: false,
    directory: false,
    no_follow: false,
    direct: false,
    mode: 0o640,
};
const FRESH: OpenHow = OpenHow { create_new: true, ..PLAIN };

fn stat<B: Backend>(rig: &mut Rig<B>, path: &Path) -> Result<FileStat, i32> {
    let (path, into) = (rig.path(path), rig.operand(FileStat::default()));
    match rig.run(RawOp::StatPath { path, follow: true, into }) {
        // SAFETY: the op on it has ended, and the rig keeps it.
        0 => Ok(std::mem::take(unsafe { &mut *into.as_ptr() })),
        refused => Err(-refused),
    }
}

fn names<B: Backend>(rig: &mut Rig<B>, path: &Path) -> Vec<(String, FileKind)> {
    let (path, into) = (rig.path(path), rig.operand(Listing::default()));
    assert_eq!(rig.run(RawOp::ReadDir { path, into }), 0);
    // SAFETY: the op on it has ended, and the rig keeps it.
    let listing = unsafe { into.as_ref() };
    listing.entries.iter().map(|(name, kind)| (name.to_str().unwrap().to_owned(), *kind)).collect()
}

pub fn bytes_stay<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let path = rig.scratch().join("bytes");
    assert_eq!(rig.open_file(&path, PLAIN).unwrap_err(), libc::ENOENT);
    let file = rig.open_file(&path, FRESH).unwrap();
    assert_eq!(rig.open_file(&path, FRESH).unwrap_err(), libc::EEXIST);

    let bytes = rig.bytes(b"0123456789").slice();
    assert_eq!(rig.run(RawOp::Write { fd: file.raw(), buf: bytes, offset: 0 }), 10);
    let room = rig.room(16);
    let read = |offset| RawOp::Read { fd: file.raw(), buf: room.slice(), offset };
    assert_eq!(rig.run(read(4)), 6);
    assert_eq!(&rig.holds(room)[..6], b"456789");
    assert_eq!(rig.run(read(10)), 0);

    // Positional transfers leave the descriptor's own position alone; the others share it.
    let small = rig.room(4);
    let next = RawOp::Read { fd: file.raw(), buf: small.slice(), offset: NO_OFFSET };
    assert_eq!(rig.run(next), 4);
    assert_eq!(rig.holds(small), b"0123");
    assert_eq!(rig.run(next), 4);
    assert_eq!(rig.holds(small), b"4567");

    let (x, y) = (rig.bytes(b"xx").slice(), rig.bytes(b"yy").slice());
    let bufs = rig.operand(IoVecs::new([x, y]));
    assert_eq!(rig.run(RawOp::WriteVectored { fd: file.raw(), bufs, offset: 8 }), 4);
    let (one, rest) = (rig.room(1), rig.room(16));
    let bufs = rig.operand(IoVecs::new([one.slice(), rest.slice()]));
    assert_eq!(rig.run(RawOp::ReadVectored { fd: file.raw(), bufs, offset: 7 }), 5);
    assert_eq!((rig.holds(one), &rig.holds(rest)[..4]), (&b"7"[..], &b"xxyy"[..]));

    for data_only in [true, false] {
        assert_eq!(rig.run(RawOp::Sync { fd: file.raw(), data_only }), 0);
    }
}

pub fn lengths_and_metadata<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let path = rig.scratch().join("lengths");
    let file = rig.open_file(&path, FRESH).unwrap();
    assert_eq!(rig.run(RawOp::Truncate { fd: file.raw(), len: 100 }), 0);
    let into = rig.operand(FileStat::default());
    assert_eq!(rig.run(RawOp::StatFd { fd: file.raw(), into }), 0);
    // SAFETY: the op on it has ended, and the rig keeps it.
    let found = unsafe { into.as_ref() };
    assert_eq!((found.kind(), found.len(), found.links()), (FileKind::File, 100, 1));
    assert_eq!(found.inode(), stat(&mut rig, &path).unwrap().inode());

    let allocate = |offset, len, keep_size| RawOp::Allocate { fd: file.raw(), offset, len, keep_size };
    assert_eq!(rig.run(allocate(0, 8192, true)), 0);
    assert_eq!(stat(&mut rig, &path).unwrap().len(), 100);
    assert_eq!(rig.run(allocate(0, 8192, false)), 0);
    assert_eq!(stat(&mut rig, &path).unwrap().len(), 8192);
    assert_eq!(rig.run(RawOp::Truncate { fd: file.raw(), len: 1 }), 0);
    assert_eq!(stat(&mut rig, &path).unwrap().len(), 1);
    assert_eq!(rig.run(RawOp::Truncate { fd: file.raw(), len: u64::MAX }), -libc::EINVAL);
}

pub fn names_change<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let dir = rig.scratch();
    let (a, b, sub) = (dir.join("a"), dir.join("b"), dir.join("sub"));
    drop(rig.open_file(&a, FRESH).unwrap());
    drop(rig.open_file(&b, FRESH).unwrap());
    let (at_a, at_b, at_sub) = (rig.path(&a), rig.path(&b), rig.path(&sub));
    assert_eq!(rig.run(RawOp::Mkdir { path: at_sub, mode: 0o755 }), 0);
    assert_eq!(rig.run(RawOp::Mkdir { path: at_sub, mode: 0o755 }), -libc::EEXIST);
    let [file, directory] = [FileKind::File, FileKind::Directory];
    assert_eq!(names(&mut rig, &dir), [("a".into(), file), ("b".into(), file), ("sub".into(), directory)]);

    assert_eq!(rig.run(RawOp::Rename { from: at_a, to: at_b, replace: false }), -libc::EEXIST);
    assert_eq!(rig.run(RawOp::Rename { from: at_a, to: at_b, replace: true }), 0);
    assert_eq!(stat(&mut rig, &a).map(|_| ()), Err(libc::ENOENT));

    assert_eq!(rig.run(RawOp::Unlink { path: at_sub, directory: false }), -libc::EISDIR);
    assert_eq!(rig.run(RawOp::Unlink { path: at_sub, directory: true }), 0);
    assert_eq!(rig.run(RawOp::Unlink { path: at_b, directory: false }), 0);
    assert_eq!(rig.run(RawOp::Unlink { path: at_b, directory: false }), -libc::ENOENT);
    assert_eq!(names(&mut rig, &dir), []);
    let into = rig.operand(Listing::default());
    assert_eq!(rig.run(RawOp::ReadDir { path: at_a, into }), -libc::ENOENT);
}

pub fn opening_keeps_to_how<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let dir = rig.scratch();
    let path = dir.join("how");
    let file = rig.open_file(&path, FRESH).unwrap();
    let bytes = rig.bytes(b"abc").slice();
    assert_eq!(rig.run(RawOp::Write { fd: file.raw(), buf: bytes, offset: 0 }), 3);

    let appending = rig.open_file(&path, OpenHow { write: false, append: true, ..PLAIN }).unwrap();
    assert_eq!(rig.run(RawOp::Write { fd: appending.raw(), buf: bytes, offset: NO_OFFSET }), 3);
    assert_eq!(stat(&mut rig, &path).unwrap().len(), 6);

    let reading = rig.open_file(&path, OpenHow { write: false, ..PLAIN }).unwrap();
    assert_eq!(rig.run(RawOp::Write { fd: reading.raw(), buf: bytes, offset: 0 }), -libc::EBADF);
    drop(rig.open_file(&path, OpenHow { truncate: true, ..PLAIN }).unwrap());
    assert_eq!(stat(&mut rig, &path).unwrap().len(), 0);

    let nothing = OpenHow { read: false, write: false, ..PLAIN };
    assert_eq!(rig.open_file(&path, nothing).unwrap_err(), libc::EINVAL);
    let directory = OpenHow { write: false, directory: true, ..PLAIN };
    assert_eq!(rig.open_file(&path, directory).unwrap_err(), libc::ENOTDIR);
    assert!(rig.open_file(&dir, directory).is_ok());
}

/// Whole blocks pass by the cache, and whoever reads through it sees them.
pub fn direct_files<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig();
    let path = rig.scratch().join("direct");
    let direct = match rig.open_file(&path, OpenHow { direct: true, ..FRESH }) {
        // Some file systems have no such thing.
        Err(libc::EINVAL) => return,
        opened => opened.unwrap(),
    };
    let room = rig.bytes(&[7; 3 * 4096]).slice();
    let begin = room.ptr.align_offset(4096);
    let blocks = RawSlice { ptr: room.ptr.wrapping_add(begin), len: 8192, ..room };
    assert_eq!(rig.run(RawOp::WriteDurable { fd: direct.raw(), buf: blocks, offset: 4096 }), 8192);
    let reading = rig.open_file(&path, PLAIN).unwrap();
    let seen = rig.room(16 << 10);
    assert_eq!(rig.run(RawOp::Read { fd: reading.raw(), buf: seen.slice(), offset: 0 }), 12 << 10);
    let seen = &rig.holds(seen)[..12 << 10];
    assert!(seen[..4096].iter().all(|byte| *byte == 0) && seen[4096..].iter().all(|byte| *byte == 7));
}

/// Many at once: each answer belongs to its op.
pub fn a_hundred_files_at_once<B: Backend>(subject: &Subject<B>) {
    let mut rig = subject.rig_with(|config| config.submission_entries = 16);
    let dir = rig.scratch();
    let opens: Vec<_> = (0..100)
        .map(|number| {
            let path = rig.path(&dir.join(format!("{number:03}")));
            rig.start(RawOp::Open { path, how: FRESH })
        })
        .collect();
    let mut files = Vec::new();
    for open in opens {
        let raw = rig.finish(open);
        assert!(raw >= 0, "open: {raw}");
        files.push(rig.backend().adopt(raw));
    }
    let writes: Vec<_> = (0..100)
        .map(|number: usize| {
            let buf = rig.bytes(&vec![number as u8; number]).slice();
            rig.start(RawOp::Write { fd: files[number].raw(), buf, offset: 0 })
        })
        .collect();
    for (number, write) in writes.into_iter().enumerate() {
        assert_eq!(rig.finish(write), number as i32);
    }
    assert_eq!(names(&mut rig, &dir).len(), 100);
}
