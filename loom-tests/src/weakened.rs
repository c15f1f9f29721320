//! Running a model as the source stands, and with one of its orderings weakened.
//!
//! A model that fails leaves threads half-way, which cannot be unwound. So each model runs in a process of its own,
//! the test's binary once more, which ends at the first panic.

use std::cell::Cell;
use std::env;
use std::panic;
use std::process::{self, Command};

use crate::weakenings::WEAKENINGS;

/// Set in the process of a model: the weakening to turn on, or nothing.
const VARIABLE: &str = "WO_LOOM_WEAKENING";
/// Its exit status when loom finds nothing.
const ACCEPTED: i32 = 2;
/// When loom finds a failure.
const REJECTED: i32 = 3;
/// When loom gave up, or the weakened place was never reached.
const UNDECIDED: i32 = 4;

// Loom runs all threads of a model on the one that checks it.
std::thread_local! {
    static WEAKENED: Cell<Option<&'static str>> = const { Cell::new(None) };
    static REACHED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this weakening is on; the switches in the source ask.
pub fn is(name: &str) -> bool {
    let on = WEAKENED.get() == Some(name);
    if on {
        REACHED.set(true);
    }
    on
}

/// A test that loom finds nothing wrong with a model.
macro_rules! accepted {
    ($test:ident, $model:expr) => {
        #[test]
        fn $test() {
            crate::weakened::check(concat!(module_path!(), "::", stringify!($test)), None, $model);
        }
    };
}

/// A test that loom finds a model to fail once a weakening is on.
macro_rules! rejected {
    ($test:ident, $weakening:literal, $model:expr) => {
        #[test]
        fn $test() {
            crate::weakened::check(concat!(module_path!(), "::", stringify!($test)), Some($weakening), $model);
        }
    };
}

pub(crate) use {accepted, rejected};

/// Loom accepts the model, or rejects it with a weakening.
pub fn check(test: &str, weakening: Option<&'static str>, model: fn()) {
    let name = weakening.unwrap_or_default();
    assert!(
        weakening.is_none() || WEAKENINGS.iter().any(|weakening| weakening.name == name),
        "there is no weakening `{name}`"
    );
    if env::var_os(VARIABLE).is_some() {
        run(weakening, model);
    }
    let (_of_crate, test) = test.split_once("::").expect("a path begins with the crate's name");
    let binary = env::current_exe().expect("the system knows what runs here");
    let arguments = ["--exact", test, "--nocapture", "--test-threads=1"];
    let output = Command::new(binary).args(arguments).env(VARIABLE, name).output().expect("it runs once more");
    let said = String::from_utf8_lossy(&output.stderr);
    match (output.status.code(), weakening) {
        (Some(ACCEPTED), None) => {}
        (Some(REJECTED), Some(_)) => println!("rejected because of: {said}"),
        (Some(REJECTED), None) => panic!("loom rejects the model: {said}"),
        (Some(ACCEPTED), Some(name)) => panic!("loom accepts the model although {name}"),
        (Some(UNDECIDED), _) => panic!("the model decides nothing: {said}"),
        _ => panic!("the model ended with {}: {said}", output.status),
    }
}

fn run(weakening: Option<&'static str>, model: fn()) -> ! {
    WEAKENED.set(weakening);
    let reached = move || weakening.is_none() || REACHED.get();
    panic::set_hook(Box::new(move |panic| {
        eprintln!("{panic}");
        // The bound on the length of a run says nothing about the protocol.
        let gave_up = panic.to_string().contains("maximum number of branches");
        process::exit(if reached() && !gave_up { REJECTED } else { UNDECIDED });
    }));
    loom::model(model);
    process::exit(if reached() { ACCEPTED } else { UNDECIDED });
}
