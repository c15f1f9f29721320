//! What the commands do: each answers its exit status, after saying on stdout what it found and on stderr what failed.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use wo_db::tools::{self, Backup, Contents, CopyError, OpenError, Salvaged};

use crate::arguments::{Command, Verb};
use crate::progress::Bar;
use crate::status;

/// Prints, and gives `status`, or that of what could not be said.
pub fn say(text: &str, status: u8) -> u8 {
    print(text.as_bytes()).err().map_or(status, |error| unsaid(&error))
}

fn print(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Nobody may be reading any more, and that is no failure; everything else is.
fn unsaid(error: &io::Error) -> u8 {
    if error.kind() == ErrorKind::BrokenPipe {
        return status::WHOLE;
    }
    eprintln!("wo-db: write to standard output: {error}");
    if error.kind() == ErrorKind::StorageFull { status::FULL } else { status::FAILED }
}

/// Runs a command.
pub async fn run(command: Command) -> u8 {
    let Command { verb, dir, quiet } = command;
    match verb {
        Verb::Verify => {
            let bar = Bar::new("reading", quiet);
            let verified = tools::verify(&dir, &mut |done: u64, total: u64| bar.tell(done, total)).await;
            drop(bar);
            verified.map_or_else(|error| refused(&error), |contents| tell_verified(&dir, &contents))
        }
        Verb::Stats => {
            let bar = Bar::new("reading", quiet);
            let stats = tools::stats(&dir, &mut |done: u64, total: u64| bar.tell(done, total)).await;
            drop(bar);
            stats.map_or_else(|error| refused(&error), |stats| say(&stats.to_string(), status::WHOLE))
        }
        Verb::Dump { table } => {
            let mut lines = Lines::new("reading", quiet);
            let dumped = tools::dump(&dir, table.as_deref(), |line: &str| lines.put(line)).await;
            let printed = lines.end();
            dumped.map_or_else(|error| refused(&error), |()| printed)
        }
        Verb::Log { from } => {
            let mut lines = Lines::new("reading", quiet);
            let told = tools::transactions(&dir, from, |line: &str| lines.put(line)).await;
            let printed = lines.end();
            told.map_or_else(|error| refused(&error), |()| printed)
        }
        Verb::Backup { to } | Verb::Restore { to } => {
            let bar = Bar::new("copying", quiet);
            let copied = tools::copy(&dir, &to, &mut |done: u64, total: u64| bar.tell(done, total)).await;
            drop(bar);
            copied.map_or_else(|error| not_made(&error), |backup| tell_copied(&backup))
        }
        Verb::Salvage { to } => {
            let bar = Bar::new("salvaging", quiet);
            let salvaged = tools::salvage(&dir, &to, &mut |done: u64, total: u64| bar.tell(done, total)).await;
            drop(bar);
            salvaged.map_or_else(|error| not_made(&error), |salvaged| tell_salvaged(&salvaged))
        }
        Verb::Compact => {
            let bar = Bar::endless("compacting", quiet);
            let compacted = tools::compact(&dir).await;
            drop(bar);
            compacted.map_or_else(|error| not_made(&error), |compacted| say(&compacted.to_string(), status::WHOLE))
        }
    }
}

fn refused(error: &OpenError) -> u8 {
    eprintln!("wo-db: {error}");
    status::of_open(error)
}

fn not_made(error: &CopyError) -> u8 {
    eprintln!("wo-db: {error}");
    status::of_copy(error)
}

fn tell_verified(dir: &Path, contents: &Contents) -> u8 {
    let mut text = format!("{}: ", dir.display());
    let mut status = status::WHOLE;
    // While somebody writes, the end is always about to be whole.
    if let Some(torn) = contents.torn_tail.as_ref().filter(|_| contents.open_in.is_none()) {
        let (bytes, offset) = (contents.torn_tail_bytes, torn.offset);
        text += &format!(
            "torn tail: {bytes} bytes at byte {offset} of {} ({}); the next opening cuts them, and nothing in them was \
             acknowledged\n",
            torn.file.display(),
            torn.reason
        );
        status = status::MENDABLE;
    }
    for (snapshot, why) in &contents.snapshots_passed_over {
        text += &format!("{} is not whole and not needed: {why}\n", snapshot.display());
        status = status::MENDABLE;
    }
    if status == status::WHOLE {
        text += &format!("whole, up to transaction {}\n", contents.last_sequence);
    }
    if let Some(pid) = contents.open_in {
        text += &format!("process {pid} has it open, so its end may be on its way\n");
    }
    say(&text, status)
}

fn tell_copied(backup: &Backup) -> u8 {
    let Backup { dir, last_sequence, bytes, files, .. } = backup;
    say(
        &format!("{}: {bytes} bytes in {files} files, up to transaction {last_sequence}\n", dir.display()),
        status::WHOLE,
    )
}

fn tell_salvaged(salvaged: &Salvaged) -> u8 {
    let mut text = format!(
        "{}: {} entries of the log, {} of a snapshot\n",
        salvaged.dir.display(),
        salvaged.log_entries,
        salvaged.snapshot_entries
    );
    for gap in &salvaged.gaps {
        text += &format!("lost: {gap}\n");
    }
    say(&text, if salvaged.gaps.is_empty() { status::WHOLE } else { status::BROKEN })
}

/// Lines for stdout, many at once; a bar until the first of them comes.
struct Lines {
    bytes: Vec<u8>,
    bar: Option<Bar>,
    /// What came of what is printed: nothing is after the first failure.
    printed: io::Result<()>,
}

impl Lines {
    const BYTES_MAX: usize = 64 << 10;

    fn new(what: &'static str, quiet: bool) -> Lines {
        Lines { bytes: Vec::new(), bar: Some(Bar::endless(what, quiet)), printed: Ok(()) }
    }

    /// False when it cannot be printed any more.
    fn put(&mut self, line: &str) -> bool {
        self.bytes.extend_from_slice(line.as_bytes());
        self.bytes.push(b'\n');
        self.bytes.len() < Lines::BYTES_MAX || self.write()
    }

    fn write(&mut self) -> bool {
        self.bar = None;
        if self.printed.is_ok() {
            self.printed = print(&self.bytes);
        }
        self.bytes.clear();
        self.printed.is_ok()
    }

    /// Prints the rest, and gives the status of it all.
    fn end(mut self) -> u8 {
        self.write();
        self.printed.err().map_or(status::WHOLE, |error| unsaid(&error))
    }
}
