//! The program `file-tools`: the file tools of a workspace, for agents that only have a shell.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use ostler_tools::{Code, ToolError, Workspace};

mod help;
mod request;
mod verbs;

use request::Invocation;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (text, code) = match respond(&args) {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(error) => (error_json(&error), ExitCode::FAILURE),
    };
    match print(&text) {
        Ok(()) => code,
        // The reader has closed the pipe.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => code,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Returns the text for stdout.
fn respond(args: &[OsString]) -> Result<String, ToolError> {
    match request::read(args, &mut io::stdin())? {
        Invocation::Show(text) => Ok(text),
        Invocation::Run {
            workspace,
            tool,
            input,
        } => {
            let policy = Workspace::load_policy(Path::new(&workspace))
                .map_err(|error| with_workspace_hint(error, &workspace))?;
            let workspace = Workspace::open(Path::new(&workspace), &policy.files)?;
            workspace.call(&tool, &input).map(|output| output.json)
        }
    }
}

/// Adds a hint if the first argument is a verb, since the workspace was probably forgotten.
fn with_workspace_hint(error: ToolError, workspace: &OsString) -> ToolError {
    if error.code == Code::FileNotFound && workspace.to_str().and_then(verbs::find).is_some() {
        let message = format!(
            "{} (the first argument is the workspace: {})",
            error.message,
            help::USAGE
        );
        return ToolError::new(error.code, message);
    }
    error
}

fn error_json(error: &ToolError) -> String {
    serde_json::json!({ "error": { "code": error.code.as_str(), "message": error.message } })
        .to_string()
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}
