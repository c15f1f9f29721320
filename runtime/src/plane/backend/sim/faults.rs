//! What may go wrong by chance.

/// How likely the simulated disk fails an op, each from 0, never, to 1, always. The seed draws.
///
/// # Examples
///
/// ```
/// use wo::sim::{DiskFaults, Host};
///
/// let host = Host::new(3);
/// host.control().disk_faults(DiskFaults { short_write: 0.2, sync_error: 0.01, ..DiskFaults::default() });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskFaults {
    /// A read of a file brings fewer bytes than there are, at least one.
    pub short_read: f64,
    /// A write to a file takes fewer bytes than it was given, at least one.
    pub short_write: f64,
    /// A read of a file fails with `EIO`.
    pub read_error: f64,
    /// A write to a file fails with `EIO`, without effect.
    pub write_error: f64,
    /// A sync fails with `EIO`; the page cache drops what it covered, of which any part may have reached the disk.
    pub sync_error: f64,
    /// A bit of what is written to a file is turned over on the way, and nobody is told.
    pub bit_flip: f64,
}

impl DiskFaults {
    /// Whether anything may go wrong at the moment an op is issued.
    pub(super) fn any(&self) -> bool {
        [self.short_read, self.short_write, self.read_error, self.write_error, self.sync_error]
            .iter()
            .any(|likelihood| *likelihood > 0.0)
    }
}
