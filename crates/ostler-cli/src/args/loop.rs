//! What can be typed about a loop: a model, its tools, what ends it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{
    AgentSettings, CommandArgs, ConfigArgs, LimitArgs, PolicyArgs, SESSION, SizeLimits, StartArgs,
    TaskArgs, Time, time,
};

const LOOP_HELP: &str = "\
The model is asked again and again; Ostler runs the tools that it calls, until it has an answer and --until, if given, succeeds. What --until prints goes back to the model when it fails. docs/loop.md says more.

Models:
  claude-cli, codex-cli:gpt-5   an installed agent without its own tools;
                                after the colon, one of its models
  openai:gpt-5-mini             a model of OpenAI, or of the server that
                                OPENAI_BASE_URL names (OPENAI_API_KEY)
  review, local:qwen3           a name from your ostler.toml
  openai-compatible:http://localhost:8000/v1#qwen3
  scripted:FILE                 a script that plays a model
                                (docs/agents/scripted.md)

Examples:
  ostler loop \"make the tests pass\" --model claude-cli --until 'cargo test'
  ostler loop \"tidy up src/\" --mode approve --ask --max-iterations 30
  ostler loop --resume SESSION-ID approve

Exit codes: as of `ostler run`; 6 a condition stopped it, 8 it needs an answer or an approval: --resume goes on with it.";

#[derive(Debug, Args)]
#[command(after_help = LOOP_HELP)]
pub(crate) struct LoopArgs {
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    /// The model, see below [default: that of the session gone on with, else the agent that `ostler run` would choose]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The tools that the model gets
    #[arg(long, value_enum, value_name = "WHICH", default_value_t)]
    pub(crate) tools: ToolSet,
    /// The work is done when this command succeeds. No shell reads it; it runs in --dir, with your rights, outside of the sandbox.
    /// The model may run it too, in the sandbox
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    pub(crate) until: Option<String>,
    /// The longest that --until may take, each time [default: 30m]
    #[arg(long, value_name = "TIME", value_parser = time, requires = "until")]
    pub(crate) until_timeout: Option<Time>,
    /// What the loop does by itself [default: auto]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) mode: Option<LoopMode>,
    /// Let the model ask you; where nobody can be asked, the loop ends with the question (exit code 8)
    #[arg(long)]
    pub(crate) ask: bool,
    /// What the model is told before the task, in place of what it is told else; @FILE for a file
    #[arg(
        long,
        value_name = "TEXT|@FILE",
        visible_alias = "system-prompt",
        allow_hyphen_values = true
    )]
    pub(crate) instructions: Option<String>,
    /// What it is told besides
    #[arg(long, value_name = "TEXT|@FILE", allow_hyphen_values = true)]
    pub(crate) append_system_prompt: Option<String>,
    /// Demand an answer of this schema: JSON, or a file that holds it
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) json_schema: Option<String>,
    /// A setting of the loop's own (docs/agents/loop.md), such as price=2.5/1.25/10 (repeatable)
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true)]
    pub(crate) set: Vec<String>,
    /// Add a variable to the environment of a model that is an agent; NAME alone passes yours on (repeatable)
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// The directory to work in [default: this one]
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Resume an earlier loop: the task is the answer to what it asked, or what to do next
    #[arg(long, value_name = "ID", allow_hyphen_values = true, help_heading = SESSION)]
    pub(crate) resume: Option<String>,
    /// Go on with the latest loop of this directory
    #[arg(long = "continue", conflicts_with_all = ["resume", "no_store"], help_heading = SESSION)]
    pub(crate) go_on: bool,
    /// Resume a copy of the loop given by --resume
    #[arg(long, help_heading = SESSION)]
    pub(crate) fork: bool,
    /// Do not keep the session (docs/sessions.md)
    #[arg(long, help_heading = SESSION)]
    pub(crate) no_store: bool,
    /// Write what the model answers to a file
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

/// The tools of a loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolSet {
    /// Files of the directory, and commands in the sandbox
    #[default]
    Workspace,
    /// None
    None,
}

/// What a loop does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoopMode {
    /// All that it may
    Auto,
    /// Look, change nothing, and say what it would do
    Plan,
    /// Look; you approve what changes something, call by call
    Approve,
}

/// What stops a loop.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LoopLimits {
    /// The longest the task may take, such as 90s, 10m, 2h, none [default: as configured, else 1h]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) timeout: Option<Time>,
    /// The longest that one answer of the model may take; the time that its tools take does not count [default: as --timeout]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) reply_timeout: Option<Time>,
    /// The longest that one tool may take
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) tool_timeout: Option<Time>,
    /// At most so many answers of the model [default: as configured, else 100]
    #[arg(long, value_name = "N", visible_alias = "max-turns")]
    pub(crate) max_iterations: Option<String>,
    /// At most so many tool calls
    #[arg(long, value_name = "N")]
    pub(crate) max_tool_calls: Option<String>,
    /// At most so many tokens in, all answers together
    #[arg(long, value_name = "N")]
    pub(crate) max_input_tokens: Option<String>,
    /// At most so many tokens out, all answers together
    #[arg(long, value_name = "N")]
    pub(crate) max_output_tokens: Option<String>,
    /// At most so much money; a model whose cost is not known is stopped rather than trusted
    #[arg(long, value_name = "USD")]
    pub(crate) max_budget_usd: Option<String>,
    /// How many steps in a row may come to nothing [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) max_errors: Option<String>,
    /// How many tokens the model takes in: before it is full, old messages are summarised
    #[arg(long, value_name = "TOKENS")]
    pub(crate) context_window: Option<String>,
    #[command(flatten)]
    pub(crate) sizes: SizeLimits,
}

impl LoopArgs {
    /// The same in the words of every verb. What is left out is the loop's own.
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
            go_on: self.go_on,
            no_store: self.no_store,
            raw_log: self.raw_log.clone(),
            ..StartArgs::default()
        }
    }
}
