//! Presets: which commands a model may run without a rule that names them.

use ostler_core::names::named;
use serde::{Deserialize, Serialize};

named! {
    /// Commands a model may run in addition to those that rules name. Ordered from the fewest
    /// commands to the most.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum CommandPreset or UnknownCommandPreset {
        /// Only commands that rules name: `git`, `just`, `fest`, `camp`, and those of the policy.
        Strict = "strict",
        /// Also the build and test tools of the project, and read-only tools.
        Build = "build",
        /// Every program on PATH.
        Any = "any",
    }
}

/// A name that is not that of a [`CommandPreset`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a command preset; expected strict, build or any")]
pub struct UnknownCommandPreset(String);

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
                .to_string()
                .contains("strict, build or any")
        );
    }
}
