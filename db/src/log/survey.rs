//! What the files of a data directory say of themselves, by their first bytes alone.
//!
//! A survey decides which snapshot to build upon and which segments come behind it, and refuses what is not ours, what
//! is newer, and what lacks a part. It changes nothing.

use std::path::{Path, PathBuf};

use crate::log::error::OpenError;
use crate::log::frame::{DatabaseId, FILE_HEADER_BYTES, FileStart, SegmentHeader, VERSION};
use crate::log::names::{self, Listing};
use crate::log::snapshot::{self, SnapshotFile};
use crate::log::window::Window;

/// A segment file with a whole header.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) slot: u32,
    /// Bytes of the file as it is.
    pub(crate) len: u64,
    pub(crate) header: SegmentHeader,
}

/// A segment file whose first bytes are no whole header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headless {
    pub(crate) slot: u32,
    pub(crate) len: u64,
    pub(crate) why: Why,
}

/// Why a file has no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It was never used.
    Blank,
    /// It was broken, or torn.
    Broken,
    /// It is somebody else's.
    Foreign,
}

/// What is in a data directory.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) dir: PathBuf,
    pub(crate) listing: Listing,
    /// None for a directory nothing was ever written to.
    pub(crate) id: Option<DatabaseId>,
    /// Every segment with a whole header, by its number.
    pub(crate) segments: Vec<Segment>,
    pub(crate) headless: Vec<Headless>,
    /// The newest whole snapshot.
    pub(crate) snapshot: Option<SnapshotFile>,
    /// Newer ones that are not whole, and why.
    pub(crate) refused: Vec<(PathBuf, String)>,
}

/// Looks at every file of ours in `dir`.
pub(crate) async fn survey(dir: &Path) -> Result<Survey, OpenError> {
    let listing = names::list(dir).await?;
    let mut survey = Survey {
        dir: dir.to_owned(),
        id: None,
        segments: Vec::new(),
        headless: Vec::new(),
        snapshot: None,
        refused: Vec::new(),
        listing,
    };
    survey.read_headers().await?;
    survey.choose_snapshot().await?;
    survey.refuse_strangers().await?;
    Ok(survey)
}

impl Survey {
    async fn read_headers(&mut self) -> Result<(), OpenError> {
        for &slot in &self.listing.slots {
            let path = names::segment(&self.dir, slot);
            let mut window = Window::open(&path).await?;
            let len = window.len();
            let headless = |why| Headless { slot, len, why };
            match SegmentHeader::decode(window.start().await?) {
                FileStart::Whole(header) => self.segments.push(Segment { slot, len, header }),
                FileStart::Blank => self.headless.push(headless(Why::Blank)),
                FileStart::Broken => self.headless.push(headless(Why::Broken)),
                FileStart::Foreign => self.headless.push(headless(Why::Foreign)),
                FileStart::Newer(version) => {
                    return Err(OpenError::NewerFormat { file: path, version, known: VERSION });
                }
            }
        }
        self.segments.sort_by_key(|segment| segment.header.segment);
        Ok(())
    }

    async fn choose_snapshot(&mut self) -> Result<(), OpenError> {
        for &as_of in &self.listing.snapshots {
            let path = names::snapshot(&self.dir, as_of);
            match snapshot::check(&path).await? {
                Ok(snapshot) => {
                    self.snapshot = Some(snapshot);
                    break;
                }
                Err(reason) => self.refused.push((path, reason)),
            }
        }
        Ok(())
    }

    /// All files must be of one database.
    async fn refuse_strangers(&mut self) -> Result<(), OpenError> {
        let snapshot = self.snapshot.as_ref().map(|snapshot| (snapshot.header.id, snapshot.path.clone()));
        let segments = self.segments.iter().map(|segment| (segment.header.id, names::segment(&self.dir, segment.slot)));
        for (id, file) in snapshot.into_iter().chain(segments) {
            match self.id {
                None => self.id = Some(id),
                Some(known) if known == id => {}
                Some(_) => {
                    let reason = "it belongs to another database than the rest of the directory".to_owned();
                    return Err(OpenError::Foreign { file, reason });
                }
            }
        }
        if self.id.is_none()
            && let Some(stranger) = self.headless.iter().find(|headless| headless.why != Why::Blank)
        {
            let file = names::segment(&self.dir, stranger.slot);
            return Err(match self.number_in(stranger).await? {
                Some(offset) => OpenError::CorruptMiddle {
                    file,
                    offset: 0,
                    reason: format!("the header is broken, and there is a whole frame at byte {offset}"),
                },
                None if stranger.why == Why::Broken && self.snapshots_are_gone() => {
                    // A header that was torn when the very first transaction was written.
                    return Ok(());
                }
                None => {
                    let reason = "its first bytes are not those of a segment".to_owned();
                    OpenError::Foreign { file, reason }
                }
            });
        }
        Ok(())
    }

    fn snapshots_are_gone(&self) -> bool {
        self.listing.snapshots.is_empty()
    }

    /// Whether a file with a broken header has a frame that is whole by the number in that header.
    async fn number_in(&self, headless: &Headless) -> Result<Option<u64>, OpenError> {
        let mut window = Window::open(&names::segment(&self.dir, headless.slot)).await?;
        let start = window.start().await?;
        let Some(id) = start.get(16..32).and_then(|id| id.try_into().ok()) else { return Ok(None) };
        let found = super::evidence::look(&mut window, DatabaseId(id), FILE_HEADER_BYTES as u64, |_| true).await?;
        Ok(found.frame)
    }

    /// The segments to replay, in order: from the one the snapshot says, or the first, on.
    ///
    /// # Errors
    ///
    /// When one of them is missing, or there are two of a number.
    pub(crate) fn live(&self) -> Result<&[Segment], OpenError> {
        let first = self.snapshot.as_ref().map_or(1, |snapshot| snapshot.first_segment);
        let begin = self.segments.partition_point(|segment| segment.header.segment < first);
        let live = &self.segments[begin..];
        for (segment, expected) in live.iter().zip(first..) {
            let found = segment.header.segment;
            if found != expected {
                let file = names::segment(&self.dir, segment.slot);
                let what = match (found < expected, &self.snapshot, self.refused.first()) {
                    (true, _, _) => format!("two files say they are segment {found}; one is {}", file.display()),
                    (false, None, Some((snapshot, why))) => format!(
                        "the log begins with segment {found}, and no snapshot is whole: {}: {why}",
                        snapshot.display()
                    ),
                    _ => format!("segment {expected} of the log is missing; there is {found} in {}", file.display()),
                };
                return Err(OpenError::Missing { dir: self.dir.clone(), what });
            }
        }
        if live.is_empty()
            && self.snapshot.is_none()
            && let Some((snapshot, why)) = self.refused.first()
        {
            let what = format!("there is no log, and no snapshot is whole: {}: {why}", snapshot.display());
            return Err(OpenError::Missing { dir: self.dir.clone(), what });
        }
        Ok(live)
    }

    /// The newest generation any file tells of.
    pub(crate) fn generation(&self) -> u32 {
        let segments = self.segments.iter().map(|segment| segment.header.generation);
        segments.chain(self.snapshot.as_ref().map(|snapshot| snapshot.header.generation)).max().unwrap_or(0)
    }
}
