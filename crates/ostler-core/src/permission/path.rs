//! Where a path is, by its letters alone, and the patterns for paths.
//!
//! Nothing here looks at the disk, so a symbolic link is not seen: a path inside the workspace may lead out of it. What keeps a
//! process in for certain is a sandbox.

use globset::{GlobBuilder, GlobMatcher};

/// The longest path that is looked at. No file system takes a longer one, so whoever writes it means no good.
const LONGEST: usize = 8_192;

/// What leads out of `/proc/<process>` to wherever that process has something open.
const DOORS: &[&str] = &["cwd", "root", "fd", "task", "map_files"];

/// A path as an agent wrote it, and what it may mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// As it is written; and as an address or a path of Windows, if it looks like one.
    readings: Vec<Reading>,
    /// It begins with `~`, and nobody here knows whose home that is.
    is_home: bool,
    /// It is too long, or leads through a link of `/proc`: it could be any.
    is_any: bool,
    /// There is only one way to read it.
    is_sure: bool,
}

/// One way to read a path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reading {
    absolute: String,
    /// Below the workspace; none for what is outside.
    inside: Option<String>,
    /// The workspace's own part is spelt as the workspace is, also in large and small letters.
    is_exact: bool,
    /// It is the workspace, or a directory above it.
    is_above: bool,
}

impl Place {
    pub(super) fn of(path: &str, workspace: &str) -> Self {
        let is_home = path.starts_with('~');
        if path.len() > LONGEST {
            return Self {
                readings: Vec::new(),
                is_home,
                is_any: true,
                is_sure: false,
            };
        }
        let texts = texts(path);
        let workspace = (parts("/", workspace).0, workspace.starts_with('/'));
        let base = format!("/{}", workspace.0.join("/"));
        let read = |text: &String| {
            let (parts, is_any) = parts(if text.starts_with('/') { "/" } else { &base }, text);
            (Reading::of(&parts, &workspace.0), is_any)
        };
        let (readings, any): (Vec<_>, Vec<_>) = texts.iter().map(read).unzip();
        let is_any = any.contains(&true);
        let is_sure = workspace.1
            && texts.len() == 1
            && !is_home
            && !is_any
            && !path.contains(char::is_control);
        Self {
            readings,
            is_home,
            is_any,
            is_sure,
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

/// The ways to read a path. Some tools take addresses or backslashes, and for others these are letters like any.
fn texts(path: &str) -> Vec<String> {
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
        all.extend(found.iter().map(|text| decoded(text)));
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

/// An address with its `%41` replaced.
fn decoded(text: &str) -> String {
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

/// The parts of `path` from `base`, without `.`, `..` and doubled slashes; and whether they lead through a link of `/proc`.
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
        // On the way, and not at the end: dots after a link go up from where it leads.
        is_linked |= match &parts[..] {
            ["proc", _, door] => DOORS.contains(door),
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
    /// The directories that lead to what is meant: who moves one away moves all that is below.
    above: Vec<GlobMatcher>,
}

/// What a pattern is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// `src/**`: the path below the workspace.
    Inside,
    /// `**/.env`: the same; and in a rule that denies or asks, any other path too.
    Any,
    /// `/etc/**`: the absolute path.
    Absolute,
}

impl Glob {
    /// Compiles a pattern; more than one for rules that are to see as much as they can.
    pub(super) fn compile(pattern: &str, is_wide: bool) -> Result<Vec<Self>, String> {
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        if pattern.is_empty() || pattern.ends_with('/') {
            return Err(format!(
                "the path {pattern:?} names no file: write \"{pattern}**\" for all below it"
            ));
        }
        if pattern.starts_with('~') {
            return Err(format!(
                "the path {pattern:?}: ~ is not expanded, write the absolute path"
            ));
        }
        if pattern.split('/').any(|part| part == "..") {
            return Err(format!(
                "the path {pattern:?} must not hold \"..\": write the absolute path"
            ));
        }
        // Who closes all below a directory closes the directory: a search would go through it.
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
            leading(pattern)
        } else {
            Vec::new()
        };
        // One that cannot be read alone is half of an alternative with a slash in it.
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

    /// Whether it is certain that the path is meant.
    pub(super) fn is_sure_of(&self, place: &Place) -> bool {
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
        place.is_sure && place.readings.iter().all(is_match)
    }

    /// Whether the path may be meant.
    pub(super) fn may_mean(&self, place: &Place) -> bool {
        place.is_any
            || (place.is_home && self.reach != Reach::Any)
            || place
                .readings
                .iter()
                .any(|reading| self.fits(&self.matcher, reading))
    }

    /// Whether the path may be a directory in which something is that is meant.
    pub(super) fn may_be_below(&self, place: &Place) -> bool {
        place.readings.iter().any(|reading| match self.reach {
            Reach::Absolute => {
                reading.absolute == "/" || self.above.iter().any(|above| self.fits(above, reading))
            }
            _ => reading.is_above || self.above.iter().any(|above| self.fits(above, reading)),
        })
    }

    fn fits(&self, matcher: &GlobMatcher, reading: &Reading) -> bool {
        let is_inside = reading
            .inside
            .as_ref()
            .is_some_and(|inside| matcher.is_match(inside));
        match self.reach {
            Reach::Absolute => matcher.is_match(&reading.absolute),
            Reach::Inside => is_inside,
            // What lies above the workspace does not count for what is certainly in it.
            Reach::Any if reading.is_exact => is_inside,
            Reach::Any => is_inside || matcher.is_match(reading.absolute.trim_start_matches('/')),
        }
    }
}

/// What stands in a pattern before each of its slashes. Left out is what any path would match: then every edit would look like
/// one of a directory in which something is that is meant.
fn leading(pattern: &str) -> Vec<&str> {
    let names = |part: &str| part.contains(|c| !"*?".contains(c));
    let before = pattern.match_indices('/').map(|(at, _)| &pattern[..at]);
    before
        .filter(|text| text.rsplit('/').next().is_some_and(names))
        .collect()
}
