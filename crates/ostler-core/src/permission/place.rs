//! Where a path is, by its letters alone, and the patterns for paths.
//!
//! Nothing here looks at the disk, so a symbolic link is not seen: a path inside the workspace may lead out of it. What keeps a
//! process in for certain is a sandbox.

use globset::{GlobBuilder, GlobMatcher};

/// A path as an agent wrote it, and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Below the workspace; none for what is outside.
    inside: Option<String>,
    absolute: String,
    /// It begins with `~`, and nobody here knows whose home that is.
    is_home: bool,
    /// Tools may read it otherwise: `~`, backslashes, addresses.
    is_sure: bool,
}

impl Place {
    pub(super) fn of(path: &str, workspace: &str) -> Self {
        let is_home = path.starts_with('~');
        let is_sure = workspace.starts_with('/')
            && !is_home
            && !path.contains("://")
            && !path.contains(|c: char| c == '\\' || c.is_control());
        let path = path.split_once("://").map_or(path, |(_, rest)| rest).replace('\\', "/");
        let workspace = normal("/", workspace);
        let absolute = normal(if path.starts_with('/') { "/" } else { &workspace }, &path);
        let below = absolute.strip_prefix(workspace.trim_end_matches('/'));
        let inside = below.filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let inside = inside.map(|rest| rest.trim_start_matches('/').to_owned());
        Self { inside, absolute, is_home, is_sure }
    }
}

/// `path` from `base`, without `.`, `..` and doubled slashes.
fn normal(base: &str, path: &str) -> String {
    let mut parts = Vec::new();
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// A pattern for paths.
#[derive(Debug, Clone)]
pub(super) struct Glob {
    reach: Reach,
    matcher: GlobMatcher,
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
            return Err(format!("the path {pattern:?} names no file: write \"{pattern}**\" for all below it"));
        }
        if pattern.starts_with('~') {
            return Err(format!("the path {pattern:?}: ~ is not expanded, write the absolute path"));
        }
        if pattern.split('/').any(|part| part == "..") {
            return Err(format!("the path {pattern:?} must not hold \"..\": write the absolute path"));
        }
        // Who closes all below a directory closes the directory: a search would go through it.
        let itself = pattern.strip_suffix("/**").filter(|itself| is_wide && !itself.is_empty());
        let reach = match pattern {
            p if p.starts_with('/') => Reach::Absolute,
            p if p.starts_with("**") => Reach::Any,
            _ => Reach::Inside,
        };
        let one = |text: &str| {
            let glob = GlobBuilder::new(text).literal_separator(true).case_insensitive(is_wide).build();
            let glob = glob.map_err(|error| format!("the path {pattern:?}: {}", error.kind()))?;
            Ok(Self { reach, matcher: glob.compile_matcher() })
        };
        [Some(pattern), itself].into_iter().flatten().map(one).collect()
    }

    /// Whether it is certain that the path is meant.
    pub(super) fn is_sure_of(&self, place: &Place) -> bool {
        let text = if self.reach == Reach::Absolute { Some(&place.absolute) } else { place.inside.as_ref() };
        place.is_sure && text.is_some_and(|text| self.matcher.is_match(text))
    }

    /// Whether the path may be meant.
    pub(super) fn may_mean(&self, place: &Place) -> bool {
        let is_match = |text: &str| self.matcher.is_match(text);
        match self.reach {
            Reach::Absolute => place.is_home || is_match(&place.absolute),
            Reach::Inside => place.inside.as_deref().is_some_and(is_match),
            Reach::Any => match &place.inside {
                Some(inside) => is_match(inside),
                None => is_match(place.absolute.trim_start_matches('/')),
            },
        }
    }
}
