//! Arguments of `ostler loop`: the model, its tools and what ends the loop.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{
    AgentSettings, CommandArgs, ConfigArgs, LimitArgs, PolicyArgs, SESSION, SizeLimits, StartArgs,
    TaskArgs, Time,
};

const LOOP_HELP: &str = "\
Ostler calls the model repeatedly and runs the tools it asks for, until it answers and the \
`--until` command, if given, succeeds. If that command fails, its output goes back to the model. \
See docs/loop.md.

Models:
  claude-cli, codex-cli:gpt-5   an installed agent without its own tools,
                                optionally with one of its models
  openai:gpt-5-mini             an OpenAI model, or one on the server at
                                OPENAI_BASE_URL (uses OPENAI_API_KEY)
  review, local:qwen3           a name from your ostler.toml
  openai-compatible:http://localhost:8000/v1#qwen3
                                a model on any OpenAI-compatible server
  scripted:FILE                 a script that plays the model; see
                                docs/agents/scripted.md

Examples:
  ostler loop \"make the tests pass\" --model claude-cli --until 'cargo test'
  ostler loop \"tidy up src/\" --mode approve --ask --max-iterations 30
  ostler loop --resume SESSION-ID approve

Exit codes: those of `ostler run`; 6 a limit stopped the loop, 8 it needs an answer or an \
approval (continue with `--resume`).";

#[derive(Debug, Args)]
#[command(after_help = LOOP_HELP)]
pub(crate) struct LoopArgs {
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    /// Model to use; see Models below
    ///
    /// [default: the resumed session's model, or the agent that `ostler run` would choose]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Tools available to the model
    #[arg(long, value_enum, value_name = "SET", default_value_t)]
    pub(crate) tools: ToolSet,
    /// Command that must succeed before the loop ends
    ///
    /// It runs without a shell, in `--dir`, with your permissions and outside the sandbox. The
    /// model may run it too, inside the sandbox.
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    pub(crate) until: Option<String>,
    /// Time limit for each run of the `--until` command [default: 30m]
    #[arg(long, value_name = "TIME", requires = "until")]
    pub(crate) until_timeout: Option<Time>,
    /// Actions the loop takes without approval [default: auto]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) mode: Option<LoopMode>,
    /// Let the model ask you questions
    ///
    /// Without a terminal, the loop ends with the question and exit code 8.
    #[arg(long)]
    pub(crate) ask: bool,
    /// Replace the system prompt; @FILE reads a file
    #[arg(
        long,
        value_name = "TEXT|@FILE",
        visible_alias = "system-prompt",
        allow_hyphen_values = true
    )]
    pub(crate) instructions: Option<String>,
    /// Append to the system prompt; @FILE reads a file
    #[arg(long, value_name = "TEXT|@FILE", allow_hyphen_values = true)]
    pub(crate) append_system_prompt: Option<String>,
    /// JSON schema that the answer must match, as JSON or a file
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) json_schema: Option<String>,
    /// Loop setting, such as price=2.5/1.25/10; see docs/agents/loop.md (repeatable)
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true)]
    pub(crate) set: Vec<String>,
    /// Set a variable for an agent used as the model; NAME alone passes your value (repeatable)
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// Working directory [default: current directory]
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Resume a loop
    ///
    /// The task is then the answer to its question, or what to do next.
    #[arg(long, value_name = "ID", allow_hyphen_values = true, help_heading = SESSION)]
    pub(crate) resume: Option<String>,
    /// Resume the latest loop in this directory
    #[arg(long = "continue", conflicts_with_all = ["resume", "no_store"], help_heading = SESSION)]
    pub(crate) continue_latest: bool,
    /// Continue in a copy of the loop given by `--resume`
    #[arg(long, help_heading = SESSION)]
    pub(crate) fork: bool,
    /// Do not store the session; see docs/sessions.md
    #[arg(long, help_heading = SESSION)]
    pub(crate) no_store: bool,
    /// Write the model's raw replies to a file
    #[arg(long, value_name = "FILE", help_heading = SESSION)]
    pub(crate) raw_log: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) limits: LoopLimits,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) commands: CommandArgs,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

/// Tools of a loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolSet {
    /// Files in the working directory, and commands in the sandbox
    #[default]
    Workspace,
    /// No tools
    None,
}

/// Actions a loop takes without approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoopMode {
    /// Everything the policy allows
    Auto,
    /// Read only, and describe what it would do
    Plan,
    /// Read only; you approve each call that changes something
    Approve,
}

/// Limits of a loop.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LoopLimits {
    /// Time limit for the task, such as 90s, 10m, 2h or none [default: 1h]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<Time>,
    /// Time limit for one model reply, without its tools [default: --timeout]
    #[arg(long, value_name = "TIME")]
    pub(crate) reply_timeout: Option<Time>,
    /// Time limit for one tool call
    #[arg(long, value_name = "TIME")]
    pub(crate) tool_timeout: Option<Time>,
    /// Maximum number of model replies [default: 100]
    #[arg(long, value_name = "N", visible_alias = "max-turns")]
    pub(crate) max_iterations: Option<String>,
    /// Maximum number of tool calls
    #[arg(long, value_name = "N")]
    pub(crate) max_tool_calls: Option<String>,
    /// Maximum number of input tokens, over all replies
    #[arg(long, value_name = "N")]
    pub(crate) max_input_tokens: Option<String>,
    /// Maximum number of output tokens, over all replies
    #[arg(long, value_name = "N")]
    pub(crate) max_output_tokens: Option<String>,
    /// Maximum cost in US dollars
    ///
    /// The loop stops if the model's cost is unknown.
    #[arg(long, value_name = "USD")]
    pub(crate) max_budget_usd: Option<String>,
    /// Maximum number of consecutive failed steps [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) max_errors: Option<String>,
    /// Context window of the model, in tokens
    ///
    /// Old messages are summarized before it is full.
    #[arg(long, value_name = "TOKENS")]
    pub(crate) context_window: Option<String>,
    #[command(flatten)]
    pub(crate) sizes: SizeLimits,
}

impl LoopArgs {
    /// Returns the arguments shared by all verbs; those specific to a loop are left out.
    pub(crate) fn start(&self, agent: &str) -> StartArgs {
        StartArgs {
            agent: Some(agent.to_owned()),
            dir: self.dir.clone(),
            agent_settings: AgentSettings {
                json_schema: self.json_schema.clone(),
                resume: self.resume.clone(),
                fork: self.fork,
                set: self.set.clone(),
                ..AgentSettings::default()
            },
            limits: LimitArgs {
                timeout: self.limits.timeout,
                max_turns: self.limits.max_iterations.clone(),
                max_budget_usd: self.limits.max_budget_usd.clone(),
                sizes: self.limits.sizes,
                ..LimitArgs::default()
            },
            policy: self.policy.clone(),
            commands: self.commands.clone(),
            config: self.config,
            continue_latest: self.continue_latest,
            no_store: self.no_store,
            raw_log: self.raw_log.clone(),
            ..StartArgs::default()
        }
    }
}
