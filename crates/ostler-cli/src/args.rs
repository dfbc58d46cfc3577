//! What can be typed: the command line as clap reads it. What it means is for each verb's own file.

mod acp;
mod commands;
mod config;
mod doctor;
mod r#loop;
mod policy;
mod sandbox;
mod sessions;
mod trust;
mod usage;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::Resettable;
use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use self::acp::AcpArgs;
pub(crate) use self::commands::{CommandArgs, Commands};
pub(crate) use self::config::{
    ConfigArgs, ConfigPathArgs, ConfigShowArgs, ConfigVerb, ConfigVerbArgs, EXAMPLE,
};
pub(crate) use self::doctor::DoctorArgs;
pub(crate) use self::r#loop::{LoopArgs, LoopLimits, LoopMode, ToolSet};
pub(crate) use self::policy::{
    Permissions, PolicyArgs, PolicyShowArgs, PolicyTestArgs, PolicyVerb, PolicyVerbArgs,
};
pub(crate) use self::sandbox::{SandboxArgs, SandboxCheckArgs, SandboxVerb};
pub(crate) use self::sessions::{
    SessionsArgs, SessionsExportArgs, SessionsFilterArgs, SessionsListArgs, SessionsPruneArgs,
    SessionsRmArgs, SessionsSearchArgs, SessionsShowArgs, SessionsVerb, Transcript,
};
pub(crate) use self::trust::TrustArgs;
pub(crate) use self::usage::{UsageArgs, UsageBy};

/// Drive coding agents: one command, one stream of events, nothing left behind.
#[derive(Debug, Parser)]
#[command(
    name = "ostler",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    max_term_width = 110
)]
#[command(
    after_help = "Start with `ostler doctor` to see which agents are ready, then `ostler run \"…\"`."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Give an agent one task and follow it to its end
    Run(Box<RunArgs>),
    /// Let any model work on a task with tools of Ostler's own until it is done, and checked by a command of yours
    Loop(Box<LoopArgs>),
    /// Talk with an agent, turn by turn
    Chat(Box<ChatArgs>),
    /// Serve an agent to an editor that speaks the Agent Client Protocol (ACP), on stdin and stdout
    Acp(Box<AcpArgs>),
    /// Show which agents are installed and ready, and what to do about those that are not
    #[command(visible_alias = "agents")]
    Doctor(DoctorArgs),
    /// Read a recording of an agent's output as if it happened now; nothing is started
    Replay(ReplayArgs),
    /// List stored sessions; show, search, export or remove them
    Sessions(SessionsArgs),
    /// Sum up tokens and costs of stored sessions
    Usage(UsageArgs),
    /// Look into the sandbox in which commands of a model run
    Sandbox(SandboxArgs),
    /// Look into the permission policy: its rules, and which of them decides
    Policy(PolicyVerbArgs),
    /// Look into the configuration of agents: what holds, and where it comes from
    Config(ConfigVerbArgs),
    /// Show what a project's own files ask for, and trust them or not
    Trust(TrustArgs),
    /// Print the JSON schema of what Ostler prints
    Schema(SchemaArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    Man(ManArgs),
    /// Print the version
    Version,
}

/// How a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Streaming text, tool calls, a status line; for people
    Human,
    /// Only the answer
    Text,
    /// One JSON object at the end
    Json,
    /// Every event as one JSON line, as it happens
    Events,
}

impl Format {
    /// Whether it shows text as it is written; the others want the answer only.
    pub(crate) fn is_streaming(self) -> bool {
        matches!(self, Self::Human | Self::Events)
    }
}

const RUN_EXAMPLES: &str = "\
Examples:
  ostler run \"what does this project do?\"
  git diff | ostler run --stdin --output text \"write a commit message\"
  ostler run --agent claude --timeout 10m \"make the tests pass\"
  ostler run --output events \"…\" | jq -c 'select(.type == \"tool_call\")'
  ostler run --resume 0f8fad5b \"and now the documentation\"

Exit codes: 0 completed, 1 agent failed, 2 bad usage, 3 agent unavailable, 4 auth, 5 rate limit, overload or server error, 6 a limit was reached, 7 denied, 8 needs input, 70 internal, 130 interrupted, 143 terminated.";

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    #[command(flatten)]
    pub(crate) start: StartArgs,
}

/// A task, and how what becomes of it is shown.
#[derive(Debug, Args)]
pub(crate) struct TaskArgs {
    /// The task. `-`, or nothing while stdin is not a terminal: read it from stdin
    pub(crate) prompt: Option<String>,
    /// The task, in a form that may begin with a dash
    #[arg(
        short = 'p',
        long = "prompt",
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "prompt"
    )]
    pub(crate) text: Option<String>,
    /// Read the task from a file inside --dir
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "text"])]
    pub(crate) prompt_file: Option<PathBuf>,
    /// Read stdin too, and put it after the task
    #[arg(long)]
    pub(crate) stdin: bool,
    /// How to show the run
    #[arg(short, long, value_enum, default_value_t = Format::Human)]
    output: Format,
    #[command(flatten)]
    pub(crate) view: ViewArgs,
    /// The same as --output json
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

/// What the output for people shows.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct ViewArgs {
    /// Show all output of tools and whole diffs
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Show no tools and no thinking: only the answer, warnings and how it ended
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Notify when it took 30 s or more: `--notify` rings the terminal's bell, `--notify=desktop` shows a desktop notification
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "bell")]
    pub(crate) notify: Option<Notification>,
}

/// How a person is notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Notification {
    /// The terminal's bell
    Bell,
    /// A desktop notification, in terminals that have them (OSC 9)
    Desktop,
}

impl TaskArgs {
    /// How to show the run.
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.output }
    }
}

const CHAT_HELP: &str = "\
Examples:
  ostler chat
  ostler chat --agent claude --permissions ask \"what does this project do?\"
  ostler chat --resume SESSION-ID
  printf 'read README.md\\nsum it up\\n' | ostler chat --agent claude

At the prompt: Enter sends, a backslash at the end of a line or Alt-Enter continues on the next line, arrow-up recalls, /help lists the commands. Ctrl-C interrupts the turn; Ctrl-C twice, or Ctrl-D, leaves. When stdin is not a terminal, each line is a message.

Exit codes: as of `ostler run`, for the last turn; on a terminal 0 when you leave.";

#[derive(Debug, Args)]
#[command(after_help = CHAT_HELP)]
pub(crate) struct ChatArgs {
    /// The first message
    pub(crate) prompt: Option<String>,
    #[command(flatten)]
    pub(crate) view: ViewArgs,
    #[command(flatten)]
    pub(crate) start: StartArgs,
}

/// The heading of flags about the session.
const SESSION: &str = "Session";

/// What starts an agent, whatever is asked of it.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StartArgs {
    /// The agent [default: $OSTLER_AGENT, else as configured (ostler config --help), else the first that can be used (ostler doctor)]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// The directory to work in [default: this one]
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) agent_settings: AgentSettings,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) commands: CommandArgs,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Go on with the latest session of this directory
    #[arg(long = "continue", conflicts_with_all = ["resume", "session_id", "no_store"], help_heading = SESSION)]
    pub(crate) go_on: bool,
    /// Do not keep the session (docs/sessions.md)
    #[arg(long, help_heading = SESSION)]
    pub(crate) no_store: bool,
    /// Add a variable to the agent's environment; NAME alone passes yours on (repeatable)
    #[arg(long, value_name = "NAME[=VALUE]", help_heading = AGENT_SETTINGS)]
    pub(crate) env: Vec<String>,
    /// Confine the agent's process: what it may write besides its own state [default: agents are not confined; commands that Ostler
    /// runs for a model always are]; docs/sandbox.md
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Permissions")]
    pub(crate) sandbox: Option<SandboxKind>,
    /// Start this program instead of the agent's usual one
    #[arg(long, value_name = "PATH", help_heading = AGENT_SETTINGS)]
    pub(crate) program: Option<PathBuf>,
    /// Write what the agent prints to a file, byte for byte; `ostler replay` reads it
    #[arg(long, value_name = "FILE", help_heading = SESSION)]
    pub(crate) raw_log: Option<PathBuf>,
    /// Arguments passed to the agent's program as they are
    #[arg(last = true, value_name = "ARGS", help_heading = Resettable::Reset)]
    pub(crate) extra: Vec<String>,
}

impl StartArgs {
    /// Whether nothing was asked that only a certain agent can do.
    pub(crate) fn is_for_any_agent(&self) -> bool {
        let limits = &self.limits;
        let own = self.sandbox.is_some_and(|kind| kind != SandboxKind::Off)
            || self.program.is_some()
            || !self.extra.is_empty();
        !own && limits.max_turns.is_none()
            && limits.max_budget_usd.is_none()
            && self.agent_settings.are_default()
    }
}

/// What an agent in a sandbox may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxKind {
    /// Its working directory
    WorkspaceWrite,
    /// Nothing
    ReadOnly,
    /// Everything; commands for a model run even where this machine cannot confine them
    Off,
}

/// The heading of flags for the agent itself.
const AGENT_SETTINGS: &str = "Agent settings";

/// Settings that go to the agent.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = AGENT_SETTINGS)]
pub(crate) struct AgentSettings {
    /// The model
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Replace the agent's system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) system_prompt: Option<String>,
    /// Add to the agent's system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) append_system_prompt: Option<String>,
    /// What the agent may do without asking, in the agent's own words
    #[arg(long, value_name = "MODE")]
    pub(crate) permission_mode: Option<String>,
    /// The tools that exist; "" for none (repeatable)
    #[arg(long, value_name = "TOOLS")]
    pub(crate) tools: Vec<String>,
    /// Tools allowed without asking, such as 'Bash(git *)' (repeatable)
    #[arg(long, value_name = "TOOLS")]
    pub(crate) allowed_tools: Vec<String>,
    /// Tools that are never allowed (repeatable)
    #[arg(long, value_name = "TOOLS")]
    pub(crate) disallowed_tools: Vec<String>,
    /// Let the agent work on files through this program only: file-tools
    #[arg(long, value_name = "NAME", value_parser = ["file-tools"])]
    pub(crate) workspace_tools: Option<String>,
    /// Do not fail the run when the agent finished although a tool call was denied
    #[arg(long, help_heading = "Permissions")]
    pub(crate) tolerate_denials: bool,
    /// MCP servers: a file or JSON (repeatable)
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) mcp_config: Vec<String>,
    /// Use only the MCP servers given here
    #[arg(long)]
    pub(crate) strict_mcp: bool,
    /// Demand an answer of this schema: JSON, or a file that holds it
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) json_schema: Option<String>,
    /// Resume an earlier session: the id that `ostler sessions` lists, the agent's own, or a prefix of either
    #[arg(long, value_name = "ID", allow_hyphen_values = true, help_heading = SESSION)]
    pub(crate) resume: Option<String>,
    /// The id of the new session (a UUID)
    #[arg(long, value_name = "UUID", allow_hyphen_values = true, help_heading = SESSION)]
    pub(crate) session_id: Option<String>,
    /// Resume a copy of the session given by --resume
    #[arg(long, help_heading = SESSION)]
    pub(crate) fork: bool,
    /// A setting of the agent's own (see docs/agents), such as effort=high (repeatable)
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true)]
    pub(crate) set: Vec<String>,
}

impl AgentSettings {
    /// Whether none was given.
    fn are_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Limits.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// The longest the task may take, such as 90s, 10m, 2h, none [default: as configured, else 1h]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) timeout: Option<Time>,
    /// The longest silence while no tool runs [default: as configured, else 10m]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) idle_timeout: Option<Time>,
    /// The longest until the agent's first word [default: as configured, else 60s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) startup_timeout: Option<Time>,
    /// The time an agent gets to end when asked, and again before it is killed
    #[arg(long, value_name = "TIME", value_parser = time, hide = true)]
    pub(crate) grace: Option<Time>,
    /// At most so many of the agent's steps
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<String>,
    /// At most so much money, over the whole session
    #[arg(long, value_name = "USD")]
    pub(crate) max_budget_usd: Option<String>,
    /// At most so many tokens of all kinds, over the whole session
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,
    /// At most so many messages in a session
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_messages: Option<u32>,
    /// The longest the whole session may take, from its first message on
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) max_time: Option<Time>,
    #[command(flatten)]
    pub(crate) sizes: SizeLimits,
}

/// Limits on what a session stores.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct SizeLimits {
    /// Maximum size of the session's stored events, such as 100MB, 2GiB, none; the session ends there [default: as
    /// configured, else 256MB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_log_size: Option<Size>,
    /// Maximum size of the stored raw output; its oldest part is dropped beyond it [default: as configured, else 512MB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_raw_size: Option<Size>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The recording: a file of --raw-log, or lines of --output events; `-` for stdin
    pub(crate) file: PathBuf,
    /// The agent it was recorded from [default: recognized from the file]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// A setting that it was recorded with, such as transport=exec (repeatable; the transport is recognized too)
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true)]
    pub(crate) set: Vec<String>,
    /// How to show it
    #[arg(short, long, value_enum, default_value_t = Format::Human)]
    output: Format,
    /// The same as --output json
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

impl ReplayArgs {
    /// How to show it.
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.output }
    }
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// What to describe
    #[arg(value_enum)]
    pub(crate) kind: Schema,
}

/// What has a schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Schema {
    /// A line of --output events
    Events,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write a page per command into this directory instead of printing the main one
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// A time limit; none for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Option<Duration>);

fn time(text: &str) -> Result<Time, String> {
    ostler::config::time(text).map(Time)
}

/// A limit of size; none for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) Option<u64>);

fn size(text: &str) -> Result<Size, String> {
    ostler::config::size_limit(text).map(Size)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Every command with its path, such as `ostler sessions show`.
    fn commands() -> Vec<(String, clap::Command)> {
        fn collect(path: &str, command: &clap::Command, all: &mut Vec<(String, clap::Command)>) {
            all.push((path.to_owned(), command.clone()));
            for verb in command
                .get_subcommands()
                .filter(|verb| verb.get_name() != "help")
            {
                collect(&format!("{path} {}", verb.get_name()), verb, all);
            }
        }
        let mut all = Vec::new();
        let mut root = Cli::command();
        root.build();
        collect("ostler", &root, &mut all);
        all
    }

    /// Text behind the flags is wrapped by clap alone: a line that is longer than a narrow terminal is a whole paragraph.
    #[test]
    fn help_is_wrapped_once() {
        for (path, command) in commands() {
            let text = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            for (at, line) in lines
                .iter()
                .enumerate()
                .filter(|(_, line)| line.chars().count() > 78)
            {
                assert!(
                    !line.starts_with(' '),
                    "{path}: too long for a line that must not be broken: {line}"
                );
                let next = lines.get(at + 1).copied().unwrap_or_default();
                assert!(
                    next.is_empty() || next.starts_with(' '),
                    "{path}: wrapped by hand: {line}"
                );
                let before = at.checked_sub(1).map_or("", |at| lines[at]);
                assert!(before.is_empty(), "{path}: wrapped by hand: {before}");
            }
            for about in command.get_arguments().filter_map(clap::Arg::get_help) {
                assert!(
                    !about.to_string().contains('\n'),
                    "{path}: wrapped by hand: {about}"
                );
            }
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
