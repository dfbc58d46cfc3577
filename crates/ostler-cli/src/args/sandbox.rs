//! What can be typed about the sandbox of commands.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const SANDBOX_HELP: &str = "\
A model that runs commands through Ostler (agents openai-api and scripted) runs them in a sandbox: only allowed commands, only the workspace writable, nothing of your home but tools readable, no network, limits on time, processes and files. What you allow beyond that is in your own sandbox.toml, beside policy.toml. A workspace asks for more in its .ostler/sandbox.toml, and gets it only if you trust that file (`ostler trust`). docs/sandbox.md describes both.

`ostler sandbox check` makes real attempts to get out, from inside, and says what stopped each.

`ostler run --sandbox workspace-write|read-only` puts a similar sandbox around an agent that brings its own tools.

Exit codes of check: 0 the default policy holds here, 1 something leaked or does not work.";

#[derive(Debug, Args)]
#[command(after_help = SANDBOX_HELP)]
pub(crate) struct SandboxArgs {
    #[command(subcommand)]
    pub(crate) verb: SandboxVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxVerb {
    /// Try to get out of the sandbox, and say what is enforced on this machine
    #[command(after_help = SANDBOX_HELP)]
    Check(SandboxCheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SandboxCheckArgs {
    /// Also read the policy of this workspace, and say what it asks for and what it gets
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
