//! Program lookup for commands. Never returns a program that the model could have placed there.

use std::path::{Path, PathBuf};

use super::CommandContext;
use crate::{Code, ToolError};

/// Returns the program of a command allowed as given: also by path, absolute or below the
/// workspace.
pub(super) fn find_named(
    command: &str,
    context: &CommandContext<'_>,
) -> Result<PathBuf, ToolError> {
    let file = Path::new(command);
    if file.is_absolute() {
        return match is_program(file) {
            true => Ok(file.to_owned()),
            false => Err(ToolError::new(
                Code::FileNotFound,
                format!("{command} is not an executable file"),
            )),
        };
    }
    match command.contains('/') && !command.starts_with("./") {
        true => find(&format!("./{command}"), context),
        false => find(command, context),
    }
}

/// Returns the program of a command: on PATH outside the workspace, or the workspace's script for
/// `./name`.
pub(super) fn find(command: &str, context: &CommandContext<'_>) -> Result<PathBuf, ToolError> {
    let root = context
        .root
        .canonicalize()
        .unwrap_or_else(|_| context.root.to_owned());
    let missing = |why: String| Err(ToolError::new(Code::FileNotFound, why));
    if let Some(script) = command.strip_prefix("./") {
        let file = root.join(script);
        return match file.canonicalize() {
            Ok(real) if !real.starts_with(&root) => Err(ToolError::new(
                Code::PathOutsideWorkspace,
                format!("{command} is a link that leads out of the workspace"),
            )),
            Ok(real) if is_program(&real) => Ok(real),
            Ok(_) => missing(format!("{command} is not an executable file")),
            Err(_) => missing(format!("{command} is not in the workspace")),
        };
    }
    let mut planted = None;
    for dir in std::env::split_paths(context.path).filter(|dir| dir.is_absolute()) {
        let file = dir.join(command);
        if !is_program(&file) {
            continue;
        }
        // A program below the workspace may be the model's own, however its directory got onto
        // PATH.
        let real = file.canonicalize().unwrap_or_else(|_| file.clone());
        if real.starts_with(&root) || file.starts_with(&root) || file.starts_with(context.root) {
            planted.get_or_insert(file);
            continue;
        }
        return Ok(file);
    }
    match planted {
        Some(file) => Err(ToolError::denied(format!(
            "{command} was found only at {}, inside the workspace; programs there are not run",
            file.display()
        ))),
        None => missing(format!(
            "{command} is allowed but not installed: it is not on PATH"
        )),
    }
}

#[cfg(unix)]
fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(file: &Path) -> bool {
    file.is_file()
}
