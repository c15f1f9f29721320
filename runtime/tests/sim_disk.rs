//! The simulated disk: what a power cut leaves, how it fails, and programs that start again from what is left.

#![cfg(target_os = "linux")]

mod sim_disk {
    mod crashes;
    mod failures;
    mod images;
    mod names;

    use std::path::Path;

    use wo_runtime::error::IoResult;
    use wo_runtime::fiber::IntoFiber;
    use wo_runtime::os::fs::{File, OpenOptions};
    use wo_runtime::plane::backend::sim::{Disk, SimHost, Survival};
    use wo_runtime::shard::Builder;

    /// A host with `/tmp/file`, which holds these bytes for sure.
    pub fn host_with(bytes: &[u8]) -> SimHost {
        let host = SimHost::new(1);
        let mut disk = Disk::new();
        disk.write("/tmp/file", bytes).unwrap();
        host.power_on(disk).unwrap();
        host
    }

    /// Runs a program to its end on a host.
    pub fn run<B: IntoFiber<Output = IoResult<T>>, T>(host: &SimHost, body: B) -> T
    where
        B::Output: Send + 'static,
    {
        Builder::new().simulated(host).run(body).expect("the program ends").expect("the program succeeds")
    }

    /// Opens a file for writing where it is, or makes it.
    pub async fn open(path: impl AsRef<Path>) -> IoResult<File> {
        OpenOptions::new().read(true).write(true).create(true).open(path).await
    }

    /// What may be left of a file after a power cut now, each content once; none for a file that is not there.
    pub fn outcomes(disk: &Disk, path: &str) -> Vec<Option<Vec<u8>>> {
        let mut outcomes: Vec<Option<Vec<u8>>> = disk.images().map(|image| image.read(path).ok()).collect();
        outcomes.sort();
        outcomes.dedup();
        outcomes
    }

    /// What is left when everything that may be lost is.
    pub fn synced(host: &SimHost) -> Disk {
        host.disk().after_power_cut(Survival::Nothing)
    }
}
