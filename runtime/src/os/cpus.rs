//! The processor the process may use: which CPUs, and how much of them.
//!
//! The affinity mask says which CPUs; a control group may say how much time on them. A group's quota binds everything
//! below it, so the tightest on the way from the process's own group up to the root counts. Both versions of control
//! groups are looked at, where the process's mount table says they are. What cannot be read sets no limit.

use std::fmt;
use std::fs;
use std::num::NonZeroU64;
use std::path::{Component, Path, PathBuf};
use std::sync::Once;

use crate::error::say;
use crate::plane::backend::affinity::{self, Pin};

/// The period of a quota that names none.
const PERIOD_MICROS: u64 = 100_000;

/// The number of cores the process may use: its allowed CPUs or its control group's quota, whichever is less, and at
/// least 1. A quota of one core and a half counts as two: rounded down, part of it could never be used.
///
/// Never fails: what the system does not tell sets no limit.
///
/// # Examples
///
/// ```
/// use wo_runtime::os::cpus;
///
/// assert!((1..=cpus::allowed().len()).contains(&cpus::cores()));
/// ```
pub fn cores() -> usize {
    let quota = Quota::read(Path::new("/")).map_or(usize::MAX, Quota::cores);
    allowed().len().min(quota).max(1)
}

/// The numbers of the CPUs the process may use, ascending; never empty. Shards that are pinned do not count: while
/// one is, these are the CPUs its thread had before.
pub fn allowed() -> Vec<usize> {
    affinity::allowed().ok().filter(|cpus| !cpus.is_empty()).unwrap_or_else(|| {
        let number = std::thread::available_parallelism().map_or(1, usize::from);
        (0..number).collect()
    })
}

/// How much processor time a control group gives: so many microseconds of every period.
///
/// # Examples
///
/// ```
/// use wo_runtime::os::cpus::Quota;
///
/// let quota = Quota::parse("150000 100000").unwrap();
/// assert_eq!((quota.cores(), quota.to_string()), (2, "1.50 cores".to_owned()));
/// assert_eq!(Quota::parse("max 100000"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    micros: u64,
    period_micros: NonZeroU64,
}

impl Quota {
    /// The tightest quota of the process's control group and those above it, looked up under `root`: `/`, or a tree
    /// that looks like it. None when there is no quota.
    pub fn read(root: &Path) -> Option<Quota> {
        let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
        let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
        let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
        let mounts = if mounts.is_empty() { Mount::usual() } else { mounts };
        mounts.iter().filter_map(|mount| mount.quota(root, &groups)).min_by(Quota::compare)
    }

    /// What a file `cpu.max` says: `MICROS PERIOD`, in microseconds. None when it sets no quota, or is no such text.
    pub fn parse(text: &str) -> Option<Quota> {
        let mut words = text.split_whitespace();
        let micros = words.next()?.parse().ok()?;
        let period_micros = words.next().map_or(NonZeroU64::new(PERIOD_MICROS), |period| period.parse().ok())?;
        Some(Quota { micros, period_micros })
    }

    /// The number of cores it takes to use the quota up, at least 1.
    pub fn cores(self) -> usize {
        usize::try_from(self.micros.div_ceil(self.period_micros.get())).unwrap_or(usize::MAX).max(1)
    }

    fn compare(&self, other: &Quota) -> std::cmp::Ordering {
        let scaled = |one: &Quota, by: &Quota| u128::from(one.micros) * u128::from(by.period_micros.get());
        scaled(self, other).cmp(&scaled(other, self))
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} cores", self.micros as f64 / self.period_micros.get() as f64)
    }
}

/// A mounted hierarchy of control groups that may limit the processor.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    unified: bool,
    /// The group that is mounted.
    root: PathBuf,
    /// Where it is.
    point: PathBuf,
}

impl Mount {
    /// One line of `/proc/self/mountinfo`: `ID PARENT DEVICE ROOT POINT OPTIONS TAG* - KIND SOURCE OPTIONS`.
    fn parse(line: &str) -> Option<Mount> {
        let mut words = line.split(' ');
        let (root, point) = (words.nth(3)?, words.next()?);
        let mut words = words.skip_while(|word| *word != "-").skip(1);
        let (kind, options) = (words.next()?, words.nth(1)?);
        let unified = kind == "cgroup2";
        let limits_processor = unified || kind == "cgroup" && options.split(',').any(|option| option == "cpu");
        limits_processor.then(|| Mount { unified, root: unescaped(root).into(), point: unescaped(point).into() })
    }

    /// Where they are by custom.
    fn usual() -> Vec<Mount> {
        let mount = |unified, point: &str| Mount { unified, root: "/".into(), point: point.into() };
        vec![
            mount(true, "/sys/fs/cgroup"),
            mount(false, "/sys/fs/cgroup/cpu"),
            mount(false, "/sys/fs/cgroup/cpu,cpuacct"),
        ]
    }

    /// The tightest quota of the process's group here and those above it, as far as the mount shows them.
    fn quota(&self, root: &Path, groups: &str) -> Option<Quota> {
        let below = self.below(groups)?;
        let mut dir = root.join(self.point.strip_prefix("/").unwrap_or(&self.point));
        let mut tightest = self.quota_of(&dir);
        for component in below.components() {
            dir.push(component);
            let quotas = tightest.into_iter().chain(self.quota_of(&dir));
            tightest = quotas.min_by(Quota::compare);
        }
        tightest
    }

    /// The process's group, from the mounted one down; empty when it lies outside what is mounted. `groups` has a
    /// line `ID:CONTROLLERS:PATH` for each hierarchy, the unified one without controllers.
    fn below(&self, groups: &str) -> Option<PathBuf> {
        let group = groups.lines().find_map(|line| {
            let (_, line) = line.split_once(':')?;
            let (controllers, path) = line.split_once(':')?;
            let found = match self.unified {
                true => controllers.is_empty(),
                false => controllers.split(',').any(|controller| controller == "cpu"),
            };
            found.then_some(path)
        })?;
        let below = Path::new(group).strip_prefix(&self.root).unwrap_or(Path::new(""));
        let outside = below.components().any(|component| !matches!(component, Component::Normal(_)));
        Some(if outside { PathBuf::new() } else { below.to_owned() })
    }

    fn quota_of(&self, group: &Path) -> Option<Quota> {
        let read = |name| fs::read_to_string(group.join(name)).ok();
        if self.unified {
            return Quota::parse(&read("cpu.max")?);
        }
        // Without a quota it reads -1.
        let (quota, period) = (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?);
        Quota::parse(&format!("{quota} {period}"))
    }
}

/// The mount table writes blanks and backslashes of a path as a backslash and three octal digits.
fn unescaped(path: &str) -> String {
    let mut parts = path.split('\\');
    let mut plain = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                plain.extend_from_slice(&part.as_bytes()[3..]);
            }
            None => {
                plain.push(b'\\');
                plain.extend_from_slice(part.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// Pins this thread, until the answer is dropped, to the `nth` of `cpus`; past their end it begins anew. None when
/// there are none, or the system refuses, which is said once: the thread then runs where the system puts it.
pub(crate) fn pin(cpus: &[usize], nth: usize) -> Option<Pin> {
    static SAID: Once = Once::new();
    let cpu = *cpus.get(nth % cpus.len().max(1))?;
    let refused = |error| SAID.call_once(|| say(format_args!("shard {nth} runs unpinned: {error}")));
    Pin::to(cpu).map_err(refused).ok()
}

/// Says once when shards outnumber the cores they share.
pub(crate) fn say_crowded_once(shards: usize) {
    static SAID: Once = Once::new();
    if shards > 1 {
        let cores = cores();
        if shards > cores {
            SAID.call_once(|| {
                say(format_args!(
                    "{shards} shards share {cores} core(s), by affinity mask or quota; WO_SHARDS={cores} is enough"
                ));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_read_and_rounded_up() {
        let cores = |text| Quota::parse(text).map(Quota::cores);
        assert_eq!(cores("100000 100000"), Some(1));
        assert_eq!(cores("100001 100000"), Some(2));
        assert_eq!(cores("150000\n"), Some(2));
        assert_eq!(cores("1000 100000"), Some(1));
        assert_eq!(cores("0 100000"), Some(1));
        assert_eq!(cores("18446744073709551615 1"), Some(usize::MAX));
        for none in ["max 100000", "max", "-1 100000", "", "100000 0", "100000 x", "1.5 1"] {
            assert_eq!(cores(none), None, "{none:?}");
        }
    }

    #[test]
    fn mounts_are_told_apart() {
        let mount = |unified, root: &str, point: &str| Some(Mount { unified, root: root.into(), point: point.into() });
        for (line, expected) in [
            ("41 31 0:38 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw", mount(true, "/", "/sys/fs/cgroup")),
            ("32 31 0:29 /a /a\\040b\\134 rw - cgroup cgroup rw,cpuacct,cpu", mount(false, "/a", "/a b\\")),
            ("33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset", None),
            ("31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,cpu", None),
            ("31 23", None),
        ] {
            assert_eq!(Mount::parse(line), expected, "{line}");
        }
        assert_eq!(unescaped("\\9\\éé"), "\\9\\éé");
    }
}
