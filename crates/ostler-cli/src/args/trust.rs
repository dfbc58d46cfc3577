//! What can be typed about trust in a project.

use std::path::PathBuf;

use clap::Args;

const TRUST_HELP: &str = "\
A project can bring settings along: ostler.toml or .ostler/ostler.toml, .ostler/policy.toml, .ostler/sandbox.toml and .ostler/script.toml. They only narrow what an agent may do, until you trust exactly their contents; a change needs your consent again. `ostler run`, `chat` and `loop` ask on a terminal; --trust-project trusts for one run. docs/trust.md says more.

Examples:
  ostler trust
  ostler trust ~/work/project --yes
  ostler trust --list
  ostler trust --revoke

Exit codes: 0 trusted (or nothing needs trust), 1 not trusted, 2 nobody can be asked and --yes is missing, or a file is wrong. With --json and without --yes it only reports: 0 if every file is trusted, 1 if not.";

#[derive(Debug, Args)]
#[command(after_help = TRUST_HELP)]
pub(crate) struct TrustArgs {
    /// The project [default: this directory]
    pub(crate) dir: Option<PathBuf>,
    /// Trust the files without asking
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    pub(crate) yes: bool,
    /// List the projects that are trusted
    #[arg(long, conflicts_with_all = ["revoke", "dir"])]
    pub(crate) list: bool,
    /// Stop trusting the project
    #[arg(long)]
    pub(crate) revoke: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
