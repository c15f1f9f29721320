//! Reading the log from the first live segment to its end, and saying how it ends.
//!
//! The walk hands every whole frame to a visitor, in order, and stops at the first place that is none. There it decides
//! between the cases the disk can bring about: the segment goes on in the next one; the last write was torn; the middle
//! was broken. What a visitor cannot make sense of is a fourth case, and the visitor's to tell. Nothing is changed.

use std::path::PathBuf;

use crate::log::error::OpenError;
use crate::log::evidence::{self, Behind};
use crate::log::frame::{
    Broken, DatabaseId, FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileKind, FrameHeader, Place, SEQUENCE_MAX, frame_bytes,
    peek, prove,
};
use crate::log::names;
use crate::log::survey::{Segment, Survey, Why};
use crate::log::window::Window;

/// A whole frame of the log.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) slot: u32,
    pub(crate) offset: u64,
    pub(crate) header: FrameHeader,
    pub(crate) body: &'a [u8],
}

/// What is told of every frame.
pub(crate) type Visitor<'a> = &'a mut dyn FnMut(&Frame<'_>) -> Result<(), OpenError>;

/// A segment that was walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walked {
    pub(crate) slot: u32,
    pub(crate) segment: u32,
    /// Bytes of the file when it was made ready.
    pub(crate) bytes: u64,
    /// The last number in it, or in the one before when it has none.
    pub(crate) last: u64,
    /// Where its last frame ends.
    pub(crate) end: u64,
}

/// How the log ends.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) segments: Vec<Walked>,
    /// The number of the last entry, or of the last one the snapshot has.
    pub(crate) last: u64,
    /// The last frame's checksum.
    pub(crate) chain: u32,
    pub(crate) frames: u64,
    /// Bytes of whole frames.
    pub(crate) bytes: u64,
    /// Bytes behind the last frame that a torn write left.
    pub(crate) torn_bytes: u64,
    /// Why the torn frame is none.
    pub(crate) torn_why: Option<Broken>,
    /// The next number to give out is larger than this, whatever the torn frame had.
    pub(crate) generation: u32,
}

impl End {
    /// The segment the log ends in.
    pub(crate) fn active(&self) -> Option<&Walked> {
        self.segments.last()
    }
}

/// Where the walk stands.
struct Walk<'a> {
    survey: &'a Survey,
    id: DatabaseId,
    last: u64,
    chain: u32,
    generation: u32,
    frames: u64,
    bytes: u64,
}

/// Walks the live segments of a survey.
pub(crate) async fn walk(survey: &Survey, visit: Visitor<'_>) -> Result<End, OpenError> {
    let live = survey.live()?;
    let as_of = survey.snapshot.as_ref().map_or(0, |snapshot| snapshot.header.as_of);
    let mut end = End {
        segments: Vec::new(),
        last: as_of,
        chain: 0,
        frames: 0,
        bytes: 0,
        torn_bytes: 0,
        torn_why: None,
        generation: survey.generation(),
    };
    let Some(id) = survey.id else { return Ok(end) };
    let mut walk = Walk { survey, id, last: 0, chain: 0, generation: 0, frames: 0, bytes: 0 };
    for (index, segment) in live.iter().enumerate() {
        let first = index == 0;
        let next = live.get(index + 1);
        walk.enter(segment, first)?;
        let (walked, why, mut window) = walk.segment(segment, visit).await?;
        match next {
            Some(next) => walk.expect_rotation(&walked, why, next)?,
            None => {
                let behind = walk.look_behind(&mut window, &walked, why).await?;
                end.torn_bytes = torn_bytes(&mut window, segment, &walked, behind, walk.last).await?;
                end.torn_why = (end.torn_bytes > 0).then_some(why);
            }
        }
        end.segments.push(walked);
    }
    end.last = walk.last.max(as_of);
    end.chain = walk.chain;
    end.generation = end.generation.max(walk.generation);
    (end.frames, end.bytes) = (walk.frames, walk.bytes);
    walk.look_into_headless(end.last).await?;
    if let Some(snapshot) = &survey.snapshot
        && end.last < snapshot.until
    {
        let what = format!(
            "{} builds upon transactions up to {}, and the log ends with {}",
            snapshot.path.display(),
            snapshot.until,
            end.last
        );
        return Err(OpenError::Missing { dir: survey.dir.clone(), what });
    }
    Ok(end)
}

impl Walk<'_> {
    fn file(&self, slot: u32) -> PathBuf {
        names::segment(&self.survey.dir, slot)
    }

    fn broken(&self, slot: u32, offset: u64, reason: impl ToString) -> OpenError {
        OpenError::CorruptMiddle { file: self.file(slot), offset, reason: reason.to_string() }
    }

    /// Checks that a segment continues the one before. The first one is taken at its word.
    fn enter(&mut self, segment: &Segment, first: bool) -> Result<(), OpenError> {
        let header = &segment.header;
        if first {
            self.last = header.sequence.saturating_sub(1);
            self.chain = header.previous;
        } else if header.sequence <= self.last || header.generation < self.generation {
            let reason = format!(
                "the header says it begins with transaction {} of generation {}, behind {} of generation {}",
                header.sequence, header.generation, self.last, self.generation
            );
            return Err(self.broken(segment.slot, 0, reason));
        }
        self.generation = header.generation;
        Ok(())
    }

    /// Walks one segment up to the first place that is no frame of it, and says why it is none.
    async fn segment(&mut self, segment: &Segment, visit: Visitor<'_>) -> Result<(Walked, Broken, Window), OpenError> {
        let mut window = Window::open(&self.file(segment.slot)).await?;
        let place = Place { id: self.id, kind: FileKind::Segment };
        let mut offset = FILE_HEADER_BYTES as u64;
        let why = loop {
            let room = window.len().saturating_sub(offset);
            let header = match peek(window.bytes(offset, FRAME_HEADER_BYTES).await?, room) {
                Ok(header) => header,
                Err(why) => break why,
            };
            if !self.is_next(segment, &header) {
                break Broken::Chain;
            }
            let size = frame_bytes(header.length as usize);
            let body = match prove(window.bytes(offset, size).await?, &header, place, offset) {
                Ok(body) => body,
                Err(why) => break why,
            };
            visit(&Frame { slot: segment.slot, offset, header, body })?;
            self.last = header.last();
            self.chain = header.checksum;
            self.generation = header.generation;
            self.frames += 1;
            self.bytes += size as u64;
            offset += size as u64;
        };
        let walked = Walked {
            slot: segment.slot,
            segment: segment.header.segment,
            bytes: segment.header.bytes,
            last: self.last,
            end: offset,
        };
        Ok((walked, why, window))
    }

    /// Whether a frame, if it is whole, comes next.
    fn is_next(&self, segment: &Segment, header: &FrameHeader) -> bool {
        header.previous == self.chain && self.counts(segment.header.segment, header)
    }

    /// Whether a frame, if it is whole, is of this life of the segment and behind what was walked.
    fn counts(&self, segment: u32, header: &FrameHeader) -> bool {
        header.segment == segment
            && header.sequence > self.last
            && header.entries > 0
            && header.sequence <= SEQUENCE_MAX
            && header.generation >= self.generation
    }

    /// A segment that is not the last must end where the next one says it does.
    fn expect_rotation(&self, walked: &Walked, why: Broken, next: &Segment) -> Result<(), OpenError> {
        if next.header.previous == self.chain {
            return Ok(());
        }
        let reason = format!("{why}, and the log goes on in {}", self.file(next.slot).display());
        Err(self.broken(walked.slot, walked.end, reason))
    }

    /// At the end of the last segment: refuses when there are whole frames behind.
    async fn look_behind(&self, window: &mut Window, walked: &Walked, why: Broken) -> Result<Behind, OpenError> {
        let counts = |header: &FrameHeader| self.counts(walked.segment, header);
        let behind = evidence::look(window, self.id, walked.end, counts).await?;
        match behind.frame {
            None => Ok(behind),
            Some(whole) => {
                let reason = format!("{why}, and there is a whole frame at byte {whole}");
                Err(self.broken(walked.slot, walked.end, reason))
            }
        }
    }

    /// A file without a header must not hold frames of the log's end.
    async fn look_into_headless(&self, last: u64) -> Result<(), OpenError> {
        for headless in &self.survey.headless {
            let mut window = Window::open(&self.file(headless.slot)).await?;
            let counts = |header: &FrameHeader| header.sequence > last && header.generation >= self.generation;
            let found = evidence::look(&mut window, self.id, FILE_HEADER_BYTES as u64, counts).await?;
            if let Some(whole) = found.frame {
                let reason = format!("the header is broken, and there is a whole frame at byte {whole}");
                return Err(self.broken(headless.slot, 0, reason));
            }
            if headless.why == Why::Foreign {
                let reason = "its first bytes are not those of a segment".to_owned();
                return Err(OpenError::Foreign { file: self.file(headless.slot), reason });
            }
        }
        Ok(())
    }
}

/// How many bytes a torn write left behind the last frame.
async fn torn_bytes(
    window: &mut Window,
    segment: &Segment,
    walked: &Walked,
    behind: Behind,
    last: u64,
) -> Result<u64, OpenError> {
    let rest = window.len().saturating_sub(walked.end);
    let head = window.bytes(walked.end, FRAME_HEADER_BYTES).await?;
    // A header that was written for this place says how much there was to be.
    if let Ok(header) = peek(head, u64::MAX)
        && header.segment == segment.header.segment
        && header.sequence > last
    {
        return Ok(rest.min(frame_bytes(header.length as usize) as u64));
    }
    if window.len() < segment.header.bytes {
        // The file itself was cut.
        return Ok(rest);
    }
    // Behind the end of a file in its first life are zeros. In a later one there are old frames, which nobody lost.
    Ok(if segment.header.recycled { 0 } else { behind.end.saturating_sub(walked.end) })
}
