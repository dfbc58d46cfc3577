//! The file tools, and the rules about which files they touch.

use serde::Deserialize;

/// Which files a model may see and change: globs relative to the workspace, besides the defaults.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileRules {
    /// Neither read nor written.
    pub deny: Vec<String>,
    /// Exceptions from the deny-list, the default one included.
    pub allow: Vec<String>,
    /// Read but not written.
    pub read_only: Vec<String>,
}

impl FileRules {
    /// Whether every glob is one.
    pub(crate) fn check(&self) -> Result<(), String> {
        Ok(())
    }
}
