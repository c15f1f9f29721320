//! Puts loom under the runtime's own source.
//!
//! The models run the very files of the runtime. Each is copied with loom's types in the place of std's, and with a
//! switch at every place that `weakenings.rs` names: a model turns one on and must be rejected. A place that is not
//! found any more fails the build, so the table follows the source.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use weakenings::{WEAKENINGS, Weakening};

#[path = "src/weakenings.rs"]
mod weakenings;

/// The runtime's files that are run as they are.
const RUNTIME: &[&str] = &[
    "actor/counters.rs",
    "actor/error.rs",
    "actor/mailbox/answer.rs",
    "actor/mailbox/cells.rs",
    "actor/mailbox/head.rs",
    "actor/mailbox/letter.rs",
    "actor/mailbox/mod.rs",
    "actor/mailbox/parcel.rs",
    "actor/mailbox/place.rs",
    "actor/waits.rs",
    "error.rs",
    "fiber/channel.rs",
    "fiber/home.rs",
    "fiber/join.rs",
    "fiber/local.rs",
    "fiber/oneshot.rs",
    "fiber/spin.rs",
    "fiber/steal.rs",
    "fiber/tally.rs",
    "fiber/task/cell.rs",
    "fiber/task/either.rs",
    "fiber/task/handle.rs",
    "fiber/task/joiner.rs",
    "fiber/task/list.rs",
    "fiber/task/memory.rs",
    "fiber/task/mod.rs",
    "fiber/task/queue.rs",
    "fiber/tick.rs",
    "fiber/turn.rs",
    "plane/backend/waker.rs",
    "plane/buf/slab.rs",
    "plane/post.rs",
    "plane/time.rs",
    "scope/call.rs",
    "scope/channel.rs",
    "shard/link.rs",
    "shard/pool.rs",
    "shard/program.rs",
];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/weakenings.rs");
    if env::var_os("CARGO_CFG_LOOM").is_none() {
        return;
    }
    for Weakening { name, file, .. } in WEAKENINGS {
        assert!(RUNTIME.contains(file), "the weakening {name} is of {file}, which no model runs");
    }
    let package = env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo");
    let root = Path::new(&package).parent().expect("the package lies in the workspace");
    for file in RUNTIME {
        put(&root.join("runtime/src").join(file), file);
    }
}

/// Copies a file, weakened where it is asked for and with loom's types.
fn put(from: &Path, name: &str) {
    println!("cargo::rerun-if-changed={}", from.display());
    let source = fs::read_to_string(from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    let weakened = WEAKENINGS.iter().filter(|weakening| weakening.file == name).fold(source, weaken);
    let to = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join(name);
    fs::create_dir_all(to.parent().expect("a file lies in a folder")).expect("the output folder takes files");
    fs::write(to, with_loom(name, weakened)).expect("the output folder takes files");
}

/// Puts a switch at the place a weakening names.
fn weaken(source: String, weakening: &Weakening) -> String {
    let Weakening { name, file, within, from, to } = weakening;
    let moved = |what: &str| -> ! { panic!("{file} has no `{what}` any more, which the weakening {name} is about") };
    let after = |at: usize, what: &str| at + source[at..].find(what).unwrap_or_else(|| moved(what));
    let at = after(within.iter().fold(0, |at, what| after(at, what)), from);
    let (before, behind) = (&source[..at], &source[at + from.len()..]);
    format!("{before}if crate::weakened::is(\"{name}\") {{ {to} }} else {{ {from} }}{behind}")
}

fn with_loom(name: &str, source: String) -> String {
    let (source, _tests) = source.split_once("\n#[cfg(test)]").unwrap_or((&source, ""));
    let mut source = lines(source)
        .replace("std::sync::", "crate::sync::")
        .replace("crossbeam_deque::", "crate::sync::deque::")
        .replace("std::cell::", "crate::sync::cell::")
        .replace("std::alloc::", "crate::sync::alloc::")
        .replace("std::hint::spin_loop", "loom::hint::spin_loop")
        .replace("std::thread::yield_now", "loom::thread::yield_now")
        .replace("pub(super)", "pub(crate)");
    if name == "fiber/task/cell.rs" {
        // What home alone may touch.
        source = source.replace("use crate::sync::cell::Cell;", "use crate::sync::cell::Tracked as Cell;");
    }
    if name == "fiber/oneshot.rs" {
        // Loom looks for the leaks of its own.
        source = source.replace("use crate::sync::{Arc, ", "use loom::sync::Arc;\nuse crate::sync::{");
    }
    if let Some(folder) = name.strip_suffix("mod.rs") {
        source = with_modules(folder, &source);
    }
    if name == "actor/mailbox/head.rs" {
        // Loom's atomics are made at run time.
        source = once(&source, "const fn new()", "fn new()");
    }
    if name == "actor/mailbox/parcel.rs" {
        // Its cell only hides what is in it; nobody shares that.
        source = once(&source, "crate::sync::cell::", "std::cell::");
    }
    if name == "actor/mailbox/cells.rs" {
        // A thread that ends leaves its cells to others, by a static. Loom may have dropped that by then.
        source = once(&source, "impl Drop for Unused", "impl Unused");
    }
    if name == "plane/post.rs" {
        // Few errands go around the ring and over its brim.
        source = once(&source, "const SLOTS: usize = 512;", "const SLOTS: usize = 2;");
        source = once(&source, "const SAID_EVERY: usize = SLOTS / 8;", "const SAID_EVERY: usize = 1;");
        // Loom does not know that std's lock orders what is made before what is done with it.
        source = once(&source, "slots: OnceLock::new(),", "slots: OnceLock::from(slots()),");
        // A slot that is being written is written as soon as its writer runs.
        source = once(&source, "const LOOKS: u32 = 100;", "const LOOKS: u32 = 1;");
    }
    if name == "shard/pool.rs" {
        // One look before a worker parks is as good as many.
        source = once(&source, "const LOOKS: u32 = 200;", "const LOOKS: u32 = 1;");
    }
    source
}

/// The modules of a folder, put where they are declared.
fn with_modules(folder: &str, source: &str) -> String {
    source.lines().fold(String::new(), |lines, line| {
        match line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) {
            Some(name) => {
                format!("{lines}mod {name} {{\n include!(concat!(env!(\"OUT_DIR\"), \"/{folder}{name}.rs\"));\n}}\n")
            }
            None => lines + line + "\n",
        }
    })
}

fn once(source: &str, from: &str, to: &str) -> String {
    assert!(source.contains(from), "the runtime has no `{from}` any more");
    source.replacen(from, to, 1)
}

/// Drops what a module that is included cannot have; statics that synchronise begin anew with every run of a model.
fn lines(source: &str) -> String {
    source.lines().filter(|line| !line.trim_start().starts_with("//!")).fold(String::new(), |lines, line| {
        let anew = line.trim().strip_prefix("static ").and_then(|rest| {
            let (name, rest) = rest.split_once(": ")?;
            let (of_type, value) = rest.strip_suffix(';')?.split_once(" = ")?;
            let synchronises = of_type.starts_with("Atomic") || of_type.starts_with("Mutex<");
            synchronises.then(|| {
                format!(
                    "loom::lazy_static! {{ static ref {name}: &'static {of_type} = crate::sync::for_good({value}); }}"
                )
            })
        });
        lines + anew.as_deref().unwrap_or(line) + "\n"
    })
}
