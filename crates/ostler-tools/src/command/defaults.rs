//! The rules that hold where a workspace says nothing.

use serde::Deserialize;

use super::CommandRule;

/// Written as a workspace would write them, examples included.
const TEXT: &str = include_str!("defaults.toml");

/// The same for tools that only read.
const TOOLS: &str = include_str!("tools.toml");

#[derive(Deserialize)]
struct Rules {
    command: Vec<CommandRule>,
}

/// The default rules. That their examples hold is proved by a test, not looked at each time.
pub(super) fn rules() -> Result<Vec<CommandRule>, String> {
    toml::from_str::<Rules>(TEXT)
        .map(|rules| rules.command)
        .map_err(|error| error.to_string())
}

/// Rules for tools that only read, of those that need any.
pub(super) fn tool_rules() -> Result<Vec<CommandRule>, String> {
    toml::from_str::<Rules>(TOOLS)
        .map(|rules| rules.command)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    // S2-26
    #[test]
    fn the_defaults_hold_their_own_examples() {
        let rules = rules().unwrap();
        for rule in &rules {
            rule.check().unwrap();
            assert!(
                !rule.examples.allow.is_empty(),
                "{} has no examples",
                rule.name
            );
        }
        for rule in tool_rules().unwrap() {
            rule.check().unwrap();
            assert!(
                !rule.examples.deny.is_empty(),
                "{} has no examples",
                rule.name
            );
        }
        let names: Vec<_> = rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names, ["git", "just", "fest", "camp"]);
    }
}
