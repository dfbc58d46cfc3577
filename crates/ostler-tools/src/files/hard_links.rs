//! Hard links: a file that is kept from a model stays so under its other names.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::path::Path;

use cap_fs_ext::MetadataExt;
use cap_std::fs::Metadata;

use super::limits::{PATH_BYTES, WALK_ENTRIES};
use super::root::Root;
use super::rules::Rules;
use crate::tree::{EntryKind, Listed, Visitor, walk};
use crate::{Code, ToolError};

/// The files that are kept from a model and have more than one name. Found out once per call, and only if it matters.
#[derive(Debug, Default)]
pub(super) struct Twins {
    secret: OnceCell<Option<HashSet<(u64, u64)>>>,
}

impl Twins {
    /// Refuses a file that is kept from a model under another name.
    pub(super) fn check(
        &self,
        root: &Root,
        about: &Metadata,
        shown: &str,
    ) -> Result<(), ToolError> {
        if about.nlink() <= 1 {
            return Ok(());
        }
        let message = match self.secret.get_or_init(|| find(root)) {
            Some(secret) if !secret.contains(&(about.dev(), about.ino())) => return Ok(()),
            Some(_) => {
                format!("{shown} is another name of a file that is kept from you: work without it")
            }
            None => format!(
                "{shown} has several names, and the workspace is too large to make sure that none of them is kept from you"
            ),
        };
        Err(ToolError::new(Code::DeniedByPolicy, message))
    }
}

/// All of them; `None` if there is too much to look at.
fn find(root: &Root) -> Option<HashSet<(u64, u64)>> {
    let mut finder = Finder {
        rules: &root.rules,
        trees: Vec::new(),
        found: HashSet::new(),
        matched_bytes: 0,
    };
    let walked = walk(&root.dir, WALK_ENTRIES, &mut finder).ok()?;
    walked.is_whole.then_some(finder.found)
}

/// Looks for files with several names that the rules keep from a model.
struct Finder<'r> {
    rules: &'r Rules,
    /// For the directory that is looked at and each above it: whether the rules keep everything in it.
    trees: Vec<bool>,
    found: HashSet<(u64, u64)>,
    /// How much of paths was compared with rules.
    matched_bytes: usize,
}

impl Finder<'_> {
    /// Whether everything in a directory is kept: by its own path, or by what it is in.
    fn enter(&mut self, path: &Path, depth: usize) -> bool {
        self.trees.truncate(depth);
        let is_in = self.trees.last().copied().unwrap_or_default();
        let is_kept =
            is_in || (depth > 0 && self.is_too_deep(path)) || self.rules.is_secret_tree(path);
        self.trees.push(is_kept);
        is_kept
    }

    /// Nothing opens a path of such a length, so no rule is asked about it: it counts as kept.
    fn is_too_deep(&mut self, path: &Path) -> bool {
        let length = path.as_os_str().len();
        let is_too_deep = length > PATH_BYTES;
        self.matched_bytes += if is_too_deep { 0 } else { length };
        is_too_deep
    }
}

impl Visitor for Finder<'_> {
    fn visit(&mut self, listed: &mut Listed<'_>) {
        let is_kept = self.enter(listed.path, listed.depth);
        for entry in listed
            .entries
            .iter()
            .filter(|entry| entry.kind == EntryKind::File)
        {
            let Ok(about) = listed.dir.symlink_metadata(&entry.name) else {
                continue;
            };
            if !about.is_file() || about.nlink() <= 1 {
                continue;
            }
            let path = listed.path.join(&entry.name);
            if self.is_too_deep(&path) || self.rules.is_secret_file(&path, is_kept) {
                self.found.insert((about.dev(), about.ino()));
            }
        }
    }

    // A file in a directory that cannot be opened cannot be read there; under another name it is the system's to refuse.
    fn unopened(&mut self, _path: &Path) {}
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::files::FileRules;

    /// What a search for hard links costs in a chain of directories: opens, and bytes of paths compared with rules.
    fn cost(depth: usize) -> (usize, usize, usize) {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join(".env"), "KEY=1\n").unwrap();
        fs::hard_link(temp.path().join(".env"), temp.path().join("notes.txt")).unwrap();
        let root = Root::open(temp.path(), &FileRules::default()).unwrap();
        let mut dir = root.dir.try_clone().unwrap();
        for _ in 0..depth {
            dir.create_dir("a-name-of-20-letters").unwrap();
            dir = dir.open_dir("a-name-of-20-letters").unwrap();
            dir.write("file", "").unwrap();
        }
        let mut finder = Finder {
            rules: &root.rules,
            trees: Vec::new(),
            found: HashSet::new(),
            matched_bytes: 0,
        };
        let walked = walk(&root.dir, WALK_ENTRIES, &mut finder).unwrap();
        assert!(walked.is_whole);
        (walked.opened, finder.matched_bytes, finder.found.len())
    }

    // It used to open and match the whole path of every entry: the cost grew with the square of the depth, and more.
    #[test]
    fn a_hard_link_in_a_deep_tree_costs_one_open_per_directory() {
        let (opened, bytes, found) = cost(1_500);
        assert_eq!((opened, found), (2 * 1_500 + 1, 1));
        let (twice, more, _) = cost(3_000);
        assert_eq!(twice, 2 * 3_000 + 1);
        assert_eq!(
            more, bytes,
            "what is deeper than any path is not compared with rules"
        );
    }

    #[test]
    fn a_hard_link_deeper_than_any_path_counts_as_kept() {
        let temp = tempfile::tempdir().unwrap();
        let root = Root::open(temp.path(), &FileRules::default()).unwrap();
        let mut dir = root.dir.try_clone().unwrap();
        dir.write("plain", "").unwrap();
        dir.write("other", "").unwrap();
        dir.hard_link("other", &dir, "third").unwrap();
        for _ in 0..300 {
            dir.create_dir("a-name-of-20-letters").unwrap();
            dir = dir.open_dir("a-name-of-20-letters").unwrap();
        }
        root.dir.hard_link("plain", &dir, "hidden").unwrap();
        let about = |name: &str| root.dir.symlink_metadata(name).unwrap();
        assert!(Twins::default().check(&root, &about("plain"), "").is_err());
        assert!(Twins::default().check(&root, &about("other"), "").is_ok());
    }
}
