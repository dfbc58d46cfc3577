//! Arguments of `ostler trust`.

use std::path::PathBuf;

use clap::Args;

const TRUST_HELP: &str = "\
A project can contain settings files: ostler.toml or .ostler/ostler.toml, .ostler/policy.toml, \
.ostler/sandbox.toml and .ostler/script.toml. Until you trust them, they can only restrict what \
an agent may do. Trust applies to their exact contents: any change needs your approval again.

On a terminal, `ostler run`, `chat` and `loop` ask; `--trust-project` trusts the files for one \
run. See docs/trust.md.

Examples:
  ostler trust
  ostler trust ~/work/project --yes
  ostler trust --list
  ostler trust --revoke

With `--json` and without `--yes` the command only reports.

Exit codes: 0 everything is trusted (or nothing needs trust), 1 not trusted, 2 an invalid file, \
or no terminal and no `--yes`.";

#[derive(Debug, Args)]
#[command(after_help = TRUST_HELP)]
pub(crate) struct TrustArgs {
    /// Project directory [default: current directory]
    pub(crate) dir: Option<PathBuf>,
    /// Trust the files without asking
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    pub(crate) yes: bool,
    /// List trusted projects
    #[arg(long, conflicts_with_all = ["revoke", "dir"])]
    pub(crate) list: bool,
    /// Stop trusting the project
    #[arg(long)]
    pub(crate) revoke: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
