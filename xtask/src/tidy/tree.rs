//! The repository's files in memory, so that a test can run every check on a small invented tree.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The content of every file by its path from the root, separated by `/`.
pub(super) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads all files of the repository, except those that the root's `.gitignore` names.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let ignored = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
        let mut patterns: Vec<&str> = ignored
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty())
            .collect();
        patterns.push("/.git");
        let mut files = BTreeMap::new();
        collect(root, "", &patterns, &mut files)?;
        Ok(Self { files })
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self {
            files: files.iter().map(owned).collect(),
        }
    }

    pub(super) fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Returns the Rust files of our crates, without test data, example projects for agents, and
    /// the package that drives other SDKs in the benchmark.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        let others = ["examples/", "xtask/bench/peers/"];
        let ours = move |path: &str| {
            !path.contains("fixtures/") && !others.iter().any(|folder| path.starts_with(folder))
        };
        self.iter()
            .filter(move |(path, _)| path.ends_with(".rs") && ours(path))
    }

    /// Returns the folders of our crates, with the text of their manifests.
    pub(super) fn manifests(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter()
            .filter_map(|(path, text)| Some((path.strip_suffix("/Cargo.toml")?, text)))
            .filter(|(folder, _)| {
                *folder == "xtask"
                    || (folder.starts_with("crates/") && folder.matches('/').count() == 1)
            })
    }

    /// Returns true if the file or folder exists.
    pub(super) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(first, _)| first.starts_with(&folder))
    }
}

fn collect(
    folder: &Path,
    prefix: &str,
    patterns: &[&str],
    files: &mut BTreeMap<String, String>,
) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if patterns.iter().any(|pattern| is_ignored(&path, pattern)) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), &format!("{path}/"), patterns, files)?;
        } else if kind.is_file() {
            // An editor or another command may delete a file between listing and reading.
            if let Ok(bytes) = fs::read(entry.path()) {
                files.insert(path, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
    }
    Ok(())
}

/// Matches the three forms of `.gitignore` patterns in use: `/path`, `*.suffix` and `name`.
fn is_ignored(path: &str, pattern: &str) -> bool {
    let pattern = pattern.trim_end_matches('/');
    if let Some(anchored) = pattern.strip_prefix('/') {
        path == anchored
    } else if let Some(suffix) = pattern.strip_prefix('*') {
        path.ends_with(suffix)
    } else {
        path == pattern || path.ends_with(&format!("/{pattern}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_exists_if_it_holds_a_file() {
        let tree = Tree::of(&[("docs/a/b.md", ""), ("docs.md", "")]);
        assert!(tree.has("docs") && tree.has("docs/a/") && tree.has("docs/a/b.md"));
        assert!(!tree.has("doc") && !tree.has("docs/b"));
    }

    #[test]
    fn ignored_files_are_left_out() {
        assert!(is_ignored("target", "/target"));
        assert!(!is_ignored("a/target", "/target"));
        assert!(is_ignored("a/x.snap.new", "*.snap.new"));
        assert!(is_ignored("a/node_modules", "node_modules/"));
    }
}
