//! The reads or the writes of one verb on a handle, one after another, in one turn.
//!
//! A regular file is asked at the handle's own position, which moves with what was read or written. A stream (a pipe,
//! a terminal, a device without positions, a descriptor somebody else shares) is asked for what comes next; then the
//! turn only keeps the bytes of one verb together. What a handle is, it asks once, when it first
//! matters; that does not wait, so whoever started first is first in the queue.

use std::pin::Pin;
use std::task::Poll;

use crate::error::{IoResult, OpKind};
use crate::fiber::{alarm, park, verb};
use crate::os::fs::file::File;
use crate::plane::Instant;
use crate::plane::buf::{BufResult, IoBuf, IoBufMut};
use crate::plane::cursor::{Cursor, Place, Turn};
use crate::plane::ops::{InTurn, Read, Write};

/// How the kernel is asked for a handle's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// At the position the handle keeps.
    Positional,
    /// For what comes next.
    Stream,
}

/// One verb's time with a handle. It ends when it is dropped; an op in flight takes the turn along.
#[derive(Debug)]
pub(super) struct Session<'a> {
    file: &'a File,
    way: Way,
    turn: Turn,
}

impl<'a> Session<'a> {
    /// For reading. Whoever came first reads first. None when it was not its turn by the deadline.
    pub(super) async fn reading(file: &'a File, by: Option<Instant>) -> IoResult<Option<Session<'a>>> {
        let way = file.way()?;
        let turn = turn(file.cursor(), OpKind::Read, by).await?;
        Ok(turn.map(|turn| Session { file, way, turn }))
    }

    /// For writing: at the position, or at the end of a file opened for appending.
    pub(super) async fn writing(file: &'a File, by: Option<Instant>) -> IoResult<Option<Session<'a>>> {
        let way = if file.appends() { Way::Stream } else { file.way()? };
        let cursor = match way {
            Way::Positional => file.cursor(),
            // A reader may wait for long; writers wait for each other only.
            Way::Stream => file.writers(),
        };
        let turn = turn(cursor, OpKind::Write, by).await?;
        Ok(turn.map(|turn| Session { file, way, turn }))
    }

    pub(super) fn way(&self) -> Way {
        self.way
    }

    pub(super) fn position(&self) -> u64 {
        self.turn.position()
    }

    pub(super) fn move_to(&mut self, position: u64) {
        self.turn.move_to(position);
    }

    /// Moves a file's position behind `count` bytes that were read and are answered.
    pub(super) fn advance(&mut self, count: usize) {
        if self.way == Way::Positional {
            self.turn.advance(count);
        }
    }

    /// Gives a stream's bytes, which were read and are not answered, to its next reader. A file has them still.
    pub(super) fn put_back(&self, bytes: &[u8]) {
        if self.way == Way::Stream {
            self.file.fd().keep(bytes);
        }
    }

    /// One read into `buf` behind its first `filled` bytes, which this session read. The position does not move: a
    /// verb that is dropped has read nothing. None when there was nothing by the deadline.
    pub(super) async fn read<B: IoBufMut>(
        self,
        buf: B,
        filled: usize,
        by: Option<Instant>,
    ) -> (BufResult<Option<usize>, B>, Session<'a>) {
        let Session { file, way, turn } = self;
        let op = match way {
            Way::Positional => Read::at(file.fd(), buf, turn.position().saturating_add(filled as u64)),
            Way::Stream => Read::next(file.fd(), buf),
        };
        let (((result, buf), turn), late) = verb(InTurn::new(op.behind(filled), turn)).by(by).await;
        ((by_then(result, late), buf), Session { file, way, turn })
    }

    /// One write of `buf`'s bytes, which moves the position. None when nothing could be written by the deadline.
    pub(super) async fn write<B: IoBuf>(
        self,
        buf: B,
        by: Option<Instant>,
    ) -> (BufResult<Option<usize>, B>, Session<'a>) {
        let Session { file, way, turn } = self;
        let op = match way {
            Way::Positional => InTurn::moving(Write::at(file.fd(), buf, turn.position()), turn),
            Way::Stream => InTurn::new(Write::next(file.fd(), buf), turn),
        };
        let (((result, buf), turn), late) = verb(op).by(by).await;
        let mut session = Session { file, way, turn };
        session.advance(*result.as_ref().unwrap_or(&0));
        ((by_then(result, late), buf), session)
    }
}

/// A result whose deadline may have passed: an op that was cancelled for that has nothing to answer.
fn by_then(result: IoResult<usize>, late: bool) -> IoResult<Option<usize>> {
    match result {
        Err(error) if late && error.is_cancelled() => Ok(None),
        other => other.map(Some),
    }
}

async fn turn(cursor: &Cursor, kind: OpKind, by: Option<Instant>) -> IoResult<Option<Turn>> {
    if let Some(turn) = cursor.try_turn() {
        return Ok(Some(turn));
    }
    let mut place = Place::new(cursor);
    let mut alarm = by.map(alarm);
    park(kind, |cx| {
        if let Some(turn) = place.poll(cx.waker()) {
            return Poll::Ready(Ok(Some(turn)));
        }
        match &mut alarm {
            Some(alarm) => Pin::new(alarm).poll(cx).map(|()| Ok(None)),
            None => Poll::Pending,
        }
    })
    .await
}
