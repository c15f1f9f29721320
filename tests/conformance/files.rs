//! Files: their cursor, their size, and descriptors that are no files.

use std::cell::RefCell;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::rc::Rc;

use wo::fs::{self, File, OpenOptions};
use wo_runtime::error::errno::EBADF;
use wo_runtime::plane::backend::Selection;

use crate::backends::{EVERY, REAL, run, those_of};
use crate::child::{self, test_path};

/// An empty folder on the disk of `backend`; the simulated kernel has a disk of its own.
pub fn folder(backend: Selection) -> (Option<tempfile::TempDir>, PathBuf) {
    if backend == Selection::Sim {
        return (None, PathBuf::from("/tmp"));
    }
    let dir = tempfile::tempdir().expect("a folder for the files");
    let path = dir.path().to_owned();
    (Some(dir), path)
}

#[wo::fiber]
fn concurrent_cursor_reads(dir: PathBuf) {
    let path = dir.join("twenty");
    fs::write(&path, b"0123456789abcdefghij".to_vec()).expect("write");
    let file = Rc::new(File::open(&path).expect("open"));
    let halves = Rc::new(RefCell::new(Vec::new()));
    let mut readers = Vec::new();
    for _ in 0..2 {
        let (file, halves) = (file.clone(), halves.clone());
        readers.push(wo::spawn(|| {
            let (read, bytes) = file.read(Vec::with_capacity(10));
            assert_eq!(read.expect("read"), 10);
            halves.borrow_mut().push(bytes);
        }));
    }
    for reader in readers {
        reader.join().expect("a reader ended");
    }
    halves.borrow_mut().sort();
    assert_eq!(*halves.borrow(), [b"0123456789".to_vec(), b"abcdefghij".to_vec()]);
    let (read, _bytes) = file.read(Vec::with_capacity(10));
    assert_eq!(read.expect("read"), 0, "the cursor stands at the end");
}

#[wo::fiber]
fn positional_reads(dir: PathBuf) {
    let path = dir.join("positions");
    fs::write(&path, b"0123456789".to_vec()).expect("write");
    let file = OpenOptions::new().read(true).write(true).open(&path).expect("open");
    let (read, bytes) = file.read(Vec::with_capacity(3));
    assert_eq!((read.expect("read"), bytes.as_slice()), (3, b"012".as_slice()));
    let (read, bytes) = file.read_at(Vec::with_capacity(2), 8);
    assert_eq!((read.expect("read_at"), bytes.as_slice()), (2, b"89".as_slice()));
    let (written, _bytes) = file.write_at(b"X".to_vec(), 9);
    assert_eq!(written.expect("write_at"), 1);
    let (read, bytes) = file.read(Vec::with_capacity(10));
    assert_eq!((read.expect("read"), bytes.as_slice()), (7, b"345678X".as_slice()));
}

#[wo::fiber]
fn far_offsets(dir: PathBuf) {
    const FAR: u64 = 5 << 30;
    let path = dir.join("sparse");
    let file = OpenOptions::new().read(true).write(true).create(true).open(&path).expect("create");
    let (written, _bytes) = file.write_all_at(b"far out".to_vec(), FAR);
    written.expect("write_all_at");
    assert_eq!(file.metadata().expect("metadata").len(), FAR + 7);
    let (read, bytes) = file.read_at(Vec::with_capacity(16), FAR + 4);
    assert_eq!((read.expect("read_at"), bytes.as_slice()), (3, b"out".as_slice()));
    let (read, bytes) = file.read_at(vec![1; 8], FAR - 8);
    assert_eq!((read.expect("read_at"), bytes.as_slice()), (8, [0; 8].as_slice()));
    file.set_len(FAR + 2).expect("set_len");
    assert_eq!(fs::metadata(&path).expect("metadata").len(), FAR + 2);
    fs::remove_file(&path).expect("remove");
}

#[test]
fn r50_cursor() {
    for backend in those_of(EVERY) {
        let (_dir, path) = folder(backend);
        run(backend, |builder| builder, || concurrent_cursor_reads(path));
        let (_dir, path) = folder(backend);
        run(backend, |builder| builder, || positional_reads(path));
        let (_dir, path) = folder(backend);
        run(backend, |builder| builder, || far_offsets(path));
    }
}

#[wo::fiber]
fn pipes_and_devices(dir: PathBuf) {
    // A pipe: the reader parks until there is something, and reads the end when the writer has gone.
    let (read_end, write_end) = wo::io::pipe().expect("pipe");
    let reader = wo::spawn(|| {
        let (read, first) = read_end.read(Vec::with_capacity(16));
        read.expect("read");
        let (read, _rest) = read_end.read(Vec::with_capacity(16));
        (first, read.expect("read"))
    });
    wo::yield_now().expect("yield");
    assert!(!reader.is_finished());
    write_end.write_all(b"through").expect("write");
    write_end.close().expect("close");
    assert_eq!(reader.join().expect("the reader ended"), (b"through".to_vec(), 0));

    // A pipe with a name: opening one half waits for the other.
    let path = dir.join("fifo");
    let writer_path = path.clone();
    let writer = wo::spawn(|| {
        let file = OpenOptions::new().write(true).open(&writer_path).expect("open for writing");
        file.write_all(b"by name").expect("write");
    });
    let file = File::open(&path).expect("open for reading");
    let (read, bytes) = file.read(Vec::with_capacity(16));
    assert_eq!((read.expect("read"), bytes.as_slice()), (7, b"by name".as_slice()));
    writer.join().expect("the writer ended");
    let (read, _bytes) = file.read(Vec::with_capacity(16));
    assert_eq!(read.expect("read"), 0);

    let null = OpenOptions::new().read(true).write(true).open("/dev/null").expect("open");
    null.write_all(b"into the void").expect("write");
    let (read, _bytes) = null.read(Vec::with_capacity(16));
    assert_eq!(read.expect("read"), 0);

    let zero = File::open("/dev/zero").expect("open");
    let (read, bytes) = zero.read(vec![1; 4096]);
    assert_eq!((read.expect("read"), bytes), (4096, vec![0; 4096]));
}

/// Makes a pipe with a name in that folder.
fn named_pipe(folder: &Path) -> PathBuf {
    let path = folder.join("fifo");
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("a path without a zero byte");
    // SAFETY: the name is a live string that ends in a zero byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    path
}

#[test]
fn r52_odd_fds() {
    for backend in those_of(REAL) {
        let dir = tempfile::tempdir().expect("a folder for the pipe");
        named_pipe(dir.path());
        run(backend, |builder| builder, || pipes_and_devices(dir.path().to_owned()));
    }
}

/// Reads the standard input to its end, or as much as anybody wants.
#[wo::fiber]
fn all_of_stdin() -> wo::IoResult<Vec<u8>> {
    const WANTED_MAX: usize = 100_000;
    let stdin = wo::io::stdin()?;
    let mut all = Vec::new();
    while all.len() < WANTED_MAX {
        let (read, bytes) = stdin.read(Vec::with_capacity(8));
        if read? == 0 {
            break;
        }
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

/// Runs the test in a child whose standard input is `stdin`, once on each backend, and answers what it read there.
fn read_in_child(test: &str, backend: Selection, stdin: Stdio) -> String {
    let mut command = child::command(test);
    command.env("WO_IO", backend.to_string()).stdin(stdin);
    child::expect_success(command.output().expect("the test binary starts"))
}

fn show_stdin() {
    for backend in those_of(REAL) {
        match run(backend, |builder| builder, all_of_stdin) {
            Ok(bytes) if bytes.iter().all(|byte| *byte == 0) => println!("stdin: {} zeros", bytes.len()),
            Ok(bytes) => println!("stdin: {:?}", String::from_utf8_lossy(&bytes)),
            Err(error) => println!("stdin refused with {}: {error}", error.errno()),
        }
    }
}

/// epoll refuses regular files; the backend must read them another way.
#[test]
fn r52_odd_fds_as_stdin() {
    let test = test_path!();
    if child::is_child(test) {
        return show_stdin();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("LICENSE-MIT");
    let licence = std::fs::read_to_string(&path).expect("the licence");
    for backend in those_of(REAL) {
        let file = std::fs::File::open(&path).expect("open");
        let wrote = read_in_child(test, backend, file.into());
        assert!(wrote.contains(&format!("stdin: {licence:?}")), "a regular file: {wrote}");

        let wrote = read_in_child(test, backend, Stdio::null());
        assert!(wrote.contains("stdin: 0 zeros"), "/dev/null: {wrote}");

        let zero = std::fs::File::open("/dev/zero").expect("open");
        let wrote = read_in_child(test, backend, zero.into());
        assert!(wrote.contains("stdin: 100000 zeros"), "/dev/zero: {wrote}");

        let (read_end, mut write_end) = std::io::pipe().expect("pipe");
        write_end.write_all(b"a pipe's bytes").expect("write");
        drop(write_end);
        let wrote = read_in_child(test, backend, read_end.into());
        assert!(wrote.contains(r#"stdin: "a pipe's bytes""#), "a pipe: {wrote}");

        // A FIFO that is open already: its bytes wait in it, and its last writer goes before it is read.
        let dir = tempfile::tempdir().expect("a folder for the pipe");
        let fifo = named_pipe(dir.path());
        let both = std::fs::OpenOptions::new().read(true).write(true).open(&fifo).expect("open");
        let read_end = std::fs::File::open(&fifo).expect("open");
        (&both).write_all(b"a named pipe's bytes").expect("write");
        drop(both);
        let wrote = read_in_child(test, backend, read_end.into());
        assert!(wrote.contains(r#"stdin: "a named pipe's bytes""#), "a FIFO: {wrote}");

        // The cursor is the descriptor's own: what was read before is not read again.
        let mut file = std::fs::File::open(&path).expect("open");
        file.seek(std::io::SeekFrom::Start(10)).expect("seek");
        let wrote = read_in_child(test, backend, file.into());
        assert!(wrote.contains(&format!("stdin: {:?}", &licence[10..])), "a regular file from its middle: {wrote}");
    }
}

/// Closes the standard input under the running program, then reads it.
#[wo::fiber]
fn closed_stdin() {
    // SAFETY: nothing in this process uses its standard input.
    assert_eq!(unsafe { libc::close(0) }, 0);
    let error = all_of_stdin().expect_err("it is closed");
    assert_eq!(error.errno(), EBADF, "{error}");
}

#[test]
fn r52_odd_fds_closed_stdin() {
    let test = test_path!();
    if child::is_child(test) {
        return run(those_of(REAL)[0], |builder| builder, closed_stdin);
    }
    for backend in those_of(REAL) {
        read_in_child(test, backend, Stdio::null());
    }
}
