//! `wo-db`: looks at data directories, copies them, and takes out of broken ones what is whole.
//!
//! Every command but `compact` only reads the directory it is given; what it writes goes into a directory that is new.
//! The exit status says what was found, for scripts: see [`status`].

mod arguments;
mod commands;
mod progress;
mod status;

use std::process::ExitCode;

use arguments::Asked;
use wo_runtime::shard::Builder;

fn main() -> ExitCode {
    let command = match arguments::parse(lexopt::Parser::from_env()) {
        Ok(Asked::Command(command)) => command,
        Ok(Asked::Text(text)) => return commands::say(&text, status::WHOLE).into(),
        Err(error) => {
            eprintln!("wo-db: {error}; see `wo-db --help`");
            return status::USAGE.into();
        }
    };
    let ran = Builder::new().shards(1).env().map(|builder| builder.run(move || commands::run(command)));
    match ran {
        Ok(Ok(status)) => status.into(),
        Ok(Err(error)) => failed(&error),
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("wo-db: {error}");
    status::FAILED.into()
}
