//! The globs that a model gives: at any depth if they name no directory, else from where the tool starts.

use std::path::Path;

use globset::{GlobBuilder, GlobSet};

use super::limits::PATTERN_BYTES;
use crate::{Code, ToolError};

/// How much is told of why a glob is none.
const WHY_BYTES: usize = 200;

/// A glob, ready to be asked.
#[derive(Debug)]
pub(super) struct Pattern {
    glob: GlobSet,
    is_of_names: bool,
}

impl Pattern {
    /// Reads a glob; `field` is what the argument is called.
    pub(super) fn new(text: &str, field: &str) -> Result<Self, ToolError> {
        check_length(text, field)?;
        let body = text
            .strip_prefix("./")
            .or_else(|| text.strip_prefix('/'))
            .unwrap_or(text);
        if body.is_empty() {
            let message = format!(
                "`{field}` is empty: give a glob such as `*.rs` or `src/**`, or leave it out"
            );
            return Err(ToolError::new(Code::BadArguments, message));
        }
        // As a set, since that is an error when it cannot be compiled; a single glob panics.
        let glob = GlobBuilder::new(body)
            .literal_separator(true)
            .build()
            .and_then(|glob| GlobSet::new([glob]));
        let glob = glob.map_err(|error| {
            let mut why = error.kind().to_string();
            why.truncate(why.floor_char_boundary(WHY_BYTES));
            let message =
                format!("`{field}` is not a glob: {why} (such as `*.rs`, `src/**/*.{{js,ts}}`)");
            ToolError::new(Code::BadArguments, message)
        })?;
        Ok(Self {
            glob,
            is_of_names: !text.contains('/'),
        })
    }

    /// Whether a path, relative to where the tool starts, is meant.
    pub(super) fn matches(&self, path: &Path) -> bool {
        if self.is_of_names {
            path.file_name()
                .is_some_and(|name| self.glob.is_match(name))
        } else {
            self.glob.is_match(path)
        }
    }
}

/// Refuses a pattern that is too long to be meant.
pub(super) fn check_length(text: &str, field: &str) -> Result<(), ToolError> {
    if text.len() > PATTERN_BYTES {
        let message = format!("`{field}` has more than {PATTERN_BYTES} bytes: give a shorter one");
        return Err(ToolError::new(Code::BadArguments, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_without_a_directory_holds_at_any_depth() {
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
    fn a_glob_that_is_too_deep_is_an_error() {
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
