//! Files that a repository's settings lead git to: included configuration, hooks, programs. Whoever writes them decides what
//! the user's next git command runs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use super::config::{self, Setting};
use super::directory::{held_by, named_by};

/// The largest configuration file that is read, in bytes; git itself would read more, so a larger one ends the look.
const LONGEST_CONFIG: u64 = 1024 * 1024;
/// How many configuration files one look reads.
const MOST_FILES: usize = 500;
/// How many links one path may go through.
const MOST_LINKS: usize = 40;
/// How many modules and worktrees of one repository are looked at.
const MOST_BELOW: usize = 1_000;

/// The user's own git configuration, which holds in every repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserGitConfig {
    /// The configuration files outside of repositories: the system's and the user's.
    pub files: Vec<PathBuf>,
    /// The home that `~/` stands for.
    pub home: Option<PathBuf>,
}

/// Why git follows a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// A configuration file includes it.
    Included,
    /// It is, or is in, a directory of hooks.
    Hooks,
    /// A setting names it as a program.
    Program,
}

impl Reason {
    /// The sentence about a file.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Included => "git's configuration includes it",
            Self::Hooks => "git runs the hooks there (core.hooksPath)",
            Self::Program => "git's configuration names it as a program",
        }
    }
}

/// Paths inside a directory that settings lead to, relative to it.
pub(crate) type Steering = BTreeMap<PathBuf, Reason>;

/// Collects what the settings of repositories lead to below one directory.
pub(crate) struct Look<'u> {
    root: &'u Path,
    user: &'u UserGitConfig,
    files: usize,
    found: Steering,
}

impl<'u> Look<'u> {
    /// A look at what leads below `root`, an absolute path without links.
    pub(crate) fn new(root: &'u Path, user: &'u UserGitConfig) -> Self {
        Self {
            root,
            user,
            files: 0,
            found: Steering::new(),
        }
    }

    /// What was found.
    pub(crate) fn found(self) -> Steering {
        self.found
    }

    /// Looks at the repository whose working tree begins at a directory, if one does, and at its modules and worktrees.
    pub(crate) fn working_tree(&mut self, top: &Path) {
        let Some(git) = git_directory_of(top) else {
            return;
        };
        self.git_directory(&git, top);
    }

    /// Looks at a git directory, with the working tree that paths in its settings are relative to.
    pub(crate) fn git_directory(&mut self, git: &Path, top: &Path) {
        let common = open(&git.join("commondir")).and_then(|mut file| held_by(&mut file));
        let common = common.map_or_else(|| git.to_owned(), |path| git.join(path));
        self.config(&common.join("config"), top);
        self.config(&git.join("config.worktree"), top);
        for file in &self.user.files {
            self.config(file, top);
        }
        for module in directories(&common.join("modules")) {
            self.config(&module.join("config"), &module_top(&module, top));
        }
        for worktree in children(&common.join("worktrees")) {
            let dot_git = open(&worktree.join("gitdir")).and_then(|mut file| held_by(&mut file));
            if let Some(other) = dot_git.as_deref().and_then(Path::parent) {
                self.config(&worktree.join("config.worktree"), &worktree.join(other));
                self.config(&common.join("config"), &worktree.join(other));
            }
        }
    }

    /// Looks at a configuration file and those that it includes.
    fn config(&mut self, file: &Path, top: &Path) {
        self.files += 1;
        if self.files > MOST_FILES {
            return;
        }
        let Some(text) = text_of(file) else { return };
        for setting in config::parse(&text) {
            let value = setting.text();
            if setting.key == "path" && matches!(&*setting.section, "include" | "includeif") {
                let base = file.parent().unwrap_or(Path::new("/"));
                let Some(path) = self.expand(value, base) else {
                    continue;
                };
                self.note(&path, Reason::Included);
                // A file that includes itself ends at the limit of files.
                self.config(&path, top);
            } else if setting.is("core", "hookspath") || setting.is("init", "templatedir") {
                let Some(path) = self.expand(value, top) else {
                    continue;
                };
                self.note_hooks(&path);
                // Husky's hooks only source the scripts that lie beside their directory.
                if let Some(above) = path
                    .parent()
                    .filter(|above| above.file_name().is_some_and(|name| name == ".husky"))
                {
                    self.note(above, Reason::Hooks);
                }
            } else if names_program(&setting) {
                for word in words(value) {
                    let Some(path) = self.expand(&word, top) else {
                        continue;
                    };
                    if path.starts_with(self.root)
                        && fs::metadata(&path).is_ok_and(|about| about.is_file())
                    {
                        self.note(&path, Reason::Program);
                    }
                }
            }
        }
    }

    /// A path of a setting, absolute; `None` for one that names nothing.
    fn expand(&self, path: &str, base: &Path) -> Option<PathBuf> {
        if path.is_empty() {
            return None;
        }
        match path.strip_prefix("~/") {
            Some(below) => Some(self.user.home.as_ref()?.join(below)),
            None => Some(base.join(path)),
        }
    }

    /// Remembers where hooks are. If that is the root itself, it is the files there that have the names of hooks.
    fn note_hooks(&mut self, path: &Path) {
        self.note(path, Reason::Hooks);
        if steps(path).iter().any(|step| step == self.root) {
            HOOK_NAMES
                .iter()
                .for_each(|name| self.note(&path.join(name), Reason::Hooks));
        }
    }

    /// Remembers a path that lies below the root, and every link on the way to it: who replaces one of them replaces the file.
    fn note(&mut self, path: &Path, reason: Reason) {
        for step in steps(path) {
            if let Ok(below) = step.strip_prefix(self.root)
                && !below.as_os_str().is_empty()
            {
                self.found.entry(below.to_owned()).or_insert(reason);
            }
        }
    }
}

/// The git directory of the working tree that begins at a directory.
pub(crate) fn git_directory_of(top: &Path) -> Option<PathBuf> {
    let path = top.join(".git");
    let about = fs::metadata(&path).ok()?;
    if about.is_dir() {
        return Some(path);
    }
    let named = named_by(&mut open(&path)?)?;
    Some(top.join(named))
}

/// Where the working tree of a module begins: its settings say so, relative to its git directory.
fn module_top(module: &Path, otherwise: &Path) -> PathBuf {
    let text = text_of(&module.join("config")).unwrap_or_default();
    let worktree = config::parse(&text)
        .into_iter()
        .find(|setting| setting.is("core", "worktree"));
    worktree.map_or_else(
        || otherwise.to_owned(),
        |setting| module.join(setting.text()),
    )
}

/// The hooks that git runs, by their names.
pub(crate) const HOOK_NAMES: &[&str] = &[
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "proc-receive",
    "post-receive",
    "post-update",
    "reference-transaction",
    "push-to-checkout",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-prepare-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "post-index-change",
];

/// Settings whose value is a command.
const PROGRAMS: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "fsmonitor",
            "pager",
            "editor",
            "sshcommand",
            "askpass",
            "gitproxy",
            "alternaterefscommand",
        ],
    ),
    ("sequence", &["editor"]),
    ("diff", &["external", "command", "textconv"]),
    ("filter", &["clean", "smudge", "process"]),
    ("merge", &["driver"]),
    ("credential", &["helper"]),
    ("gpg", &["program", "defaultkeycommand"]),
    ("interactive", &["difffilter"]),
    ("remote", &["uploadpack", "receivepack", "vcs"]),
    ("uploadpack", &["packobjectshook"]),
    ("trailer", &["command", "cmd"]),
    ("submodule", &["update"]),
    ("hook", &["command"]),
];

/// Sections in which every value is a command, or may be one.
const PROGRAM_SECTIONS: &[&str] = &[
    "alias",
    "pager",
    "mergetool",
    "difftool",
    "browser",
    "man",
    "sendemail",
];

/// Returns true if the value of a setting is a command that git runs.
pub(crate) fn names_program(setting: &Setting) -> bool {
    PROGRAM_SECTIONS.contains(&&*setting.section)
        || PROGRAMS
            .iter()
            .any(|(section, keys)| *section == setting.section && keys.contains(&&*setting.key))
}

/// The words of a command that could be paths.
fn words(command: &str) -> Vec<String> {
    let is_end = |char: char| char.is_whitespace() || "'\"`;|&()<>=!$".contains(char);
    command
        .split(is_end)
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Every path on the way to a file: as it is written, and after each link in it was followed, with the links themselves.
fn steps(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut path = plain(path);
    for _ in 0..MOST_LINKS {
        found.push(path.clone());
        let link = prefixes(&path)
            .find(|prefix| fs::symlink_metadata(prefix).is_ok_and(|about| about.is_symlink()));
        let Some(link) = link else { break };
        let Ok(target) = fs::read_link(&link) else {
            break;
        };
        let rest = path.strip_prefix(&link).unwrap_or(Path::new("")).to_owned();
        let base = link.parent().unwrap_or(Path::new("/")).to_owned();
        found.push(link);
        path = plain(&base.join(target).join(rest));
    }
    found
}

fn prefixes(path: &Path) -> impl Iterator<Item = PathBuf> {
    let mut all: Vec<PathBuf> = path.ancestors().map(Path::to_owned).collect();
    all.reverse();
    all.into_iter()
}

/// A path without `.` and `..`.
pub(crate) fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// The directories below one that hold a `config`: the modules of a repository, which may nest.
fn directories(modules: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut ahead = vec![modules.to_owned()];
    let mut looks = 0;
    while let Some(dir) = ahead.pop() {
        looks += 1;
        if looks > MOST_BELOW {
            break;
        }
        if dir != modules && dir.join("HEAD").exists() {
            ahead.push(dir.join("modules"));
            found.push(dir);
            continue;
        }
        ahead.extend(children(&dir));
    }
    found
}

/// The directories in a directory, without links.
fn children(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .take(MOST_BELOW);
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn text_of(file: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    open(file)?
        .take(LONGEST_CONFIG)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Opens a regular file. It does not wait for the other end of a pipe.
fn open(path: &Path) -> Option<File> {
    let opened = open_at_once(path).ok()?;
    opened.metadata().ok()?.is_file().then_some(opened)
}

#[cfg(unix)]
fn open_at_once(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, open};

    // Opening a device can do things, so it is not even tried.
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(File::from(open(
        path,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    )?))
}

#[cfg(not(unix))]
fn open_at_once(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(test)]
mod tests;
