//! Paths as text, and patterns for them.
//!
//! Nothing here accesses the disk, so symbolic links are not resolved: a path inside the workspace
//! may lead out of it. Only a sandbox reliably confines a process.

use globset::{GlobBuilder, GlobMatcher};

/// Maximum length of a path that is examined. No file system accepts a longer one, so it can only
/// be an attack.
const MAX_PATH: usize = 8_192;

/// Entries of `/proc/<process>` that lead to whatever the process has open.
const PROC_LINKS: &[&str] = &["cwd", "root", "fd", "task", "map_files"];

/// A path as an agent wrote it, and its possible meanings.
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reading {
    absolute: String,
    /// Path relative to the workspace; `None` if it is outside.
    inside: Option<String>,
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
        let is_same = |(left, right): (&&str, &&str)| left.to_lowercase() == right.to_lowercase();
        let shared = parts
            .iter()
            .zip(workspace)
            .take_while(|&pair| is_same(pair))
            .count();
        Self {
            absolute: format!("/{}", parts.join("/")),
            inside: (shared == workspace.len()).then(|| parts[shared..].join("/")),
            is_exact: parts.starts_with(workspace),
            is_above: shared == parts.len(),
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
    matcher: GlobMatcher,
    /// Patterns of the directories above a match: moving one of them moves everything below.
    above: Vec<GlobMatcher>,
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
    /// Compiles a pattern. For rules that should match as much as possible, the result has more
    /// than one.
    pub(super) fn compile(pattern: &str, is_wide: bool) -> Result<Vec<Self>, String> {
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        if pattern.is_empty() || pattern.ends_with('/') {
            return Err(format!(
                "the path {pattern:?} does not name a file: write \"{pattern}**\" for everything below it"
            ));
        }
        if pattern.starts_with('~') {
            return Err(format!(
                "the path {pattern:?}: ~ is not expanded, write the absolute path"
            ));
        }
        if pattern.split('/').any(|part| part == "..") {
            return Err(format!(
                "the path {pattern:?} must not contain \"..\": write the absolute path"
            ));
        }
        // A rule about everything below a directory also covers the directory: a search would
        // descend into it.
        let itself = pattern
            .strip_suffix("/**")
            .filter(|itself| is_wide && !itself.is_empty());
        let reach = match pattern {
            p if p.starts_with('/') => Reach::Absolute,
            p if p.starts_with("**") => Reach::Any,
            _ => Reach::Inside,
        };
        let matcher = |text: &str| {
            let glob = GlobBuilder::new(text)
                .literal_separator(true)
                .case_insensitive(is_wide)
                .build();
            glob.map(|glob| glob.compile_matcher())
        };
        let above = if is_wide {
            ancestors(pattern)
        } else {
            Vec::new()
        };
        // One that does not compile alone is half of an alternative that contains a slash.
        let mut above: Vec<GlobMatcher> = above
            .into_iter()
            .filter_map(|text| matcher(text).ok())
            .collect();
        let one = |text: &str| {
            let matcher =
                matcher(text).map_err(|error| format!("the path {pattern:?}: {}", error.kind()))?;
            Ok(Self {
                reach,
                matcher,
                above: std::mem::take(&mut above),
            })
        };
        [Some(pattern), itself]
            .into_iter()
            .flatten()
            .map(one)
            .collect()
    }

    /// Returns true if the path certainly matches.
    pub(super) fn certainly_matches(&self, path: &PathInfo) -> bool {
        let is_match = |reading: &Reading| match self.reach {
            Reach::Absolute => self.matcher.is_match(&reading.absolute),
            _ => {
                reading.is_exact
                    && reading
                        .inside
                        .as_ref()
                        .is_some_and(|inside| self.matcher.is_match(inside))
            }
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
                .any(|reading| self.matches(&self.matcher, reading))
    }

    /// Returns true if the path could be an ancestor of a match.
    pub(super) fn may_match_below(&self, path: &PathInfo) -> bool {
        path.readings.iter().any(|reading| match self.reach {
            Reach::Absolute => {
                reading.absolute == "/"
                    || self.above.iter().any(|above| self.matches(above, reading))
            }
            _ => reading.is_above || self.above.iter().any(|above| self.matches(above, reading)),
        })
    }

    fn matches(&self, matcher: &GlobMatcher, reading: &Reading) -> bool {
        let is_inside = reading
            .inside
            .as_ref()
            .is_some_and(|inside| matcher.is_match(inside));
        match self.reach {
            Reach::Absolute => matcher.is_match(&reading.absolute),
            Reach::Inside => is_inside,
            // For a path that is certainly inside the workspace, the components above it do not
            // count.
            Reach::Any if reading.is_exact => is_inside,
            Reach::Any => is_inside || matcher.is_match(reading.absolute.trim_start_matches('/')),
        }
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
