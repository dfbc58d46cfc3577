//! Attachments: what travels with an item as an archive.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A file or directory of the owner's machine, as an archive in the object store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its absolute path on the owner's machine.
    pub path: PathBuf,
    /// SHA-256 of the archive, which is also its name in the bucket.
    pub sha256: String,
    /// Size of the archive in bytes.
    pub bytes: u64,
}
