//! Files that a repository's settings reference: included configuration, hooks, programs. Writing
//! one of them decides what the user's next git command runs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::config::{self, Setting};
use super::directory::{parse_git_file, parse_path_file, read_start};

/// Maximum size of a configuration file that is read, in bytes. Git itself would read more, so a
/// larger file ends the scan.
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;
/// Maximum number of configuration files read by one scan.
const MAX_FILES: usize = 500;
/// Maximum number of links followed for one path.
const MAX_LINKS: usize = 40;
/// Maximum number of modules and worktrees scanned per repository.
const MAX_MODULES: usize = 1_000;

/// The user's git configuration, which applies in every repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserGitConfig {
    /// Configuration files outside repositories: the system's and the user's.
    pub files: Vec<PathBuf>,
    /// Home directory that `~/` expands to.
    pub home: Option<PathBuf>,
}

/// Why git follows a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReferenceReason {
    /// A configuration file includes it.
    Included,
    /// It is a directory of hooks, or inside one.
    Hooks,
    /// A setting names it as a program.
    Program,
}

impl ReferenceReason {
    /// Returns the reason as a clause for messages.
    pub(crate) fn clause(self) -> &'static str {
        match self {
            Self::Included => "git's configuration includes it",
            Self::Hooks => "git runs the hooks there (core.hooksPath)",
            Self::Program => "git's configuration names it as a program",
        }
    }
}

/// Referenced paths inside a directory, relative to it, with the reason.
pub(crate) type References = BTreeMap<PathBuf, ReferenceReason>;

/// Scan for paths below one directory that the settings of repositories reference.
pub(crate) struct ReferenceScan<'u> {
    root: &'u Path,
    user: &'u UserGitConfig,
    files: usize,
    found: References,
}

impl<'u> ReferenceScan<'u> {
    /// Creates a scan for paths below `root`, an absolute path without links.
    pub(crate) fn new(root: &'u Path, user: &'u UserGitConfig) -> Self {
        Self {
            root,
            user,
            files: 0,
            found: References::new(),
        }
    }

    /// Returns the referenced paths.
    pub(crate) fn found(self) -> References {
        self.found
    }

    /// Scans the repository whose working tree starts at a directory, if any, with its modules and
    /// worktrees.
    pub(crate) fn working_tree(&mut self, top: &Path) {
        let Some(git) = git_directory_of(top) else {
            return;
        };
        self.git_directory(&git, top);
    }

    /// Scans a git directory. Paths in its settings are relative to the working tree `top`.
    pub(crate) fn git_directory(&mut self, git: &Path, top: &Path) {
        let common = open(&git.join("commondir")).and_then(|mut file| parse_path_file(&mut file));
        let common = common.map_or_else(|| git.to_owned(), |path| git.join(path));
        self.config(&common.join("config"), top);
        self.config(&git.join("config.worktree"), top);
        for file in &self.user.files {
            self.config(file, top);
        }
        for module in module_directories(&common.join("modules")) {
            self.config(&module.join("config"), &module_top(&module, top));
        }
        for worktree in children(&common.join("worktrees")) {
            let dot_git =
                open(&worktree.join("gitdir")).and_then(|mut file| parse_path_file(&mut file));
            if let Some(other) = dot_git.as_deref().and_then(Path::parent) {
                self.config(&worktree.join("config.worktree"), &worktree.join(other));
                self.config(&common.join("config"), &worktree.join(other));
            }
        }
    }

    /// Scans a configuration file and the files it includes.
    fn config(&mut self, file: &Path, top: &Path) {
        self.files += 1;
        if self.files > MAX_FILES {
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
                self.record(&path, ReferenceReason::Included);
                // A file that includes itself stops at the limit of files.
                self.config(&path, top);
            } else if setting.is("core", "hookspath") || setting.is("init", "templatedir") {
                let Some(path) = self.expand(value, top) else {
                    continue;
                };
                self.record_hooks(&path);
                // Husky's hooks only source the scripts beside their directory.
                if let Some(above) = path
                    .parent()
                    .filter(|above| above.file_name().is_some_and(|name| name == ".husky"))
                {
                    self.record(above, ReferenceReason::Hooks);
                }
            } else if names_program(&setting) {
                for word in words(value) {
                    let Some(path) = self.expand(&word, top) else {
                        continue;
                    };
                    if path.starts_with(self.root)
                        && fs::metadata(&path).is_ok_and(|metadata| metadata.is_file())
                    {
                        self.record(&path, ReferenceReason::Program);
                    }
                }
            }
        }
    }

    /// Returns the absolute path of a setting, or `None` if it is empty.
    fn expand(&self, path: &str, base: &Path) -> Option<PathBuf> {
        if path.is_empty() {
            return None;
        }
        match path.strip_prefix("~/") {
            Some(below) => Some(self.user.home.as_ref()?.join(below)),
            None => Some(base.join(path)),
        }
    }

    /// Records a directory of hooks. If it is the root itself, records the files there that have
    /// names of hooks.
    fn record_hooks(&mut self, path: &Path) {
        self.record(path, ReferenceReason::Hooks);
        if steps(path).iter().any(|step| step == self.root) {
            HOOK_NAMES
                .iter()
                .for_each(|name| self.record(&path.join(name), ReferenceReason::Hooks));
        }
    }

    /// Records a path below the root and every link on the path to it: replacing one of them
    /// replaces the file.
    fn record(&mut self, path: &Path, reason: ReferenceReason) {
        for step in steps(path) {
            if let Ok(below) = step.strip_prefix(self.root)
                && !below.as_os_str().is_empty()
            {
                self.found.entry(below.to_owned()).or_insert(reason);
            }
        }
    }
}

/// Returns the git directory of the working tree that starts at a directory.
pub(crate) fn git_directory_of(top: &Path) -> Option<PathBuf> {
    let path = top.join(".git");
    let metadata = fs::metadata(&path).ok()?;
    if metadata.is_dir() {
        return Some(path);
    }
    let named = parse_git_file(&mut open(&path)?)?;
    Some(top.join(named))
}

/// Returns where the working tree of a module starts: its settings say so, relative to its git
/// directory.
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

/// Names of the hooks that git runs.
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

/// Sections in which every value is, or may be, a command.
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

/// Returns the words of a command that could be paths.
fn words(command: &str) -> Vec<String> {
    let is_end = |char: char| char.is_whitespace() || "'\"`;|&()<>=!$".contains(char);
    command
        .split(is_end)
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns every path on the way to a file: as written, after each link is followed, and the links
/// themselves.
fn steps(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut path = normalize(path);
    for _ in 0..MAX_LINKS {
        found.push(path.clone());
        let link = prefixes(&path).find(|prefix| {
            fs::symlink_metadata(prefix).is_ok_and(|metadata| metadata.is_symlink())
        });
        let Some(link) = link else { break };
        let Ok(target) = fs::read_link(&link) else {
            break;
        };
        let rest = path.strip_prefix(&link).unwrap_or(Path::new("")).to_owned();
        let base = link.parent().unwrap_or(Path::new("/")).to_owned();
        found.push(link);
        path = normalize(&base.join(target).join(rest));
    }
    found
}

fn prefixes(path: &Path) -> impl Iterator<Item = PathBuf> {
    let mut all: Vec<PathBuf> = path.ancestors().map(Path::to_owned).collect();
    all.reverse();
    all.into_iter()
}

/// Returns the path without `.` and `..`.
pub(crate) fn normalize(path: &Path) -> PathBuf {
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

/// Returns the modules of a repository: the directories below one that contain a `HEAD`. They may
/// nest.
fn module_directories(modules: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![modules.to_owned()];
    let mut visited = 0;
    while let Some(dir) = pending.pop() {
        visited += 1;
        if visited > MAX_MODULES {
            break;
        }
        if dir != modules && dir.join("HEAD").exists() {
            pending.push(dir.join("modules"));
            found.push(dir);
            continue;
        }
        pending.extend(children(&dir));
    }
    found
}

/// Returns the subdirectories of a directory, without links.
fn children(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .take(MAX_MODULES);
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn text_of(file: &Path) -> Option<String> {
    read_start(open(file)?, MAX_CONFIG_BYTES)
}

/// Opens a regular file without blocking on a pipe.
fn open(path: &Path) -> Option<File> {
    let opened = open_nonblocking(path).ok()?;
    opened.metadata().ok()?.is_file().then_some(opened)
}

#[cfg(unix)]
fn open_nonblocking(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, open};

    // Opening a device can have side effects, so it is not even attempted.
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
fn open_nonblocking(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(test)]
mod tests;
