//! The `WO_*` variables: read once at start, each either understood or refused.

use std::fmt;

use crate::plane::backend::Selection;

/// What the environment asks for; what it does not name is none.
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
    /// # Errors
    ///
    /// The first variable whose value was not understood.
    pub fn read() -> Result<Environment, EnvironmentError> {
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
    /// use wo_runtime::shard::Environment;
    ///
    /// let read = |name: &str| (name == "WO_REDUCTIONS").then(|| "100".to_owned());
    /// assert_eq!(Environment::from_lookup(read).unwrap().reductions, Some(100));
    ///
    /// let read = |name: &str| (name == "WO_IO").then(|| "kqueue".to_owned());
    /// let error = Environment::from_lookup(read).unwrap_err();
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
