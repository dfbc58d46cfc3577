//! Default rules, used where a workspace defines none.

use serde::Deserialize;

use super::CommandRule;
use crate::RuleError;

/// Default rules, in the form a workspace would write them, with examples.
const TEXT: &str = include_str!("defaults.toml");

/// Rules for read-only tools.
const TOOLS: &str = include_str!("tools.toml");

#[derive(Deserialize)]
struct Rules {
    command: Vec<CommandRule>,
}

/// Returns the default rules. A test checks their examples, so they are not checked on every load.
pub(super) fn rules() -> Result<Vec<CommandRule>, RuleError> {
    Ok(toml::from_str::<Rules>(TEXT)?.command)
}

/// Returns the rules for those read-only tools that need one.
pub(super) fn tool_rules() -> Result<Vec<CommandRule>, RuleError> {
    Ok(toml::from_str::<Rules>(TOOLS)?.command)
}

#[cfg(test)]
mod tests {
    use super::*;

    // S2-26
    #[test]
    fn default_rules_satisfy_their_own_examples() {
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
