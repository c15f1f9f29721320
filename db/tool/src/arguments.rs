//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::{Long, Short, Value};

/// What is printed for `--help`.
const HELP: &str = "\
wo-db: looks at the data directories of wo's database, copies them, and mends them

  wo-db verify DIR            read all of it and say whether it is whole
  wo-db stats DIR             say what is in it
  wo-db dump DIR [--table T]  print every row as a line of JSON
  wo-db log DIR [--from N]    print every transaction of the log as a line of JSON
  wo-db backup DIR TO         copy it to the new directory TO; DIR may be in use
  wo-db restore BACKUP TO     copy a backup to the new directory TO
  wo-db salvage DIR TO        take what is whole out of a broken one, into the new directory TO
  wo-db compact DIR           make a snapshot and give back the log's space (writes to DIR)

  -q, --quiet                 no progress bar
  -h, --help    -V, --version

Only `compact` changes DIR. Beside a program that has DIR open all but `salvage` and `compact` work, on the state of
some moment; those two are refused. Progress is shown on stderr when that is a terminal.

Exit status:
  0  whole, or done
  1  the system refused something
  2  usage, or a table that is not there
  3  it opens, and there is something to know: a torn tail, or a broken snapshot that is not needed
  4  broken, or salvaged with gaps
  5  not a database, or no file of one is there
  6  written by a newer release
  7  whole, and not to be made sense of
  8  somebody has it open
  9  no room
";

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// Something to do.
    Command(Command),
    /// Something to print.
    Text(String),
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub struct Command {
    /// Which.
    pub verb: Verb,
    /// On what.
    pub dir: PathBuf,
    /// No progress bar.
    pub quiet: bool,
}

/// The commands, with what is theirs.
#[derive(Debug, PartialEq, Eq)]
pub enum Verb {
    /// Say whether it is whole.
    Verify,
    /// Say what is in it.
    Stats,
    /// Print rows, of one table or all.
    Dump { table: Option<String> },
    /// Print transactions.
    Log { from: u64 },
    /// Copy it.
    Backup { to: PathBuf },
    /// Copy a backup.
    Restore { to: PathBuf },
    /// Take out what is whole.
    Salvage { to: PathBuf },
    /// Make a snapshot.
    Compact,
}

/// Reads the command line.
pub fn parse(mut parser: lexopt::Parser) -> Result<Asked, lexopt::Error> {
    let mut words: Vec<OsString> = Vec::new();
    let (mut quiet, mut table, mut from) = (false, None, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(Asked::Text(HELP.to_owned())),
            Short('V') | Long("version") => {
                return Ok(Asked::Text(format!("wo-db {}\n", env!("CARGO_PKG_VERSION"))));
            }
            Short('q') | Long("quiet") => quiet = true,
            Long("table") => table = Some(parser.value()?.into_string()?),
            Long("from") => from = Some(lexopt::ValueExt::parse(&parser.value()?)?),
            Value(word) => words.push(word),
            other => return Err(other.unexpected()),
        }
    }
    let mut words = words.into_iter();
    let mut next = |what: &str| words.next().ok_or_else(|| lexopt::Error::from(format!("{what} is missing")));
    let verb = next("a command")?;
    let verb = verb.to_str().unwrap_or_default();
    if table.is_some() && verb != "dump" || from.is_some() && verb != "log" {
        return Err(format!("an option that `{verb}` does not have").into());
    }
    let (dir, verb) = match verb {
        "verify" => (next("DIR")?, Verb::Verify),
        "stats" => (next("DIR")?, Verb::Stats),
        "dump" => (next("DIR")?, Verb::Dump { table }),
        "log" => (next("DIR")?, Verb::Log { from: from.unwrap_or(0) }),
        "backup" => (next("DIR")?, Verb::Backup { to: next("TO")?.into() }),
        "restore" => (next("BACKUP")?, Verb::Restore { to: next("TO")?.into() }),
        "salvage" => (next("DIR")?, Verb::Salvage { to: next("TO")?.into() }),
        "compact" => (next("DIR")?, Verb::Compact),
        other => return Err(format!("`{other}` is no command").into()),
    };
    match words.next() {
        Some(more) => Err(format!("`{}` is one word too many", more.display()).into()),
        None => Ok(Asked::Command(Command { verb, dir: dir.into(), quiet })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Asked, String> {
        parse(lexopt::Parser::from_args(words.split(' '))).map_err(|error| error.to_string())
    }

    #[test]
    fn commands_are_read_with_what_is_theirs() {
        let command = |verb| Ok(Asked::Command(Command { verb, dir: "d".into(), quiet: false }));
        assert_eq!(read("verify d"), command(Verb::Verify));
        assert_eq!(read("dump --table=t d"), command(Verb::Dump { table: Some("t".to_owned()) }));
        assert_eq!(read("log d --from 7"), command(Verb::Log { from: 7 }));
        assert_eq!(read("backup d to"), command(Verb::Backup { to: "to".into() }));
        assert!(matches!(read("-q stats d"), Ok(Asked::Command(Command { quiet: true, .. }))));
        assert!(matches!(read("--help"), Ok(Asked::Text(text)) if text.contains("salvage")));
    }

    #[test]
    fn every_exit_status_is_explained() {
        use crate::status::{BROKEN, FAILED, FOREIGN, FULL, MENDABLE, NEWER, OPEN, UNDECODABLE, USAGE, WHOLE};
        for status in [WHOLE, FAILED, USAGE, MENDABLE, BROKEN, FOREIGN, NEWER, UNDECODABLE, OPEN, FULL] {
            assert!(HELP.contains(&format!("\n  {status}  ")), "{status}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (words, named) in [
            ("mend d", "mend"),
            ("verify", "DIR"),
            ("backup d", "TO"),
            ("verify d e", "e"),
            ("verify d --loud", "--loud"),
            ("verify d --table t", "verify"),
            ("log d --from x", "x"),
        ] {
            let error = read(words).unwrap_err();
            assert!(error.contains(named), "{words}: {error}");
        }
    }
}
