//! Paths in tool arguments, made relative to the workspace by their text alone. The handle enforces
//! the rest.

use std::path::{Component, Path, PathBuf};

use super::io_errors::{display_path, outside};
use super::limits::PATH_BYTES;
use crate::ToolError;
use crate::names::is_deceiving;

/// A path below the workspace, without `..`; empty for the workspace itself.
#[derive(Debug)]
pub(super) struct GivenPath {
    /// Path relative to the workspace.
    pub(super) path: PathBuf,
    /// The path as messages show it.
    pub(super) display: String,
}

impl GivenPath {
    /// Parses a path. An absolute path is accepted if its text begins with one of the roots.
    pub(super) fn new(text: &str, roots: [&Path; 2]) -> Result<Self, ToolError> {
        if text.len() > PATH_BYTES {
            return Err(bad(&format!(
                "the path has more than {PATH_BYTES} bytes: give a shorter one"
            )));
        }
        let display = display_path(text);
        if text.is_empty() {
            return Err(bad(
                "the path is empty: name a file, or `.` for the workspace itself",
            ));
        }
        if text.contains('\0') {
            return Err(bad(&format!("{display}: a path cannot contain NUL")));
        }
        // Nothing expands `~` here, and a directory of that name is only ever created by mistake.
        if text == "~" || text.starts_with("~/") || climbs_with_backslashes(text) {
            return Err(outside(&display));
        }
        let path = Path::new(text);
        let relative = if path.has_root() {
            let below = roots
                .iter()
                .filter(|root| root.is_absolute())
                .find_map(|root| path.strip_prefix(root).ok());
            below.ok_or_else(|| outside(&display))?
        } else {
            path
        };
        let mut path = PathBuf::new();
        for component in relative.components() {
            match component {
                Component::CurDir => {}
                Component::Normal(name) => path.push(name),
                Component::ParentDir if path.pop() => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(outside(&display));
                }
            }
        }
        Ok(Self { path, display })
    }

    /// Returns true for the workspace itself.
    pub(super) fn is_root(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    /// Refuses names that a new file should not have. Existing files with such names can still be
    /// read, moved and deleted.
    pub(super) fn check_new(&self) -> Result<(), ToolError> {
        let text = self.path.to_string_lossy();
        if text.contains(is_deceiving) {
            return Err(bad(&format!(
                "{}: a new name cannot contain control characters, line separators or direction marks",
                self.display
            )));
        }
        if cfg!(not(windows)) && text.contains('\\') {
            return Err(bad(&format!(
                "{}: a new name cannot contain a backslash; separate directories with /",
                self.display
            )));
        }
        Ok(())
    }
}

/// Returns true if a path would climb out of the workspace on a system where `\` separates
/// directories.
fn climbs_with_backslashes(text: &str) -> bool {
    let mut depth = 0_usize;
    for part in text.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." if depth == 0 => return text.contains('\\'),
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

fn bad(message: &str) -> ToolError {
    ToolError::bad_arguments(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> Result<String, &'static str> {
        let given = GivenPath::new(text, [Path::new("/ws"), Path::new("/link")]);
        given
            .map(|given| given.path.to_str().unwrap().to_owned())
            .map_err(|error| error.code.as_str())
    }

    #[test]
    fn paths_are_normalized_relative_to_the_workspace() {
        for (text, path) in [
            ("a", "a"),
            ("./a//b/", "a/b"),
            ("a/../b", "b"),
            (".", ""),
            ("a/..", ""),
            ("/ws/a", "a"),
            ("/link/a", "a"),
            ("/ws", ""),
            ("-rf", "-rf"),
            ("...", "..."),
            ("a~", "a~"),
            ("%2e%2e/x", "%2e%2e/x"),
        ] {
            assert_eq!(given(text), Ok(path.to_owned()), "{text}");
        }
    }

    #[test]
    fn paths_that_leave_the_workspace_are_refused() {
        for text in [
            "..",
            "../a",
            "a/../../b",
            "./../a",
            "/etc/passwd",
            "/ws2/a",
            "/ws/../etc",
            "~/.ssh",
            "~",
            "..\\a",
            "a\\..\\..\\b",
        ] {
            assert_eq!(given(text), Err("path_outside_workspace"), "{text}");
        }
        for text in ["", "a\0b"] {
            assert_eq!(given(text), Err("bad_arguments"), "{text}");
        }
    }
}
