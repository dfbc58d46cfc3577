//! Nested repositories named by the index of a repository: `git status` looks into them and follows
//! their settings.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

use super::entries::{SavedEntries, SavedEntry};
use super::mode;
use crate::repository::config;

const INDEX: &str = ".git/index";

/// Maximum size of an index, in bytes: some millions of files.
const MAX_INDEX_BYTES: u64 = 256 * 1024 * 1024;

/// Mode of an index entry that is a commit of another repository.
const GITLINK: u32 = 0o160_000;

/// The saved index.
#[derive(Debug)]
pub(super) struct IndexBefore {
    /// Content and mode; `None` if there was no index.
    file: Option<(Vec<u8>, u32)>,
    links: BTreeSet<Vec<u8>>,
    /// Whether a part of it was in another file.
    is_split: bool,
    /// Submodules that the repository had: a command could list more.
    modules: BTreeSet<Vec<u8>>,
}

impl IndexBefore {
    /// Reads the index of the workspace's repository, or returns `None` if it is too large.
    pub(super) fn of(root: &Dir) -> Option<Self> {
        let file = read(root);
        if file
            .as_ref()
            .is_some_and(|(bytes, _)| bytes.len() as u64 > MAX_INDEX_BYTES)
        {
            return None;
        }
        let (links, is_split) = file
            .as_ref()
            .map(|(bytes, _)| parse(bytes, oid_length(root)))
            .unwrap_or_default();
        Some(Self {
            file,
            links,
            is_split,
            modules: submodules(root),
        })
    }

    /// Returns true if the index now names a repository that it did not name before and that was
    /// not a submodule in `.gitmodules`, or if it hides its entries.
    pub(super) fn has_new_links(&self, root: &Dir) -> bool {
        let Some((bytes, _)) = read(root) else {
            return root.symlink_metadata(INDEX).is_ok();
        };
        if self
            .file
            .as_ref()
            .is_some_and(|(before, _)| *before == bytes)
        {
            return false;
        }
        let (links, is_split) = parse(&bytes, oid_length(root));
        let is_new = |link: &Vec<u8>| !self.links.contains(link) && !self.modules.contains(link);
        (is_split && !self.is_split)
            || bytes.len() as u64 > MAX_INDEX_BYTES
            || links.iter().any(is_new)
    }

    pub(super) fn entries(&self) -> SavedEntries {
        let entry = |(bytes, mode): &(Vec<u8>, u32)| SavedEntry::File {
            bytes: bytes.clone(),
            mode: *mode,
        };
        self.file
            .iter()
            .map(|file| (PathBuf::from(INDEX), entry(file)))
            .collect()
    }
}

fn read(root: &Dir) -> Option<(Vec<u8>, u32)> {
    let metadata = root
        .symlink_metadata(INDEX)
        .ok()
        .filter(cap_std::fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    root.open(INDEX)
        .ok()?
        .take(MAX_INDEX_BYTES + 1)
        .read_to_end(&mut bytes)
        .ok()?;
    Some((bytes, mode(&metadata)))
}

fn text(root: &Dir, path: &str) -> String {
    let is_file = root
        .symlink_metadata(path)
        .is_ok_and(|metadata| metadata.is_file());
    let mut bytes = Vec::new();
    if let Some(file) = is_file.then(|| root.open(Path::new(path)).ok()).flatten() {
        let _ = file.take(1024 * 1024).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the length of object names, from the repository's settings.
fn oid_length(root: &Dir) -> usize {
    let is_long = config::parse(&text(root, super::CONFIG))
        .iter()
        .any(|setting| {
            setting.is("extensions", "objectformat")
                && setting.text().eq_ignore_ascii_case("sha256")
        });
    if is_long { 32 } else { 20 }
}

/// Returns the paths that `.gitmodules` lists.
fn submodules(root: &Dir) -> BTreeSet<Vec<u8>> {
    let settings = config::parse(&text(root, ".gitmodules"));
    let paths = settings
        .into_iter()
        .filter(|setting| setting.is("submodule", "path"));
    paths
        .map(|setting| setting.text().trim_end_matches('/').as_bytes().to_vec())
        .collect()
}

/// Returns the paths of entries that are commits of other repositories, and whether more entries
/// are in another file. Both are empty for anything that is not an index.
fn parse(bytes: &[u8], oid_length: usize) -> (BTreeSet<Vec<u8>>, bool) {
    let mut found = BTreeSet::new();
    let mut reader = Reader { bytes, at: 0 };
    let Some((version, count)) = reader.header() else {
        return (found, false);
    };
    let mut path = Vec::new();
    for _ in 0..count {
        let Some(mode) = reader.entry(version, oid_length, &mut path) else {
            return (found, false);
        };
        if mode == GITLINK {
            found.insert(path.clone());
        }
    }
    (found, reader.has_extension(*b"link"))
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Reader<'_> {
    fn header(&mut self) -> Option<(u32, u32)> {
        (self.take(4)? == b"DIRC").then_some(())?;
        let (version, count) = (self.number()?, self.number()?);
        (2..=4).contains(&version).then_some((version, count))
    }

    /// Reads an entry into `path`, which holds the previous entry's path, and returns its mode.
    fn entry(&mut self, version: u32, oid_length: usize, path: &mut Vec<u8>) -> Option<u32> {
        let start = self.at;
        self.take(24)?;
        let mode = self.number()?;
        self.take(12 + oid_length)?;
        let flags = self.take(2)?.first().copied()?;
        if version >= 3 && flags & 0x40 != 0 {
            self.take(2)?;
        }
        if version == 4 {
            let shared = path.len().checked_sub(self.count()?)?;
            path.truncate(shared);
            path.extend_from_slice(self.until_nul()?);
            return Some(mode);
        }
        path.clear();
        path.extend_from_slice(self.until_nul()?);
        // Entries are padded to a multiple of eight bytes.
        let length = self.at - start;
        self.take(length.next_multiple_of(8) - length)?;
        Some(mode)
    }

    /// Returns true if an extension of that name follows the entries.
    fn has_extension(&mut self, name: [u8; 4]) -> bool {
        while let Some(found) = self.take(4).map(|found| found == name) {
            if found {
                return true;
            }
            let skipped = self
                .number()
                .and_then(|length| self.take(usize::try_from(length).ok()?).map(drop));
            if skipped.is_none() {
                return false;
            }
        }
        false
    }

    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// Reads a variable-length number, as in pack offsets.
    fn count(&mut self) -> Option<usize> {
        let mut byte = *self.take(1)?.first()?;
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = *self.take(1)?.first()?;
            value = value.checked_add(1)?.checked_mul(128)? + usize::from(byte & 0x7f);
        }
        Some(value)
    }

    fn until_nul(&mut self) -> Option<&[u8]> {
        let length = self
            .bytes
            .get(self.at..)?
            .iter()
            .position(|byte| *byte == 0)?;
        let taken = self.bytes.get(self.at..self.at + length)?;
        self.at += length + 1;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "git writes the index that is read"
    )]
    fn gitlinks_are_found_in_every_index_version() {
        for (version, format) in [
            ("2", "sha1"),
            ("3", "sha1"),
            ("4", "sha1"),
            ("2", "sha256"),
            ("4", "sha256"),
        ] {
            let temp = tempfile::tempdir().unwrap();
            let object_id = "1".repeat(if format == "sha1" { 40 } else { 64 });
            let line = format!(
                "git init -q --object-format={format} . && touch a ab abc && git add . && \
                 git update-index --add --cacheinfo 160000,{object_id},some/where/dep --cacheinfo 160000,{object_id},z && \
                 git update-index --index-version {version}"
            );
            let mut sh = std::process::Command::new("sh");
            sh.arg("-c")
                .arg(line)
                .current_dir(temp.path())
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("HOME", "/nonexistent");
            assert!(sh.status().unwrap().success());
            let root = Dir::open_ambient_dir(temp.path(), cap_std::ambient_authority()).unwrap();
            let before = IndexBefore::of(&root).unwrap();
            let expected = [&b"some/where/dep"[..], b"z"].map(<[u8]>::to_vec);
            assert_eq!(before.links, BTreeSet::from(expected), "{version} {format}");
        }
    }

    proptest! {
        #[test]
        fn reader_survives_arbitrary_bytes(mut bytes in any::<Vec<u8>>(), version in 0_u8..6) {
            let mut all = [b"DIRC".to_vec(), vec![0, 0, 0, version, 0, 0, 255, 255]].concat();
            all.append(&mut bytes);
            parse(&all, 20);
        }
    }
}
