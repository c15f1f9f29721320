//! The command beside a process that has the directory open and writes to it as fast as it can.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use wo::db::{Builder, Db};
use wo_runtime::fiber;

use crate::{files, said, wo_db};

/// Names the directory to the process that serves.
const SERVED: &str = "WO_DB_TEST_SERVED";

#[derive(wo::Record, Clone, Debug)]
struct Pair {
    #[key]
    id: u64,
    #[index]
    count: u64,
    filler: String,
}

fn builder() -> Builder {
    // So small that segments are used again and snapshots made all the time.
    Db::builder().table::<Pair>().segment_bytes(16 << 10).snapshot_after(64 << 10)
}

/// The process that serves, until it is killed.
#[test]
fn server() {
    let Ok(dir) = std::env::var(SERVED) else { return };
    wo::Builder::new()
        .run(move || async move {
            let db = builder().open(&dir).await.expect("it opens");
            for caller in 0..4 {
                drop(fiber::spawn(move || load(db, caller)));
            }
            while db.sequence().await.expect("it serves") < 500 {}
            println!("serving");
            fiber::sleep(std::time::Duration::MAX).await.expect("it is killed");
        })
        .expect("it runs");
}

async fn load(db: Db, caller: u64) {
    for count in 1.. {
        let both = db.transaction(move |tx| {
            let pairs = tx.table::<Pair>()?;
            let filler = "x".repeat((count * 31 % 400) as usize);
            pairs.upsert(Pair { id: caller * 2, count, filler: filler.clone() })?;
            pairs.upsert(Pair { id: caller * 2 + 1, count, filler })?;
            Ok(())
        });
        both.await.expect("it serves");
    }
}

struct Server(Child);

impl Server {
    fn start(dir: &Path) -> Server {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "serving::server", "--nocapture"])
            .env(SERVED, dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.ends_with("serving")), "it ended before it served");
        Server(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The counts of both rows of each pair, out of a dump.
fn pairs_are_whole(rows: &str) {
    let counts: Vec<&str> = rows
        .lines()
        .map(|row| row.split("\"count\":").nth(1).and_then(|rest| rest.split(',').next()).expect("a count"))
        .collect();
    assert_eq!(counts.len(), 8, "{rows}");
    assert!(counts.chunks(2).all(|pair| pair[0] == pair[1]), "a part of a transaction: {counts:?}");
}

#[test]
fn what_only_reads_works_beside_a_server_and_the_rest_is_refused() {
    let there = TempDir::new().unwrap();
    let dir = there.path().join("served");
    let server = Server::start(&dir);
    let pid = format!("process {}", server.0.id());
    for round in 0..15 {
        let (code, words, stderr) = said(&wo_db(&["verify"], &dir));
        assert_eq!(code, 0, "round {round}: {words}{stderr}");
        assert!(words.contains("whole, up to transaction") && words.contains(&pid), "{words}");
        let (code, words, stderr) = said(&wo_db(&["stats"], &dir));
        assert!(
            code == 0 && words.contains("table pair, version 1: 8 rows") && words.contains(&pid),
            "{words}{stderr}"
        );
        let (code, rows, stderr) = said(&wo_db(&["dump"], &dir));
        assert_eq!(code, 0, "round {round}: {stderr}");
        pairs_are_whole(&rows);
        let (code, log, stderr) = said(&wo_db(&["log"], &dir));
        assert_eq!(code, 0, "round {round}: {stderr}");
        let sequences: Vec<u64> = log
            .lines()
            .map(|line| {
                line["{\"sequence\":".len()..].split(',').next().and_then(|n| n.parse().ok()).expect("a number")
            })
            .collect();
        assert!(sequences.is_sorted_by(|one, next| one < next), "a transaction twice, or out of order");

        let copy = there.path().join(format!("copy {round}"));
        let (code, words, stderr) = said(&wo_db(&["backup", "-q", dir.to_str().unwrap()], &copy));
        assert_eq!(code, 0, "round {round}: {words}{stderr}");
        assert_eq!(said(&wo_db(&["verify"], &copy)).0, 0);
        pairs_are_whole(&said(&wo_db(&["dump"], &copy)).1);
    }
    let salvaged = there.path().join("salvaged");
    for refused in [wo_db(&["compact"], &dir), wo_db(&["salvage", dir.to_str().unwrap()], &salvaged)] {
        let (code, words, stderr) = said(&refused);
        assert_eq!((code, words.as_str()), (8, ""), "{stderr}");
        assert!(stderr.contains(&pid) && stderr.contains("end it first"), "{stderr}");
    }
    assert!(!salvaged.exists());
    // It is unaffected, and when it has been killed everything is there.
    drop(server);
    let before = files(&dir);
    let (code, words, stderr) = said(&wo_db(&["verify"], &dir));
    assert!([0, 3].contains(&code), "{words}{stderr}");
    assert!(files(&dir) == before);
    assert_eq!(said(&wo_db(&["compact"], &dir)).0, 0);
    assert_eq!(said(&wo_db(&["verify"], &dir)).0, 0);
}
