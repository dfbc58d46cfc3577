//! `make_directory`: a directory and those above it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::root::Root;
use super::rules::Access;
use crate::names::quoted;
use crate::{Code, ToolError};

/// What to make.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MakeDirectory {
    /// The directory, relative to the workspace. Those above it that are missing are made too.
    path: String,
}

/// What was made.
#[derive(Debug, Serialize)]
pub(crate) struct Made {
    path: String,
    /// How many directories are new; none if it was there already.
    created: usize,
}

impl Answer for Made {
    fn text(&self) -> String {
        match self.created {
            0 => format!("the directory {} was there already", quoted(&self.path)),
            _ => format!("made the directory {}", quoted(&self.path)),
        }
    }
}

/// Makes the directory.
pub(crate) fn run(root: &Root, args: &MakeDirectory) -> Result<Made, ToolError> {
    let given = root.given(&args.path, Access::Read)?;
    let made = match root.open_dir(&given.path) {
        Ok(_) => 0,
        Err(_) => {
            given.check_new()?;
            root.make_directories(&given.path, &given.shown)
                .map_err(in_the_way)?
                .keep()
        }
    };
    Ok(Made {
        path: root.would_be(&given)?.to_string_lossy().into_owned(),
        created: made,
    })
}

/// What keeps a directory from being made is something else of its name.
fn in_the_way(error: ToolError) -> ToolError {
    match error.code {
        Code::NotADirectory => ToolError::new(
            Code::Exists,
            format!("{}: take another name, or move it away", error.message),
        ),
        _ => error,
    }
}
