//! Globs in tool arguments: they match at any depth if they name no directory, otherwise from the
//! tool's starting directory.

use std::path::Path;

use globset::{GlobBuilder, GlobSet};

use super::limits::PATTERN_BYTES;
use crate::ToolError;

/// Maximum length of the reason given for an invalid glob.
const REASON_BYTES: usize = 200;

/// A compiled glob.
#[derive(Debug)]
pub(super) struct Pattern {
    glob: GlobSet,
    matches_names: bool,
}

impl Pattern {
    /// Parses a glob; `field` is the name of the argument.
    pub(super) fn new(text: &str, field: &str) -> Result<Self, ToolError> {
        check_length(text, field)?;
        let body = text
            .strip_prefix("./")
            .or_else(|| text.strip_prefix('/'))
            .unwrap_or(text);
        if body.is_empty() {
            let message =
                format!("`{field}` is empty: give a glob such as `*.rs` or `src/**`, or omit it");
            return Err(ToolError::bad_arguments(message));
        }
        // Built as a set, because that returns an error when it cannot be compiled; a single glob
        // panics.
        let glob = GlobBuilder::new(body)
            .literal_separator(true)
            .build()
            .and_then(|glob| GlobSet::new([glob]));
        let glob = glob.map_err(|error| {
            let mut reason = error.kind().to_string();
            reason.truncate(reason.floor_char_boundary(REASON_BYTES));
            let message =
                format!("`{field}` is not a glob: {reason} (such as `*.rs`, `src/**/*.{{js,ts}}`)");
            ToolError::bad_arguments(message)
        })?;
        Ok(Self {
            glob,
            matches_names: !text.contains('/'),
        })
    }

    /// Returns true if a path, relative to the tool's starting directory, matches.
    pub(super) fn matches(&self, path: &Path) -> bool {
        if self.matches_names {
            path.file_name()
                .is_some_and(|name| self.glob.is_match(name))
        } else {
            self.glob.is_match(path)
        }
    }
}

/// Refuses an overlong pattern.
pub(super) fn check_length(text: &str, field: &str) -> Result<(), ToolError> {
    if text.len() > PATTERN_BYTES {
        let message = format!("`{field}` has more than {PATTERN_BYTES} bytes: give a shorter one");
        return Err(ToolError::bad_arguments(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn glob_without_a_directory_matches_at_any_depth() {
        for (glob, path, expected) in [
            ("*.rs", "a.rs", true),
            ("*.rs", "src/a.rs", true),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/b/a.rs", false),
            ("src/**/*.rs", "src/b/a.rs", true),
            ("./a", "a", true),
            ("**", "a/b", true),
            ("*.{js,ts}", "x/a.ts", true),
        ] {
            let pattern = Pattern::new(glob, "pattern").unwrap();
            assert_eq!(pattern.matches(Path::new(path)), expected, "{glob} {path}");
        }
    }
    #[test]
    fn deeply_nested_glob_is_an_error() {
        for depth in [150, 1_000] {
            let glob = format!("{}{}", "{a,".repeat(depth), "}".repeat(depth));
            let error = Pattern::new(&glob, "pattern").unwrap_err();
            assert!(
                error.code == Code::BadArguments && error.message.len() < 500,
                "{error}"
            );
        }
    }
}
