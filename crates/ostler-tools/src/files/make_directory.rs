//! `make_directory`: creates a directory and its missing parents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Render;
use super::root::Root;
use super::rules::Access;
use crate::names::quoted;
use crate::{Code, ToolError};

/// Arguments of `make_directory`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MakeDirectory {
    /// The directory, relative to the workspace. Missing parents are created too.
    path: String,
}

/// Result of `make_directory`.
#[derive(Debug, Serialize)]
pub(crate) struct MadeDirectory {
    path: String,
    /// Number of directories created; 0 if the directory already existed.
    created: usize,
}

impl Render for MadeDirectory {
    fn text(&self) -> String {
        match self.created {
            0 => format!("the directory {} already exists", quoted(&self.path)),
            _ => format!("created the directory {}", quoted(&self.path)),
        }
    }
}

/// Creates the directory.
pub(crate) fn run(root: &Root, args: &MakeDirectory) -> Result<MadeDirectory, ToolError> {
    let given = root.parse_path(&args.path, Access::Read)?;
    let created = match root.open_dir(&given.path) {
        Ok(_) => 0,
        Err(_) => {
            given.check_new()?;
            root.make_directories(&given.path, &given.display)
                .map_err(in_the_way)?
                .commit()
        }
    };
    Ok(MadeDirectory {
        path: root
            .prospective_path(&given)?
            .to_string_lossy()
            .into_owned(),
        created,
    })
}

/// Turns the error about a file in the way into `exists`.
fn in_the_way(error: ToolError) -> ToolError {
    match error.code {
        Code::NotADirectory => ToolError::new(
            Code::Exists,
            format!("{}: choose another name, or move the file", error.message),
        ),
        _ => error,
    }
}
