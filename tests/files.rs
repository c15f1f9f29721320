//! Files as a program under the attributes uses them: plain calls, on every kernel.

use std::path::{Path, PathBuf};

use wo::fs::{self, File, OpenOptions};
use wo::{Builder, IoResult, Selection};

/// Copies a file in parts, as one would with std.
#[wo::fiber]
fn copy(from: &Path, to: &Path) -> IoResult<u64> {
    let source = File::open(from)?;
    let target = File::create(to)?;
    let mut part = [0; 1000];
    let mut copied = 0;
    loop {
        let count = source.read_into(&mut part)?;
        if count == 0 {
            target.sync_all()?;
            target.close()?;
            return Ok(copied);
        }
        target.write_all(&part[..count])?;
        copied += count as u64;
    }
}

#[wo::fiber]
fn bytes_below(dir: PathBuf) -> IoResult<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(&dir)? {
        sum += match entry.kind() {
            fs::FileKind::Directory => bytes_below(entry.path())?,
            _ => fs::metadata(entry.path())?.len(),
        };
    }
    Ok(sum)
}

#[wo::fiber]
fn program(dir: PathBuf) -> IoResult<()> {
    fs::create_dir_all(dir.join("deep/er"))?;
    let text = "a line\n".repeat(700);
    fs::write(dir.join("first"), &text)?;
    assert_eq!(copy(&dir.join("first"), &dir.join("deep/second"))?, text.len() as u64);
    assert_eq!(fs::read_to_string(dir.join("deep/second"))?, text);

    let log = OpenOptions::new().append(true).create(true).open(dir.join("deep/er/log"))?;
    let mut writers = Vec::new();
    for writer in 0..4 {
        let log = log.clone();
        writers.push(wo::spawn(move || log.write_all(format!("{writer}\n").as_bytes())));
    }
    for writer in writers {
        writer.join().expect("no writer panics")?;
    }
    let written = fs::read_to_string(dir.join("deep/er/log"))?;
    let mut lines: Vec<&str> = written.lines().collect();
    lines.sort();
    assert_eq!(lines, ["0", "1", "2", "3"]);
    assert_eq!(bytes_below(dir.clone())?, 2 * text.len() as u64 + 8);

    let missing = match File::open(dir.join("missing")) {
        Err(error) if error.errno() == wo::error::errno::ENOENT => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(missing.context(), dir.join("missing").display().to_string());
    Ok(())
}

#[test]
fn plain_calls_read_and_write_files() {
    for io in [Selection::Uring, Selection::Epoll, Selection::Sim] {
        let dir = std::env::temp_dir().join(format!("wo-plain-files-{}-{io}", std::process::id()));
        let ran = Builder::new().io(io).run(program(dir.clone()));
        let _ = std::fs::remove_dir_all(dir);
        ran.expect("the program runs to its end").unwrap_or_else(|error| panic!("on {io}: {error}"));
    }
}
