//! Power cuts at every step of a program, which starts again from what is left.

use std::sync::{Arc, Mutex};

use wo_runtime::error::IoResult;
use wo_runtime::os::fs;
use wo_runtime::plane::backend::sim::{Disk, SimHost, Survival};
use wo_runtime::shard::{Builder, RunError};

use super::{open, run};

const RECORDS: u8 = 4;
const RECORD_BYTES: usize = 700;

/// Appends what is missing to a log of records, acknowledging each once it is synced.
async fn append(acknowledged: Arc<Mutex<u8>>) -> IoResult<()> {
    fs::create_dir_all("/data").await?;
    let file = open("/data/log").await?;
    fs::sync_dir("/data").await?;
    fs::sync_dir("/").await?;
    let mut there = whole_records(&fs::read("/data/log").await?);
    while there < RECORDS {
        let at = u64::from(there) * RECORD_BYTES as u64;
        file.write_all_at(vec![there + 1; RECORD_BYTES], at).await.0?;
        file.sync_data().await?;
        there += 1;
        *acknowledged.lock().unwrap() = there;
    }
    Ok(())
}

fn whole_records(log: &[u8]) -> u8 {
    log.chunks(RECORD_BYTES).zip(1..).take_while(|(record, value)| **record == [*value; RECORD_BYTES]).count() as u8
}

fn append_on(host: &SimHost) -> (Result<IoResult<()>, RunError>, u8) {
    let acknowledged = Arc::new(Mutex::new(0));
    let acks = Arc::clone(&acknowledged);
    let ended = Builder::new().simulated(host).run(move || append(acks));
    (ended, *acknowledged.lock().unwrap())
}

#[test]
fn r57_what_was_acknowledged_survives_a_power_cut_at_any_step() {
    let whole = SimHost::new(5);
    assert!(matches!(append_on(&whole), (Ok(Ok(())), RECORDS)));
    let steps = whole.steps();
    assert!(steps > 20, "{steps}");
    for step in 1..=steps {
        let host = SimHost::new(5);
        host.cut_power_at(step);
        let (ended, acknowledged) = append_on(&host);
        if host.is_cut() {
            // A program that had nothing left to wait for ended by itself.
            if let Err(ended) = ended {
                let words = ended.to_string();
                assert!(words.contains(&format!("the power of the simulated host was cut at step {step}")), "{words}");
            }
        }
        for image in host.disk().some_images(8, step) {
            let found = image.read("/data/log").map_or(0, |log| whole_records(&log));
            assert!(found >= acknowledged, "step {step}: {acknowledged} acknowledged, {found} found");
            // And the program goes on from there.
            host.power_on(image).unwrap();
            assert!(matches!(append_on(&host), (Ok(Ok(())), _)));
            assert_eq!(
                whole_records(&host.disk().after_power_cut(Survival::Nothing).read("/data/log").unwrap()),
                RECORDS
            );
        }
    }
}

/// The same crashes from one run: every state of the disk, with what had been acknowledged by its end.
#[test]
fn one_run_shows_every_crash() {
    let host = SimHost::new(5);
    let acknowledged = Arc::new(Mutex::new(0));
    let crashes = Arc::new(Mutex::new(Vec::<(Disk, u8)>::new()));
    let (acks, seen) = (Arc::clone(&acknowledged), Arc::clone(&crashes));
    host.before_disk_changes(move |disk| seen.lock().unwrap().push((disk, *acks.lock().unwrap())));
    run(&host, move || append(acknowledged));
    host.unwatch_disk();
    let crashes = crashes.lock().unwrap();
    assert!(crashes.len() > usize::from(RECORDS) * 2);
    let mut acknowledged_at_most = 0;
    for (disk, acknowledged) in &*crashes {
        for image in disk.some_images(200, 1) {
            let found = image.read("/data/log").map_or(0, |log| whole_records(&log));
            assert!(found >= *acknowledged);
        }
        acknowledged_at_most = *acknowledged;
    }
    assert_eq!(acknowledged_at_most, RECORDS - 1, "the last record is acknowledged after the last change");
}

/// A program that acknowledges before its sync has ended is found out.
#[test]
fn an_early_acknowledgement_is_found_out() {
    let host = SimHost::new(5);
    let mut disk = Disk::new();
    disk.write("/log", b"").unwrap();
    host.power_on(disk).unwrap();
    let acknowledged = Arc::new(Mutex::new(0));
    let broken = Arc::new(Mutex::new(0));
    let (acks, lost) = (Arc::clone(&acknowledged), Arc::clone(&broken));
    host.before_disk_changes(move |disk| {
        let acknowledged = *acks.lock().unwrap();
        let found = |image: Disk| image.read("/log").map_or(0, |log| whole_records(&log));
        *lost.lock().unwrap() += usize::from(disk.images().any(|image| found(image) < acknowledged));
    });
    run(&host, move || async move {
        let file = open("/log").await?;
        file.write_all_at(vec![1; RECORD_BYTES], 0).await.0?;
        *acknowledged.lock().unwrap() = 1;
        file.sync_data().await
    });
    assert!(*broken.lock().unwrap() > 0);
}

/// After the cut nothing a fiber does has an effect, and no op of its is left behind.
#[test]
fn a_host_without_power_does_nothing_more() {
    let host = SimHost::new(5);
    let program = host.clone();
    let ended = Builder::new().simulated(&host).run(move || async move {
        let file = open("/tmp/file").await?;
        program.cut_power();
        file.write_all_at(vec![1; 10], 0).await.0?;
        Ok::<_, wo_runtime::error::IoError>(())
    });
    assert!(matches!(&ended, Err(RunError::Kernel(error)) if error.errno() == libc::EHOSTDOWN), "{ended:?}");
    assert_eq!(host.disk().read("/tmp/file").unwrap(), b"");
    let refused = Builder::new().simulated(&host).run(|| async {});
    assert!(matches!(&refused, Err(RunError::Setup(error)) if error.errno() == libc::EHOSTDOWN), "{refused:?}");
    host.power_on(host.disk()).unwrap();
    run(&host, || async { open("/tmp/file").await?.write_all_at(vec![1; 10], 0).await.0 });
    assert_eq!(host.disk().read("/tmp/file").unwrap(), [1; 10]);
    let busy = host.clone();
    run(&host, move || async move {
        assert_eq!(busy.power_on(Disk::new()).unwrap_err().errno(), libc::EBUSY);
        Ok(())
    });
}

/// A program that is killed, on a host that stays, loses nothing of what it wrote.
#[test]
fn the_page_cache_outlives_a_program() {
    let host = SimHost::new(5);
    run(&host, || async { open("/tmp/file").await?.write_all_at(b"kept".to_vec(), 0).await.0 });
    assert_eq!(run(&host, || async { fs::read("/tmp/file").await }), b"kept");
    host.power_on(host.disk()).unwrap();
    assert_eq!(run(&host, || async { fs::read("/tmp/file").await }), b"kept");
    assert!(host.disk().image_count() > 1, "and it is as unsynced as before");
}
