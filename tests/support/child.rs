//! A test that needs a process of its own runs again as the only test of a child.
//!
//! Limits, filters, signals and counts of descriptors belong to a process; so such a test starts this same binary with
//! nothing but itself selected, and finds itself there by an environment variable.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::process::{Command, Output, Stdio};

const MARK: &str = "WO_TEST_CHILD";

/// The path of the test it stands in, as libtest spells it.
macro_rules! test_path {
    () => {{
        fn here() {}
        let name = std::any::type_name_of_val(&here);
        let (_crate, path) = name.strip_suffix("::here").and_then(|name| name.split_once("::")).expect("a test's path");
        path
    }};
}
pub(crate) use test_path;

/// Whether this process is the child of that test.
pub fn is_child(test: &str) -> bool {
    std::env::var(MARK).is_ok_and(|marked| marked == test)
}

/// The command that runs that test, and it alone, in a child.
pub fn command(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test binary's path"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(MARK, test).stdin(Stdio::null());
    command
}

/// The same for a test that leaks on purpose, or may not be looked into: no sanitizer asks about leaks there.
pub fn leaky_command(test: &str) -> Command {
    let mut command = command(test);
    command.env("ASAN_OPTIONS", "detect_leaks=0");
    command
}

/// Runs `body` in a child. In the parent it answers what the child wrote, after making sure that it ended well; in the
/// child it answers nothing.
pub fn run(test: &str, body: impl FnOnce()) -> Option<String> {
    if is_child(test) {
        body();
        return None;
    }
    Some(expect_success(command(test).output().expect("the test binary starts")))
}

/// What the child wrote to both its outputs, when it ended well.
pub fn expect_success(output: Output) -> String {
    let wrote = written(&output);
    assert!(output.status.success(), "the child ended with {}; it wrote:\n{wrote}", output.status);
    assert!(wrote.contains("1 passed"), "the child ran no test; it wrote:\n{wrote}");
    wrote
}

/// What the child wrote to both its outputs.
pub fn written(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
