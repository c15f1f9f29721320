//! What is drawn where somebody is looking, and nowhere else.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tempfile::TempDir;

use crate::golden;

/// Runs the command with a terminal for its stderr; answers its status, its stdout, and what the terminal was sent.
fn at_a_terminal(arguments: &[&str], dir: &Path) -> (i32, String, String) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there is a terminal to be had");
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs =
        rustix::fs::open(std::ffi::OsStr::from_bytes(name.as_bytes()), OFlags::RDWR | OFlags::NOCTTY, Mode::empty());
    let theirs = theirs.unwrap();
    tcsetwinsize(&theirs, Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_wo-db"))
        .args(arguments)
        .arg(dir)
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::from(File::from(theirs)))
        .spawn()
        .unwrap();
    let drawn = std::thread::spawn(move || {
        let mut drawn = Vec::new();
        // A terminal whose other side is gone answers EIO.
        let _ = File::from(ours).read_to_end(&mut drawn);
        String::from_utf8_lossy(&drawn).into_owned()
    });
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    (output.status.code().unwrap(), stdout, drawn.join().unwrap())
}

#[test]
fn a_bar_is_drawn_on_a_terminal_and_taken_away_again() {
    let there = TempDir::new().unwrap();
    let copy = there.path().join("copy");
    let golden = golden();
    let golden_name = golden.to_str().unwrap();
    let cases: [(&[&str], &Path, &str); 6] = [
        (&["verify"], &golden, "reading"),
        (&["stats"], &golden, "reading"),
        (&["dump"], &golden, "reading"),
        (&["log"], &golden, "reading"),
        (&["backup", golden_name], &copy, "copying"),
        (&["compact"], &copy, "compacting"),
    ];
    for (arguments, dir, word) in cases {
        let (code, stdout, drawn) = at_a_terminal(arguments, dir);
        assert_eq!(code, 0, "{arguments:?}: {stdout}{drawn}");
        assert!(drawn.contains(word), "{arguments:?} drew {drawn:?}");
        // The line is empty in the end.
        assert!(drawn.trim_end_matches(['\r', '\n']).ends_with("\u{1b}[2K") || drawn.ends_with('\r'), "{drawn:?}");
        assert!(!stdout.contains('\u{1b}'), "{stdout:?}");
    }
    let (code, _, drawn) = at_a_terminal(&["verify", "--quiet"], &golden);
    assert_eq!((code, drawn.as_str()), (0, ""));
    let (code, stdout, drawn) = at_a_terminal(&["verify"], Path::new("/nowhere"));
    assert!(code == 1 && stdout.is_empty() && drawn.contains("/nowhere"), "{drawn:?}");
}

#[test]
fn no_bar_is_drawn_anywhere_else() {
    let output = Command::new(env!("CARGO_BIN_EXE_wo-db")).arg("verify").arg(golden()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
