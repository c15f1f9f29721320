//! Bad input and trouble, line by line: each is a typed error that names the place, the table, the field and what to
//! do, and a refusal changes nothing on the disk.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use wo::db::{Builder, Db, Error, ErrorKind, OldRow, Result};
use wo_runtime::error::{OpKind, errno};
use wo_runtime::plane::backend::Selection;

use super::b1::bytes::{builder, filled, refused};
use super::rig::{Account, Machine, account, everywhere, ids, on, on_every_machine, on_simulated_machines};
use crate::backends::{REAL, those_of};
use crate::files::{files, put_files};

/// That an error says where it is, and what to do.
fn names_place_and_remedy(error: &Error, place: &Path) {
    let text = error.to_string();
    assert!(text.contains(place.to_str().expect("a plain name")), "{text} does not say {}", place.display());
    assert!(error.path().is_some_and(|path| path.starts_with(place)), "{:?} of {text}", error.path());
    assert!(!error.what_to_do().is_empty() && text.contains(error.what_to_do()), "{text} does not say what to do");
}

async fn refusal(dir: &Path) -> Error {
    builder().open(dir).await.expect_err("it must be refused")
}

#[test]
fn a_missing_path_is_made_and_one_that_cannot_be_is_refused() {
    on_every_machine(|machine| {
        machine.run(|dir| async move {
            let deep = dir.join("a/b/c");
            let db = builder().open(&deep).await?;
            db.table::<Account>().await?.insert(account(1)).await?;
            db.close().await?;
            assert_eq!(ids(builder().open(&deep).await?).await?, [1]);

            // A file, and a path through one.
            let file = dir.join("notes");
            wo_runtime::os::fs::write(&file, "mine").await.expect("it can be written");
            for place in [file.clone(), file.join("base")] {
                let error = refusal(&place).await;
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                names_place_and_remedy(&error, &file);
                assert!(error.to_string().contains("directory"), "{error}");
            }
            assert_eq!(files(&dir.join("a/b/c")).await.len(), files(&deep).await.len());
            assert_eq!(wo_runtime::os::fs::read(&file).await.expect("it is there"), b"mine");

            let long = dir.join("x".repeat(300));
            let error = refusal(&long).await;
            assert!(error.to_string().contains("shorter path"), "{error}");
            Ok(())
        });
    });
}

#[test]
fn a_symbolic_link_that_leads_in_a_circle_is_refused() {
    for io in those_of(REAL) {
        let machine = Machine::new(io, 1);
        machine.run(|dir| async move {
            std::fs::create_dir_all(&dir).expect("it can be made");
            let circle = dir.join("circle");
            std::os::unix::fs::symlink(&circle, &circle).expect("it can be made");
            for place in [circle.clone(), circle.join("base")] {
                let error = refusal(&place).await;
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                names_place_and_remedy(&error, &circle);
                assert!(error.what_to_do().contains("circle"), "{error}");
            }
            let left = std::fs::read_dir(&dir).expect("it is there").count();
            assert!(left == 1 && circle.is_symlink(), "nothing was made beside it");
            // One that leads somewhere is as good as the place it leads to, and is locked with it.
            let (there, link) = (dir.join("there"), dir.join("link"));
            let db = builder().open(&there).await?;
            std::os::unix::fs::symlink(&there, &link).expect("it can be made");
            let error = refusal(&link).await;
            assert_eq!(error.kind(), ErrorKind::AlreadyOpen { pid: Some(std::process::id()) }, "{error}");
            names_place_and_remedy(&error, &link);
            db.close().await?;
            builder().open(&link).await?.close().await
        });
    }
}

/// Names the place to the process that may not write there.
const FORBIDDEN: &str = "WO_DB_TEST_FORBIDDEN";

/// The process that may not.
#[test]
fn forbidden_opener() {
    let Ok(dir) = std::env::var(FORBIDDEN) else { return };
    on(Selection::Epoll, 1, move || async move {
        for place in [Path::new(&dir).to_owned(), Path::new(&dir).join("new")] {
            let error = refusal(&place).await;
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
            names_place_and_remedy(&error, Path::new(&dir));
            assert!(error.what_to_do().contains("give this user the right"), "{error}");
        }
        println!("both refused");
    });
}

#[test]
fn a_place_that_may_only_be_read_is_refused_and_stays_as_it_is() {
    if those_of(REAL).is_empty() {
        return;
    }
    let machine = Machine::new(those_of(REAL)[0], 1);
    let dir = machine.dir();
    machine.run(|dir| async move { filled(&dir, 5).await.map(drop) });
    let before = machine.run(|dir| async move { Ok(files(&dir).await) });
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o555)).expect("it is ours");
    for file in before.keys() {
        std::fs::set_permissions(dir.join(file), std::fs::Permissions::from_mode(0o444)).expect("it is ours");
    }
    let mut opener = Command::new(std::env::current_exe().expect("it has a name"));
    opener.args(["--exact", "cases::trouble::forbidden_opener", "--nocapture"]).env(FORBIDDEN, &dir);
    let status = std::fs::read_to_string("/proc/self/status").expect("the system tells");
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:")).and_then(|ids| ids.split_whitespace().next());
    if user == Some("0") {
        // Nothing is forbidden to this user; nobody is somebody else.
        opener.uid(65_534).gid(65_534);
    }
    let output = opener.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("both refused"), "{said}");
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    for file in before.keys() {
        std::fs::set_permissions(dir.join(file), std::fs::Permissions::from_mode(0o644)).expect("it is ours");
    }
    machine.run(|dir| async move {
        assert!(files(&dir).await == before);
        assert!(ids(builder().open(&dir).await?).await?.into_iter().eq(0..5));
        Ok(())
    });
}

/// Whatever an opening asks of the system may be refused, for any reason; what is acknowledged stays.
#[test]
fn every_refusal_of_the_system_at_an_opening_names_place_and_remedy() {
    let kinds =
        [OpKind::Open, OpKind::Read, OpKind::Stat, OpKind::Write, OpKind::Sync, OpKind::ReadDir, OpKind::Unlink];
    on_simulated_machines(|machine| {
        let control = machine.control();
        machine.run(|dir| async move {
            let mut before = filled(&dir, 20).await?;
            // Something to cut, and something to remove.
            let torn = before.get_mut("log.0").expect("it is there");
            let (begin, size) = *crate::segment::frames(torn).last().expect("a frame");
            torn.truncate(begin + size / 2);
            before.insert("snapshot.tmp".to_owned(), vec![1; 100]);
            let mut refusals = 0;
            for kind in kinds {
                for error in [errno::EACCES, errno::EROFS, errno::EIO, errno::EMFILE, errno::ENOSPC] {
                    put_files(&dir, &before).await;
                    control.fail_next(kind, error);
                    match builder().open(&dir).await {
                        // It made do without, or never asked: then the rule is still there for somebody else to meet.
                        Ok(db) => {
                            db.close().await?;
                            use_up(kind, &dir).await;
                        }
                        Err(refused) => {
                            assert!(matches!(refused.kind(), ErrorKind::Io | ErrorKind::NoSpace), "{kind}: {refused}");
                            names_place_and_remedy(&refused, &dir);
                            refusals += 1;
                        }
                    }
                    let db = builder().open(&dir).await?;
                    assert!(ids(db).await?.into_iter().eq(0..19), "{kind} {error}");
                    db.close().await?;
                }
            }
            assert!(refusals >= 20, "{refusals}");
            Ok(())
        });
    });
}

/// Does one op of this kind, for a rule that may be waiting for one.
async fn use_up(kind: OpKind, dir: &Path) {
    use wo_runtime::os::fs;
    let file = dir.join("used up");
    match kind {
        OpKind::Read => drop(fs::read(dir.join("log.0")).await),
        OpKind::Stat => drop(fs::metadata(dir).await),
        OpKind::ReadDir => drop(fs::read_dir(dir).await),
        OpKind::Sync => drop(fs::sync_dir(dir).await),
        OpKind::Unlink => drop(fs::remove_file(&file).await),
        _ => drop(fs::write(&file, "x").await),
    }
    drop(fs::remove_file(&file).await);
}

#[test]
fn strangers_files_and_newer_ones_are_refused_by_name() {
    everywhere(|dir| async move {
        let whole = filled(&dir, 10).await?;
        let other = dir.with_extension("other");
        let db = builder().open(&other).await?;
        db.snapshot().await?;
        db.close().await?;
        let theirs = files(&other).await;
        crate::files::remove(&other).await;
        let snapshot = theirs.keys().find(|name| name.starts_with("snapshot.")).expect("it was made").clone();
        let notes =
            b"my notes, which are longer than a header has bytes, so that they could be one: are they?".to_vec();

        let with = |name: &str, bytes: Vec<u8>| {
            let mut files = whole.clone();
            files.insert(name.to_owned(), bytes);
            files
        };
        let alone = |name: &str, bytes: Vec<u8>| [(name.to_owned(), bytes)].into_iter().collect();
        let newer = |bytes: &[u8]| [&bytes[..8], &7_u32.to_le_bytes(), &bytes[12..]].concat();
        let cases = [
            (with("log.9", notes.clone()), ErrorKind::Foreign, ["log.9", "move it away"]),
            (alone("log.0", notes.clone()), ErrorKind::Foreign, ["log.0", "move it away"]),
            (alone("log.0", b"short".to_vec()), ErrorKind::Foreign, ["log.0", "move it away"]),
            (with("log.7", theirs["log.0"].clone()), ErrorKind::Foreign, ["log.", "another database"]),
            (with(&snapshot, theirs[&snapshot].clone()), ErrorKind::Foreign, ["log.", "another database"]),
            (with("log.0", newer(&whole["log.0"])), ErrorKind::NewerFormat, ["version 7", "newer release"]),
            (with("log.8", newer(&whole["log.0"])), ErrorKind::NewerFormat, ["log.8", "versions up to 1"]),
            (with(&snapshot, newer(&theirs[&snapshot])), ErrorKind::NewerFormat, ["snapshot.", "version 7"]),
        ];
        for (files, kind, words) in cases {
            put_files(&dir, &files).await;
            refused(&dir, kind, &words).await?;
        }
        // What has no name of ours is nobody's business.
        let mut beside = with("notes", notes.clone());
        beside.insert("log.01".to_owned(), notes.clone());
        beside.insert("snapshot".to_owned(), notes.clone());
        put_files(&dir, &beside).await;
        assert!(ids(builder().open(&dir).await?).await?.into_iter().eq(0..10));
        let after = files(&dir).await;
        assert!(["notes", "log.01", "snapshot"].iter().all(|name| after[*name] == notes));
        Ok(())
    });
}

#[test]
fn a_disk_without_room_for_a_database_is_told_at_the_opening() {
    on_simulated_machines(|machine| {
        let control = machine.control();
        machine.run(|dir| async move {
            control.resize_disk(1 << 20);
            let error = Db::builder().table::<Account>().open(&dir).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
            names_place_and_remedy(&error, &dir);
            assert!(error.what_to_do().contains("smaller segments"), "{error}");
            assert!(files(&dir).await.is_empty(), "what was of no use is removed");
            builder().open(&dir).await?.close().await
        });
    });
}

#[derive(wo::Record, Clone, Debug)]
#[record(table = "account", version = 2, upgrade(1 = grown))]
struct Grown {
    #[key]
    id: u64,
    age: u64,
}

fn grown(old: &OldRow<'_>) -> Result<Grown> {
    Ok(Grown { id: old.get("id")?, age: old.get("age")? })
}

#[derive(wo::Record, Clone, Debug)]
#[record(table = "account", version = 2, upgrade(1 = panicking))]
struct Panicking {
    #[key]
    id: u64,
}

fn panicking(old: &OldRow<'_>) -> Result<Panicking> {
    let id = old.get("id")?;
    assert!(id < 3, "there is no three");
    Ok(Panicking { id })
}

#[test]
fn an_upgrade_that_asks_for_an_unknown_field_or_panics_is_refused() {
    everywhere(|dir| async move {
        let before = filled(&dir, 5).await?;
        put_files(&dir, &before).await;
        let cases: [(Builder, ErrorKind, Option<&str>, &[&str]); 2] = [
            (
                Db::builder().table::<Grown>(),
                ErrorKind::Schema,
                Some("age"),
                &["version 1 has no such field", "it has: id, email, city, balance"],
            ),
            (Db::builder().table::<Panicking>(), ErrorKind::Panicked, None, &["there is no three"]),
        ];
        for (builder, kind, field, words) in cases {
            let error = builder.open(&dir).await.unwrap_err();
            assert_eq!((error.kind(), error.field()), (kind, field), "{error}");
            assert_eq!(error.table(), Some("account"), "{error}");
            assert!(error.path().is_some_and(|path| path.starts_with(&dir)), "{error}");
            words.iter().for_each(|word| assert!(error.to_string().contains(word), "{error} does not say {word}"));
            assert!(files(&dir).await == before, "{error}");
        }
        Ok(())
    });
}

#[test]
fn a_panic_in_a_closure_is_an_error_of_its_call_and_of_no_other() {
    everywhere(|dir| async move {
        let db = builder().open(&dir).await?;
        let accounts = db.table::<Account>().await?;
        for id in 0..5 {
            accounts.insert(account(id)).await?;
        }
        let before = accounts.range(..).all().await?;
        let bytes = files(&dir).await;
        let told = |error: Error, table: Option<&str>| {
            assert_eq!((error.kind(), error.table()), (ErrorKind::Panicked, table), "{error}");
            assert!(error.to_string().contains("number three"), "{error}");
            assert!(!error.what_to_do().is_empty(), "{error}");
        };
        fn panic_at_three(row: &Account) -> bool {
            assert!(row.id != 3, "number three");
            true
        }
        let table = Some("account");
        told(accounts.range(..).filter(panic_at_three).all().await.unwrap_err(), table);
        told(accounts.range(..).filter(panic_at_three).count().await.unwrap_err(), table);
        told(accounts.range(..).filter(panic_at_three).delete().await.unwrap_err(), table);
        told(accounts.range(3..).filter(panic_at_three).first().await.unwrap_err(), table);
        told(accounts.range(..).order_by(panic_at_three).all().await.unwrap_err(), table);
        told(accounts.range(..).filter(panic_at_three).rows().next().await.unwrap_err(), table);
        let modified = accounts.modify(&3, |row| assert!(panic_at_three(row)));
        told(modified.await.unwrap_err(), table);
        let several = db.transaction(|tx| {
            let accounts = tx.table::<Account>()?;
            accounts.clear()?;
            accounts.insert(account(9))?;
            panic_at_three(&account(3));
            Ok(())
        });
        told(several.await.unwrap_err(), None);
        assert_eq!(accounts.range(..).all().await?, before);
        assert!(db.is_consistent().await?);
        assert!(files(&dir).await == bytes, "nothing of what panicked is on the disk");
        accounts.insert(account(9)).await?;
        db.close().await?;
        assert_eq!(ids(builder().open(&dir).await?).await?, [0, 1, 2, 3, 4, 9]);
        Ok(())
    });
}
