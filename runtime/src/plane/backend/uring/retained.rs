//! Ops whose raw completion is not yet the answer: the backend keeps a copy of each and looks twice.
//!
//! A poll's events become readiness bits. A transfer at a descriptor's own position, or an accept, may meet a
//! descriptor that somebody else made non-blocking; where the kernel then answers `EAGAIN`, the op waits for
//! readiness by a poll of its own and is submitted again, so that nobody above ever sees `EAGAIN`.
//!
//! A datagram is sent without the kernel's own waiting, because Linux forgets the bytes of one that has to wait for
//! room at a Unix socket, and then sends an empty one. There readiness is not enough either: no event tells when a
//! peer that is not connected has room again. So every other `EAGAIN` is followed by a pause instead of a poll.
//!
//! What the kernel cannot do without waiting its own threads do: files, and much else. Where it cannot start the first
//! of them, because signals keep meeting the start or the limit of tasks is reached, it ends the op as cancelled,
//! before it has begun: what was done of a transfer until then is answered as a count instead. So an op that was
//! cancelled and whose cancel nobody asked for is submitted again, at once and then after pauses, and at last refused
//! with `EAGAIN`, which is what is said where a thread cannot be started. Every op is retained that such a thread may
//! do from its beginning; those that wait for a socket are the kernel's own until they have something to go on with.
//!
//! An op is either with the kernel, itself or as its poll or pause, or held here until the queue has room. A cancel
//! is remembered, because it may arrive between two of these stations: then the op ends with `ECANCELED` at the next
//! one. Ops whose result is a descriptor are retained so that one nobody reaps can be closed.
//!
//! Their words carry [`MARK`], so that all other completions pay one test of a bit.

use std::collections::VecDeque;
use std::hash::Hasher;

use io_uring::types::Timespec;
use io_uring::{opcode, squeue};

use crate::error::errno;
use crate::plane::backend::uring::lower::{Lowered, Lowering, lower, poll, readiness};
use crate::plane::backend::uring::table::Table;
use crate::plane::op::{NO_OFFSET, RawOp, Readiness};
use crate::plane::token::Token;

/// The bit of a completion's word that says "not for the loop as it stands". No class of token uses it.
pub(super) const MARK: u64 = 1 << 63;

/// Whether the op was interrupted while the kernel worked on it. Some of its paths forget to turn their own code for
/// that (`ERESTARTSYS` and its kin, 512 and up) into `EINTR`.
pub(super) fn is_interrupted(res: i32) -> bool {
    matches!(-res, errno::EINTR | 512..=514 | 516)
}

/// What a raw completion of a retained op comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The loop may see it.
    Deliver(i32),
    /// The op goes on; it wants to be [submitted](RetainedOps::next_held) again.
    Held,
}

/// Where a cancel finds its op.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// Not a retained op.
    Elsewhere,
    /// With the kernel, under its marked word.
    Kernel(u64),
    /// Here; it ends without the kernel.
    Held,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Station {
    /// The op itself is with the kernel.
    Submitted,
    /// A poll for it is with the kernel.
    Polling,
    /// A pause before its next try is with the kernel.
    Pausing,
    /// Here, to be submitted next.
    HeldOp,
    /// Here, its poll to be submitted next.
    HeldPoll,
    /// Here, its pause to be submitted next.
    HeldPause,
}

#[derive(Debug)]
struct Retained {
    op: RawOp,
    station: Station,
    /// How often the answer was `EAGAIN`.
    refusals: u8,
    /// How often in a row it was ended as cancelled, and nobody had asked.
    unstarted: u8,
    cancelled: bool,
}

/// The pauses of one op, the last of them again and again.
static PAUSES: [Timespec; 5] = {
    const fn millis(millis: u32) -> Timespec {
        Timespec::new().nsec(millis * 1_000_000)
    }
    [millis(1), millis(2), millis(4), millis(8), millis(16)]
};

/// How often in a row an op is ended unasked before that is the answer: the pauses add up to some 130 ms, and the
/// kernel's own tries to more.
const UNSTARTED_MAX: u8 = 12;

/// What to do with a held op.
#[derive(Debug)]
pub(super) enum Next {
    /// Submit this.
    Entry(squeue::Entry),
    /// It was cancelled meanwhile: this is its last word.
    Ended(i32),
}

/// The retained ops of one ring.
#[derive(Debug, Default)]
pub(super) struct RetainedOps {
    ops: Table<Retained>,
    held: VecDeque<Token>,
}

impl RetainedOps {
    /// Keeps `op`, which is about to be submitted, and answers the word to submit it with.
    pub(super) fn keep(&mut self, token: Token, op: RawOp) -> u64 {
        let kept = Retained { op, station: Station::Submitted, refusals: 0, unstarted: 0, cancelled: false };
        let is_new = self.ops.insert(token, kept);
        debug_assert!(is_new, "{token:?} is in flight twice");
        token.raw() | MARK
    }

    /// A raw completion of the op arrived; `more` says that it is not the last.
    pub(super) fn completed(&mut self, token: Token, res: i32, more: bool) -> Outcome {
        let Some(kept) = self.ops.get_mut(token) else { return Outcome::Deliver(res) };
        let unasked = res == -errno::ECANCELED && !kept.cancelled;
        if unasked {
            kept.unstarted = kept.unstarted.saturating_add(1);
        } else if kept.station != Station::Pausing {
            kept.unstarted = 0;
        }
        if more {
            return Outcome::Deliver(res);
        }
        let goes_on = res >= 0 || matches!(-res, errno::EAGAIN | libc::ETIME) || is_interrupted(res);
        let answer = match (kept.station, res) {
            (Station::Submitted, res) if res >= 0 => match kept.op {
                RawOp::Poll { .. } => readiness(res).to_bits(),
                _ => res,
            },
            _ if kept.cancelled && goes_on => -errno::ECANCELED,
            (Station::Submitted, res) if res == -errno::EAGAIN && wanted(&kept.op).is_some() => {
                kept.refusals = kept.refusals.saturating_add(1);
                let pauses = matches!(kept.op, RawOp::SendTo { .. }) && kept.refusals.is_multiple_of(2);
                kept.station = if pauses { Station::HeldPause } else { Station::HeldPoll };
                self.held.push_back(token);
                return Outcome::Held;
            }
            (Station::Polling | Station::Pausing, _) if goes_on => {
                kept.station = Station::HeldOp;
                self.held.push_back(token);
                return Outcome::Held;
            }
            (Station::Submitted, res) if is_interrupted(res) && may_begin_anew(&kept.op) => {
                kept.station = Station::HeldOp;
                self.held.push_back(token);
                return Outcome::Held;
            }
            (_, res) if is_interrupted(res) => -errno::ECANCELED,
            _ if unasked && kept.unstarted <= UNSTARTED_MAX => {
                kept.station = if kept.unstarted == 1 { Station::HeldOp } else { Station::HeldPause };
                self.held.push_back(token);
                return Outcome::Held;
            }
            _ if unasked => -errno::EAGAIN,
            (_, res) => res,
        };
        self.ops.remove(token);
        Outcome::Deliver(answer)
    }

    /// Remembers that the op is to end, and says where it is.
    pub(super) fn cancel(&mut self, token: Token) -> Whereabouts {
        if self.ops.is_empty() {
            return Whereabouts::Elsewhere;
        }
        let Some(kept) = self.ops.get_mut(token) else { return Whereabouts::Elsewhere };
        kept.cancelled = true;
        match kept.station {
            Station::Submitted | Station::Polling | Station::Pausing => Whereabouts::Kernel(token.raw() | MARK),
            Station::HeldOp | Station::HeldPoll | Station::HeldPause => Whereabouts::Held,
        }
    }

    /// Whether the op's result is a descriptor, which somebody has to close.
    pub(super) fn opens(&self, token: Token) -> bool {
        self.ops.get(token).is_some_and(|kept| matches!(kept.op, RawOp::Accept { .. } | RawOp::Open { .. }))
    }

    /// The number of ops that wait here to be submitted.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Takes the next held op out; an entry it answers must be submitted.
    pub(super) fn next_held(&mut self, how: &Lowering) -> Option<(Token, Next)> {
        let token = self.held.pop_front()?;
        let Some(kept) = self.ops.get_mut(token) else {
            debug_assert!(false, "{token:?} is held and not kept");
            return None;
        };
        if kept.cancelled {
            self.ops.remove(token);
            return Some((token, Next::Ended(-errno::ECANCELED)));
        }
        let entry = match (kept.station, wanted(&kept.op)) {
            (Station::HeldPoll, Some((fd, readiness))) => {
                kept.station = Station::Polling;
                poll(fd, readiness)
            }
            (Station::HeldPause, _) => {
                kept.station = Station::Pausing;
                let before = if kept.unstarted > 0 { kept.unstarted - 1 } else { kept.refusals / 2 };
                let pause = usize::from(before).saturating_sub(1).min(PAUSES.len() - 1);
                opcode::Timeout::new(&PAUSES[pause]).build()
            }
            _ => {
                kept.station = Station::Submitted;
                // SAFETY: the op has not ended, so its operands are valid, as whoever submitted it promised.
                match unsafe { lower(&kept.op, how) } {
                    Lowered::Entry(entry) | Lowered::Retained(entry) => entry,
                    Lowered::Pool | Lowered::Refused(_) => {
                        debug_assert!(false, "{:?} was lowered to an entry before", kept.op);
                        self.ops.remove(token);
                        return Some((token, Next::Ended(-errno::EOPNOTSUPP)));
                    }
                }
            }
        };
        Some((token, Next::Entry(entry.user_data(token.raw() | MARK))))
    }
}

/// The readiness that lets the op go on after `EAGAIN`. A transfer at an offset meets no descriptor that has any.
fn wanted(op: &RawOp) -> Option<(i32, Readiness)> {
    match *op {
        RawOp::Read { fd, offset: NO_OFFSET, .. }
        | RawOp::ReadVectored { fd, offset: NO_OFFSET, .. }
        | RawOp::Accept { fd, .. } => Some((fd, Readiness::READABLE)),
        RawOp::Write { fd, offset: NO_OFFSET, .. }
        | RawOp::WriteVectored { fd, offset: NO_OFFSET, .. }
        | RawOp::SendTo { fd, .. } => Some((fd, Readiness::WRITABLE)),
        _ => None,
    }
}

/// Whether an interrupted op did nothing yet. An open may have made its file, and would refuse it as there already; so
/// may others that change a directory, and a sync that failed once must not be taken for one that did not.
fn may_begin_anew(op: &RawOp) -> bool {
    matches!(
        op,
        RawOp::Read { .. }
            | RawOp::Write { .. }
            | RawOp::ReadVectored { .. }
            | RawOp::WriteVectored { .. }
            | RawOp::Accept { .. }
            | RawOp::Poll { .. }
            | RawOp::SendTo { .. }
            | RawOp::StatFd { .. }
            | RawOp::StatPath { .. }
    )
}

/// Tokens are spread by a multiplication: they are ours, so nobody can choose them to collide.
#[derive(Debug, Default)]
pub(super) struct WordHasher(u64);

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        // The multiplication mixes upwards, and the table takes its place from the low bits.
        self.0.rotate_left(32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::backend::caps::OpSet;
    use crate::plane::op::RawSlice;
    use crate::plane::token::Class;

    const HOW: Lowering = Lowering { native: OpSet::ALL, multishot_accept: true, write_flags: 0 };

    fn token() -> Token {
        Token::new(Class::User, 3, 7)
    }

    fn read() -> RawOp {
        let buf = RawSlice { ptr: std::ptr::dangling_mut(), len: 1, fixed: RawSlice::NOT_FIXED };
        RawOp::Read { fd: 0, buf, offset: NO_OFFSET }
    }

    fn kept(op: RawOp) -> RetainedOps {
        let mut ops = RetainedOps::default();
        assert_eq!(ops.keep(token(), op), token().raw() | MARK);
        ops
    }

    /// The opcode a held op goes on with.
    fn goes_on(ops: &mut RetainedOps) -> u32 {
        match ops.next_held(&HOW) {
            Some((of, Next::Entry(entry))) => {
                assert_eq!((of, entry.get_user_data()), (token(), token().raw() | MARK));
                entry.get_opcode()
            }
            other => panic!("expected an entry, found {other:?}"),
        }
    }

    fn assert_empty(mut ops: RetainedOps) {
        assert_eq!(ops.held(), 0);
        assert_eq!(ops.cancel(token()), Whereabouts::Elsewhere);
    }

    #[test]
    fn eagain_waits_for_readiness_and_tries_again() {
        let mut ops = kept(read());
        assert_eq!(ops.completed(token(), -errno::EAGAIN, false), Outcome::Held);
        assert_eq!(goes_on(&mut ops), u32::from(opcode::PollAdd::CODE));
        assert_eq!(ops.completed(token(), libc::POLLIN.into(), false), Outcome::Held);
        assert_eq!(goes_on(&mut ops), u32::from(opcode::Read::CODE));
        assert_eq!(ops.completed(token(), 1, false), Outcome::Deliver(1));
        assert_empty(ops);
    }

    #[test]
    fn interruption_tries_again_at_once() {
        let mut ops = kept(read());
        for interruption in [errno::EINTR, 512] {
            assert_eq!(ops.completed(token(), -interruption, false), Outcome::Held);
            assert_eq!(goes_on(&mut ops), u32::from(opcode::Read::CODE));
        }
        assert_eq!(ops.completed(token(), -errno::EIO, false), Outcome::Deliver(-errno::EIO));
        assert_empty(ops);
    }

    #[test]
    fn cancel_ends_the_op_at_every_station() {
        // With the kernel, and the kernel was interrupted by it.
        let mut ops = kept(read());
        assert_eq!(ops.cancel(token()), Whereabouts::Kernel(token().raw() | MARK));
        assert_eq!(ops.completed(token(), -errno::EINTR, false), Outcome::Deliver(-errno::ECANCELED));
        assert_empty(ops);

        // With the kernel, and the bytes came first.
        let mut ops = kept(read());
        ops.cancel(token());
        assert_eq!(ops.completed(token(), 1, false), Outcome::Deliver(1));
        assert_empty(ops);

        // Held before its poll.
        let mut ops = kept(read());
        ops.completed(token(), -errno::EAGAIN, false);
        assert_eq!(ops.cancel(token()), Whereabouts::Held);
        assert!(matches!(ops.next_held(&HOW), Some((_, Next::Ended(res))) if res == -errno::ECANCELED));
        assert_empty(ops);

        // As its poll, which found readiness before the cancel found the poll.
        let mut ops = kept(read());
        ops.completed(token(), -errno::EAGAIN, false);
        goes_on(&mut ops);
        assert_eq!(ops.cancel(token()), Whereabouts::Kernel(token().raw() | MARK));
        assert_eq!(ops.completed(token(), libc::POLLIN.into(), false), Outcome::Deliver(-errno::ECANCELED));
        assert_empty(ops);
    }

    #[test]
    fn poll_answers_readiness_bits() {
        let mut ops = kept(RawOp::Poll { fd: 0, wanted: Readiness::WRITABLE });
        let bits = Readiness { writable: true, hangup: true, ..Readiness::default() }.to_bits();
        let events = libc::POLLOUT | libc::POLLHUP;
        assert_eq!(ops.completed(token(), events.into(), false), Outcome::Deliver(bits));
        assert_empty(ops);
    }

    #[test]
    fn a_refused_datagram_polls_and_pauses_in_turns() {
        let nowhere = std::ptr::NonNull::dangling();
        let mut ops = kept(RawOp::SendTo { fd: 0, datagram: nowhere });
        let (poll, pause) = (u32::from(opcode::PollAdd::CODE), u32::from(opcode::Timeout::CODE));
        for round in 0..6 {
            for (station, end) in [(poll, libc::POLLOUT.into()), (pause, -libc::ETIME)] {
                assert_eq!(ops.completed(token(), -errno::EAGAIN, false), Outcome::Held, "round {round}");
                assert_eq!(goes_on(&mut ops), station);
                assert_eq!(ops.completed(token(), end, false), Outcome::Held);
                assert_eq!(goes_on(&mut ops), u32::from(opcode::SendMsg::CODE));
            }
        }
        assert_eq!(ops.completed(token(), -errno::EAGAIN, false), Outcome::Held);
        goes_on(&mut ops);
        ops.completed(token(), libc::POLLOUT.into(), false);
        goes_on(&mut ops);
        ops.completed(token(), -errno::EAGAIN, false);
        assert_eq!(goes_on(&mut ops), pause);
        ops.cancel(token());
        assert_eq!(ops.completed(token(), -libc::ETIME, false), Outcome::Deliver(-errno::ECANCELED));
        assert_empty(ops);
    }

    #[test]
    fn an_interrupted_open_is_not_made_twice() {
        let how = crate::plane::backend::operand::OpenHow {
            read: true,
            write: false,
            append: false,
            create: false,
            create_new: false,
            truncate: false,
            directory: false,
            no_follow: false,
            direct: false,
            mode: 0,
        };
        let mut ops = kept(RawOp::Open { path: std::ptr::NonNull::dangling(), how });
        assert!(ops.opens(token()));
        assert_eq!(ops.completed(token(), -512, false), Outcome::Deliver(-errno::ECANCELED));
        assert_empty(ops);
    }

    #[test]
    fn multishot_stays_until_its_last_word() {
        let mut ops = kept(RawOp::Accept { fd: 0, multishot: true });
        assert_eq!(ops.completed(token(), 5, true), Outcome::Deliver(5));
        ops.cancel(token());
        assert_eq!(ops.completed(token(), -errno::ECANCELED, false), Outcome::Deliver(-errno::ECANCELED));
        assert_empty(ops);
    }

    /// One of every kind that the kernel may want a thread for.
    fn every_kind() -> Vec<(RawOp, u8)> {
        let nowhere = std::ptr::NonNull::<()>::dangling();
        let buf = RawSlice { ptr: std::ptr::dangling_mut(), len: 1, fixed: RawSlice::NOT_FIXED };
        vec![
            (read(), opcode::Read::CODE),
            (RawOp::Read { fd: 0, buf, offset: 5 }, opcode::Read::CODE),
            (RawOp::Write { fd: 0, buf, offset: NO_OFFSET }, opcode::Write::CODE),
            (RawOp::Write { fd: 0, buf, offset: 5 }, opcode::Write::CODE),
            (RawOp::WriteDurable { fd: 0, buf, offset: 5 }, opcode::Write::CODE),
            (RawOp::Accept { fd: 0, multishot: true }, opcode::AcceptMulti::CODE),
            (RawOp::Shutdown { fd: 0, half: crate::plane::op::Half::Write }, opcode::Shutdown::CODE),
            (RawOp::Poll { fd: 0, wanted: Readiness::READABLE }, opcode::PollAdd::CODE),
            (RawOp::SendTo { fd: 0, datagram: nowhere.cast() }, opcode::SendMsg::CODE),
            (RawOp::Close { fd: 0 }, opcode::Close::CODE),
            (RawOp::StatFd { fd: 0, into: nowhere.cast() }, opcode::Statx::CODE),
            (RawOp::Sync { fd: 0, data_only: true }, opcode::Fsync::CODE),
            (RawOp::Allocate { fd: 0, offset: 0, len: 1, keep_size: false }, opcode::Fallocate::CODE),
            (RawOp::Truncate { fd: 0, len: 1 }, opcode::Ftruncate::CODE),
        ]
    }

    #[test]
    fn what_nobody_cancelled_is_submitted_again() {
        for (op, code) in every_kind() {
            let mut ops = kept(op);
            assert_eq!(ops.completed(token(), -errno::ECANCELED, false), Outcome::Held, "{op:?}");
            assert_eq!(goes_on(&mut ops), u32::from(code), "{op:?}");
            // What it comes to then is the answer.
            let answer = if matches!(op, RawOp::Poll { .. }) { -errno::EBADF } else { 1 };
            assert_eq!(ops.completed(token(), answer, false), Outcome::Deliver(answer), "{op:?}");
            assert_empty(ops);
        }
    }

    #[test]
    fn what_is_never_started_is_refused_at_last() {
        for (op, code) in every_kind() {
            let mut ops = kept(op);
            let mut pauses = 0;
            for _ in 0..UNSTARTED_MAX {
                assert_eq!(ops.completed(token(), -errno::ECANCELED, false), Outcome::Held, "{op:?}");
                let mut station = goes_on(&mut ops);
                if station == u32::from(opcode::Timeout::CODE) {
                    pauses += 1;
                    assert_eq!(ops.completed(token(), -libc::ETIME, false), Outcome::Held, "{op:?}");
                    station = goes_on(&mut ops);
                }
                assert_eq!(station, u32::from(code), "{op:?}");
            }
            assert_eq!(pauses, UNSTARTED_MAX - 1, "all but the first try are put off: {op:?}");
            assert_eq!(ops.completed(token(), -errno::ECANCELED, false), Outcome::Deliver(-errno::EAGAIN), "{op:?}");
            assert_empty(ops);
        }
    }

    #[test]
    fn a_cancel_that_was_asked_for_is_the_last_word_also_of_an_op_that_was_not_started() {
        for (op, _) in every_kind() {
            let mut ops = kept(op);
            ops.cancel(token());
            assert_eq!(ops.completed(token(), -errno::ECANCELED, false), Outcome::Deliver(-errno::ECANCELED), "{op:?}");
            assert_empty(ops);

            // Asked for between two tries, and while it is put off.
            let mut ops = kept(op);
            ops.completed(token(), -errno::ECANCELED, false);
            assert_eq!(ops.cancel(token()), Whereabouts::Held);
            assert!(matches!(ops.next_held(&HOW), Some((_, Next::Ended(res))) if res == -errno::ECANCELED));
            assert_empty(ops);
            let mut ops = kept(op);
            ops.completed(token(), -errno::ECANCELED, false);
            goes_on(&mut ops);
            ops.completed(token(), -errno::ECANCELED, false);
            assert_eq!(goes_on(&mut ops), u32::from(opcode::Timeout::CODE));
            assert_eq!(ops.cancel(token()), Whereabouts::Kernel(token().raw() | MARK));
            assert_eq!(ops.completed(token(), -errno::ECANCELED, false), Outcome::Deliver(-errno::ECANCELED), "{op:?}");
            assert_empty(ops);
        }
    }

    #[test]
    fn an_accept_that_ends_unasked_goes_on_accepting_and_gives_none_twice() {
        let mut ops = kept(RawOp::Accept { fd: 0, multishot: true });
        for connection in 5..8 {
            assert_eq!(ops.completed(token(), connection, true), Outcome::Deliver(connection));
            assert_eq!(ops.completed(token(), -errno::ECANCELED, false), Outcome::Held);
            assert_eq!(goes_on(&mut ops), u32::from(opcode::AcceptMulti::CODE));
        }
    }

    #[test]
    fn eagain_of_a_transfer_at_an_offset_is_its_answer() {
        let buf = RawSlice { ptr: std::ptr::dangling_mut(), len: 1, fixed: RawSlice::NOT_FIXED };
        let mut ops = kept(RawOp::Read { fd: 0, buf, offset: 0 });
        assert_eq!(ops.completed(token(), -errno::EAGAIN, false), Outcome::Deliver(-errno::EAGAIN));
        assert_empty(ops);
    }

    #[test]
    fn an_interrupted_change_is_not_made_twice() {
        let nowhere = std::ptr::NonNull::<()>::dangling();
        for op in [
            RawOp::Rename { from: nowhere.cast(), to: nowhere.cast(), replace: false },
            RawOp::Unlink { path: nowhere.cast(), directory: false },
            RawOp::Mkdir { path: nowhere.cast(), mode: 0 },
            RawOp::Sync { fd: 0, data_only: false },
            RawOp::Close { fd: 0 },
        ] {
            let mut ops = kept(op);
            assert_eq!(ops.completed(token(), -errno::EINTR, false), Outcome::Deliver(-errno::ECANCELED), "{op:?}");
            assert_empty(ops);
        }
    }
}
