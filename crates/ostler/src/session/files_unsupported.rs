//! File access that an agent delegates to the session. Only agents that speak the Agent Client
//! Protocol do, and this build has none.

use std::path::Path;

use ostler_core::dialect::{FileError, FileJob};
use ostler_core::spec::Spec;

use crate::host::Host;

/// Refuses every file.
#[derive(Clone)]
pub(super) struct Files;

impl Files {
    pub(super) fn new(_: &Host, _: &Path, _: &Spec) -> Self {
        Self
    }

    pub(super) async fn run(self, _: FileJob) -> Result<String, FileError> {
        Err(FileError {
            missing: false,
            why: "this build has no file access for agents (feature `acp`)".to_owned(),
        })
    }
}
