//! The examples' command lines: a few options and nothing else. What is wrong with one is said, and ends the example
//! with status 2, before it has done anything.

use std::process;

use pico_args::{Arguments, Error};

/// What `take` finds on the command line, when nothing is left over. `usage` is what may stand behind the name.
pub fn read<T>(name: &str, usage: &str, take: impl FnOnce(&mut Arguments) -> Result<T, Error>) -> T {
    let mut arguments = if cfg!(test) {
        // The example runs inside a test, whose command line is not for it.
        Arguments::from_vec(Vec::new())
    } else {
        Arguments::from_env()
    };
    if arguments.contains(["-h", "--help"]) {
        println!("usage: {name} {usage}");
        process::exit(0);
    }
    let found = take(&mut arguments).map_err(|error| match error {
        // What the example says of it says it all.
        Error::ArgumentParsingFailed { cause } | Error::Utf8ArgumentParsingFailed { cause, .. } => cause,
        error => error.to_string(),
    });
    let left_over = arguments.finish();
    let wrong = match (found, left_over.first()) {
        (Ok(found), None) => return found,
        (Ok(_), Some(unknown)) => format!("{}: unknown", unknown.display()),
        (Err(error), _) => error,
    };
    eprintln!("{name}: {wrong}; usage: {name} {usage}");
    process::exit(2)
}

/// The address behind `--listen`, or the one the example listens on without.
#[allow(dead_code, reason = "not every example listens")]
pub fn listen(name: &str, otherwise: &str) -> String {
    let usage = format!("[--listen ADDRESS], {otherwise} without, and port 0 for any that is free");
    read(name, &usage, |arguments| {
        Ok(arguments.opt_value_from_str("--listen")?.unwrap_or_else(|| otherwise.to_owned()))
    })
}
