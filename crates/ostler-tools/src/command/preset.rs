//! Presets: how many commands a model may run where no rule names them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which commands a model may run besides those that rules name. Ordered from the fewest commands to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandPreset {
    /// Only what rules name: `git`, `just`, `fest`, `camp`, and those of the policy.
    Strict,
    /// Also the build and test tools of the project, and tools that only read.
    Build,
    /// Every program on PATH.
    Any,
}

impl CommandPreset {
    /// Every preset, from the fewest commands to the most.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Build, Self::Any];

    /// The name in files and on the command line.
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
            format!("{text:?} is not a preset of commands; expected strict, build or any")
        })
    }
}

/// Which commands a model may run, as whoever starts Ostler says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandChoice {
    /// The preset, in place of that of the policy.
    pub preset: Option<CommandPreset>,
    /// Commands that are allowed as they stand, with any further arguments: each a program and its first arguments.
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
