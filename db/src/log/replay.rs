//! Handing what a directory holds to whoever makes sense of it, in order.

use std::path::Path;

use crate::log::batch::schema_of;
use crate::log::body::{self, Entry};
use crate::log::error::OpenError;
use crate::log::frame::frame_bytes;
use crate::log::survey::Survey;
use crate::log::walk::{End, Frame, walk};
use crate::log::{Replay, names, snapshot};

/// What a replay has come to.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    pub(crate) transactions: u64,
    pub(crate) catalogues: u64,
    /// The catalogue in force, by checksum.
    pub(crate) schema: u32,
}

impl Replayed {
    /// Hands the snapshot to `replay`; `read` is told how many bytes that were.
    pub(crate) async fn feed_snapshot(
        &mut self,
        survey: &Survey,
        replay: &mut dyn Replay,
        read: &mut dyn FnMut(u64),
    ) -> Result<(), OpenError> {
        let Some(known) = &survey.snapshot else { return Ok(()) };
        let as_of = known.header.as_of;
        let mut take = |entry, bytes: &[u8]| match entry {
            Entry::Catalogue => {
                self.schema = schema_of(bytes);
                replay.catalogue(bytes)
            }
            Entry::Transaction => replay.transaction(as_of, bytes),
        };
        match snapshot::read(&known.path, &mut take).await? {
            Ok(_) => {
                read(known.bytes);
                replay
                    .snapshot_end(as_of)
                    .map_err(|cause| snapshot::undecodable(&known.path, known.bytes, as_of, cause))
            }
            // It was whole a moment ago.
            Err(reason) => {
                Err(OpenError::Missing { dir: survey.dir.clone(), what: format!("{}: {reason}", known.path.display()) })
            }
        }
    }

    /// Hands every frame behind the snapshot to `replay`; `read` is told of each frame's bytes.
    pub(crate) async fn feed_log(
        &mut self,
        survey: &Survey,
        replay: &mut dyn Replay,
        read: &mut dyn FnMut(u64),
    ) -> Result<End, OpenError> {
        let as_of = survey.snapshot.as_ref().map_or(0, |snapshot| snapshot.header.as_of);
        let dir = survey.dir.clone();
        walk(survey, &mut |frame| {
            read(frame_bytes(frame.body.len()) as u64);
            self.feed_frame(&dir, as_of, frame, replay)
        })
        .await
    }

    fn feed_frame(
        &mut self,
        dir: &Path,
        as_of: u64,
        frame: &Frame<'_>,
        replay: &mut dyn Replay,
    ) -> Result<(), OpenError> {
        let file = || names::segment(dir, frame.slot);
        let uneven = || OpenError::CorruptMiddle {
            file: file(),
            offset: frame.offset,
            reason: "the checksum fits, but the entries do not come out even".to_owned(),
        };
        let mut sequence = frame.header.sequence;
        for entry in body::entries(frame.body) {
            let (entry, bytes) = entry.map_err(|_| uneven())?;
            if sequence > as_of {
                let taken = match entry {
                    Entry::Catalogue => {
                        self.schema = schema_of(bytes);
                        self.catalogues += 1;
                        replay.catalogue(bytes)
                    }
                    Entry::Transaction => {
                        self.transactions += 1;
                        replay.transaction(sequence, bytes)
                    }
                };
                taken.map_err(|cause| snapshot::undecodable(&file(), frame.offset, sequence, cause))?;
            }
            sequence += 1;
        }
        if sequence == frame.header.sequence + u64::from(frame.header.entries) { Ok(()) } else { Err(uneven()) }
    }
}
