//! Files through which a command could act later, outside of its confinement: they are as before when it has ended.
//!
//! A command may write anywhere in the workspace, and the kernel has no way to take a part of a directory out again. So what
//! would widen the policy of the next command, or have git run a program for the user, is remembered and put back.

mod config;
mod discard;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions};

use crate::{Code, ToolError};

/// How much is remembered at most; nothing runs where there is more.
const MOST_BYTES: u64 = 4 * 1024 * 1024;
const MOST_ENTRIES: usize = 2000;
const DEEPEST: usize = 16;

/// Git's own directory: of what is in it, only what is listed is ours to touch.
const GIT: &str = ".git";

/// Git's settings, of which git itself may write a little: `git push -u` does.
const CONFIG: &str = ".git/config";

/// The policy; where git finds its settings; the programs it runs by itself. What is in another comes after it.
const ALWAYS: [&str; 6] = [".ostler", GIT, ".git/commondir", ".git/hooks", CONFIG, ".git/config.worktree"];

/// What git is in the middle of: `git rebase --continue` runs programs that are named there.
const NOT_BY_GIT: [&str; 3] = [".git/rebase-merge", ".git/rebase-apply", ".git/sequencer"];

/// The protected files of a workspace as they were.
#[derive(Debug)]
pub struct Snapshot {
    at: PathBuf,
    root: Dir,
    is_git: bool,
    paths: Vec<&'static str>,
    before: BTreeMap<PathBuf, Entry>,
}

/// What had to be done so that protected files are as before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// What was changed, made or removed, and is as before again.
    pub put_back: Vec<String>,
    /// What is not as before, and why.
    pub failed: Vec<String>,
}

type Entries = BTreeMap<PathBuf, Entry>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    File {
        bytes: Vec<u8>,
        mode: u32,
    },
    Directory {
        mode: u32,
    },
    Link(PathBuf),
    /// A pipe, a socket, a device: never there before, and gone after.
    Other,
}

impl Snapshot {
    /// Remembers what must not change while `command` runs.
    ///
    /// # Errors
    /// When it cannot be read, or is too large to be remembered.
    pub fn take(root: &Path, command: &str) -> Result<Self, ToolError> {
        let io = |error: io::Error| ToolError::new(Code::Io, format!("the workspace cannot be read: {error}"));
        let at = root.to_owned();
        let root = Dir::open_ambient_dir(root, cap_std::ambient_authority()).map_err(io)?;
        let is_git = command == "git";
        let mut paths: Vec<&'static str> = ALWAYS.to_vec();
        if !is_git {
            paths.extend(NOT_BY_GIT);
        }
        let mut before = BTreeMap::new();
        for path in &paths {
            collect(&root, path, &mut before).map_err(|error| match error {
                Trouble::Io(error) => io(error),
                Trouble::TooMuch => ToolError::new(
                    Code::TooLarge,
                    format!("{path} holds more than can be protected; commands are not run in such a workspace"),
                ),
            })?;
        }
        Ok(Self { at, root, is_git, paths, before })
    }

    /// Puts back what was changed, made or removed, and names it. Everything that could change it again must have ended.
    #[must_use]
    pub fn restore(&self) -> Restored {
        let mut restored = Restored::default();
        discard::open_up_root(&self.at, &self.root);
        for path in &self.paths {
            let before = self.before(path);
            let after = self.now(path);
            if after.as_ref().is_some_and(|after| *after == before || self.is_fine(path, &before, after)) {
                continue;
            }
            match &after {
                Some(after) => restored.put_back.extend(differences(&before, after)),
                None => restored.put_back.push((*path).to_owned()),
            }
            match self.put_back(path, &before) {
                Ok(()) if self.now(path).as_ref() == Some(&before) => {}
                Ok(()) => restored.failed.push(format!("{path}: it is not as before")),
                Err(error) => restored.failed.push(format!("{path}: {error}")),
            }
        }
        restored.put_back.sort();
        restored.put_back.dedup();
        restored
    }

    fn before(&self, path: &str) -> Entries {
        self.before.iter().filter(|(at, _)| is_of(path, at)).map(|(at, entry)| (at.clone(), entry.clone())).collect()
    }

    /// What is there; none when it cannot be read, or is too much.
    fn now(&self, path: &str) -> Option<Entries> {
        let mut entries = BTreeMap::new();
        collect(&self.root, path, &mut entries).ok().map(|()| entries)
    }

    /// Whether a difference is one that git may make: a new repository, and what it notes about branches.
    fn is_fine(&self, path: &str, before: &Entries, after: &Entries) -> bool {
        let at = Path::new(path);
        match (path, before.get(at), after.get(at)) {
            (GIT, None, Some(Entry::Directory { .. })) => self.is_git,
            (CONFIG, None, Some(Entry::File { bytes, .. })) => self.is_git && config::is_new(bytes),
            (CONFIG, Some(Entry::File { bytes: old, mode }), Some(Entry::File { bytes: new, mode: now })) => {
                self.is_git && mode == now && config::is_fine(old, new)
            }
            _ => false,
        }
    }

    /// First away with what is there, by its name alone, so that nothing in it can stand in the way; then the old is written.
    fn put_back(&self, path: &str, before: &Entries) -> io::Result<()> {
        let path = Path::new(path);
        let was_directory = matches!(before.get(path), Some(Entry::Directory { .. }));
        let is_directory = self.root.symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
        let discarded = match path == Path::new(GIT) && was_directory && is_directory {
            true => None,
            false => discard::move_away(&self.root, path)?,
        };
        let written = self.write_all(before);
        if let Some(discarded) = discarded {
            discard::delete(&self.root, &discarded);
        }
        written
    }

    fn write_all(&self, before: &Entries) -> io::Result<()> {
        // Parents come before what is in them; their modes, which may forbid to write, after it.
        for (at, entry) in before {
            match entry {
                Entry::Directory { .. } if self.root.is_dir(at) => {}
                Entry::Directory { .. } => self.root.create_dir(at)?,
                Entry::Link(target) => self.root.symlink_contents(target, at)?,
                Entry::File { bytes, mode } => self.write(at, bytes, *mode)?,
                Entry::Other => {}
            }
        }
        for (at, entry) in before.iter().rev() {
            if let Entry::Directory { mode } = entry {
                discard::set_mode(&self.root, at, *mode)?;
            }
        }
        Ok(())
    }

    fn write(&self, at: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let mut file = self.root.open_with(at, OpenOptions::new().write(true).create_new(true))?;
        file.write_all(bytes)?;
        #[cfg(unix)]
        file.set_permissions(cap_std::fs::PermissionsExt::from_mode(mode))?;
        #[cfg(not(unix))]
        let _ = mode;
        Ok(())
    }
}

fn differences(before: &Entries, after: &Entries) -> Vec<String> {
    let gone_or_other = before.iter().filter(|(at, entry)| after.get(*at) != Some(*entry)).map(|(at, _)| at);
    let new = after.keys().filter(|at| !before.contains_key(*at));
    gone_or_other.chain(new).map(|at| at.display().to_string()).collect()
}

/// Whether an entry was remembered for `path`: of git's directory, only itself.
fn is_of(path: &str, at: &Path) -> bool {
    if path == GIT { at == Path::new(path) } else { at.starts_with(path) }
}

enum Trouble {
    Io(io::Error),
    TooMuch,
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What is at `path`, and below it unless it is git's own directory.
fn collect(root: &Dir, path: &str, into: &mut BTreeMap<PathBuf, Entry>) -> Result<(), Trouble> {
    let mut room = MOST_BYTES;
    let mut waiting = vec![(PathBuf::from(path), 0)];
    while let Some((at, depth)) = waiting.pop() {
        let meta = match root.symlink_metadata(&at) {
            Ok(meta) => meta,
            Err(error) if is_absent(&error) => continue,
            Err(error) => return Err(error.into()),
        };
        if into.len() >= MOST_ENTRIES || depth > DEEPEST {
            return Err(Trouble::TooMuch);
        }
        let entry = if meta.is_dir() {
            if path != GIT {
                for child in root.read_dir(&at)? {
                    waiting.push((at.join(child?.file_name()), depth + 1));
                    if waiting.len() > MOST_ENTRIES {
                        return Err(Trouble::TooMuch);
                    }
                }
            }
            Entry::Directory { mode: mode(&meta) }
        } else if meta.is_symlink() {
            Entry::Link(root.read_link_contents(&at)?)
        } else if meta.is_file() {
            let bytes = read(root, &at, room)?;
            room = room.checked_sub(bytes.len() as u64).ok_or(Trouble::TooMuch)?;
            Entry::File { bytes, mode: mode(&meta) }
        } else {
            Entry::Other
        };
        into.insert(at, entry);
    }
    Ok(())
}

/// Not there; or below something that is no directory, such as a `.git` that is a file.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A file's content; one byte more than there is room for shows that it is too much.
fn read(root: &Dir, at: &Path, room: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    root.open(at)?.take(room + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(unix)]
fn mode(meta: &cap_std::fs::Metadata) -> u32 {
    use cap_std::fs::MetadataExt;
    meta.mode() & 0o7777
}

#[cfg(not(unix))]
fn mode(_meta: &cap_std::fs::Metadata) -> u32 {
    0
}

#[cfg(test)]
mod tests;
