//! Quotas of control groups, read from made-up trees.

use std::fs;
use std::path::{Path, PathBuf};

use wo_runtime::os::cpus::Quota;

/// A tree under the build's folder for tests, removed in the end.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, files: &[(&str, &str)]) -> Tree {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("quotas-{}-{name}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Tree(root)
    }

    fn cores(&self) -> Option<usize> {
        Quota::read(&self.0).map(Quota::cores)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const V1: &str = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";

#[test]
fn r37_quota_at_the_leaf() {
    let tree = Tree::new(
        "leaf",
        &[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/a/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "300000 100000\n"),
        ],
    );
    assert_eq!(tree.cores(), Some(3));
}

#[test]
fn r37_quota_of_an_ancestor_and_rounding() {
    let tree = Tree::new(
        "ancestor",
        &[
            ("proc/self/cgroup", "0::/a/b/c\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/cpu.max", "1600000 200000\n"),
            ("sys/fs/cgroup/a/cpu.max", "75000 50000\n"),
            ("sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n"),
            // Not on the way.
            ("sys/fs/cgroup/other/cpu.max", "1000 100000\n"),
        ],
    );
    assert_eq!(tree.cores(), Some(2), "a core and a half, rounded up");
}

#[test]
fn r37_quota_of_version_one() {
    let tree = Tree::new(
        "v1",
        &[
            ("proc/self/cgroup", "9:memory:/elsewhere\n4:cpu,cpuacct:/docker/x\n0::/\n"),
            ("proc/self/mountinfo", V1),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "150000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n"),
        ],
    );
    assert_eq!(tree.cores(), Some(2));
}

#[test]
fn the_tighter_of_both_versions_counts() {
    let tree = Tree::new(
        "both",
        &[
            ("proc/self/cgroup", "4:cpu:/x\n0::/y\n"),
            ("proc/self/mountinfo", &(V1.to_owned() + V2)),
            ("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "500000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/y/cpu.max", "400000 100000\n"),
        ],
    );
    assert_eq!(tree.cores(), Some(4));
}

/// A container that keeps its host's name space sees its own group mounted as the root, under the host's path; one
/// that does not sees paths that lead out of what is mounted.
#[test]
fn a_container_finds_its_own_group() {
    for (name, group, mounted) in [("host", "/docker/x/y", "/docker/x"), ("own", "/y", "/"), ("out", "/../z", "/")] {
        let mounts = V2.replace(" / /sys", &format!(" {mounted} /sys"));
        let tree = Tree::new(
            name,
            &[
                ("proc/self/cgroup", &format!("0::{group}\n")),
                ("proc/self/mountinfo", &mounts),
                ("sys/fs/cgroup/cpu.max", "700000 100000\n"),
                ("sys/fs/cgroup/y/cpu.max", "200000 100000\n"),
                ("sys/fs/z/cpu.max", "100000 100000\n"),
            ],
        );
        assert_eq!(tree.cores(), Some(if name == "out" { 7 } else { 2 }), "{name}");
    }
}

#[test]
fn without_a_mount_table_the_usual_places_are_looked_at() {
    let tree = Tree::new("usual", &[("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/cpu.max", "200000 100000\n")]);
    assert_eq!(tree.cores(), Some(2));
}

#[test]
fn what_cannot_be_read_sets_no_limit() {
    assert_eq!(Tree::new("nothing", &[]).cores(), None);
    let tree = Tree::new(
        "nonsense",
        &[
            ("proc/self/cgroup", "no such line\n0::/a\n"),
            ("proc/self/mountinfo", &("garbage\n\n".to_owned() + V2)),
            ("sys/fs/cgroup/a/cpu.max", "plenty\n"),
        ],
    );
    assert_eq!(tree.cores(), None);
}
