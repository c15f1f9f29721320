//! The fault controls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wo_runtime::error::{OpKind, errno};
use wo_runtime::plane::backend::operand::OpenHow;
use wo_runtime::plane::backend::{Backend, RawCompletion};
use wo_runtime::plane::job::JobCell;
use wo_runtime::plane::op::{NO_OFFSET, RawOp};
use wo_runtime::plane::token::{Class, Token};

use super::world;

const NEW: OpenHow = OpenHow {
    read: true,
    write: true,
    append: false,
    create: true,
    create_new: false,
    truncate: false,
    directory: false,
    no_follow: false,
    direct: false,
    mode: 0o600,
};

#[test]
fn rules_are_used_once_and_in_order() {
    let mut rig = world();
    let control = rig.backend().control();
    control.fail_next(OpKind::Send, errno::ENOBUFS);
    control.answer_next(OpKind::Send, 0);
    control.fail_next(OpKind::Recv, errno::EIO);
    let (a, b) = rig.pair();
    assert_eq!(rig.send(&a, b"refused"), -errno::ENOBUFS);
    assert_eq!(rig.send(&a, b"swallowed"), 0);
    assert_eq!(rig.send(&a, b"sent"), 4);
    let buf = rig.room(8).slice();
    assert_eq!(rig.run(RawOp::Recv { fd: b.raw(), buf }), -errno::EIO);
    assert_eq!(rig.recv(&b, 8), b"sent", "what a rule answered had no effect");
}

/// A send that is tried at once leaves what was ordered for sends to the one that is submitted.
#[test]
fn an_immediate_send_does_not_slip_past_the_controls() {
    let mut rig = world();
    let control = rig.backend().control();
    let (a, b) = rig.pair();
    let buf = rig.bytes(b"x").slice();
    // SAFETY: the rig keeps the memory.
    let at_once = |rig: &mut super::World| unsafe { rig.backend().try_send(&a, buf) };
    assert_eq!(at_once(&mut rig), Some(1));
    control.fail_next(OpKind::Send, errno::EPIPE);
    assert_eq!(at_once(&mut rig), None);
    assert_eq!(rig.send(&a, b"y"), -errno::EPIPE);
    assert_eq!(at_once(&mut rig), Some(1));
    control.hold_kind(OpKind::Send);
    assert_eq!(at_once(&mut rig), None);
    control.release_all();
    assert_eq!(rig.recv(&b, 8), b"xx");
}

#[test]
fn shortened_ops_move_less_and_say_so() {
    let mut rig = world();
    let control = rig.backend().control();
    let (a, b) = rig.pair();
    control.short_next(OpKind::Send, 3);
    assert_eq!(rig.send(&a, b"0123456789"), 3);
    control.short_next(OpKind::Recv, 1);
    assert_eq!(rig.recv(&b, 8), b"0");
    assert_eq!(rig.recv(&b, 8), b"12");
    let file = rig.open_file("/tmp/short".as_ref(), NEW).unwrap();
    control.short_next(OpKind::Write, 4);
    let bytes = rig.bytes(b"0123456789").slice();
    assert_eq!(rig.run(RawOp::Write { fd: file.raw(), buf: bytes, offset: 0 }), 4);
    let room = rig.room(16);
    assert_eq!(rig.run(RawOp::Read { fd: file.raw(), buf: room.slice(), offset: 0 }), 4);
}

#[test]
fn jobs_obey_rules_too() {
    let mut rig = world();
    let ran = Arc::new(AtomicBool::new(false));
    let job = |ran: &Arc<AtomicBool>| {
        let ran = Arc::clone(ran);
        JobCell::new(move || {
            ran.store(true, Ordering::SeqCst);
            5
        })
    };
    rig.backend().control().fail_next(OpKind::Job, errno::EAGAIN);
    let cell = rig.operand(job(&ran));
    assert_eq!(rig.run(RawOp::Job { cell }), -errno::EAGAIN);
    assert!(!ran.load(Ordering::SeqCst));
    let cell = rig.operand(job(&ran));
    assert_eq!(rig.run(RawOp::Job { cell }), 5);
    let cell = rig.operand(JobCell::new(|| std::panic::panic_any("a job may panic")));
    assert_eq!(rig.run(RawOp::Job { cell }), -errno::EIO);
    // It is not on the loop's thread, as it would not be anywhere else.
    let home = std::thread::current().id();
    let cell = rig.operand(JobCell::new(move || i32::from(std::thread::current().id() == home)));
    assert_eq!(rig.run(RawOp::Job { cell }), 0);
    // A job may use the world it runs in.
    let (a, b) = rig.pair();
    let control = rig.backend().control();
    let cell = rig.operand(JobCell::new(move || {
        drop(a);
        i32::try_from(control.open_descriptors()).unwrap()
    }));
    assert_eq!(rig.run(RawOp::Job { cell }), 1);
    assert_eq!(rig.recv(&b, 1), b"");
}

#[test]
fn armed_multishot_ops_end_as_told() {
    let mut rig = world();
    let control = rig.backend().control();
    for res in [-errno::ECONNABORTED, -errno::ENOBUFS, 0, -errno::EINVAL] {
        let (listener, address) = rig.listener();
        let accept = rig.start(RawOp::Accept { fd: listener.raw(), multishot: true });
        let (_client, connecting) = rig.connect(&address);
        assert_eq!(rig.finish(connecting), 0);
        let first = rig.next(accept);
        assert!(first.more && first.res >= 0, "{first:?}");
        drop(rig.backend().adopt(first.res));
        assert_eq!(control.terminate_multishot(res), 1);
        assert_eq!(rig.finish(accept), res);
        assert_eq!(control.terminate_multishot(res), 0);
        // The listener itself is unharmed.
        let again = rig.start(RawOp::Accept { fd: listener.raw(), multishot: true });
        let (_client, connecting) = rig.connect(&address);
        assert_eq!(rig.finish(connecting), 0);
        let next = rig.next(again);
        assert!(next.more, "{next:?}");
        drop(rig.backend().adopt(next.res));
    }
}

/// Three completions in each of their six orders.
#[test]
fn held_completions_are_released_in_any_order() {
    for order in [[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [2, 0, 0], [2, 1, 0]] {
        let mut rig = world();
        let control = rig.backend().control();
        control.hold_completions();
        let tokens: Vec<Token> = (0..3).map(|_| rig.start(RawOp::Nop)).collect();
        rig.expect_silence();
        assert_eq!(control.held().len(), 3);
        let mut left = tokens.clone();
        for place in order {
            let released = control.release_one(place).unwrap();
            assert_eq!(released.kind, OpKind::Nop);
            let expected = left.remove(place);
            rig.reap();
            assert_eq!(released.completion.token, expected);
            assert!(rig.is_done(expected));
            assert!(left.iter().all(|token| !rig.is_done(*token)));
        }
        assert_eq!(control.release_one(0), None);
        control.release_all();
    }
}

/// A completion that is held has happened: a cancel comes too late, and what it brought is not lost.
#[test]
fn a_cancel_behind_a_held_completion_changes_nothing() {
    let mut rig = world();
    let control = rig.backend().control();
    let (a, b) = rig.pair();
    control.hold_kind(OpKind::Recv);
    let room = rig.room(8);
    let recv = rig.start(RawOp::Recv { fd: b.raw(), buf: room.slice() });
    assert_eq!(rig.send(&a, b"raced"), 5);
    rig.cancel(recv);
    rig.expect_silence();
    let completion = RawCompletion { token: recv, res: 5, more: false };
    assert_eq!(control.held().iter().map(|held| held.completion).collect::<Vec<_>>(), [completion]);
    control.release_all();
    assert_eq!(rig.finish(recv), 5);
    assert_eq!(&rig.holds(room)[..5], b"raced");
}

#[test]
fn completions_nobody_asked_for_can_be_injected() {
    let mut rig = world();
    let stale = RawCompletion { token: Token::new(Class::User, 77, 1), res: 9, more: false };
    rig.backend().control().inject_completion(stale);
    rig.backend().wait(None).unwrap();
    let mut out = Vec::new();
    rig.backend().reap(&mut out);
    assert_eq!(out, [stale]);
}

#[test]
fn a_full_table_refuses_and_recovers() {
    let mut rig = world();
    let control = rig.backend().control();
    let (listener, address) = rig.listener();
    let (client, connecting) = rig.connect(&address);
    assert_eq!(rig.finish(connecting), 0);
    control.limit_descriptors(2);
    let op = RawOp::Accept { fd: listener.raw(), multishot: true };
    let accept = rig.start(op);
    assert_eq!(rig.finish(accept), -errno::EMFILE);
    assert_eq!(rig.backend().pipe().unwrap_err().errno(), errno::EMFILE);
    let error = rig.backend().socket(address.domain(), wo_runtime::plane::backend::SocketKind::Stream).unwrap_err();
    assert_eq!((error.errno(), error.op()), (errno::EMFILE, OpKind::Socket));
    assert_eq!(rig.open_file("/tmp/full".as_ref(), NEW).unwrap_err(), errno::EMFILE);
    assert_eq!(control.open_descriptors(), 2);
    control.limit_descriptors(3);
    assert_eq!(rig.backend().pipe().unwrap_err().errno(), errno::EMFILE);
    assert_eq!(control.open_descriptors(), 2, "half a pipe is not left behind");
    // The connection was not lost.
    let raw = rig.run(RawOp::Accept { fd: listener.raw(), multishot: false });
    let server = rig.backend().adopt(raw);
    assert_eq!(rig.send(&client, b"still here"), 10);
    assert_eq!(rig.recv(&server, 16), b"still here");
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let mut rig = world();
    let control = rig.backend().control();
    let file = rig.open_file("/tmp/big".as_ref(), NEW).unwrap();
    control.resize_disk(8192);
    let bytes = rig.bytes(&[1; 5000]).slice();
    let write = |offset| RawOp::Write { fd: file.raw(), buf: bytes, offset };
    assert_eq!(rig.run(write(0)), 5000);
    assert_eq!(rig.run(write(5000)), 3192, "as much as fits");
    assert_eq!(rig.run(write(8192)), -errno::ENOSPC);
    assert_eq!(rig.run(RawOp::Allocate { fd: file.raw(), offset: 0, len: 10_000, keep_size: true }), -errno::ENOSPC);
    assert_eq!(rig.run(write(0)), 5000, "what is there can be written again");
    control.resize_disk(1 << 20);
    assert_eq!(rig.run(write(8192)), 5000);
    assert_eq!(rig.run(RawOp::Write { fd: file.raw(), buf: bytes, offset: NO_OFFSET }), 5000);
}
