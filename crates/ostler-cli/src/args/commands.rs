//! Arguments that choose the commands a model may run.

use clap::{Args, ValueEnum};

/// Commands available to the `run_command` tool.
#[derive(Debug, Clone, Default, Args)]
#[command(
    next_help_heading = "Commands (for agents that use Ostler's tools: openai-api, scripted, loop)"
)]
pub(crate) struct CommandArgs {
    /// Commands the model may run
    ///
    /// [default: the preset in .ostler/sandbox.toml, or build; strict if the sandbox has a gap]
    #[arg(long, value_enum, value_name = "PRESET")]
    pub(crate) commands: Option<Commands>,
    /// Allow a command with any further arguments, such as 'cargo test' (repeatable)
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    pub(crate) allow_command: Vec<String>,
}

/// Command presets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Commands {
    /// git, just, and the commands listed in .ostler/sandbox.toml
    Strict,
    /// strict, plus the project's build and test tools, and read-only tools
    Build,
    /// Every program on PATH; requires a sandbox without gaps
    Any,
}
