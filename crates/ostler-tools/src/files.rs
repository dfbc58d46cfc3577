//! File tools and the rules for the files they may touch.

use serde::{Deserialize, Serialize};

use crate::RuleError;

pub(crate) mod arguments;
mod bare_repository;
mod truncate;
pub(crate) mod delete_file;
mod diff;
pub(crate) mod edit_file;
mod git_link;
mod given_path;
mod guarded;
pub(crate) mod limits;
pub(crate) mod list_files;
pub(crate) mod make_directory;
pub(crate) mod move_file;
mod suggestions;
mod open;
mod pattern;
mod resolve;
pub(crate) mod read_file;
mod regular_file;
mod root;
mod rules;
pub(crate) mod search_files;
pub(crate) mod atomic_write;
mod write_checks;
mod io_errors;
mod hard_links;
mod walk;
pub(crate) mod raw_text;
pub(crate) mod write_file;

pub use raw_text::Span;
pub(crate) use root::{Root, read_own_file};
pub(crate) use rules::is_sealed;

/// Files a model may see and change: globs relative to the workspace, in addition to the defaults.
///
/// A glob without a slash matches at any depth, one with a slash from the workspace's root. It also
/// covers everything below a match, except in `allow`, where it is exact.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileRules {
    /// Files that are neither read nor written.
    pub deny: Vec<String>,
    /// Exceptions to the deny-list, including the default one, and to the files that are read-only
    /// by default, except `.git` and `.ostler`.
    pub allow: Vec<String>,
    /// Files that are read but not written.
    pub read_only: Vec<String>,
    /// As `allow`, but requested by a workspace: private keys and credentials stay closed. Not read
    /// from a file.
    #[serde(skip)]
    pub workspace_allow: Vec<String>,
}

impl FileRules {
    /// Checks that every glob is valid.
    pub(crate) fn check(&self) -> Result<(), RuleError> {
        rules::Rules::new(self, None).map(|_| ())
    }
}

/// Result of a tool, before it is rendered as text.
pub(crate) trait Render: Serialize {
    /// Renders the result as plain text, for a model.
    fn text(&self) -> String;
}
