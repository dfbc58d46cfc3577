//! Arguments of `ostler sandbox`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(super) const SANDBOX_HELP: &str = "\
Commands that Ostler runs for a model (agents openai-api and scripted, and loops) run in a sandbox:
  - only allowed commands can run
  - only the workspace is writable
  - nothing in your home directory is readable, except installed tools
  - there is no network
  - time, processes and files are limited

Your own sandbox.toml, next to policy.toml, can allow more. A project's .ostler/sandbox.toml can \
request more, and gets it only if you trust that file (`ostler trust`). See docs/sandbox.md.

`ostler run --sandbox workspace-write|read-only` puts a similar sandbox around an agent that has \
its own tools.

Examples:
  ostler sandbox check
  ostler sandbox check --dir ~/work/project --json

Exit codes of `check`: 0 the default policy is enforced, 1 something leaked or failed.";

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxVerb {
    /// Try to escape from the sandbox and report what stopped each attempt
    #[command(after_help = SANDBOX_HELP)]
    Check(SandboxCheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SandboxCheckArgs {
    /// Also show what this project's sandbox.toml requests and gets
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
