//! Tool catalog: the names, descriptions and schemas a model sees, and the dispatch of its calls.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::files::arguments::{parse, schema_of};
use crate::files::{
    Render, Root, delete_file, edit_file, list_files, make_directory, move_file, read_file,
    search_files, write_file,
};
use crate::{Code, ToolError};

/// A tool as a model sees it.
#[derive(Debug, Clone)]
pub struct ToolInfo {
    /// Name of the tool.
    pub name: &'static str,
    /// Description for the model.
    pub description: &'static str,
    /// Whether the tool changes nothing, so that several calls can run at once.
    pub only_reads: bool,
    /// JSON schema of the arguments.
    pub schema: fn() -> String,
}

/// Result of a tool call, in two forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// Plain text, for a model.
    pub text: String,
    /// JSON object, for a program.
    pub json: String,
}

/// The file tools.
pub const FILE_TOOLS: &[ToolInfo] = &[
    ToolInfo {
        name: "read_file",
        description: "Read a text file of the workspace. Returns the first 2000 lines; for a part \
                      of a large file set `offset` and `limit` (lines). Binary files and files \
                      with secrets are refused.",
        only_reads: true,
        schema: schema_of::<read_file::ReadFile>,
    },
    ToolInfo {
        name: "write_file",
        description: "Write the whole content of a text file, new or existing; an existing file \
                      is replaced. To change a part of a file use edit_file. Returns a diff.",
        only_reads: false,
        schema: schema_of::<write_file::WriteFile>,
    },
    ToolInfo {
        name: "create_file",
        description: "Create a new text file. Fails if the path already exists.",
        only_reads: false,
        schema: schema_of::<write_file::CreateFile>,
    },
    ToolInfo {
        name: "edit_file",
        description: "Replace text in a file: `find` must occur exactly once, character by \
                      character, so copy it from read_file (without line numbers) and include \
                      enough surrounding lines. For several replacements use `edits`; either all \
                      are applied or none. Returns a diff.",
        only_reads: false,
        schema: schema_of::<edit_file::EditFile>,
    },
    ToolInfo {
        name: "delete_file",
        description: "Delete a file or an empty directory.",
        only_reads: false,
        schema: schema_of::<delete_file::DeleteFile>,
    },
    ToolInfo {
        name: "list_files",
        description: "List the entries of a directory, or with `pattern` all files and \
                      directories below it that match the glob. Skips files that git ignores. \
                      Directories end with a slash.",
        only_reads: true,
        schema: schema_of::<list_files::ListFiles>,
    },
    ToolInfo {
        name: "search_files",
        description: "Find lines that match a regular expression, or with `literal` plain text, \
                      in the files of the workspace. Skips binary files, files with secrets and \
                      files that git ignores. Returns path:line:text.",
        only_reads: true,
        schema: schema_of::<search_files::SearchFiles>,
    },
    ToolInfo {
        name: "move_file",
        description: "Move or rename a file or directory. `to` is the full new path, including \
                      the name.",
        only_reads: false,
        schema: schema_of::<move_file::MoveFile>,
    },
    ToolInfo {
        name: "make_directory",
        description: "Create a directory and its missing parents. Writing a file does this \
                      automatically.",
        only_reads: false,
        schema: schema_of::<make_directory::MakeDirectory>,
    },
];

/// Returns the error for a tool that does not exist. `available` lists the names a caller offers,
/// which may include more than the file tools.
pub fn unknown_tool<'n>(name: &str, available: impl IntoIterator<Item = &'n str>) -> ToolError {
    let names: Vec<&str> = available.into_iter().collect();
    let name: String = name
        .chars()
        .take(100)
        .filter(|char| !char.is_control())
        .collect();
    ToolError::new(
        Code::UnknownTool,
        format!(
            "there is no tool `{name}`; the tools are {}",
            names.join(", ")
        ),
    )
}

/// Runs a file tool.
pub(crate) fn call(root: &Root, name: &str, input: &str) -> Result<ToolOutput, ToolError> {
    let call = Call { root, name, input };
    match name {
        "read_file" => call.run(read_file::run),
        "write_file" => call.run(write_file::run),
        "create_file" => call.run(write_file::create),
        "edit_file" => call.run(edit_file::run),
        "delete_file" => call.run(delete_file::run),
        "list_files" => call.run(list_files::run),
        "search_files" => call.run(search_files::run),
        "move_file" => call.run(move_file::run),
        "make_directory" => call.run(make_directory::run),
        _ => Err(unknown_tool(name, FILE_TOOLS.iter().map(|tool| tool.name))),
    }
}

struct Call<'c> {
    root: &'c Root,
    name: &'c str,
    input: &'c str,
}

impl Call<'_> {
    fn run<T, A>(
        &self,
        tool: fn(&Root, &T) -> Result<A, ToolError>,
    ) -> Result<ToolOutput, ToolError>
    where
        T: DeserializeOwned + JsonSchema,
        A: Render,
    {
        let output = tool(self.root, &parse(self.name, self.input)?)?;
        let json = serde_json::to_string(&output);
        let json = json.map_err(|error| ToolError::io(format!("{}: {error}", self.name)))?;
        Ok(ToolOutput {
            text: output.text(),
            json,
        })
    }
}
