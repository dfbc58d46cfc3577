//! The file tools, and the rules about which files they touch.

use serde::{Deserialize, Serialize};

pub(crate) mod arguments;
mod bare;
pub(crate) mod create_file;
mod cut;
pub(crate) mod delete_file;
mod diff;
pub(crate) mod edit_file;
mod git;
mod given;
mod guarded;
pub(crate) mod limits;
pub(crate) mod list_files;
pub(crate) mod make_directory;
pub(crate) mod move_file;
mod nearest;
mod open;
mod pattern;
mod resolve;
pub(crate) mod read_file;
mod regular;
mod root;
mod rules;
pub(crate) mod search_files;
pub(crate) mod store;
mod steered;
mod system;
mod hard_links;
mod walk;
pub(crate) mod whole_text;
pub(crate) mod write_file;

pub(crate) use root::{Root, read_own_file};
pub(crate) use rules::is_sealed;
pub use whole_text::Span;

/// Which files a model may see and change: globs relative to the workspace, besides the defaults.
///
/// A glob without a slash holds at any depth, one with a slash from the workspace's root. It holds for everything below
/// what it names, too, except in `allow`: there it is exact.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileRules {
    /// Neither read nor written.
    pub deny: Vec<String>,
    /// Exceptions from the deny-list, the default one included, and from what is only read by default, except `.git` and
    /// `.ostler`.
    pub allow: Vec<String>,
    /// Read but not written.
    pub read_only: Vec<String>,
    /// The same as `allow`, but asked for by a workspace: private keys and credentials stay closed. No file sets it.
    #[serde(skip)]
    pub workspace_allow: Vec<String>,
}

impl FileRules {
    /// Whether every glob is one.
    pub(crate) fn check(&self) -> Result<(), String> {
        rules::Rules::new(self, None).map(|_| ())
    }
}

/// What a tool gave, before it is put in words.
pub(crate) trait Answer: Serialize {
    /// For a model: plain text.
    fn text(&self) -> String;
}
