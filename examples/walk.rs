//! Counts the files, directories and bytes under a path, with every core at it.
//!
//! `cargo run --release --example walk -- /usr`; `--threads N` takes another number of threads. A directory is one task
//! of the pool's, and spawns one for each directory in it. Links are counted, not followed.

use std::error::Error;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

use wo::pool::{Pool, Worker};

mod command_line;

#[derive(Debug, Default)]
struct Totals {
    files: AtomicU64,
    directories: AtomicU64,
    bytes: AtomicU64,
    unreadable: AtomicU64,
}

#[wo::main]
fn main() -> Result<ExitCode, Box<dyn Error>> {
    let (threads, path) = command_line::read("walk", "[--threads NUMBER] [PATH]", |arguments| {
        let threads = arguments.opt_value_from_fn("--threads", number_of_threads)?;
        let path = arguments.opt_free_from_os_str(|path| match path.as_encoded_bytes() {
            [b'-', ..] => Err(format!("{}: unknown", path.display())),
            _ => Ok(PathBuf::from(path)),
        })?;
        Ok((threads, path.unwrap_or(PathBuf::from("."))))
    });
    let root = fs::symlink_metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    if !root.is_dir() {
        return Err(format!("{}: not a directory", path.display()).into());
    }
    let pool = threads.map_or_else(Pool::default, |threads| Pool::new(threads.get()));
    let Totals { files, directories, bytes, unreadable } = wo::blocking(move || walk(&pool, &path))?;
    println!("files {}\ndirectories {}\nbytes {}", files.into_inner(), directories.into_inner(), bytes.into_inner());
    Ok(if unreadable.into_inner() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn number_of_threads(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| format!("--threads takes a number, at least 1, not {text:?}"))
}

fn walk(pool: &Pool, path: &Path) -> Totals {
    let totals = Totals::default();
    pool.run(|worker| visit(worker, path.to_owned(), &totals));
    totals
}

/// Counts one directory, and spawns a task for each in it.
fn visit<'env>(worker: &Worker<'env>, path: PathBuf, totals: &'env Totals) {
    let counted = count(&path, |directory| worker.spawn(move |worker| visit(worker, directory, totals)));
    totals.directories.fetch_add(1, Ordering::Relaxed);
    match counted {
        Ok((files, bytes)) => {
            totals.files.fetch_add(files, Ordering::Relaxed);
            totals.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        Err(error) => {
            totals.unreadable.fetch_add(1, Ordering::Relaxed);
            eprintln!("{}: {error}", path.display());
        }
    }
}

/// The files of one directory, and how many bytes they hold together.
fn count(path: &Path, mut found: impl FnMut(PathBuf)) -> io::Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found(entry.path());
        } else {
            files += 1;
            bytes += entry.metadata()?.len();
        }
    }
    Ok((files, bytes))
}
