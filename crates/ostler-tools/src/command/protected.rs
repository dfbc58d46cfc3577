//! Files through which a command could act later, outside of its confinement: they are as before when it has ended.
//!
//! A command may write anywhere in the workspace, and the kernel has no way to take a part of a directory out again. So what
//! would widen the policy of the next command, or have git run a program for the user, is remembered and put back.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions};

use crate::{Code, ToolError};

/// How much is remembered at most; nothing runs where there is more.
const MOST_BYTES: u64 = 4 * 1024 * 1024;
const MOST_ENTRIES: usize = 2000;
const DEEPEST: usize = 16;

/// The policy; where git finds its settings; the programs it runs by itself.
const ALWAYS: [&str; 4] = [".ostler", ".git", ".git/commondir", ".git/hooks"];

/// Git itself may write its settings: `git push -u` does. Others may not.
const NOT_BY_GIT: [&str; 2] = [".git/config", ".git/config.worktree"];

/// The protected files of a workspace as they were.
#[derive(Debug)]
pub struct Snapshot {
    root: Dir,
    paths: Vec<&'static str>,
    before: BTreeMap<PathBuf, Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    File {
        bytes: Vec<u8>,
        mode: u32,
    },
    Directory,
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
        let root = Dir::open_ambient_dir(root, cap_std::ambient_authority()).map_err(io)?;
        let mut paths: Vec<&'static str> = ALWAYS.to_vec();
        if command != "git" {
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
        Ok(Self { root, paths, before })
    }

    /// Puts back what was changed, made or removed, and names it. Everything that could change it again must have ended.
    #[must_use]
    pub fn restore(&self) -> Vec<String> {
        let mut told = Vec::new();
        for path in &self.paths {
            let mut after = BTreeMap::new();
            let readable = collect(&self.root, path, &mut after).is_ok();
            let before: BTreeMap<_, _> = self.before.iter().filter(|(at, _)| is_of(path, at)).collect();
            if readable
                && before.iter().all(|(at, entry)| after.get(*at) == Some(*entry))
                && before.len() == after.len()
            {
                continue;
            }
            if *path == ".git" && before.is_empty() {
                continue; // a repository that is new; what it must not hold is looked at below
            }
            let changed = || {
                let gone_or_other =
                    before.iter().filter(|(at, entry)| after.get(**at) != Some(**entry)).map(|(at, _)| *at);
                let new = after.keys().filter(|at| !before.contains_key(*at));
                gone_or_other.chain(new).map(|at| at.display().to_string()).collect::<Vec<_>>()
            };
            told.extend(if readable { changed() } else { vec![(*path).to_owned()] });
            if let Err(error) = self.put_back(path, &before) {
                told.push(format!("{path} (could not be put back: {error})"));
            }
        }
        told.sort();
        told.dedup();
        told
    }

    fn put_back(&self, path: &str, before: &BTreeMap<&PathBuf, &Entry>) -> io::Result<()> {
        let path = Path::new(path);
        let was_directory = matches!(before.get(&path.to_owned()), Some(Entry::Directory));
        match self.root.symlink_metadata(path) {
            // Of git's own directory only what is listed is ours to touch.
            Ok(meta) if meta.is_dir() && path == Path::new(".git") && was_directory => {}
            Ok(meta) if meta.is_dir() => self.root.remove_dir_all(path)?,
            Ok(_) => self.root.remove_file(path)?,
            Err(_) => {}
        }
        // Parents come before what is in them.
        for (at, entry) in before {
            match entry {
                Entry::Directory if self.root.is_dir(at) => {}
                Entry::Directory => self.root.create_dir(at)?,
                Entry::Link(target) => self.root.symlink_contents(target, at)?,
                Entry::File { bytes, mode } => self.write(at, bytes, *mode)?,
                Entry::Other => {}
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

/// Whether an entry was remembered for `path`: of git's directory, only itself.
fn is_of(path: &str, at: &Path) -> bool {
    if path == ".git" { at == Path::new(path) } else { at.starts_with(path) }
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
            if path != ".git" {
                for child in root.read_dir(&at)? {
                    waiting.push((at.join(child?.file_name()), depth + 1));
                    if waiting.len() > MOST_ENTRIES {
                        return Err(Trouble::TooMuch);
                    }
                }
            }
            Entry::Directory
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
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn workspace() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for sub in [".ostler", ".git/hooks", ".git/objects"] {
            fs::create_dir_all(dir.path().join(sub)).unwrap();
        }
        fs::write(dir.path().join(".ostler/sandbox.toml"), "[sandbox]\n").unwrap();
        fs::write(dir.path().join(".git/config"), "[core]\n").unwrap();
        fs::write(dir.path().join(".git/hooks/pre-commit"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(dir.path().join(".git/hooks/pre-commit"), fs::Permissions::from_mode(0o755)).unwrap();
        dir
    }

    fn tree(root: &Path) -> BTreeMap<PathBuf, Entry> {
        let root = Dir::open_ambient_dir(root, cap_std::ambient_authority()).unwrap();
        let mut all = BTreeMap::new();
        for name in root.entries().unwrap() {
            let name = name.unwrap().file_name().into_string().unwrap();
            let _ = collect(&root, &name, &mut all);
        }
        for path in [".git/config", ".git/hooks", ".git/commondir"] {
            let _ = collect(&root, path, &mut all);
        }
        all
    }

    /// Does something to a workspace, has it put back, and says what was told.
    fn after(command: &str, harm: impl Fn(&Path)) -> Vec<String> {
        let (dir, outside) = (workspace(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("precious"), "x").unwrap();
        symlink(outside.path(), dir.path().join("link-out")).unwrap();
        let before = tree(dir.path());
        let snapshot = Snapshot::take(dir.path(), command).unwrap();
        harm(dir.path());
        let told = snapshot.restore();
        if command != "git" {
            assert_eq!(tree(dir.path()), before, "it is as before");
        }
        assert_eq!(fs::read_to_string(outside.path().join("precious")).unwrap(), "x", "what is outside is untouched");
        assert_eq!(snapshot.restore(), [""; 0], "the second time there is nothing to do");
        told
    }

    // S2-18
    #[test]
    fn what_a_command_did_to_protected_files_is_undone() {
        assert_eq!(after("just", |_| ()), [""; 0]);
        let write = |path: &'static str| move |root: &Path| fs::write(root.join(path), "evil").unwrap();
        assert_eq!(after("just", write(".ostler/sandbox.toml")), [".ostler/sandbox.toml"]);
        assert_eq!(after("just", write(".git/config")), [".git/config"]);
        assert_eq!(after("just", write(".git/hooks/post-checkout")), [".git/hooks/post-checkout"]);
        assert_eq!(after("just", write(".git/commondir")), [".git/commondir"]);
        assert_eq!(after("just", |root| fs::remove_dir_all(root.join(".ostler")).unwrap()).len(), 2);
        assert_eq!(
            after("just", |root| {
                let mode = fs::Permissions::from_mode(0o644);
                fs::set_permissions(root.join(".git/hooks/pre-commit"), mode).unwrap();
            }),
            [".git/hooks/pre-commit"]
        );
        assert_eq!(after("git", write(".git/config")), [""; 0], "git writes its own settings");
        assert_eq!(after("git", write(".git/hooks/pre-push")), [".git/hooks/pre-push"]);
    }

    // The one who puts things back is not confined: links must not lead it anywhere.
    #[test]
    fn links_do_not_lead_out_of_the_workspace() {
        let told = after("just", |root| {
            let out = fs::read_link(root.join("link-out")).unwrap();
            fs::remove_dir_all(root.join(".git/hooks")).unwrap();
            symlink(&out, root.join(".git/hooks")).unwrap();
            fs::remove_dir_all(root.join(".ostler")).unwrap();
            symlink(&out, root.join(".ostler")).unwrap();
        });
        assert!(told.contains(&".git/hooks".to_owned()) && told.contains(&".ostler".to_owned()), "{told:?}");
        let told = after("just", |root| {
            fs::remove_dir_all(root.join(".git")).unwrap();
            symlink(fs::read_link(root.join("link-out")).unwrap(), root.join(".git")).unwrap();
        });
        assert!(told.contains(&".git".to_owned()), "{told:?}");
    }

    #[test]
    fn a_tree_that_is_too_large_is_refused_and_one_that_became_so_is_put_back() {
        let dir = workspace();
        fs::write(dir.path().join(".ostler/large"), vec![0; 5 * 1024 * 1024]).unwrap();
        assert_eq!(Snapshot::take(dir.path(), "just").unwrap_err().code, Code::TooLarge);
        let told = after("just", |root| {
            for number in 0..3000 {
                fs::write(root.join(format!(".git/hooks/{number}")), "").unwrap();
            }
        });
        assert_eq!(told, [".git/hooks"]);
    }
}
