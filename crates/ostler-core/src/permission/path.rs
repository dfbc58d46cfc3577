//! Paths as text, and patterns for them.
//!
//! Nothing here accesses the disk, so symbolic links are not resolved: a path inside the workspace
//! may lead out of it. Only a sandbox reliably confines a process.

use crate::matching::{Breadth, GlobError, GlobPattern, Globs, PathNames};

/// Maximum length of a path that is examined. No file system accepts a longer one, so it can only
/// be an attack.
const MAX_PATH: usize = 8_192;

/// Entries of `/proc/<process>` that lead to whatever the process has open.
const PROC_LINKS: &[&str] = &["cwd", "root", "fd", "task", "map_files"];

/// A path as an agent wrote it, and its possible meanings.
#[derive(Debug)]
pub(super) struct PathInfo {
    /// The path as written, and as a URL or a Windows path if it looks like one.
    readings: Vec<Reading>,
    /// It begins with `~`, and it is unknown whose home directory that is.
    is_home: bool,
    /// It is too long, or leads through a link of `/proc`: it could be any path.
    is_any: bool,
    /// It has only one interpretation.
    is_unambiguous: bool,
}

/// One interpretation of a path.
#[derive(Debug)]
struct Reading {
    absolute: PathNames,
    /// Path relative to the workspace; `None` if it is outside.
    inside: Option<PathNames>,
    /// The workspace part is spelled exactly like the workspace, including case.
    is_exact: bool,
    /// It is the workspace, or a directory above it.
    is_above: bool,
}

impl PathInfo {
    pub(super) fn of(path: &str, workspace: &str) -> Self {
        let is_home = path.starts_with('~');
        if path.len() > MAX_PATH {
            return Self {
                readings: Vec::new(),
                is_home,
                is_any: true,
                is_unambiguous: false,
            };
        }
        let texts = spellings(path);
        let workspace = (parts("/", workspace).0, workspace.starts_with('/'));
        let base = format!("/{}", workspace.0.join("/"));
        let read = |text: &String| {
            let (parts, is_any) = parts(if text.starts_with('/') { "/" } else { &base }, text);
            (Reading::of(&parts, &workspace.0), is_any)
        };
        let (readings, any): (Vec<_>, Vec<_>) = texts.iter().map(read).unzip();
        let is_any = any.contains(&true);
        let is_unambiguous = workspace.1
            && texts.len() == 1
            && !is_home
            && !is_any
            && !path.contains(char::is_control);
        Self {
            readings,
            is_home,
            is_any,
            is_unambiguous,
        }
    }
}

impl Reading {
    fn of(parts: &[&str], workspace: &[&str]) -> Self {
        let names = |parts: &[&str]| PathNames::new(parts.iter().copied());
        let (absolute, root) = (names(parts), names(workspace));
        let shared = absolute
            .prefixes()
            .zip(root.prefixes())
            .take_while(|(left, right)| left.lenient == right.lenient)
            .count();
        Self {
            inside: (shared == workspace.len()).then(|| names(&parts[shared..])),
            is_exact: parts.starts_with(workspace),
            is_above: shared == parts.len(),
            absolute,
        }
    }
}

/// Returns the possible spellings of a path. Some tools accept URLs or backslashes; for others
/// these are ordinary characters.
fn spellings(path: &str) -> Vec<String> {
    let mut all = vec![path.to_owned()];
    let is_file = path
        .get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"));
    if let Some(rest) = path
        .split_once("://")
        .map(|(_, rest)| rest)
        .or_else(|| is_file.then(|| &path[5..]))
    {
        // With a host before the path, and without.
        let from_root = rest.find('/').map(|at| &rest[at..]);
        let found: Vec<&str> = [Some(rest), from_root].into_iter().flatten().collect();
        all.extend(found.iter().map(|&text| text.to_owned()));
        all.extend(found.iter().map(|text| percent_decode(text)));
    }
    let slashed: Vec<String> = all
        .iter()
        .filter(|text| text.contains('\\'))
        .map(|text| text.replace('\\', "/"))
        .collect();
    all.extend(slashed);
    all.sort();
    all.dedup();
    all
}

/// Decodes percent escapes such as `%41`.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digit = |at: usize| {
            after
                .get(at)
                .and_then(|byte| char::from(*byte).to_digit(16))
        };
        let code = digit(0)
            .zip(digit(1))
            .and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        match code.filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the components of `path` relative to `base`, without `.`, `..` and repeated slashes, and
/// whether they lead through a link of `/proc`.
fn parts<'a>(base: &'a str, path: &'a str) -> (Vec<&'a str>, bool) {
    let mut parts = Vec::new();
    let mut is_linked = false;
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
        // Checked at every component, not only at the end: `..` after a link starts from the link's
        // target.
        is_linked |= match &parts[..] {
            ["proc", _, link] => PROC_LINKS.contains(link),
            ["dev", "fd"] => true,
            _ => false,
        };
    }
    (parts, is_linked)
}

/// A pattern for paths.
#[derive(Debug, Clone)]
pub(super) struct Glob {
    reach: Reach,
    globs: Globs,
    /// Patterns of the directories above a match: moving one of them moves everything below.
    above: Vec<Globs>,
}

/// An error in a pattern for paths.
#[derive(Debug, thiserror::Error)]
pub(super) enum PatternError {
    #[error("the path {0:?} does not name a file: write \"{0}**\" for everything below it")]
    NotAFile(String),
    #[error("the path {0:?}: ~ is not expanded, write the absolute path")]
    Home(String),
    #[error("the path {0:?} must not contain \"..\": write the absolute path")]
    Parent(String),
    #[error("{0:?} must be an absolute path, such as \"/home/me/work/**\"")]
    Relative(String),
    #[error("the path {0:?}: {1}")]
    Invalid(String, GlobError),
}

/// What a pattern is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// `src/**`: the path relative to the workspace.
    Inside,
    /// `**/.env`: the same, and in a denying or asking rule any other path too.
    Any,
    /// `/etc/**`: the absolute path.
    Absolute,
}

impl Glob {
    /// Compiles a pattern, for a rule that allows (`Breadth::Exact`) or one that should match as
    /// much as possible.
    pub(super) fn compile(pattern: &str, breadth: Breadth) -> Result<Self, PatternError> {
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let error = |kind: fn(String) -> PatternError| Err(kind(pattern.to_owned()));
        if pattern.is_empty() || pattern.ends_with('/') {
            return error(PatternError::NotAFile);
        }
        if pattern.starts_with('~') {
            return error(PatternError::Home);
        }
        if pattern.split('/').any(|part| part == "..") {
            return error(PatternError::Parent);
        }
        let (reach, body) = match pattern.strip_prefix('/') {
            Some(body) => (Reach::Absolute, body),
            None if pattern.starts_with("**") => (Reach::Any, pattern),
            None => (Reach::Inside, pattern),
        };
        let is_wide = breadth != Breadth::Exact;
        // A rule about everything below a directory also covers the directory: a search would
        // descend into it.
        let itself = body
            .strip_suffix("/**")
            .filter(|itself| is_wide && !itself.is_empty());
        let globs = |texts: &[&str]| {
            let glob = |text: &&str| GlobPattern {
                source: pattern,
                glob: (*text).to_owned(),
            };
            Globs::new(breadth, texts.iter().map(glob))
        };
        let both: Vec<&str> = [Some(body), itself].into_iter().flatten().collect();
        let above = if is_wide { ancestors(body) } else { Vec::new() };
        let invalid = |error| PatternError::Invalid(pattern.to_owned(), error);
        Ok(Self {
            reach,
            globs: globs(&both).map_err(invalid)?,
            // One that does not compile alone is half of an alternative that contains a slash.
            above: above
                .iter()
                .filter_map(|text| globs(&[text]).ok())
                .collect(),
        })
    }

    /// Returns true if the path certainly matches.
    pub(super) fn certainly_matches(&self, path: &PathInfo) -> bool {
        let is_match = |reading: &Reading| match self.reach {
            Reach::Absolute => self.globs.is_match(reading.absolute.whole()),
            _ => reading.is_exact && reading.is_inside(&self.globs),
        };
        path.is_unambiguous && path.readings.iter().all(is_match)
    }

    /// Returns true if the path could match.
    pub(super) fn may_match(&self, path: &PathInfo) -> bool {
        path.is_any
            || (path.is_home && self.reach != Reach::Any)
            || path
                .readings
                .iter()
                .any(|reading| self.matches(&self.globs, reading))
    }

    /// Returns true if the path could be an ancestor of a match.
    pub(super) fn may_match_below(&self, path: &PathInfo) -> bool {
        path.readings.iter().any(|reading| {
            let is_root = match self.reach {
                Reach::Absolute => reading.absolute.is_empty(),
                _ => reading.is_above,
            };
            is_root || self.above.iter().any(|above| self.matches(above, reading))
        })
    }

    fn matches(&self, globs: &Globs, reading: &Reading) -> bool {
        let is_absolute = || globs.is_match(reading.absolute.whole());
        match self.reach {
            Reach::Absolute => is_absolute(),
            Reach::Inside => reading.is_inside(globs),
            // For a path that is certainly inside the workspace, the components above it do not
            // count.
            Reach::Any if reading.is_exact => reading.is_inside(globs),
            Reach::Any => reading.is_inside(globs) || is_absolute(),
        }
    }
}

impl Reading {
    /// Returns true if the path is in the workspace and matches there.
    fn is_inside(&self, globs: &Globs) -> bool {
        self.inside
            .as_ref()
            .is_some_and(|inside| globs.is_match(inside.whole()))
    }
}

/// Returns the part of a pattern before each of its slashes. Omits parts that any path would match:
/// otherwise every edit would look like one of an ancestor.
fn ancestors(pattern: &str) -> Vec<&str> {
    let names = |part: &str| part.contains(|c| !"*?".contains(c));
    let before = pattern.match_indices('/').map(|(at, _)| &pattern[..at]);
    before
        .filter(|text| text.rsplit('/').next().is_some_and(names))
        .collect()
}
