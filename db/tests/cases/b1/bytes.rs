//! Bytes that are not as they were written: cut, flipped, exchanged, missing.

use std::path::Path;

use wo::db::{Builder, Db, Error, ErrorKind, tools};

use crate::cases::rig::{Account, Machine, account, at, ids};
use crate::files::{Files, files, put_files, remove};
use crate::segment::frames;

pub fn builder() -> Builder {
    Db::builder().table::<Account>().segment_bytes(64 << 10)
}

/// Makes a database with so many accounts, each a commit of its own from another shard, and closes it.
pub async fn filled(dir: &Path, count: u64) -> Result<Files, Error> {
    let db = builder().open(dir).await?;
    let accounts = db.table::<Account>().await?;
    for id in 0..count {
        at(id as usize, move || async move { accounts.insert(account(id)).await }).await?;
    }
    db.close().await?;
    Ok(files(dir).await)
}

/// Opens it, and answers which accounts are there and how much of a torn tail was cut.
async fn found(dir: &Path) -> Result<(Vec<u64>, u64), Error> {
    let db = builder().open(dir).await?;
    assert!(db.is_consistent().await?);
    let torn = db.recovery().await?.expect("it is on a disk").torn_tail_bytes;
    let found = ids(db).await?;
    db.close().await?;
    Ok((found, torn))
}

/// That it is refused with this kind, by a text that names these, and not a byte is changed.
pub async fn refused(dir: &Path, kind: ErrorKind, words: &[&str]) -> Result<(), Error> {
    let before = files(dir).await;
    let error = builder().open(dir).await.expect_err("it must be refused");
    assert_eq!(error.kind(), kind, "{error}");
    for word in words.iter().copied().chain(dir.to_str()) {
        assert!(error.to_string().contains(word), "{error} does not say {word}");
    }
    assert!(error.path().is_some_and(|path| path.starts_with(dir)), "{error:?}");
    assert!(!error.what_to_do().is_empty(), "{error}");
    assert!(files(dir).await == before, "the refusal changed something: {error}");
    Ok(())
}

pub fn torn_tail(machine: &Machine) {
    machine.run(|dir| async move {
        let whole = filled(&dir, 50).await?;
        let (begin, size) = *frames(&whole["log.0"]).last().expect("fifty");
        for cut in begin..begin + size {
            let mut torn = whole.clone();
            torn.get_mut("log.0").expect("it is there").truncate(cut);
            put_files(&dir, &torn).await;
            let (left, bytes) = found(&dir).await?;
            assert!(left.iter().copied().eq(0..49), "cut at {cut}: {left:?}");
            assert_eq!(bytes, (cut - begin) as u64);
            assert!(files(&dir).await["log.0"][begin..].iter().all(|byte| *byte == 0), "cut to the frame's boundary");
        }
        let db = builder().open(&dir).await?;
        db.table::<Account>().await?.insert(account(49)).await?;
        db.close().await?;
        assert_eq!(found(&dir).await?, ((0..50).collect(), 0));
        Ok(())
    });
}

pub fn flipped_bit(machine: &Machine) {
    machine.run(|dir| async move {
        let whole = filled(&dir, 20).await?;
        let (begin, size) = frames(&whole["log.0"])[10];
        let salvaged = dir.with_extension("salvaged");
        // Sixty-four bits: magic, length, numbers, checksum, body, end mark.
        for chosen in 0..64 {
            let bit = chosen * size * 8 / 64;
            let mut broken = whole.clone();
            broken.get_mut("log.0").expect("it is there")[begin + bit / 8] ^= 1 << (bit % 8);
            put_files(&dir, &broken).await;
            let offset = begin as u64;
            refused(&dir, ErrorKind::CorruptMiddle { offset }, &["log.0", &format!("byte {offset}"), "salvage"])
                .await?;
            if chosen % 16 == 5 {
                let saved = tools::salvage(&dir, &salvaged, |_, _| ()).await.expect("most of it is whole");
                let gaps: Vec<_> = saved.gaps.iter().map(|gap| (gap.from, gap.to)).collect();
                assert_eq!(gaps, [(offset, offset + size as u64)]);
                assert!(files(&dir).await == broken, "the broken one is only read");
                // The first frame holds the catalogue alone.
                let (left, _) = found(&salvaged).await?;
                assert!(left.iter().copied().eq((0..20).filter(|id| *id != 9)), "{left:?}");
                remove(&salvaged).await;
            }
        }
        Ok(())
    });
}

pub fn lengths(machine: &Machine) {
    machine.run(|dir| async move {
        let whole = filled(&dir, 6).await?;
        let all = frames(&whole["log.0"]);
        let remaining = (whole["log.0"].len() - all[6].0) as u32;
        for length in [0, 1, u32::MAX, remaining + 1, remaining - 43, (1 << 30) + 1, 12_345] {
            for number in [3, 6] {
                let mut broken = whole.clone();
                let at = all[number].0 + 4;
                broken.get_mut("log.0").expect("it is there")[at..at + 4].copy_from_slice(&length.to_le_bytes());
                put_files(&dir, &broken).await;
                if number == 3 {
                    let offset = all[3].0 as u64;
                    refused(&dir, ErrorKind::CorruptMiddle { offset }, &["log.0"]).await?;
                } else {
                    let (left, torn) = found(&dir).await?;
                    assert!(left.iter().copied().eq(0..5) && torn > 0, "a length of {length}: {left:?}, {torn}");
                }
            }
        }
        Ok(())
    });
}

pub fn half_snapshots(machine: &Machine) {
    machine.run(|dir| async move {
        let db = builder().open(&dir).await?;
        let accounts = db.table::<Account>().await?;
        for id in 0..30 {
            accounts.insert(account(id)).await?;
        }
        let complete = files(&dir).await;
        db.snapshot().await?;
        for id in 30..40 {
            accounts.insert(account(id)).await?;
        }
        db.close().await?;
        let older = files(&dir).await;
        let db = builder().open(&dir).await?;
        let made = db.snapshot().await?;
        db.close().await?;
        let name = made.file.file_name().and_then(|name| name.to_str()).expect("a plain name").to_owned();
        let whole = files(&dir).await[&name].clone();
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 8;
        for draft in [&[][..], &whole[..whole.len() / 2], &flipped] {
            for name in ["snapshot.tmp", &name] {
                let mut beside = older.clone();
                beside.insert(name.to_owned(), draft.to_vec());
                put_files(&dir, &beside).await;
                assert_eq!(found(&dir).await?, ((0..40).collect(), 0), "{name} of {} bytes", draft.len());
            }
        }
        // None is whole, and the log is there from its beginning.
        let mut without = complete;
        without.insert("log.0".to_owned(), older["log.0"].clone());
        without.insert(name.clone(), flipped);
        put_files(&dir, &without).await;
        assert_eq!(found(&dir).await?, ((0..40).collect(), 0));
        Ok(())
    });
}

/// A mapped file that gets shorter kills its reader. Here it is a shorter file.
pub fn shrunk_file(machine: &Machine) {
    machine.run(|dir| async move {
        let db = builder().open(&dir).await?;
        let accounts = db.table::<Account>().await?;
        // Long ones: what is cut off lies in other blocks than the next frame does, which is written with its own.
        for id in 0..10 {
            accounts.insert(Account { city: "far away ".repeat(300), ..account(id) }).await?;
        }
        let mut shorter = files(&dir).await;
        let size = shorter["log.0"].len();
        let (begin, _) = frames(&shorter["log.0"])[5];
        shorter.get_mut("log.0").expect("it is there").truncate(begin);
        put_files(&dir, &shorter).await;
        // Whoever has it open goes on, and so does a look at it.
        assert_eq!(ids(db).await?.len(), 10);
        accounts.insert(account(10)).await?;
        assert!(tools::verify(&dir, |_, _| ()).await.is_err(), "there is a hole now");
        db.close().await?;
        assert!(files(&dir).await["log.0"].len() <= size);
        let error = builder().open(&dir).await.expect_err("there is a hole");
        assert_eq!(error.kind(), ErrorKind::CorruptMiddle { offset: begin as u64 }, "{error}");
        Ok(())
    });
}
