//! Files and directories: every corner of the calls that take a path.

use wo_runtime::plane::Fd;
use wo_runtime::plane::backend::Backend;
use wo_runtime::plane::backend::operand::OpenHow;
use wo_runtime::plane::op::{NO_OFFSET, RawOp, Readiness};

use super::arm::{Arm, absolute};
use crate::on_every_kernel;

const READ: OpenHow = OpenHow {
    read: true,
    write: false,
    append: false,
    create: false,
    create_new: false,
    truncate: false,
    directory: false,
    no_follow: false,
    direct: false,
    mode: 0o666,
};
const BOTH: OpenHow = OpenHow { write: true, ..READ };
const NEW: OpenHow = OpenHow { create: true, ..BOTH };

/// A file, a directory with something in it, an empty one, and names that are not there.
const NAMES: [&str; 15] = [
    "file",
    "file/",
    "file/x",
    "file/.",
    "full",
    "full/",
    "full/inner",
    "full/.",
    "full/..",
    "empty",
    "empty/",
    ".",
    "missing",
    "missing/",
    "missing/x",
];

fn tree<B: Backend>(arm: &mut Arm<B>) {
    for path in ["full", "empty"] {
        arm.with_path(path, |path| RawOp::Mkdir { path, mode: 0o777 });
    }
    for path in ["file", "full/inner"] {
        if let Some(fd) = arm.open(path, NEW) {
            arm.write("bytes", &fd, path.as_bytes());
        }
    }
}

/// What the tree looks like; the test starts from a fresh one each time.
fn survey<B: Backend>(arm: &mut Arm<B>) {
    for name in ["file", "full", "full/inner", "empty", "missing"] {
        arm.stat(name);
    }
    for name in [".", "full", "empty"] {
        arm.list(name);
    }
}

fn every_open<B: Backend>(arm: &mut Arm<B>) {
    tree(arm);
    for bits in 0..1 << 7 {
        let bit = |number: u32| bits & (1 << number) != 0;
        let how = OpenHow {
            read: bit(0),
            write: bit(1),
            append: bit(2),
            create: bit(3),
            create_new: bit(4),
            truncate: bit(5),
            directory: bit(6),
            no_follow: false,
            direct: false,
            mode: 0o666,
        };
        arm.note("how", how);
        for name in NAMES {
            let opened = arm.open(name, how);
            if opened.is_some() {
                arm.stat(name);
            }
        }
        survey(arm);
        // What may have been made or cut.
        arm.with_path("missing", |path| RawOp::Unlink { path, directory: false });
        if let Some(fd) = arm.open("file", BOTH) {
            arm.write("bytes", &fd, b"file");
        }
    }
}

#[test]
fn every_way_to_open_every_name() {
    on_every_kernel!(every_open);
}

fn every_name<B: Backend>(arm: &mut Arm<B>) {
    tree(arm);
    for name in NAMES {
        arm.stat(name);
        arm.list(name);
        arm.with_path(name, |path| RawOp::Mkdir { path, mode: 0o777 });
        arm.with_path("missing", |path| RawOp::Unlink { path, directory: true });
    }
    for directory in [false, true] {
        for name in NAMES {
            arm.with_path(name, |path| RawOp::Unlink { path, directory });
            tree(arm);
        }
    }
    survey(arm);
    let long = "n".repeat(256);
    arm.stat(&long);
    arm.with_path(&long, |path| RawOp::Mkdir { path, mode: 0o777 });
    arm.open(&long[..255], NEW);
    arm.stat(&"d/".repeat(2_100));
    arm.stat("full//./inner");
    arm.stat("empty/../full/inner");
    for mode in [0o7777, 0, 0o700] {
        arm.with_path("moded", |path| RawOp::Mkdir { path, mode });
        arm.stat("moded");
        arm.with_path("moded", |path| RawOp::Unlink { path, directory: true });
        arm.open("moded", OpenHow { mode, ..NEW });
        arm.stat("moded");
        arm.with_path("moded", |path| RawOp::Unlink { path, directory: false });
    }
}

#[test]
fn every_call_on_every_name() {
    on_every_kernel!(every_name);
}

fn every_rename<B: Backend>(arm: &mut Arm<B>) {
    for replace in [true, false] {
        for from in NAMES {
            for to in NAMES.into_iter().chain(["full/sub", "empty/file"]) {
                tree(arm);
                if arm.rename(from, to, replace) == 0 {
                    survey(arm);
                    // Back to where it was.
                    arm.rename(to, from, true);
                    for name in ["full/sub", "empty/file", "missing"] {
                        arm.with_path(name, |path| RawOp::Unlink { path, directory: false });
                    }
                }
            }
        }
    }
    arm.with_path("full/deep", |path| RawOp::Mkdir { path, mode: 0o777 });
    arm.rename("full", "full/deep/under", true);
    arm.rename("full/deep", "full", true);
    arm.rename("full/deep", "empty", true);
    survey(arm);
}

#[test]
fn every_rename_of_every_name() {
    on_every_kernel!(every_rename);
}

fn read_at<B: Backend>(arm: &mut Arm<B>, fd: &Fd, offset: u64, len: usize) {
    let room = arm.rig.room(len);
    let res = arm.op(format!("read {len} at {offset}"), RawOp::Read { fd: fd.raw(), buf: room.slice(), offset });
    let bytes = arm.rig.holds(room)[..usize::try_from(res).unwrap_or(0)].to_vec();
    arm.note("bytes", bytes);
}

fn write_at<B: Backend>(arm: &mut Arm<B>, fd: &Fd, offset: u64, bytes: &[u8]) {
    let buf = arm.rig.bytes(bytes).slice();
    arm.op(format!("write {} at {offset}", bytes.len()), RawOp::Write { fd: fd.raw(), buf, offset });
}

fn positions<B: Backend>(arm: &mut Arm<B>) {
    let fd = arm.open("file", NEW).unwrap();
    write_at(arm, &fd, NO_OFFSET, b"0123456789");
    read_at(arm, &fd, NO_OFFSET, 4);
    read_at(arm, &fd, 2, 4);
    write_at(arm, &fd, 20, b"far");
    read_at(arm, &fd, 0, 64);
    read_at(arm, &fd, NO_OFFSET, 4);
    read_at(arm, &fd, 1 << 40, 4);
    read_at(arm, &fd, i64::MAX as u64, 4);
    read_at(arm, &fd, i64::MAX as u64 + 1, 4);
    write_at(arm, &fd, i64::MAX as u64 + 1, b"x");
    read_at(arm, &fd, 0, 0);
    write_at(arm, &fd, 0, b"");
    arm.stat("file");

    let append = arm.open("file", OpenHow { append: true, ..BOTH }).unwrap();
    write_at(arm, &append, 3, b"end");
    read_at(arm, &append, NO_OFFSET, 3);
    write_at(arm, &append, NO_OFFSET, b"END");
    read_at(arm, &append, NO_OFFSET, 3);
    read_at(arm, &append, 20, 64);

    let reading = arm.open("file", READ).unwrap();
    write_at(arm, &reading, 0, b"x");
    let writing = arm.open("file", OpenHow { read: false, ..BOTH }).unwrap();
    read_at(arm, &writing, 0, 4);
    for (name, fd) in [("reading", &reading), ("writing", &writing)] {
        arm.note("descriptor for", name);
        arm.op("truncate", RawOp::Truncate { fd: fd.raw(), len: 12 });
        arm.op("allocate", RawOp::Allocate { fd: fd.raw(), offset: 0, len: 30, keep_size: false });
        arm.op("allocate nothing", RawOp::Allocate { fd: fd.raw(), offset: 0, len: 0, keep_size: false });
        arm.op("sync", RawOp::Sync { fd: fd.raw(), data_only: true });
        arm.poll("readiness", fd, Readiness { writable: true, ..Readiness::READABLE });
        arm.stat("file");
    }
    read_at(arm, &reading, 0, 64);

    let directory = arm.open(".", OpenHow { directory: true, ..READ }).unwrap();
    read_at(arm, &directory, 0, 4);
    write_at(arm, &directory, 0, b"x");
    arm.op("sync of a directory", RawOp::Sync { fd: directory.raw(), data_only: false });
    arm.op("truncate of a directory", RawOp::Truncate { fd: directory.raw(), len: 0 });
    arm.op("allocate of a directory", RawOp::Allocate { fd: directory.raw(), offset: 0, len: 1, keep_size: false });
    let buf = arm.rig.room(1).slice();
    arm.op("recv on a file", RawOp::Recv { fd: fd.raw(), buf });

    arm.with_path("file", |path| RawOp::Unlink { path, directory: false });
    read_at(arm, &fd, 0, 4);
    write_at(arm, &fd, 0, b"still here");
    read_at(arm, &fd, 0, 10);
    arm.stat("file");
}

#[test]
fn positions_and_lengths() {
    on_every_kernel!(positions);
}

fn devices<B: Backend>(arm: &mut Arm<B>) {
    for device in ["/dev/null", "/dev/zero"] {
        let path = absolute(arm, device);
        let fd = arm.descriptor(device, RawOp::Open { path, how: NEW }).unwrap();
        let bytes = arm.read("read", &fd, 4);
        arm.note("bytes", bytes);
        arm.write("write", &fd, b"gone");
        arm.op("truncate", RawOp::Truncate { fd: fd.raw(), len: 0 });
        arm.op("allocate", RawOp::Allocate { fd: fd.raw(), offset: 0, len: 1, keep_size: false });
        arm.op("sync", RawOp::Sync { fd: fd.raw(), data_only: false });
        let path = absolute(arm, device);
        arm.descriptor("cut it", RawOp::Open { path, how: OpenHow { truncate: true, ..BOTH } });
        let path = absolute(arm, device);
        arm.descriptor("make it", RawOp::Open { path, how: OpenHow { create_new: true, ..BOTH } });
        let path = absolute(arm, &format!("{device}/x"));
        arm.descriptor("in it", RawOp::Open { path, how: NEW });
    }
    let path = absolute(arm, "");
    arm.descriptor("nothing", RawOp::Open { path, how: NEW });
    let path = absolute(arm, "/");
    arm.op("make the root", RawOp::Mkdir { path, mode: 0o777 });
    arm.op("remove the root", RawOp::Unlink { path, directory: true });
    arm.op("unlink the root", RawOp::Unlink { path, directory: false });
    let into = arm.path("elsewhere");
    let to = arm.rig.path(&into);
    arm.op("move the root", RawOp::Rename { from: path, to, replace: true });
    let path = absolute(arm, "/..");
    arm.op("make above the root", RawOp::Mkdir { path, mode: 0o777 });
    let path = absolute(arm, "/../tmp/.");
    arm.op("remove a dot", RawOp::Unlink { path, directory: true });
}

#[test]
fn devices_and_the_root() {
    on_every_kernel!(devices);
}
