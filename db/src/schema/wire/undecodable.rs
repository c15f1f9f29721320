//! What is wrong with bytes that were read, and in which field.

use std::borrow::Cow;
use std::fmt;

/// Bytes that are not what they should be.
///
/// # Examples
///
/// ```
/// let wrong = wo::db::Undecodable::new("no number");
/// assert_eq!((wrong.what(), wrong.field()), ("no number", None));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    what: Cow<'static, str>,
    /// The field it is in, with a point between one and the one around it.
    field: Option<String>,
}

impl Undecodable {
    /// Says what is wrong.
    pub fn new(what: impl Into<Cow<'static, str>>) -> Undecodable {
        Undecodable { what: what.into(), field: None }
    }

    pub(super) fn short() -> Undecodable {
        Undecodable::new("it ends too early")
    }

    /// The same, in this field.
    #[must_use]
    pub(crate) fn within(mut self, field: &str) -> Undecodable {
        self.field = Some(match self.field {
            Some(inner) => format!("{field}.{inner}"),
            None => field.to_owned(),
        });
        self
    }

    /// The field it is in.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// What is wrong.
    pub fn what(&self) -> &str {
        &self.what
    }
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "field `{field}`: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}
