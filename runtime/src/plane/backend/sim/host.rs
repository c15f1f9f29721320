//! A simulated host that outlives the programs that run on it.

use std::fmt;
use std::sync::Arc;

use crate::error::{IoError, IoResult, OpKind, Stage, errno};
use crate::plane::backend::sim::control::SimControl;
use crate::plane::backend::sim::disk::Disk;
use crate::plane::backend::sim::world::{LoopId, World};

/// A host in a simulated world: a disk, a clock, and power that can be cut. Programs run on it one after another; a
/// clone is the same host.
///
/// # Examples
///
/// Every crash of a program, by running it once: before each change of the disk, and at the end.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use wo_runtime::os::fs::File;
/// use wo_runtime::plane::backend::sim::{Disk, SimHost};
/// use wo_runtime::shard::Builder;
///
/// let host = SimHost::new(7);
/// let acknowledged = Arc::new(Mutex::new(0));
/// let crashes = Arc::new(Mutex::new(Vec::<(Disk, usize)>::new()));
/// let (acks, seen) = (Arc::clone(&acknowledged), Arc::clone(&crashes));
/// host.before_disk_changes(move |disk| seen.lock().unwrap().push((disk, *acks.lock().unwrap())));
/// let acks = Arc::clone(&acknowledged);
/// Builder::new().simulated(&host).run(|| async move {
///     let file = File::create("/tmp/log").await?;
///     for record in 0..3 {
///         file.write_all_at(vec![record + 1; 512], 512 * u64::from(record)).await.0?;
///         file.sync_data().await?;
///         *acks.lock().unwrap() += 1;
///     }
///     Ok::<_, wo_runtime::error::IoError>(())
/// })??;
/// for (disk, acknowledged) in &*crashes.lock().unwrap() {
///     for image in disk.images() {
///         // The name was never synced, so the whole file may be lost; but if it is there, so is what was synced.
///         let Ok(log) = image.read("/tmp/log") else { continue };
///         assert!(log.len() >= 512 * acknowledged && log[..512 * acknowledged].iter().all(|byte| *byte > 0));
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SimHost {
    world: Arc<World>,
}

impl SimHost {
    /// A host alone in a world of its own, which is a function of `seed`.
    pub fn new(seed: u64) -> SimHost {
        SimHost { world: Arc::new(World::new(seed)) }
    }

    /// The world it is in, to open a loop there.
    pub(super) fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// The fault controls. A completion injected with them reaches the host's first loop.
    pub fn control(&self) -> SimControl {
        SimControl::new(Arc::clone(&self.world), LoopId::FIRST)
    }

    /// A copy of the disk, and of what the page cache holds, as they are now; after a power cut, as they were then.
    pub fn disk(&self) -> Disk {
        Disk(self.world.lock().fs.clone())
    }

    /// The number of steps so far, of all programs that ran here: ops issued, and events that happened.
    pub fn steps(&self) -> u64 {
        self.world.lock().power.steps()
    }

    /// Cuts the power at this step: the ones before it have happened, it does not. The program that runs then ends
    /// with [`RunError::Kernel`] and `EHOSTDOWN`; its fibers are dropped, and nothing they do meanwhile has an effect.
    ///
    /// Running the same program with the same seed once for each step up to [`steps`](SimHost::steps) is every crash
    /// there is.
    ///
    /// [`RunError::Kernel`]: crate::shard::RunError::Kernel
    pub fn cut_power_at(&self, step: u64) {
        self.world.lock().power.cut_at(step);
    }

    /// Cuts the power now.
    pub fn cut_power(&self) {
        self.world.lock().power.cut();
    }

    /// Whether the power is cut.
    pub fn is_cut(&self) -> bool {
        self.world.lock().power.is_cut()
    }

    /// Puts the power on, with this disk: that of before, after a power cut or not, or any other. Nothing else is left
    /// of what was: no socket, no name, no event. The clock goes on, and the seed's chance.
    ///
    /// # Errors
    ///
    /// A program runs here: EBUSY.
    pub fn power_on(&self, disk: Disk) -> IoResult<()> {
        let mut state = self.world.lock();
        if state.loops() > 0 {
            return Err(IoError::new(errno::EBUSY, OpKind::Setup, Stage::Setup)
                .with_context("a program runs on this simulated host; cut its power first, and let it end"));
        }
        state.begin_anew(disk);
        Ok(())
    }

    /// Has `watcher` see the disk before each of its changes, and before each sync takes effect, instead of who saw it
    /// before. What the program has told its callers by then is the most that a crash with this disk may contradict.
    ///
    /// It is called while the world stands still, and must not use the host.
    pub fn before_disk_changes(&self, watcher: impl FnMut(Disk) + Send + 'static) {
        self.world.lock().power.watch(Some(Box::new(watcher)));
    }

    /// Nobody watches the disk any more.
    pub fn unwatch_disk(&self) {
        self.world.lock().power.watch(None);
    }
}

impl fmt::Debug for SimHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimHost").field("power", &self.world.lock().power).finish_non_exhaustive()
    }
}
