//! Hard links: a file denied to the model stays denied under its other names.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::path::Path;

use cap_fs_ext::MetadataExt;
use cap_std::fs::Metadata;

use super::limits::{PATH_BYTES, WALK_ENTRIES};
use super::root::Root;
use super::rules::Rules;
use crate::ToolError;
use crate::tree::{EntryKind, VisitedDir, Visitor, walk};

/// Denied files that have more than one name. Collected once per call, and only when needed.
#[derive(Debug, Default)]
pub(super) struct DeniedHardLinks {
    denied: OnceCell<Option<HashSet<(u64, u64)>>>,
}

impl DeniedHardLinks {
    /// Refuses a file that is denied under another name.
    pub(super) fn check(
        &self,
        root: &Root,
        metadata: &Metadata,
        display: &str,
    ) -> Result<(), ToolError> {
        if metadata.nlink() <= 1 {
            return Ok(());
        }
        let message = match self.denied.get_or_init(|| find(root)) {
            Some(denied) if !denied.contains(&(metadata.dev(), metadata.ino())) => return Ok(()),
            Some(_) => {
                format!(
                    "{display} is another name of a file that the policy denies: work without it"
                )
            }
            None => format!(
                "{display} has several names, and the workspace is too large to check that the \
                 policy denies none of them"
            ),
        };
        Err(ToolError::denied(message))
    }
}

/// Collects the denied files, or returns `None` if the workspace is too large.
fn find(root: &Root) -> Option<HashSet<(u64, u64)>> {
    let mut finder = Finder {
        rules: &root.rules,
        trees: Vec::new(),
        found: HashSet::new(),
        matched_bytes: 0,
    };
    let summary = walk(&root.dir, WALK_ENTRIES, &mut finder).ok()?;
    summary.is_complete.then_some(finder.found)
}

/// Tree visitor that collects files with several names of which one is denied.
struct Finder<'r> {
    rules: &'r Rules,
    /// For the current directory and each above it: whether the rules deny everything in it.
    trees: Vec<bool>,
    found: HashSet<(u64, u64)>,
    /// Bytes of paths compared with rules.
    matched_bytes: usize,
}

impl Finder<'_> {
    /// Returns true if everything in a directory is denied, by its own path or by a directory above
    /// it.
    fn enter(&mut self, path: &Path, depth: usize) -> bool {
        self.trees.truncate(depth);
        let is_in = self.trees.last().copied().unwrap_or_default();
        let is_denied =
            is_in || (depth > 0 && self.is_too_deep(path)) || self.rules.is_secret_tree(path);
        self.trees.push(is_denied);
        is_denied
    }

    /// No tool opens a path this long, so it counts as denied without consulting the rules.
    fn is_too_deep(&mut self, path: &Path) -> bool {
        let length = path.as_os_str().len();
        let is_too_deep = length > PATH_BYTES;
        self.matched_bytes += if is_too_deep { 0 } else { length };
        is_too_deep
    }
}

impl Visitor for Finder<'_> {
    fn visit(&mut self, visited: &mut VisitedDir<'_>) {
        let is_denied = self.enter(visited.path, visited.depth);
        for entry in visited
            .entries
            .iter()
            .filter(|entry| entry.kind == EntryKind::File)
        {
            let Ok(metadata) = visited.dir.symlink_metadata(&entry.name) else {
                continue;
            };
            if !metadata.is_file() || metadata.nlink() <= 1 {
                continue;
            }
            let path = visited.path.join(&entry.name);
            if self.is_too_deep(&path) || self.rules.is_secret_file(&path, is_denied) {
                self.found.insert((metadata.dev(), metadata.ino()));
            }
        }
    }

    // A file in a directory that cannot be opened cannot be read there either. Under another name,
    // access is the system's decision.
    fn unopened(&mut self, _path: &Path) {}
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::files::FileRules;

    /// Cost of a search for hard links in a chain of directories: opens, and bytes of paths
    /// compared with rules.
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
        let summary = walk(&root.dir, WALK_ENTRIES, &mut finder).unwrap();
        assert!(summary.is_complete);
        (summary.opened, finder.matched_bytes, finder.found.len())
    }

    // The search used to open and match the whole path of every entry, so its cost grew at least
    // quadratically with depth.
    #[test]
    fn a_hard_link_in_a_deep_tree_costs_one_open_per_directory() {
        let (opened, bytes, found) = cost(1_500);
        assert_eq!((opened, found), (2 * 1_500 + 1, 1));
        let (twice, more, _) = cost(3_000);
        assert_eq!(twice, 2 * 3_000 + 1);
        assert_eq!(
            more, bytes,
            "paths beyond the length limit are not compared with rules"
        );
    }

    #[test]
    fn hard_link_beyond_the_path_limit_counts_as_denied() {
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
        let metadata = |name: &str| root.dir.symlink_metadata(name).unwrap();
        assert!(
            DeniedHardLinks::default()
                .check(&root, &metadata("plain"), "")
                .is_err()
        );
        assert!(
            DeniedHardLinks::default()
                .check(&root, &metadata("other"), "")
                .is_ok()
        );
    }
}
