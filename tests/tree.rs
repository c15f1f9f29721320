//! Keeps the source tree tidy: who may import whom, which calls are banned where, and the shape of a file.
//!
//! The rules are the layers drawn in the README: an arrow never points up. Source is read as tokens, so comments,
//! strings and formatting do not matter.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// What each folder of the runtime may name of its crate, itself aside.
const RUNTIME_LAYERS: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("plane", &["error"]),
    ("scope", &["error"]),
    ("fiber", &["error", "plane", "scope"]),
    ("os", &["error", "plane", "scope", "fiber"]),
    ("shard", &["error", "plane", "scope", "fiber", "os"]),
    ("sim", &["error", "plane", "fiber", "shard"]),
    ("actor", &["error", "plane", "scope", "fiber", "os", "shard"]),
];

/// What the sockets' crate may name of the runtime.
const NET_MAY_NAME: &[&str] = &["error", "plane", "scope", "fiber", "shard"];

/// Where the operating system may be named.
const KERNEL_SIDE: &[&str] = &["runtime/src/plane/backend/"];
/// The simulated kernel, where a run is a function of its seed.
const SIMULATOR: &[&str] = &["runtime/src/plane/backend/sim"];
/// Where it may be named because the simulated kernel has no such thing.
const BEYOND_THE_SIMULATOR: &[&str] = &["runtime/src/os/signal", "runtime/src/os/process", "runtime/src/os/watch"];
/// Where `unsafe` may stand.
const MAY_BE_UNSAFE: &[&str] =
    &["runtime/src/plane/", "runtime/src/fiber/task", "runtime/src/actor/mailbox", "runtime/src/os/signal"];
/// Where the real clock is read: the backends, and the look before a sleep, which a simulated world does without.
const CLOCK_SIDE: &[&str] = &["runtime/src/plane/backend/", "runtime/src/plane/time.rs", "runtime/src/fiber/spin.rs"];
/// Where the wall clock is named, to be passed on to programs.
const WALL_CLOCK_SIDE: &[&str] = &[
    "runtime/src/plane/backend/",
    "runtime/src/plane/time.rs",
    "runtime/src/fiber/sleep.rs",
    "runtime/src/fiber/live_clock.rs",
    "runtime/src/fiber/mod.rs",
    "runtime/src/scope/capability/",
    "runtime/src/sim/",
    "src/lib.rs",
];
/// The source of what users link.
const LIBRARIES: &[&str] = &["src/", "runtime/src/", "net/src/", "db/src/"];

/// Their items are not in `wo`, so their examples name the package.
const NOT_IN_WO: &[&str] = &[
    "runtime/src/fiber/park.rs",
    "runtime/src/fiber/scoped.rs",
    "runtime/src/fiber/spin.rs",
    "runtime/src/os/cpus.rs",
    "runtime/src/scope/body.rs",
    "runtime/src/shard/by_itself.rs",
];
const LINE_CHARACTERS_MAX: usize = 120;
const FILE_LINES_MAX: usize = 900;

/// One source file, as text and as flat tokens.
struct Source {
    /// From the root of the tree, with forward slashes.
    path: String,
    text: String,
    tokens: Vec<Token>,
}

#[derive(Debug)]
struct Token {
    text: String,
    line: usize,
}

impl Source {
    fn under(&self, prefixes: &[&str]) -> bool {
        prefixes.iter().any(|prefix| self.path.starts_with(prefix))
    }

    /// The places where these tokens stand in a row.
    fn lines_of(&self, row: &[&str]) -> Vec<usize> {
        let same = |window: &&[Token]| window.iter().map(|token| token.text.as_str()).eq(row.iter().copied());
        self.tokens.windows(row.len()).filter(same).map(|window| window[0].line).collect()
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file of the tree but what is built and what is meant not to compile.
fn sources() -> Vec<Source> {
    let mut paths = Vec::new();
    collect(root(), &mut paths);
    paths.sort();
    assert!(paths.len() > 20, "only {} source files found under {}", paths.len(), root().display());
    paths.iter().map(|path| read(path)).collect()
}

fn collect(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a folder of the tree is readable") {
        let path = entry.expect("a folder of the tree is readable").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("names are UTF-8");
        if path.is_dir() && !name.starts_with('.') && name != "target" && name != "ui" {
            collect(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

fn read(path: &Path) -> Source {
    let text = fs::read_to_string(path).expect("source is UTF-8");
    let stream: TokenStream = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut tokens = Vec::new();
    flatten(stream, &mut tokens);
    let path = path.strip_prefix(root()).expect("found under the root").to_string_lossy().replace('\\', "/");
    Source { path, text, tokens }
}

fn flatten(stream: TokenStream, into: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::None => ("", ""),
                };
                into.push(Token { text: open.to_owned(), line });
                flatten(group.stream(), into);
                into.push(Token { text: close.to_owned(), line: group.span_close().start().line });
            }
            TokenTree::Literal(_) => into.push(Token { text: "\"\"".to_owned(), line }),
            other => into.push(Token { text: other.to_string(), line }),
        }
    }
}

/// The names that follow `prefix::`, also inside a group: `prefix::{a::b, c}` names `a` and `c`.
fn named_after(tokens: &[Token], prefix: &[&str]) -> Vec<(String, usize)> {
    let mut row: Vec<&str> = prefix.to_vec();
    row.extend([":", ":"]);
    let mut names = Vec::new();
    for at in 0..tokens.len().saturating_sub(row.len()) {
        let here = &tokens[at..at + row.len()];
        if !here.iter().map(|token| token.text.as_str()).eq(row.iter().copied()) {
            continue;
        }
        let rest = &tokens[at + row.len()..];
        if rest[0].text != "{" {
            names.push((rest[0].text.clone(), rest[0].line));
            continue;
        }
        let mut depth = 0;
        let mut begins = false;
        for token in rest {
            match token.text.as_str() {
                "{" => {
                    depth += 1;
                    begins = depth == 1;
                }
                "}" if depth == 1 => break,
                "}" => depth -= 1,
                "," => begins = depth == 1,
                name if begins => {
                    names.push((name.to_owned(), token.line));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    names
}

/// Fails with every complaint at once.
fn demand(rule: &str, complaints: &[String]) {
    let mut list = String::new();
    for complaint in complaints {
        write!(list, "\n  {complaint}").expect("writing to a string");
    }
    assert!(complaints.is_empty(), "{rule}:{list}");
}

#[test]
fn an_arrow_never_points_up() {
    let mut complaints = Vec::new();
    for source in sources() {
        let mut complain = |name: &str, line: usize, may: &[&str]| {
            if !may.contains(&name) {
                complaints.push(format!("{}:{line} names `{name}`; it may name {may:?}", source.path));
            }
        };
        if let Some(inside) = source.path.strip_prefix("runtime/src/") {
            let layer = inside.split(['/', '.']).next().unwrap_or_default();
            if layer == "lib" {
                continue;
            }
            let Some((_, below)) = RUNTIME_LAYERS.iter().find(|(name, _)| *name == layer) else {
                panic!("runtime/src/{inside} stands in no layer; the layers are {RUNTIME_LAYERS:?}");
            };
            let mut may = below.to_vec();
            may.push(layer);
            for (name, line) in named_after(&source.tokens, &["crate"]) {
                complain(&name, line, &may);
            }
            // `super` repeated as often as the file is deep leads to the crate's root.
            let depth = inside.split('/').count() - usize::from(inside.ends_with("/mod.rs"));
            let up: Vec<&str> = (0..depth).flat_map(|_| [":", ":", "super"]).skip(2).collect();
            for (name, line) in named_after(&source.tokens, &up) {
                if RUNTIME_LAYERS.iter().any(|(other, _)| *other == name) {
                    complain(&name, line, &may);
                }
            }
        } else if source.under(&["net/src/"]) {
            for (name, line) in named_after(&source.tokens, &["wo_runtime"]) {
                complain(&name, line, NET_MAY_NAME);
            }
        }
        if source.under(&["runtime/", "net/src/", "db/src/"]) {
            for above in ["wo", "wo_net", "wo_db"] {
                for (name, line) in named_after(&source.tokens, &[above]) {
                    complain(&format!("{above}::{name}"), line, &[]);
                }
            }
        }
    }
    demand("An arrow points up", &complaints);
}

#[test]
fn banned_calls_stand_nowhere() {
    let mut complaints = Vec::new();
    for source in sources().iter().filter(|source| source.under(LIBRARIES)) {
        let mut ban = |row: &[&str], why: &str| {
            // What stands below `os` is the runtime's own.
            let ours = source.lines_of(&[&["os", ":", ":"], row].concat());
            for line in source.lines_of(row).into_iter().filter(|line| !ours.contains(line)) {
                complaints.push(format!("{}:{line} `{}`: {why}", source.path, row.concat()));
            }
        };
        if !source.under(KERNEL_SIDE) && !source.under(BEYOND_THE_SIMULATOR) {
            for name in ["libc", "OwnedFd", "io_uring", "polling"] {
                ban(&[name], "the kernel is named in plane/backend/ alone");
            }
            for name in ["fs", "net"] {
                for what in ["File", "TcpStream", "TcpListener", "UdpSocket", "UnixStream", "UnixListener"] {
                    ban(&[name, ":", ":", what], "descriptors come from the backend, so that they can be simulated");
                }
            }
        }
        if !source.under(CLOCK_SIDE) {
            ban(&["Instant", ":", ":", "now"], "time is the backend's");
        }
        if !source.under(WALL_CLOCK_SIDE) {
            for name in ["SystemTime", "wall_clock"] {
                ban(&[name], "nothing depends on wall time; it is passed on to programs, no more");
            }
        }
        if !source.under(KERNEL_SIDE) || source.under(SIMULATOR) {
            for name in ["HashMap", "HashSet"] {
                ban(&[name], "nothing depends on hash order; take a BTreeMap, a slab or a sorted Vec");
            }
        }
        for name in ["todo", "unimplemented", "dbg"] {
            ban(&[name, "!"], "nothing is left unfinished");
        }
        ban(&["process", ":", ":", "abort"], "nothing takes the process down");
        ban(&["thread", ":", ":", "sleep"], "a shard never sleeps outside its wait");
    }
    demand("Banned calls", &complaints);
}

#[test]
fn unsafe_stands_where_it_may() {
    let mut complaints = Vec::new();
    for source in sources().iter().filter(|source| source.under(LIBRARIES) && !source.under(MAY_BE_UNSAFE)) {
        for line in source.lines_of(&["unsafe"]) {
            complaints.push(format!("{}:{line}", source.path));
        }
    }
    demand("`unsafe` outside of the plane, the task cell and the mailbox cell", &complaints);
}

#[test]
fn examples_are_colorless() {
    let mut complaints = Vec::new();
    for source in sources().iter().filter(|source| source.under(&["examples/"])) {
        for word in ["async", "await"] {
            for line in source.lines_of(&[word]) {
                complaints.push(format!("{}:{line} `{word}`", source.path));
            }
        }
    }
    demand("Examples are plain functions", &complaints);
}

/// Users have `wo` alone, and read the packages' documentation as its own: an example that names another package does
/// not compile where it is pasted.
#[test]
fn examples_in_the_documentation_name_wo_alone() {
    let mut complaints = Vec::new();
    for source in sources().iter().filter(|source| source.under(LIBRARIES) && !source.under(NOT_IN_WO)) {
        for (index, line) in source.text.lines().enumerate() {
            let Some(said) = line.trim_start().strip_prefix("///").or(line.trim_start().strip_prefix("//!")) else {
                continue;
            };
            // A link is rustdoc's to follow, and nobody's to paste.
            let said = said.replace("](wo_", "");
            if ["wo_runtime::", "wo_net::", "wo_db::"].iter().any(|package| said.contains(package)) {
                complaints.push(format!("{}:{} {}", source.path, index + 1, said.trim()));
            }
        }
    }
    demand("An example names another package than `wo`", &complaints);
}

/// The environment goes before what `#[wo::main]` is told. An example that needs virtual time, files of no disk or a
/// second shard makes them with a `Builder`, so that it is the same under every `WO_IO` and `WO_SHARDS`.
#[test]
fn examples_in_the_documentation_need_no_environment() {
    let mut complaints = Vec::new();
    for source in sources().iter().filter(|source| source.under(LIBRARIES)) {
        for (index, line) in source.text.lines().enumerate() {
            let said = line.trim_start();
            if said.starts_with("//") && said.contains("#[wo::main(") && !said.contains('`') {
                complaints.push(format!("{}:{} {said}", source.path, index + 1));
            }
        }
    }
    demand("An example depends on what the environment may change", &complaints);
}

#[test]
fn every_example_is_listed_and_has_a_gate() {
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md");
    let justfile = fs::read_to_string(root().join("justfile")).expect("justfile");
    let mut complaints = Vec::new();
    for source in sources() {
        // What is in folders there is parts of examples.
        let Some(name) = source.path.strip_prefix("examples/").and_then(|name| name.strip_suffix(".rs")) else {
            continue;
        };
        if name.contains('/') {
            continue;
        }
        if !readme.contains(&format!("`{name}`")) {
            complaints.push(format!("README.md does not list the example `{name}`"));
        }
        if !justfile.lines().any(|line| line.starts_with(&format!("{name}:"))) {
            complaints.push(format!("justfile has no recipe `{name}`"));
        }
        if !root().join(format!("tests/example_{name}.rs")).is_file() {
            complaints.push(format!("the example `{name}` has no gate tests/example_{name}.rs"));
        }
    }
    demand("Examples without a listing or a gate", &complaints);
}

#[test]
fn files_have_the_agreed_shape() {
    let mut complaints = Vec::new();
    for source in sources() {
        if !source.text.starts_with("//!") {
            complaints.push(format!("{} does not open with a paragraph on what it is", source.path));
        }
        let lines = source.text.lines().count();
        if lines > FILE_LINES_MAX {
            complaints.push(format!("{} has {lines} lines, {FILE_LINES_MAX} at most", source.path));
        }
        for (index, line) in source.text.lines().enumerate() {
            let characters = line.chars().count();
            if characters > LINE_CHARACTERS_MAX {
                complaints.push(format!("{}:{} has {characters} characters", source.path, index + 1));
            }
            if line.ends_with([' ', '\t']) {
                complaints.push(format!("{}:{} ends in white space", source.path, index + 1));
            }
        }
    }
    demand("The shape of a file", &complaints);
}

#[test]
fn the_firewall_sees_groups_and_paths() {
    let stream: TokenStream = "use crate::{plane::op, fiber::{self, x}}; fn f() { crate::os::g() }".parse().unwrap();
    let mut tokens = Vec::new();
    flatten(stream, &mut tokens);
    let names: Vec<String> = named_after(&tokens, &["crate"]).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["plane", "fiber", "os"]);
}
