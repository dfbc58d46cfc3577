//! Guarded files: files that other programs act on without asking the user. The list is
//! `guarded.toml`.

use serde::Deserialize;

use crate::RuleError;

const TEXT: &str = include_str!("guarded.toml");

/// Guarded files of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    /// Description of their content; completes "`x` contains …".
    pub(super) reason: String,
    /// Globs, as in the rules; each also covers everything below a match.
    pub(super) globs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    group: Vec<Group>,
}

/// Parses the list of guarded files.
pub(super) fn groups() -> Result<Vec<Group>, RuleError> {
    Ok(toml::from_str::<List>(TEXT)?.group)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Renders the list as the table in docs/file-tools.md.
    fn table() -> String {
        let row = |group: &Group| {
            let globs: Vec<String> = group.globs.iter().map(|glob| format!("`{glob}`")).collect();
            format!("| {} | {} |\n", group.reason, globs.join(", "))
        };
        groups().unwrap().iter().map(row).collect()
    }

    #[test]
    fn documentation_lists_every_guarded_file() {
        let page = include_str!("../../../../docs/file-tools.md");
        assert!(
            page.contains(&table()),
            "docs/file-tools.md should contain:\n{}",
            table()
        );
    }
}
