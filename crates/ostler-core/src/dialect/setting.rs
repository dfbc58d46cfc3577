//! A setting of an agent: the values that it accepts, and how the agent receives them.

use super::Arg;
use crate::spec::{InvalidValue, Settings, ValueKind};

/// A setting of an agent.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The key.
    pub key: &'static str,
    /// The kind of value.
    pub kind: ValueKind,
    /// Additional checks of a value, if its kind alone does not suffice.
    pub rules: &'static [Rule],
    /// How the agent receives the value.
    pub pass: Pass,
    /// Help text.
    pub help: &'static str,
}

/// Checks one value and returns what is wrong with it.
pub type Rule = fn(&str) -> Result<(), InvalidValue>;

/// How an agent receives a setting. A prefix that contains `=` and the value are one argument;
/// other prefixes are an argument of their own.
#[derive(Debug, Clone, Copy)]
pub enum Pass {
    /// Not as an argument.
    Kept,
    /// Not as an argument. The value may contain secrets.
    Secret,
    /// The prefix and the value, for each value.
    Value(&'static str),
    /// The flag, if the switch is on.
    Switch(&'static str),
    /// The flag, unless the switch is off.
    SwitchOff(&'static str),
    /// The prefix and the path of a private file with the value, which may be long and
    /// confidential.
    File(&'static str),
    /// The prefix and the value, which is a path. JSON may contain secrets and goes into a private
    /// file.
    Json(&'static str),
    /// These arguments for the values, given all settings.
    Custom(fn(&[String], &Settings) -> Vec<Arg>),
}

impl Setting {
    /// Returns true if a value may contain secrets and must not be repeated in errors.
    #[must_use]
    pub const fn is_secret(&self) -> bool {
        matches!(self.pass, Pass::Secret | Pass::File(_) | Pass::Json(_))
    }

    /// Returns the allowed values, or nothing if there is no list of them.
    #[must_use]
    pub const fn words(&self) -> &'static [&'static str] {
        match self.kind {
            ValueKind::OneOf(words) => words,
            _ => &[],
        }
    }
}
