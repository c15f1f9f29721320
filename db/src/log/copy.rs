//! Copies of a data directory: backups while it serves or while it rests, and bringing one back.
//!
//! A copy is the newest snapshot and the segments behind it, each up to the end of its last whole frame. It is made
//! under another name next to where it is to be, synced, and renamed: what has the copy's name is whole. Opening a copy
//! is opening any database.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use wo_runtime::error::errno;
use wo_runtime::os::fs::{self, File};

use crate::log::directory;
use crate::log::error::{CopyError, OpenError};
use crate::log::publish::Copying;
use crate::log::state::Shared;
use crate::log::survey::survey;
use crate::log::walk::walk;
use crate::log::{Progress, names};

/// Bytes read and written at once.
const PIECE_BYTES: usize = 256 << 10;
/// How often a directory that somebody writes to is looked at anew, when files changed under the copy.
const TRIES: u32 = 5;

/// A copy that was made.
///
/// # Examples
///
/// ```
/// # #[derive(wo::Record, Clone)]
/// # struct City {
/// #     #[key]
/// #     name: String,
/// # }
/// # #[wo::main]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = std::env::temp_dir().join(format!("wo-db-madebackup-{}", std::process::id()));
/// # let db = wo::db::Db::builder().table::<City>().open(dir.join("cities"))?;
/// # db.table::<City>()?.insert(City { name: "Rome".to_owned() })?;
/// # db.close()?;
/// # let cities = dir.join("cities");
///
/// let backup = wo::db::tools::copy(&cities, dir.join("copy"), |_, _| ())?;
/// assert!(backup.files > 0 && backup.last_sequence > 0);
/// let again = wo::db::Db::builder().table::<City>().open(&backup.dir)?;
/// assert!(again.table::<City>()?.contains("Rome")?);
/// # again.close()?;
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// Its directory.
    pub dir: PathBuf,
    /// The last transaction in it.
    pub last_sequence: u64,
    /// Its size, in bytes.
    pub bytes: u64,
    /// Files in it.
    pub files: u32,
}

/// What is to be copied.
#[derive(Debug)]
struct Plan {
    last_sequence: u64,
    files: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    from: PathBuf,
    name: OsString,
    bytes: u64,
}

impl Plan {
    fn new(last_sequence: u64) -> Plan {
        Plan { last_sequence, files: Vec::new() }
    }

    fn add(&mut self, from: PathBuf, bytes: u64) {
        let name = from.file_name().unwrap_or_default().to_owned();
        self.files.push(Part { from, name, bytes });
    }

    /// What is on the disk of a log that is open, as of this moment.
    async fn of_open(shared: &Shared) -> Result<Plan, CopyError> {
        let mut plan = Plan::new(shared.state.borrow().durable());
        {
            let segments = shared.segments.borrow();
            for sealed in &segments.sealed {
                plan.add(names::segment(&shared.dir, sealed.slot), sealed.end);
            }
            if let Some(active) = segments.active.as_ref().filter(|active| !active.fresh) {
                plan.add(names::segment(&shared.dir, active.slot), active.offset);
            }
        }
        if let Some(as_of) = shared.snapshot.get() {
            let file = names::snapshot(&shared.dir, as_of);
            let stat = fs::metadata(&file).await.map_err(|error| CopyError::io(&file, error))?;
            plan.add(file, stat.len());
        }
        Ok(plan)
    }

    /// What is whole in a directory, which somebody may be writing to.
    async fn of_directory(dir: &Path) -> Result<Plan, OpenError> {
        let survey = survey(dir).await?;
        let end = walk(&survey, &mut |_| Ok(())).await?;
        let mut plan = Plan::new(end.last);
        for walked in &end.segments {
            plan.add(names::segment(dir, walked.slot), walked.end);
        }
        if let Some(snapshot) = &survey.snapshot {
            plan.add(snapshot.path.clone(), snapshot.bytes);
        }
        Ok(plan)
    }

    async fn copy_to(&self, dir: &Path, progress: Progress<'_>) -> Result<Backup, CopyError> {
        let total = self.files.iter().map(|part| part.bytes).sum();
        let mut done = 0;
        for part in &self.files {
            copy_file(&part.from, &dir.join(&part.name), part.bytes, &mut |bytes| {
                done += bytes;
                progress(done, total);
            })
            .await?;
        }
        fs::sync_dir(dir).await.map_err(|error| CopyError::io(dir, error))?;
        let files = self.files.len() as u32;
        Ok(Backup { dir: dir.to_owned(), last_sequence: self.last_sequence, bytes: total, files })
    }
}

/// Backs up a log that is open; see [`Log::backup`](super::Log::backup).
pub(crate) async fn backup_open(shared: &Rc<Shared>, to: &Path, progress: Progress<'_>) -> Result<Backup, CopyError> {
    let _copying = Copying::begin(shared)?;
    let plan = Plan::of_open(shared).await?;
    let place = NewPlace::begin(to).await?;
    let copied = plan.copy_to(&place.draft, progress).await;
    place.finish(copied).await
}

/// Copies a data directory to a new one. It may be one that is being served, by this process or another.
pub async fn copy(from: &Path, to: &Path, progress: Progress<'_>) -> Result<Backup, CopyError> {
    let place = NewPlace::begin(to).await?;
    let copied = copy_changing(from, &place.draft, progress).await;
    place.finish(copied).await
}

/// Copies until what came of it is whole: its owner may take files into use again while they are read.
async fn copy_changing(from: &Path, to: &Path, progress: Progress<'_>) -> Result<Backup, CopyError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let copied = copy_once(from, to, progress).await;
        let changed = match &copied {
            Err(CopyError::Source(OpenError::CorruptMiddle { .. } | OpenError::Missing { .. })) => true,
            Err(CopyError::Source(OpenError::Io { error, .. }) | CopyError::Io { error, .. }) => {
                matches!(error.errno(), errno::ENOENT | errno::ENODATA)
            }
            _ => false,
        };
        if !changed || tries == TRIES {
            return copied;
        }
        remove_files(to).await?;
    }
}

async fn copy_once(from: &Path, to: &Path, progress: Progress<'_>) -> Result<Backup, CopyError> {
    let plan = Plan::of_directory(from).await?;
    let backup = plan.copy_to(to, progress).await?;
    let copied = Plan::of_directory(to).await?;
    if copied.last_sequence == plan.last_sequence {
        return Ok(backup);
    }
    let what = format!("the copy ends with {}, not with {}", copied.last_sequence, plan.last_sequence);
    Err(CopyError::Source(OpenError::Missing { dir: from.to_owned(), what }))
}

/// A directory that gets its name once it is whole.
#[derive(Debug)]
pub(crate) struct NewPlace {
    to: PathBuf,
    pub(crate) draft: PathBuf,
}

impl NewPlace {
    /// Makes the draft of `to`, which must not be there, or be empty.
    pub(crate) async fn begin(to: &Path) -> Result<NewPlace, CopyError> {
        match fs::read_dir(to).await {
            Ok(entries) if entries.is_empty() => {}
            Ok(_) => return Err(CopyError::NotEmpty { dir: to.to_owned() }),
            Err(error) if error.errno() == errno::ENOENT => {}
            Err(error) => return Err(CopyError::io(to, error)),
        }
        let mut name = to.file_name().unwrap_or_default().to_owned();
        name.push(".unfinished");
        let draft = directory::above(to).join(name);
        if fs::exists(&draft).await.map_err(|error| CopyError::io(&draft, error))? {
            // Of a copy that a crash ended. Anything that is not ours makes it stay, and be told.
            remove_files(&draft).await?;
            fs::remove_dir(&draft).await.map_err(|error| CopyError::io(&draft, error))?;
        }
        directory::make(&draft).await?;
        Ok(NewPlace { to: to.to_owned(), draft })
    }

    /// Gives the draft its name when all went well; else removes it.
    pub(crate) async fn finish<T: InPlace>(self, made: Result<T, CopyError>) -> Result<T, CopyError> {
        match made {
            Ok(mut made) => {
                fs::rename(&self.draft, &self.to).await.map_err(|error| CopyError::io(&self.to, error))?;
                let above = directory::above(&self.to);
                fs::sync_dir(&above).await.map_err(|error| CopyError::io(&above, error))?;
                made.is_now_at(&self.to);
                Ok(made)
            }
            Err(error) => {
                // The error that counts is the one that came first.
                if remove_files(&self.draft).await.is_ok() {
                    let _ = fs::remove_dir(&self.draft).await;
                }
                Err(error)
            }
        }
    }
}

/// What tells of a directory that gets its name later.
pub(crate) trait InPlace {
    fn is_now_at(&mut self, dir: &Path);
}

impl InPlace for Backup {
    fn is_now_at(&mut self, dir: &Path) {
        self.dir = dir.to_owned();
    }
}

/// Removes the files in a directory that have names of ours.
async fn remove_files(dir: &Path) -> Result<(), CopyError> {
    let listing = names::list(dir).await?;
    let segments = listing.slots.into_iter().map(|slot| names::segment(dir, slot));
    let snapshots = listing.snapshots.into_iter().map(|as_of| names::snapshot(dir, as_of));
    let draft = listing.draft.then(|| dir.join(names::SNAPSHOT_DRAFT));
    for file in segments.chain(snapshots).chain(draft) {
        fs::remove_file(&file).await.map_err(|error| CopyError::io(&file, error))?;
    }
    Ok(())
}

/// Copies the first `bytes` of a file, and waits until they are on the disk.
async fn copy_file(from: &Path, to: &Path, bytes: u64, copied: &mut dyn FnMut(u64)) -> Result<(), CopyError> {
    let source = File::open(from).await.map_err(|error| CopyError::io(from, error))?;
    let target = File::create(to).await.map_err(|error| CopyError::io(to, error))?;
    let mut at = 0;
    while at < bytes {
        let want = usize::try_from(bytes - at).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let (read, piece) = source.read_exact_at(vec![0; want].into_boxed_slice(), at).await;
        read.map_err(|error| CopyError::io(from, error))?;
        target.write_all_at(piece, at).await.0.map_err(|error| CopyError::io(to, error))?;
        at += want as u64;
        copied(want as u64);
    }
    target.sync_all().await.map_err(|error| CopyError::io(to, error))
}
