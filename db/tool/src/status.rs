//! Exit statuses, one for each case a script would want to tell apart.

use wo_db::tools::{CommitError, CopyError, OpenError};

/// All is well.
pub const WHOLE: u8 = 0;
/// The system refused something.
pub const FAILED: u8 = 1;
/// The command line makes no sense, or names a table that is not there.
pub const USAGE: u8 = 2;
/// It opens, and there is something to know: a torn tail, or a snapshot that is not whole and not needed.
pub const MENDABLE: u8 = 3;
/// The middle is broken, or a part is missing: nothing opens it. `salvage` answers this too when there were gaps.
pub const BROKEN: u8 = 4;
/// Not a database.
pub const FOREIGN: u8 = 5;
/// Written by a newer release.
pub const NEWER: u8 = 6;
/// Whole, and not to be made sense of.
pub const UNDECODABLE: u8 = 7;
/// Somebody has it open.
pub const OPEN: u8 = 8;
/// No room.
pub const FULL: u8 = 9;

/// The status of an opening that was refused.
pub fn of_open(error: &OpenError) -> u8 {
    match error {
        OpenError::AlreadyOpen { .. } => OPEN,
        OpenError::Foreign { .. } | OpenError::NotDatabase { .. } => FOREIGN,
        OpenError::NewerFormat { .. } => NEWER,
        OpenError::CorruptMiddle { .. } | OpenError::Missing { .. } => BROKEN,
        OpenError::Undecodable { .. } => UNDECODABLE,
        OpenError::UnknownTable { .. } => USAGE,
        OpenError::NoSpace { .. } => FULL,
        _ => FAILED,
    }
}

/// The status of a copy that was not made.
pub fn of_copy(error: &CopyError) -> u8 {
    match error {
        CopyError::Source(error) => of_open(error),
        CopyError::Commit(CommitError::NoSpace { .. }) => FULL,
        CopyError::Io { error, .. } if error.kind() == std::io::ErrorKind::StorageFull => FULL,
        _ => FAILED,
    }
}
