//! Files that other programs of the user act on without being asked: the one list of them is `guarded.toml`.

use serde::Deserialize;

const TEXT: &str = include_str!("guarded.toml");

/// Files of one kind, and why they are on the list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    /// What is in them; completes "`x` holds …".
    pub(super) reason: String,
    /// Globs, as in the rules; each holds for everything below what it names.
    pub(super) globs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    group: Vec<Group>,
}

/// The list.
pub(super) fn groups() -> Result<Vec<Group>, String> {
    toml::from_str::<List>(TEXT)
        .map(|list| list.group)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list as the table of the page about file tools.
    fn table() -> String {
        let row = |group: &Group| {
            let globs: Vec<String> = group.globs.iter().map(|glob| format!("`{glob}`")).collect();
            format!("| {} | {} |\n", group.reason, globs.join(", "))
        };
        groups().unwrap().iter().map(row).collect()
    }

    #[test]
    fn the_documented_list_is_the_list() {
        let page = include_str!("../../../../docs/file-tools.md");
        assert!(
            page.contains(&table()),
            "docs/file-tools.md should hold:\n{}",
            table()
        );
    }
}
