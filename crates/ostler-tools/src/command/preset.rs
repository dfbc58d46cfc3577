//! Presets: which commands a model may run without a rule that names them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Commands a model may run in addition to those that rules name. Ordered from the fewest commands
/// to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandPreset {
    /// Only commands that rules name: `git`, `just`, `fest`, `camp`, and those of the policy.
    Strict,
    /// Also the build and test tools of the project, and read-only tools.
    Build,
    /// Every program on PATH.
    Any,
}

impl CommandPreset {
    /// Every preset, from the fewest commands to the most.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Build, Self::Any];

    /// Returns the name used in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Build => "build",
            Self::Any => "any",
        }
    }
}

impl fmt::Display for CommandPreset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for CommandPreset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|preset| preset.as_str() == text);
        known.ok_or_else(|| {
            format!("{text:?} is not a command preset; expected strict, build or any")
        })
    }
}

/// Command choice of the user who starts Ostler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandChoice {
    /// Preset that overrides the one of the policy.
    pub preset: Option<CommandPreset>,
    /// Commands allowed as given, with any further arguments: each a program and its first
    /// arguments.
    pub allowed: Vec<Vec<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_an_order_and_a_name() {
        assert!(
            CommandPreset::Strict < CommandPreset::Build
                && CommandPreset::Build < CommandPreset::Any
        );
        for preset in CommandPreset::ALL {
            assert_eq!(preset.as_str().parse(), Ok(preset));
        }
        assert!(
            "all"
                .parse::<CommandPreset>()
                .unwrap_err()
                .contains("strict, build or any")
        );
    }
}
