//! The life of an op in the simulated kernel.
//!
//! A submitted op is tried at once. Either its result stands (its effect has happened, its memory is not used any
//! more) and its completion is on the way to its loop, or it waits on its descriptor's object until something there
//! changes. Ops of one side of a descriptor are tried in the order they came, and their completions arrive in that
//! order; everything else ends in an order of the seed's choosing.
//!
//! A cancel finds an op waiting, and ends it with `-ECANCELED` or the part it has moved; or finds nothing, since the
//! result stands already and is what the loop will see. Either way there is one terminal completion.

use std::time::Duration;

use crate::error::{OpKind, errno};
use crate::plane::backend::RawCompletion;
use crate::plane::backend::sim::control::Rule;
use crate::plane::backend::sim::disk::Survival;
use crate::plane::backend::sim::events::{Event, Posted, SyncFate, span_nanos};
use crate::plane::backend::sim::exec::{Attempt, side_of};
use crate::plane::backend::sim::memory::Operand;
use crate::plane::backend::sim::world::{Body, Errno, LoopId, ObjectId, Side, State};
use crate::plane::op::{NO_OFFSET, RawOp, Readiness};
use crate::plane::token::Token;

/// An op's number, in order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OpId(u64);

/// An op whose result does not stand yet.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) home: LoopId,
    token: Token,
    pub(super) operand: Operand,
    /// What its descriptor stands for.
    pub(super) object: Option<ObjectId>,
    /// Bytes moved so far.
    pub(super) done: usize,
    /// Bytes it may move at most, by order of the fault controls.
    limit: usize,
    /// A connect that has sent its dial.
    pub(super) begun: bool,
    /// How the sync ends that it is, or does.
    fate: SyncFate,
}

impl InFlight {
    pub(super) fn new(home: LoopId, token: Token, operand: Operand) -> InFlight {
        InFlight { home, token, operand, object: None, done: 0, limit: usize::MAX, begun: false, fate: SyncFate::Well }
    }

    pub(super) fn kind(&self) -> OpKind {
        self.operand.op().kind()
    }

    /// The bytes it wants to move.
    pub(super) fn want(&self) -> usize {
        self.operand.len().min(self.limit)
    }

    /// A write that is a sync as well.
    pub(super) fn is_durable(&self) -> bool {
        matches!(self.operand.op(), RawOp::WriteDurable { .. })
    }

    fn is_multishot(&self) -> bool {
        matches!(self.operand.op(), RawOp::Accept { multishot: true, .. })
    }

    /// The side whose order its completion keeps; none for what may overtake.
    fn ordered_side(&self) -> Option<Side> {
        match self.operand.op() {
            RawOp::Read { offset, .. }
            | RawOp::Write { offset, .. }
            | RawOp::WriteDurable { offset, .. }
            | RawOp::ReadVectored { offset, .. }
            | RawOp::WriteVectored { offset, .. }
                if *offset != NO_OFFSET =>
            {
                None
            }
            RawOp::Poll { .. } => None,
            op => side_of(op).map(|(_, side)| side),
        }
    }
}

impl State {
    /// Starts an op, unless the fault controls have another answer.
    pub(super) fn issue(&mut self, mut op: InFlight) {
        if self.here.power.counts_down() {
            return self.keep(op);
        }
        // A durable write meets what was ordered for syncs as well.
        let rule = match self.here.controls.rule_for(op.kind()) {
            None if op.is_durable() => self.here.controls.rule_for(OpKind::Sync),
            rule => rule,
        };
        match rule {
            Some(Rule::Answer(res)) => return self.post(&op, res, false),
            Some(Rule::Short(limit)) => op.limit = limit,
            Some(Rule::Sync(fate)) => op.fate = fate,
            None => {}
        }
        if self.here.power.is_watched() && self.changes_disk(op.operand.op()) {
            self.show_disk();
        }
        if self.here.disk_faults.any() && self.meets_disk_fault(&mut op) {
            return self.settle();
        }
        match side_of(op.operand.op()) {
            None => {
                let res = self.perform(&mut op);
                self.post(&op, res, false);
            }
            Some((raw, side)) => match self.lookup(raw) {
                Err(errno) => self.post(&op, -errno, false),
                Ok(object) => {
                    op.object = Some(object);
                    self.enqueue(op, object, side);
                }
            },
        }
        self.settle();
    }

    /// Lets the seed decide whether the disk fails an op; true when it did, and the op was answered.
    fn meets_disk_fault(&mut self, op: &mut InFlight) -> bool {
        let faults = self.here.disk_faults;
        let (fails, short) = match *op.operand.op() {
            RawOp::Read { fd, .. } | RawOp::ReadVectored { fd, .. } if self.is_file(fd) => {
                (faults.read_error, faults.short_read)
            }
            RawOp::Write { fd, .. } | RawOp::WriteDurable { fd, .. } | RawOp::WriteVectored { fd, .. }
                if self.is_file(fd) =>
            {
                (faults.write_error, faults.short_write)
            }
            RawOp::Sync { .. } => (0.0, 0.0),
            _ => return false,
        };
        if self.chance.happens(fails) {
            self.post(op, -errno::EIO, false);
            return true;
        }
        if (op.is_durable() || op.kind() == OpKind::Sync) && self.chance.happens(faults.sync_error) {
            op.fate = SyncFate::Fails(errno::EIO, Survival::Seeded(self.chance.within(0..u64::MAX)));
        }
        let want = op.want() as u64;
        if want > 1 && self.chance.happens(short) {
            op.limit = self.chance.within(1..want) as usize;
        }
        false
    }

    /// Keeps an op of a host without power: it never completes by itself.
    fn keep(&mut self, op: InFlight) {
        self.ops_made += 1;
        let id = OpId(self.ops_made);
        self.tokens.insert((op.home, op.token.raw()), id);
        self.ops.insert(id, op);
    }

    /// Tries an op on its object, and lets it wait its turn.
    fn enqueue(&mut self, mut op: InFlight, object: ObjectId, side: Side) {
        let poll = matches!(op.operand.op(), RawOp::Poll { .. });
        let waits = self.objects.get(&object).is_some_and(|object| !object.waiting[side as usize].is_empty());
        if (poll || !waits) && self.pursue(&mut op) {
            return;
        }
        self.ops_made += 1;
        let id = OpId(self.ops_made);
        self.tokens.insert((op.home, op.token.raw()), id);
        self.ops.insert(id, op);
        if let Some(object) = self.objects.get_mut(&object) {
            if poll {
                object.polls.push(id);
            } else {
                object.waiting[side as usize].push_back(id);
            }
        }
    }

    /// Tries an op for as long as it gets on, and posts what it brings: true once it has ended.
    fn pursue(&mut self, op: &mut InFlight) -> bool {
        loop {
            match self.attempt(op) {
                Attempt::Blocked => return false,
                Attempt::Done(res) => {
                    let more = res >= 0 && op.is_multishot();
                    self.post(op, res, more);
                    if !more {
                        return true;
                    }
                }
            }
        }
    }

    /// Tries an op now or never: its result, or none when it would have to wait or others wait before it.
    pub(super) fn try_at_once(&mut self, op: &mut InFlight) -> Option<i32> {
        if self.here.controls.concerns(op.kind()) || self.here.power.is_cut() {
            return None;
        }
        let (raw, side) = side_of(op.operand.op())?;
        let object = match self.lookup(raw) {
            Ok(object) => object,
            Err(errno) => return Some(-errno),
        };
        if self.objects.get(&object).is_some_and(|object| !object.waiting[side as usize].is_empty()) {
            return None;
        }
        op.object = Some(object);
        match self.attempt(op) {
            Attempt::Done(res) => Some(res),
            Attempt::Blocked => None,
        }
    }

    /// Sends a completion on its way.
    pub(super) fn post(&mut self, op: &InFlight, mut res: i32, more: bool) {
        let on_disk = op.object.is_some_and(|object| matches!(self.body(object), Ok(Body::File(_))));
        let span = match op.kind() {
            OpKind::Nop => 0..1,
            _ if op.is_durable() => span_nanos::SYNC,
            OpKind::Sync => span_nanos::SYNC,
            OpKind::Open
            | OpKind::Stat
            | OpKind::Allocate
            | OpKind::Truncate
            | OpKind::Rename
            | OpKind::Unlink
            | OpKind::Mkdir
            | OpKind::ReadDir => span_nanos::DISK,
            _ if on_disk => span_nanos::DISK,
            _ => span_nanos::COMPLETION,
        };
        let mut at = self.time.now() + Duration::from_nanos(self.chance.within(span));
        if let Some(side) = op.ordered_side()
            && let Some(object) = op.object.and_then(|object| self.objects.get_mut(&object))
        {
            let latest = &mut object.latest[side as usize];
            *latest = at.max(*latest);
            at = *latest;
        }
        self.here.fs.stamp(at);
        if let Some(sync) = self.syncing.take() {
            if let SyncFate::Fails(errno, _) = op.fate {
                res = -errno;
            }
            self.time.plan(at, self.current, Event::Synced(sync.completing(at), op.fate));
        }
        let completion = RawCompletion { token: op.token, res, more };
        self.time.plan(at, self.current, Event::Complete(Posted { to: op.home, completion, kind: op.kind() }));
    }

    /// Tries the waiting ops of every object that changed, until nothing changes any more.
    pub(super) fn settle(&mut self) {
        while let Some(object) = self.touched.pop_front() {
            for side in Side::BOTH {
                self.stir(object, side);
            }
            self.stir_polls(object);
            self.stir_processes(object);
        }
    }

    fn stir(&mut self, object: ObjectId, side: Side) {
        while let Some(id) = self.objects.get(&object).and_then(|object| object.waiting[side as usize].front().copied())
        {
            let Some(mut op) = self.ops.remove(&id) else { break };
            if !self.pursue(&mut op) {
                self.ops.insert(id, op);
                break;
            }
            self.tokens.remove(&(op.home, op.token.raw()));
            if let Some(object) = self.objects.get_mut(&object) {
                object.waiting[side as usize].pop_front();
            }
        }
    }

    fn stir_polls(&mut self, object: ObjectId) {
        let Some(polls) = self.objects.get(&object).map(|object| object.polls.clone()) else { return };
        for id in polls {
            let Some(mut op) = self.ops.remove(&id) else { continue };
            if self.pursue(&mut op) {
                self.tokens.remove(&(op.home, op.token.raw()));
                if let Some(object) = self.objects.get_mut(&object) {
                    object.polls.retain(|poll| *poll != id);
                }
            } else {
                self.ops.insert(id, op);
            }
        }
    }

    /// Takes an op out of wherever it waits.
    pub(super) fn unpark(&mut self, id: OpId) -> Option<InFlight> {
        let op = self.ops.remove(&id)?;
        self.tokens.remove(&(op.home, op.token.raw()));
        if let Some(object) = op.object.and_then(|object| self.objects.get_mut(&object)) {
            object.polls.retain(|poll| *poll != id);
            for waiting in &mut object.waiting {
                waiting.retain(|waiting| *waiting != id);
            }
        }
        if let Some(object) = op.object {
            self.touch(object);
        }
        Some(op)
    }

    /// Ends a waiting op: with what it has moved so far, or with `res`.
    fn conclude(&mut self, id: OpId, res: i32) {
        if let Some(op) = self.unpark(id) {
            let res = if op.done > 0 { op.done as i32 } else { res };
            self.post(&op, res, false);
        }
    }

    /// Ends an op that waits. One whose result stands, or that is unknown, is left alone.
    pub(super) fn cancel(&mut self, home: LoopId, token: Token) {
        if let Some(id) = self.tokens.get(&(home, token.raw())).copied() {
            self.conclude(id, -errno::ECANCELED);
            self.settle();
        }
    }

    /// Ends every op that waits on an object.
    pub(super) fn refuse_waiting(&mut self, object: ObjectId, errno: Errno) {
        let Some(object) = self.objects.get(&object) else { return };
        let ids: Vec<OpId> = object.waiting.iter().flatten().chain(&object.polls).copied().collect();
        for id in ids {
            self.conclude(id, -errno);
        }
    }

    /// Answers every op of a loop that has no power any more, so that it may end.
    pub(super) fn abandon(&mut self, home: LoopId) {
        let ids: Vec<OpId> = self.ops.iter().filter(|(_, op)| op.home == home).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(op) = self.unpark(id) else { continue };
            let completion = RawCompletion { token: op.token, res: -libc::EHOSTDOWN, more: false };
            self.hand_over(Posted { to: home, completion, kind: op.kind() });
        }
        let limbo = std::mem::take(&mut self.here.limbo);
        for posted in self.time.recall(home).into_iter().chain(self.here.controls.recall(home)).chain(limbo) {
            if let Some(raw) = posted.descriptor() {
                // One that a rule made up was never open.
                let _ = self.close(raw);
            }
            let completion = RawCompletion { res: -libc::EHOSTDOWN, ..posted.completion };
            self.hand_over(Posted { completion, ..posted });
        }
    }

    /// Ends every multishot op that is armed, with this result; answers how many.
    pub(super) fn terminate_multishot(&mut self, res: i32) -> usize {
        let ids: Vec<OpId> = self.ops.iter().filter(|(_, op)| op.is_multishot()).map(|(id, _)| *id).collect();
        for id in &ids {
            self.conclude(*id, res);
        }
        self.settle();
        ids.len()
    }

    /// What a loop that nothing can wake waits for, for its error.
    pub(super) fn describe_waiting(&self, home: LoopId) -> String {
        const SHOWN_MAX: usize = 8;
        let waiting: Vec<&InFlight> = self.ops.values().filter(|op| op.home == home).collect();
        let mut words: Vec<String> = waiting
            .iter()
            .take(SHOWN_MAX)
            .map(|op| match side_of(op.operand.op()) {
                Some((raw, _)) => format!("{} on descriptor {raw}", op.kind()),
                None => op.kind().to_string(),
            })
            .collect();
        if waiting.len() > SHOWN_MAX {
            words.push(format!("{} more", waiting.len() - SHOWN_MAX));
        }
        if words.is_empty() { "no op is in flight".to_owned() } else { format!("in flight: {}", words.join(", ")) }
    }

    /// What the ops and the processes of this host wait for.
    pub(super) fn describe_waiting_here(&self) -> Vec<String> {
        let here = |op: &InFlight| op.object.is_some_and(|object| object.host() == self.current);
        let words: Vec<String> = self
            .ops
            .values()
            .filter(|op| here(op))
            .filter_map(|op| {
                let (raw, _) = side_of(op.operand.op())?;
                Some(match op.object.map(|object| self.body(object)) {
                    Some(Ok(Body::Process(pid))) => format!("wait for {}", self.name_of_process(*pid)),
                    _ => format!("{} on descriptor {raw}", op.kind()),
                })
            })
            .collect();
        let ops = if words.is_empty() { None } else { Some(format!("in flight: {}", words.join(", "))) };
        ops.into_iter().chain(self.describe_processes()).collect()
    }

    /// What an object is ready for, of what is wanted; trouble counts always.
    pub(super) fn readiness(&self, object: ObjectId, wanted: Readiness) -> Option<Readiness> {
        let ready = match self.body(object).ok()? {
            Body::File(_) => Readiness { readable: true, writable: true, ..Readiness::default() },
            Body::PipeReader(end) => State::pipe_reader_readiness(end),
            Body::PipeWriter(end) => self.pipe_writer_readiness(end),
            Body::Socket(_) => self.socket_readiness(object),
            Body::Process(pid) => Readiness { readable: self.has_ended(*pid), ..Readiness::default() },
        };
        let ready = Readiness {
            readable: ready.readable && wanted.readable,
            writable: ready.writable && wanted.writable,
            ..ready
        };
        (ready != Readiness::default()).then_some(ready)
    }
}
