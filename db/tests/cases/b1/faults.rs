//! Disks that fail, lie, run full or lose their power, on simulated machines.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wo::db::{Builder, Db, Error, ErrorKind, Result, Row};
use wo_db::log::error::Undecodable;
use wo_db::log::{Log, LogOptions, Replay};
use wo_runtime::error::{OpKind, errno};
use wo_runtime::fiber::{self, Scope};
use wo_runtime::plane::backend::sim::{Disk, Survival};

use super::bytes::builder;
use super::lives::every_kind_of_change;
use crate::cases::rig::{Account, Machine, SIMULATED, account, at, ids, stopped};
use crate::files::files;
use crate::segment::frames;

/// An account of about six hundred bytes.
fn wide(id: u64) -> Account {
    Account { city: "far away ".repeat(60), ..account(id) }
}

fn small() -> Builder {
    Db::builder().table::<Account>().segment_bytes(16 << 10)
}

/// Inserts from another shard than the last one did.
async fn insert(db: Db, row: Account) -> Result<()> {
    at(row.id as usize, move || async move { db.table::<Account>().await?.insert(row).await.map(drop) }).await
}

/// Runs a program, and answers every moment at which the power may go, with what somebody outside knows by then.
pub fn every_moment<K, F>(
    machine: &Machine,
    known: &Arc<Mutex<K>>,
    program: impl FnOnce(PathBuf) -> F,
) -> Vec<(Disk, K)>
where
    K: Clone + Send + 'static,
    F: Future<Output = Result<()>> + 'static,
{
    let moments = Arc::new(Mutex::new(Vec::new()));
    let (now, seen) = (Arc::clone(known), Arc::clone(&moments));
    let watcher = move |disk| seen.lock().unwrap().push((disk, now.lock().unwrap().clone()));
    machine.host().before_disk_changes(watcher);
    machine.run(program);
    machine.host().unwatch_disk();
    let mut moments = std::mem::take(&mut *moments.lock().unwrap());
    moments.push((machine.host().disk(), known.lock().unwrap().clone()));
    moments
}

/// Every account that a database finds on this disk.
fn left(disk: Disk) -> Vec<Row<Account>> {
    Machine::after(disk, 1).run(|dir| async move {
        let db = small().open(&dir).await?;
        assert!(db.is_consistent().await?);
        let rows = db.table::<Account>().await?.range(..).all().await?;
        db.close().await?;
        Ok(rows)
    })
}

fn ids_left(disk: Disk) -> Vec<u64> {
    left(disk).iter().map(|row| row.id).collect()
}

pub fn failed_sync(machine: &Machine) {
    let control = machine.control();
    machine.run(|dir| async move {
        let db = builder().open(&dir).await?;
        insert(db, account(1)).await?;
        insert(db, account(2)).await?;
        // The third sync fails and its pages are gone; the fourth would succeed.
        control.fail_sync(errno::EIO, Survival::Nothing);
        let unknown = insert(db, account(3)).await.unwrap_err();
        assert_eq!((unknown.kind(), unknown.path()), (ErrorKind::CommitUnknown, Some(&*dir)), "{unknown}");
        assert!(unknown.to_string().contains("open the database anew"), "{unknown}");
        for id in 4..8 {
            let refused = insert(db, account(id)).await.unwrap_err();
            assert_eq!((refused.kind(), refused.path()), (ErrorKind::Poisoned, Some(&*dir)), "{refused}");
        }
        assert_eq!(ids(db).await?, [1, 2], "readings go on from what is certain");
        assert!(db.is_consistent().await?);
        assert!(db.snapshot().await.is_err() && db.close().await.is_err());
        Ok(())
    });
    for image in machine.host().disk().images() {
        let found = ids_left(image);
        assert!(found == [1, 2] || found == [1, 2, 3], "{found:?}");
    }
}

pub fn full_disk(machine: &Machine) {
    // The second half of one frame has no room.
    let control = machine.control();
    machine.run(|dir| async move {
        let db = small().open(&dir).await?;
        insert(db, account(1)).await?;
        control.short_next(OpKind::Write, 300);
        control.fail_next(OpKind::Write, errno::ENOSPC);
        let refused = insert(db, wide(2)).await.unwrap_err();
        assert_eq!((refused.kind(), refused.path()), (ErrorKind::NoSpace, Some(&*dir)), "{refused}");
        assert!(refused.what_to_do().contains("free some space"), "{refused}");
        assert_eq!(ids(db).await?, [1]);
        assert!(db.is_consistent().await?);

        // No segment more has room.
        let used: u64 = files(&dir).await.values().map(|bytes| bytes.len() as u64).sum();
        control.resize_disk(used);
        let mut acked = vec![1];
        let mut refusals = 0;
        for id in 10..100 {
            match insert(db, wide(id)).await {
                Ok(()) => acked.push(id),
                Err(refused) => {
                    assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
                    refusals += 1;
                }
            }
            assert_eq!(ids(db).await?, acked, "readings go on");
        }
        assert!(refusals > 20 && acked.len() > 5, "{refusals} refused, {} acknowledged", acked.len());
        control.resize_disk(8 << 20);
        for id in 200..220 {
            insert(db, wide(id)).await?;
            acked.push(id);
        }
        assert!(db.is_consistent().await?);
        db.close().await?;
        let db = small().open(&dir).await?;
        assert_eq!(ids(db).await?, acked);
        assert_eq!(db.recovery().await?.expect("on a disk").torn_tail_bytes, 0, "no hole");
        db.close().await
    });
}

pub fn unsynced_names(machine: &Machine) {
    let acked = Arc::new(Mutex::new(0));
    let theirs = Arc::clone(&acked);
    let moments = every_moment(machine, &acked, |dir| async move {
        // The directory is made, segments are begun, and a snapshot gets its name.
        for life in 0..2 {
            let db = small().open(&dir).await?;
            for id in life * 40..life * 40 + 40 {
                insert(db, wide(id)).await?;
                *theirs.lock().unwrap() = id + 1;
            }
            db.snapshot().await?;
            db.close().await?;
        }
        Ok(())
    });
    let mut in_doubt = 0;
    for (number, (disk, acked)) in moments.into_iter().enumerate() {
        let after = disk.after_power_cut(Survival::Nothing);
        let left = after.files();
        in_doubt += usize::from(disk.files().iter().any(|file| file.starts_with(SIMULATED) && !left.contains(file)));
        let found = ids_left(after);
        assert!(found.len() as u64 >= acked, "moment {number}: {} of {acked} are left", found.len());
        assert!(found.iter().copied().eq(0..found.len() as u64), "moment {number}: a hole in {found:?}");
    }
    assert!(in_doubt >= 4, "{in_doubt} names were in doubt");
}

pub fn torn_blocks(machine: &Machine) {
    let acked = Arc::new(Mutex::new(0));
    let theirs = Arc::clone(&acked);
    let moments = every_moment(machine, &acked, |dir| async move {
        let db = small().open(&dir).await?;
        insert(db, account(0)).await?;
        *theirs.lock().unwrap() = 1;
        // One frame of several blocks.
        db.transaction(|tx| {
            let accounts = tx.table::<Account>()?;
            (1..7).try_for_each(|id| accounts.insert(wide(id)).map(drop))
        })
        .await?;
        *theirs.lock().unwrap() = 7;
        Ok(())
    });
    let mut subsets = 0;
    for (disk, acked) in moments.into_iter().filter(|(disk, acked)| *acked == 1 && disk.image_count() >= 64) {
        for image in disk.some_images(1024, acked) {
            let found = ids_left(image);
            assert!(found == [0] || found.len() == 7, "a part of what was not acknowledged: {found:?}");
            subsets += 1;
        }
    }
    assert!(subsets >= 64, "{subsets} subsets");
}

pub fn short_write(machine: &Machine) {
    // The frame of such a row is longer than all three.
    for short in [1, 300, 600] {
        let machine = Machine::simulated(machine.shards());
        let control = machine.control();
        machine.run(|dir| async move {
            let db = builder().open(&dir).await?;
            insert(db, account(1)).await?;
            control.hold_kind(OpKind::Sync);
            control.short_next(OpKind::Write, short);
            let writing = fiber::spawn(move || insert(db, wide(2)));
            fiber::sleep(Duration::from_millis(50)).await.map_err(stopped)?;
            let reading = fiber::spawn(move || async move { ids(db).await });
            fiber::sleep(Duration::from_millis(50)).await.map_err(stopped)?;
            assert!(!control.held().is_empty(), "the rest is written, and a sync of all of it is on its way");
            assert!(!writing.is_finished() && !reading.is_finished(), "somebody heard before the sync");
            control.release_all();
            writing.join().await.expect("it does not panic")?;
            assert_eq!(reading.join().await.expect("it does not panic")?, [1, 2]);
            Ok(())
        });
        assert_eq!(ids_left(machine.host().disk().after_power_cut(Survival::Nothing)), [1, 2], "after {short} bytes");
    }
}

pub fn cancelled_caller(machine: &Machine) {
    let control = machine.control();
    machine.run(|dir| async move {
        let db = builder().open(&dir).await?;
        insert(db, account(1)).await?;
        control.hold_kind(OpKind::Write);
        let ended = fiber::scope(|scope: Scope<Error>| async move {
            let child = scope.fork(move || insert(db, wide(2)));
            fiber::sleep(Duration::from_millis(5)).await.map_err(stopped)?;
            scope.cancel();
            assert!(child.join().await.is_err(), "it was cancelled");
            Ok::<_, Error>(())
        })
        .await;
        drop(ended);
        // Memory that was given up would be given out again, and overwritten.
        let overwritten: Vec<Vec<u8>> = (0..256).map(|size| vec![0xaa; 500 + size]).collect();
        control.release_all();
        assert_eq!(ids(db).await?, [1, 2], "what was on its way arrives");
        drop(overwritten);
        db.close().await
    });
    let rows = left(machine.host().disk().after_power_cut(Survival::Nothing));
    assert_eq!(rows.iter().map(|row| (**row).clone()).collect::<Vec<_>>(), [account(1), wide(2)]);
}

/// Every state there was, and how many of them were acknowledged.
#[derive(Clone, Default)]
struct States {
    states: Vec<BTreeMap<u64, i64>>,
    acked: usize,
}

pub fn snapshot_steps(machine: &Machine) {
    let known = Arc::new(Mutex::new(States { states: vec![BTreeMap::new()], acked: 0 }));
    let theirs = Arc::clone(&known);
    let moments = every_moment(machine, &known, |dir| async move {
        let db = small().open(&dir).await?;
        let mut rows = BTreeMap::new();
        for round in 0..3 {
            for id in 0..20 {
                let balance = round * 100 + id as i64;
                rows.insert(id, balance);
                theirs.lock().unwrap().states.push(rows.clone());
                let row = Account { balance, ..wide(id) };
                let upsert = move || async move { db.table::<Account>().await?.upsert(row).await.map(drop) };
                at(id as usize, upsert).await?;
                let mut known = theirs.lock().unwrap();
                known.acked = known.states.len() - 1;
            }
            db.snapshot().await?;
        }
        db.close().await
    });
    for (number, (disk, known)) in moments.into_iter().enumerate() {
        for image in disk.some_images(3, number as u64) {
            let rows: BTreeMap<u64, i64> = left(image).iter().map(|row| (row.id, row.balance)).collect();
            assert!(known.states[known.acked..].contains(&rows), "moment {number}: a state that never was");
        }
    }
}

/// Refuses the entry of this number.
struct Refusing(usize);

impl Refusing {
    fn next(&mut self) -> Result<(), Undecodable> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| Undecodable::new("enough"))?;
        Ok(())
    }
}

impl Replay for Refusing {
    fn catalogue(&mut self, _bytes: &[u8]) -> Result<(), Undecodable> {
        self.next()
    }

    fn snapshot_end(&mut self, _as_of: u64) -> Result<(), Undecodable> {
        self.next()
    }

    fn transaction(&mut self, _sequence: u64, _body: &[u8]) -> Result<(), Undecodable> {
        self.next()
    }
}

pub fn broken_off_replay(machine: &Machine) {
    machine.run(|dir| async move {
        let db = small().open(&dir).await?;
        every_kind_of_change(db).await?;
        db.snapshot().await?;
        every_kind_of_change(db).await.expect_err("the first row is there already");
        let accounts = db.table::<Account>().await?;
        for id in 20..30 {
            accounts.upsert(wide(id)).await?;
        }
        accounts.delete(&20).await?;
        db.close().await
    });
    // The last frame is torn, so that opening has something to write.
    let mut disk = machine.host().disk();
    disk.sync();
    let segment = PathBuf::from(SIMULATED).join("log.0");
    let mut bytes = disk.read(&segment).expect("it is there");
    let (begin, size) = *frames(&bytes).last().expect("a frame");
    bytes.truncate(begin + size / 2);
    disk.write(&segment, &bytes).expect("it is there");
    let expected = left(disk.clone());
    assert_eq!(expected.iter().filter(|row| row.id >= 20).count(), 10, "all but the deletion");

    // It ends at every entry: nothing is changed.
    Machine::after(disk.clone(), 1).run(|dir| async move {
        let before = files(&dir).await;
        let mut entries = 0;
        while Log::open(&dir, &LogOptions::default(), &mut Refusing(entries)).await.is_err() {
            assert!(files(&dir).await == before, "entry {entries}");
            entries += 1;
        }
        assert!(entries > 10, "{entries}");
        Ok(())
    });
    // And the power goes at every step of an opening.
    let opening = Machine::after(disk, machine.shards());
    let moments =
        every_moment(&opening, &Arc::new(Mutex::new(())), |dir| async move { small().open(&dir).await?.close().await });
    assert!(moments.len() > 2);
    for (number, (disk, ())) in moments.into_iter().enumerate() {
        for image in disk.some_images(8, number as u64) {
            assert!(left(image) == expected, "moment {number}");
        }
    }
}

pub fn clocks(machine: &Machine) {
    const HOUR: Duration = Duration::from_secs(3600);
    let host = machine.host().clone();
    machine.run(|dir| async move {
        let mut sequences = Vec::new();
        for life in 0..3 {
            let db = builder().open(&dir).await?;
            for id in 0..4 {
                // An hour back, ten years ahead; and between some commits years really go by.
                let wall = host.wall_clock();
                host.set_wall_clock(if id % 2 == 0 { wall - HOUR } else { wall + 87_600 * HOUR });
                let began = fiber::now();
                insert(db, account(life * 10 + id)).await?;
                assert!(fiber::now().since(began) < Duration::from_millis(100), "a commit waits for no timer");
                sequences.push(db.sequence().await?);
                fiber::sleep(Duration::from_secs(id * 315_360_000)).await.map_err(stopped)?;
            }
            db.close().await?;
        }
        assert!(sequences.is_sorted_by(|one, next| one < next), "{sequences:?}");
        let db = builder().open(&dir).await?;
        let mut changes = db.watch::<Account>(.., 0).await?;
        for sequence in sequences {
            assert_eq!(changes.next().await?.sequence, sequence, "the order is that of sequences");
        }
        Ok(())
    });
}

/// What a caller heard.
#[derive(Clone, Debug, Default)]
struct Heard {
    acked: Vec<u64>,
    undone: Vec<u64>,
    unknown: Vec<u64>,
}

pub fn every_fault(machine: &Machine) {
    let faults: [(&str, OpKind, Option<i32>); 5] = [
        ("short write", OpKind::Write, None),
        ("write that fails", OpKind::Write, Some(errno::EIO)),
        ("write without room", OpKind::Write, Some(errno::ENOSPC)),
        ("sync that fails", OpKind::Sync, Some(errno::EIO)),
        ("sync without room", OpKind::Sync, Some(errno::ENOSPC)),
    ];
    for (fault, kind, error) in faults {
        for before in [2, 5, 7] {
            let machine = Machine::simulated(machine.shards());
            let control = machine.control();
            let heard = Arc::new(Mutex::new(Heard::default()));
            let theirs = Arc::clone(&heard);
            let moments = every_moment(&machine, &heard, |dir| async move {
                let db = small().open(&dir).await?;
                for id in 0..9 {
                    if id == before {
                        match error {
                            Some(error) => control.fail_next(kind, error),
                            None => control.short_next(kind, 100),
                        }
                    }
                    let outcome = insert(db, wide(id)).await;
                    let mut heard = theirs.lock().unwrap();
                    match outcome.map_err(|error| error.kind()) {
                        Ok(()) => heard.acked.push(id),
                        Err(ErrorKind::NoSpace | ErrorKind::Poisoned) => heard.undone.push(id),
                        Err(ErrorKind::CommitUnknown) => heard.unknown.push(id),
                        Err(other) => panic!("{fault}: {other:?}"),
                    }
                }
                Ok(())
            });
            let told = heard.lock().unwrap().clone();
            let is_final = error == Some(errno::EIO);
            assert_eq!(told.unknown.len(), usize::from(is_final), "{fault}: {told:?}");
            assert!(!is_final || told.acked.iter().all(|id| *id < before), "{fault}: acknowledged after it: {told:?}");
            assert!(is_final || told.acked.len() >= 8, "{fault}: {told:?}");
            for (number, (disk, heard)) in moments.into_iter().enumerate() {
                for image in disk.some_images(3, number as u64) {
                    let found = ids_left(image);
                    let missing = heard.acked.iter().find(|id| !found.contains(id));
                    assert!(missing.is_none(), "{fault}, moment {number}: {missing:?} was acknowledged");
                    let back = heard.undone.iter().find(|id| found.contains(id));
                    assert!(back.is_none(), "{fault}, moment {number}: {back:?} was told undone");
                    assert!(found.is_sorted(), "{found:?}");
                }
            }
        }
    }
}
