//! Hard links: a file that is kept from a model stays so under its other names.

use std::cell::OnceCell;
use std::collections::HashSet;

use cap_fs_ext::MetadataExt;
use cap_std::fs::Metadata;

use super::root::Root;
use super::rules::Sort;
use super::walk::{Walk, Walked};
use crate::{Code, ToolError};

/// The files that are kept from a model and have more than one name. Found out once per call, and only if it matters.
#[derive(Debug, Default)]
pub(super) struct Twins {
    secret: OnceCell<Option<HashSet<(u64, u64)>>>,
}

impl Twins {
    /// Refuses a file that is kept from a model under another name.
    pub(super) fn check(&self, root: &Root, about: &Metadata, shown: &str) -> Result<(), ToolError> {
        if about.nlink() <= 1 {
            return Ok(());
        }
        let message = match self.secret.get_or_init(|| find(root)) {
            Some(secret) if !secret.contains(&(about.dev(), about.ino())) => return Ok(()),
            Some(_) => format!("{shown} is another name of a file that is kept from you: work without it"),
            None => format!(
                "{shown} has several names, and the workspace is too large to make sure that none of them is kept from you"
            ),
        };
        Err(ToolError::new(Code::DeniedByPolicy, message))
    }
}

/// All of them; `None` if there is too much to look at.
fn find(root: &Root) -> Option<HashSet<(u64, u64)>> {
    let mut found = HashSet::new();
    let start = root.open_dir(std::path::Path::new("")).ok()?;
    let mut walk = Walk::new(root, start, Walked::Everything);
    for directory in &mut walk {
        for entry in &directory.entries {
            if !root.rules.is_secret(&entry.path, Sort::File) {
                continue;
            }
            if let Ok(about) = directory.dir.symlink_metadata(&entry.name)
                && about.is_file()
                && about.nlink() > 1
            {
                found.insert((about.dev(), about.ino()));
            }
        }
    }
    (!walk.is_cut_short()).then_some(found)
}
