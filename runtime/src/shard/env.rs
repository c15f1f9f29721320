//! The `WO_*` variables: read once at start, each either understood or refused.
//!
//! A program may have variables of its own that begin so; only a name that can hardly be meant for another is told of.

use std::fmt;
use std::sync::Once;

use crate::error::say;

use crate::plane::backend::Selection;

/// What the environment asks for; what it does not name is none.
///
/// # Examples
///
/// ```
/// let read = |name: &str| (name == "WO_SHARDS").then(|| "3".to_owned());
/// let asked = wo::Environment::from_lookup(read).expect("it is a number");
/// assert_eq!((asked.shards, asked.seed), (Some(3), None));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `WO_SHARDS`: the number of shards.
    pub shards: Option<usize>,
    /// `WO_REDUCTIONS`: the budget of one turn.
    pub reductions: Option<u32>,
    /// `WO_IO`: the kernel to run on.
    pub io: Option<Selection>,
    /// `WO_SEED`: the seed of a simulated world.
    pub seed: Option<u64>,
}

/// A variable whose value was not understood.
///
/// # Examples
///
/// ```
/// let read = |name: &str| (name == "WO_SHARDS").then(|| "many".to_owned());
/// let error = wo::Environment::from_lookup(read).unwrap_err();
/// assert_eq!((error.name, error.value.as_str()), ("WO_SHARDS", "many"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentError {
    /// The variable's name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What would have been understood.
    pub expected: &'static str,
}

impl fmt::Display for EnvironmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={:?}: expected {}", self.name, self.value, self.expected)
    }
}

impl std::error::Error for EnvironmentError {}

impl Environment {
    /// Reads the process's environment.
    ///
    /// A variable that is close to one of wo's and is none, such as `WO_SHARD` or `WO_BACKEND`, is told of on stderr,
    /// once in a process, with the name that was likely meant. Others that begin with `WO_` are the program's own.
    ///
    /// # Errors
    ///
    /// The first variable whose value was not understood.
    pub fn read() -> Result<Environment, EnvironmentError> {
        say_misspelt_once();
        Environment::from_lookup(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// Reads the variables through `lookup`.
    ///
    /// # Errors
    ///
    /// The first variable whose value was not understood.
    ///
    /// # Examples
    ///
    /// ```
    /// let read = |name: &str| (name == "WO_REDUCTIONS").then(|| "100".to_owned());
    /// assert_eq!(wo::Environment::from_lookup(read).unwrap().reductions, Some(100));
    ///
    /// let read = |name: &str| (name == "WO_IO").then(|| "kqueue".to_owned());
    /// let error = wo::Environment::from_lookup(read).unwrap_err();
    /// assert_eq!(error.to_string(), "WO_IO=\"kqueue\": expected auto, uring, epoll or sim");
    /// ```
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Environment, EnvironmentError> {
        let one = |name, expected| lookup(name).map(|value| EnvironmentError { name, value, expected });
        let shards = parse(one("WO_SHARDS", "a whole number of shards, at least 1"), |text| {
            text.parse().ok().filter(|shards| *shards >= 1)
        })?;
        let reductions = parse(one("WO_REDUCTIONS", "a whole number of reductions, 1 to 4294967295"), |text| {
            text.parse().ok().filter(|reductions| *reductions >= 1)
        })?;
        let io = parse(one("WO_IO", "auto, uring, epoll or sim"), |text| text.parse().ok())?;
        let seed = parse(one("WO_SEED", "a whole number, 0 to 18446744073709551615"), |text| text.parse().ok())?;
        Ok(Environment { shards, reductions, io, seed })
    }
}

/// Every variable of wo's: the database reads the first.
const NAMES: [&str; 5] = ["WO_DATA", "WO_IO", "WO_REDUCTIONS", "WO_SEED", "WO_SHARDS"];

/// What people may call them, and what they are called.
const ALSO: [(&str, &str); 7] = [
    ("WO_BACKEND", "WO_IO"),
    ("WO_BUDGET", "WO_REDUCTIONS"),
    ("WO_CORES", "WO_SHARDS"),
    ("WO_DATA_DIR", "WO_DATA"),
    ("WO_KERNEL", "WO_IO"),
    ("WO_THREADS", "WO_SHARDS"),
    ("WO_WORKERS", "WO_SHARDS"),
];

fn say_misspelt_once() {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        for (name, _) in std::env::vars_os() {
            if let Some(name) = name.to_str()
                && let Some(meant) = meant_by(name)
            {
                say(format_args!("{name} is set, which wo does not know: is {meant} meant?"));
            }
        }
    });
}

/// Which of wo's variables someone who sets this one means; none for one of wo's, and for what can be another's.
fn meant_by(name: &str) -> Option<&'static str> {
    let upper = name.to_uppercase();
    if NAMES.contains(&name) || !upper.starts_with("WO") {
        return None;
    }
    let also = ALSO.iter().find(|(also, _)| *also == upper).map(|(_, meant)| *meant);
    also.or_else(|| NAMES.into_iter().find(|known| is_close(&upper, known)))
}

/// Whether it takes one slip to write `other` for `name`: a letter too many, too few or wrong, or two exchanged. Of
/// short names too many are close to each other, so there it has to be the case of the letters alone.
fn is_close(other: &str, name: &str) -> bool {
    const SHORT: usize = "WO_IO".len();
    if other == name || name.len() <= SHORT {
        return other == name;
    }
    let (other, name) = (other.as_bytes(), name.as_bytes());
    let front = other.iter().zip(name).take_while(|(a, b)| a == b).count();
    let (other, name) = (&other[front..], &name[front..]);
    match (other, name) {
        ([_, other @ ..], [_, name @ ..]) if other == name => true,
        ([a, b, other @ ..], [c, d, name @ ..]) if (a, b) == (d, c) && other == name => true,
        ([_, other @ ..], name) if other == name => true,
        (other, [_, name @ ..]) => other == name,
        _ => false,
    }
}

fn parse<T>(
    candidate: Option<EnvironmentError>,
    understand: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, EnvironmentError> {
    match candidate {
        None => Ok(None),
        Some(candidate) => understand(candidate.value.trim()).map(Some).ok_or(candidate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &'static str, value: &'static str) -> Result<Environment, EnvironmentError> {
        Environment::from_lookup(|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn each_variable_is_understood() {
        assert_eq!(read("WO_SHARDS", "4").unwrap().shards, Some(4));
        assert_eq!(read("WO_REDUCTIONS", "1").unwrap().reductions, Some(1));
        assert_eq!(read("WO_IO", "epoll").unwrap().io, Some(Selection::Epoll));
        assert_eq!(read("WO_SEED", "0").unwrap().seed, Some(0));
        assert_eq!(Environment::from_lookup(|_| None).unwrap(), Environment::default());
    }

    #[test]
    fn what_can_only_be_meant_for_wo_is_told_from_what_is_anothers() {
        for (name, meant) in [
            ("WO_SHARD", "WO_SHARDS"),
            ("WO_SHARSD", "WO_SHARDS"),
            ("WO_SHARDSS", "WO_SHARDS"),
            ("WO_CHARDS", "WO_SHARDS"),
            ("WOSHARDS", "WO_SHARDS"),
            ("wo_shards", "WO_SHARDS"),
            ("WO_REDUCTION", "WO_REDUCTIONS"),
            ("WO_SEEDS", "WO_SEED"),
            ("Wo_Io", "WO_IO"),
            ("WO_BACKEND", "WO_IO"),
            ("WO_THREADS", "WO_SHARDS"),
            ("WO_DATA_DIR", "WO_DATA"),
        ] {
            assert_eq!(meant_by(name), Some(meant), "{name}");
        }
        for name in NAMES {
            assert_eq!(meant_by(name), None, "{name}");
        }
        for name in
            ["WO_ID", "WO_DIR", "WO_", "WO", "WO_BENCH_ROUNDS", "WO_TEST_CHILD", "WO_SHARE", "WORK_DATA", "IO", ""]
        {
            assert_eq!(meant_by(name), None, "{name}");
        }
    }

    #[test]
    fn a_bad_value_names_variable_value_and_expectation() {
        for (name, value) in [
            ("WO_SHARDS", "0"),
            ("WO_SHARDS", "many"),
            ("WO_SHARDS", ""),
            ("WO_REDUCTIONS", "0"),
            ("WO_REDUCTIONS", "-1"),
            ("WO_IO", "URING"),
            ("WO_SEED", "1.5"),
        ] {
            let error = read(name, value).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with(&format!("{name}={value:?}: expected ")), "{text}");
        }
    }
}
