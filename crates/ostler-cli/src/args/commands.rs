//! Arguments about the commands that a model may run.

use clap::{Args, ValueEnum};

/// Commands of the tool `run_command`.
#[derive(Debug, Clone, Default, Args)]
#[command(
    next_help_heading = "Commands (agents with Ostler's own tools: openai-api, scripted, loops)"
)]
pub(crate) struct CommandArgs {
    /// Commands the model may run [default: as .ostler/sandbox.toml says, else build, or strict where the sandbox has a gap]
    #[arg(long, value_enum, value_name = "PRESET")]
    pub(crate) commands: Option<Commands>,
    /// Allow a command as it stands, with any further arguments, such as 'cargo test' (repeatable)
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    pub(crate) allow_command: Vec<String>,
}

/// The presets of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Commands {
    /// git, just and what rules of .ostler/sandbox.toml name
    Strict,
    /// Also the project's build and test tools, and tools that only read
    Build,
    /// Every program on PATH; only where the whole sandbox holds
    Any,
}
