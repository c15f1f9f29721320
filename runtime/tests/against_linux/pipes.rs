//! Pipes.

use wo_runtime::plane::backend::Backend;
use wo_runtime::plane::op::{NO_OFFSET, RawOp, Readiness};

use super::arm::Arm;
use crate::{on_every_kernel, on_the_ring};

fn room<B: Backend>(arm: &mut Arm<B>) {
    let (reading, writing) = arm.rig.backend().pipe().unwrap();
    arm.read("nothing", &reading, 8);
    arm.read("nothing of nothing", &reading, 0);
    arm.write("nothing", &writing, b"");
    arm.poll("room", &writing, Readiness::WRITABLE);
    for number in 0..17 {
        arm.write(format!("page {number}"), &writing, &[number; 4096]);
    }
    arm.poll("no room", &writing, Readiness::WRITABLE);
    arm.poll("bytes", &reading, Readiness::READABLE);
    let page = arm.read("a page", &reading, 4096);
    arm.note("of zeros", page.iter().all(|byte| *byte == 0));
    arm.write("a page again", &writing, &[99; 4096]);
    let all = arm.read("everything", &reading, 100_000);
    arm.note("the last byte", all.last());
    arm.write("more than fits", &writing, &vec![1; 100_000]);
    let buf = arm.rig.bytes(&[2; 100]).slice();
    let waiting = arm.rig.start(RawOp::Write { fd: writing.raw(), buf, offset: NO_OFFSET });
    arm.rig.backend().flush().unwrap();
    arm.read("what fit", &reading, 100_000);
    arm.end("the write that waited", waiting);
    drop(writing);
    arm.await_trouble("the writer is gone", &reading);
    arm.read("what it left", &reading, 1000);
    arm.read("the end", &reading, 8);
    arm.read("the end again", &reading, 8);
}

#[test]
fn room_in_a_pipe() {
    on_the_ring!(room);
}

fn broken<B: Backend>(arm: &mut Arm<B>) {
    let (reading, writing) = arm.rig.backend().pipe().unwrap();
    arm.read("reading what is for writing", &writing, 8);
    arm.write("writing what is for reading", &reading, b"x");
    arm.write("bytes", &writing, &vec![1; 65_536]);
    let buf = arm.rig.bytes(b"late").slice();
    let waiting = arm.rig.start(RawOp::Write { fd: writing.raw(), buf, offset: NO_OFFSET });
    arm.rig.backend().flush().unwrap();
    drop(reading);
    arm.end("the write that waited", waiting);
    arm.write("a later one", &writing, b"x");
    arm.poll("broken", &writing, Readiness::WRITABLE);
    arm.op("sync", RawOp::Sync { fd: writing.raw(), data_only: false });
    arm.op("truncate", RawOp::Truncate { fd: writing.raw(), len: 0 });
    arm.op("allocate", RawOp::Allocate { fd: writing.raw(), offset: 0, len: 1, keep_size: false });
}

#[test]
fn broken_pipes() {
    on_every_kernel!(broken);
}
