//! The program `file-tools`: the file tools of a workspace, for agents that only have a shell.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use ostler_tools::{Code, ToolError, Workspace};

mod help;
mod request;
mod verbs;

use request::Asked;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (text, code) = match answer(&args) {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(error) => (error_json(&error), ExitCode::FAILURE),
    };
    match print(&text) {
        Ok(()) => code,
        // Whoever reads has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => code,
        Err(_) => ExitCode::FAILURE,
    }
}

/// What goes to stdout.
fn answer(args: &[OsString]) -> Result<String, ToolError> {
    match request::read(args, &mut io::stdin())? {
        Asked::Show(text) => Ok(text),
        Asked::Run {
            workspace,
            tool,
            input,
        } => {
            let policy = Workspace::load_policy(Path::new(&workspace))
                .map_err(|error| hinted(error, &workspace))?;
            let workspace = Workspace::open(Path::new(&workspace), &policy.files)?;
            workspace.call(&tool, &input).map(|reply| reply.json)
        }
    }
}

/// A verb in the first place is a workspace that was forgotten.
fn hinted(error: ToolError, workspace: &OsString) -> ToolError {
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
