//! Command-line arguments, as clap parses them. Each verb's module in `cmd` interprets its own.

mod acp;
mod chat;
mod client;
mod commands;
mod config;
mod doctor;
mod eval;
mod fleet;
mod logging;
mod r#loop;
mod parse;
mod policy;
mod sandbox;
mod schema;
mod serve;
mod sessions;
mod trust;
mod usage;
mod worker;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::Resettable;
use clap::{Args, Parser, Subcommand, ValueEnum};
use ostler::config::{SizeLimit, ValueError};

pub(crate) use self::acp::AcpArgs;
pub(crate) use self::chat::ChatArgs;
use self::client::{
    APPROVALS_HELP, FORK_HELP, PAUSE_HELP, RESTART_HELP, RESUME_HELP, SESSION_HELP,
};
pub(crate) use self::client::{
    ApprovalAnswer, ApprovalsAnswerArgs, ApprovalsArgs, ApprovalsVerb, AttachArgs, OpenArgs,
    SendArgs, SessionArgs,
};
pub(crate) use self::commands::{CommandArgs, Commands};
use self::config::CONFIG_HELP;
pub(crate) use self::config::{ConfigArgs, ConfigPathArgs, ConfigShowArgs, ConfigVerb, EXAMPLE};
pub(crate) use self::doctor::DoctorArgs;
pub(crate) use self::eval::{
    EvalArgs, EvalCompareArgs, EvalGateArgs, EvalListArgs, EvalNewCaseArgs, EvalNormalizeArgs,
    EvalPromoteArgs, EvalRegradeArgs, EvalReportArgs, EvalRunArgs, EvalSourceArgs,
    EvalValidateArgs, EvalVerb, IsolationTier, LogFormatName, ReportFormat,
};
pub(crate) use self::fleet::{
    FleetAddWorkerArgs, FleetArgs, FleetInitArgs, FleetPrepareArgs, FleetRemoveWorkerArgs,
    FleetStatusArgs, FleetUpArgs, FleetVerb,
};
pub(crate) use self::logging::{LogArgs, LogFilter};
pub(crate) use self::r#loop::{LoopArgs, LoopMode, ToolSet};
use self::policy::POLICY_HELP;
pub(crate) use self::policy::{
    Permissions, PolicyArgs, PolicyShowArgs, PolicyTestArgs, PolicyVerb,
};
use self::sandbox::SANDBOX_HELP;
pub(crate) use self::sandbox::{SandboxCheckArgs, SandboxVerb};
pub(crate) use self::schema::Schema;
pub(crate) use self::serve::{ServeArgs, UnitKind};
pub(crate) use self::sessions::{
    SearchSpeaker, SessionsArgs, SessionsExportArgs, SessionsFetchArgs, SessionsFilterArgs,
    SessionsListArgs, SessionsPruneArgs, SessionsRmArgs, SessionsSearchArgs, SessionsShowArgs,
    SessionsVerb, Transcript,
};
pub(crate) use self::trust::TrustArgs;
pub(crate) use self::usage::{UsageArgs, UsageBy};
pub(crate) use self::worker::{MemberArgs, PlacementArgs, WorkerArgs};

/// Run coding agents from one command line: Claude Code, Codex, Copilot and others.
#[derive(Debug, Parser)]
#[command(
    name = "ostler",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    max_term_width = 110
)]
#[command(
    after_help = "Run `ostler doctor` to see which agents are ready, then `ostler run \"…\"`.\n\n\
                  `ostler <COMMAND> --help` explains a command and shows examples."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run one task with an agent
    Run(Box<RunArgs>),
    /// Run any model in a tool loop until your check passes
    Loop(Box<LoopArgs>),
    /// Chat with an agent, turn by turn
    Chat(Box<ChatArgs>),
    /// Serve an agent to an editor over the Agent Client Protocol (ACP)
    Acp(Box<AcpArgs>),
    /// Run the daemon: sessions that outlive their client
    Serve(Box<ServeArgs>),
    /// Open the daemon's page in the browser
    Open(OpenArgs),
    /// Show a session of the daemon and write to it
    Attach(AttachArgs),
    /// Send a message to a session of the daemon
    Send(SendArgs),
    /// Interrupt the turn of a session of the daemon
    #[command(after_help = SESSION_HELP)]
    Interrupt(SessionArgs),
    /// Stop a session of the daemon
    #[command(after_help = SESSION_HELP)]
    Stop(SessionArgs),
    /// Hold back the messages of a session of the daemon
    #[command(after_help = PAUSE_HELP)]
    Pause(SessionArgs),
    /// Resume a session of the daemon that is paused or has ended
    #[command(after_help = RESUME_HELP)]
    Resume(SessionArgs),
    /// Stop a session of the daemon and continue it in a new one
    #[command(after_help = RESTART_HELP)]
    Restart(SessionArgs),
    /// Continue a copy of a session of the daemon
    #[command(after_help = FORK_HELP)]
    Fork(SessionArgs),
    /// List and answer permission requests of the daemon's sessions
    #[command(after_help = APPROVALS_HELP)]
    Approvals(ApprovalsArgs),
    /// Evaluate agents on your repository: suites of cases, trials, statistics
    Eval(Box<EvalArgs>),
    /// Join a fleet: run trials and sessions for other machines
    Worker(Box<WorkerArgs>),
    /// Set up a fleet of machines, and show its status
    Fleet(FleetArgs),
    /// Show which agents are installed and ready to use
    #[command(visible_alias = "agents")]
    Doctor(DoctorArgs),
    /// Replay a recorded run without starting an agent
    Replay(ReplayArgs),
    /// List, show, search, export and remove stored sessions
    Sessions(SessionsArgs),
    /// Show token usage and cost of stored sessions
    Usage(UsageArgs),
    /// Check the sandbox that confines a model's commands
    #[command(subcommand, after_help = SANDBOX_HELP)]
    Sandbox(SandboxVerb),
    /// Show and test the permission policy
    #[command(subcommand, after_help = POLICY_HELP)]
    Policy(PolicyVerb),
    /// Show the configuration and where each value comes from
    #[command(subcommand, after_help = CONFIG_HELP)]
    Config(ConfigVerb),
    /// Review a project's settings files and trust them
    Trust(TrustArgs),
    /// Print the JSON schema of Ostler's output
    Schema {
        /// Output to describe
        #[arg(value_enum)]
        kind: Schema,
    },
    /// Print a shell completion script
    Completions {
        /// Shell to complete for
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man {
        /// Write one page per command to this directory instead of printing the main page
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Print the version
    Version,
}

/// Output format of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Streamed text, tool calls and a status line, for reading
    Human,
    /// Only the final answer
    Text,
    /// One JSON object at the end
    Json,
    /// One JSON object per event, as it happens
    Events,
}

impl Format {
    /// Returns true if the format shows text as it streams, rather than only the final answer.
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
  ostler run --detach \"make the tests pass\"

Defaults for agents and limits come from ostler.toml; see `ostler config --help`.

Exit codes:
    0  completed
    1  the agent failed
    2  bad usage
    3  the agent is not installed or cannot start
    4  not logged in
    5  rate limit, overload or server error
    6  a limit was reached
    7  a tool call was denied
    8  needs input
   70  internal error
  130  interrupted
  143  terminated";

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
#[command(group = clap::ArgGroup::new("in_daemon").args(["detach", "daemon", "fleet"]).multiple(true))]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    /// Start the task in the daemon, print its session id and exit; see `ostler serve`
    #[arg(long)]
    pub(crate) detach: bool,
    /// Run the task in the daemon and follow it; it continues if this program is killed
    ///
    /// With `daemon = true` in your ostler.toml, this is the default while a daemon is running.
    #[arg(long)]
    pub(crate) daemon: bool,
    /// Run the task in this process although `daemon = true` is configured
    #[arg(long, conflicts_with_all = ["daemon", "detach", "name"])]
    pub(crate) no_daemon: bool,
    /// Let permission requests wait for an answer from any client
    ///
    /// This is the default with `--detach` and on a terminal; otherwise they are denied.
    #[arg(long)]
    pub(crate) attended: bool,
    /// Name of the session in the daemon [default: the agent and a short id]
    #[arg(long, value_name = "NAME", requires = "in_daemon")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) fleet: PlacementArgs,
    #[command(flatten)]
    pub(crate) start: StartArgs,
}

/// The task and how its run is shown.
#[derive(Debug, Args)]
pub(crate) struct TaskArgs {
    /// The task; `-` reads it from stdin
    ///
    /// Without a task, stdin is read if it is not a terminal.
    pub(crate) prompt: Option<String>,
    /// The task, as a flag; the text may begin with a dash
    #[arg(
        short = 'p',
        long = "prompt",
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "prompt"
    )]
    pub(crate) text: Option<String>,
    /// Read the task from a file in the working directory
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "text"])]
    pub(crate) prompt_file: Option<PathBuf>,
    /// Append stdin to the task
    #[arg(long)]
    pub(crate) stdin: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Human)]
    output: Format,
    #[command(flatten)]
    pub(crate) view: ViewArgs,
    /// Shorthand for `--output json`
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

/// Options for human-readable output.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct ViewArgs {
    /// Show complete tool output and diffs
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Show only the answer, warnings and the result
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Notify when a turn of 30 s or more ends
    ///
    /// `--notify` alone rings the terminal bell.
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "bell"
    )]
    pub(crate) notify: Option<Notification>,
}

/// Notification method for the end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Notification {
    /// Ring the terminal bell
    Bell,
    /// Show a desktop notification, in terminals that support OSC 9
    Desktop,
}

impl TaskArgs {
    /// Returns the chosen output format.
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.output }
    }
}

/// Help heading of flags about the session.
const SESSION: &str = "Session";

/// Arguments that start an agent, shared by all verbs that do.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StartArgs {
    /// Agent to run; `ostler doctor` lists the available ones
    ///
    /// [default: `$OSTLER_AGENT`, then `agent` in ostler.toml, then the first agent that is ready]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Working directory [default: current directory]
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
    /// Resume the latest session in this directory
    #[arg(
        long = "continue",
        conflicts_with_all = ["resume", "session_id", "no_store"],
        help_heading = SESSION
    )]
    pub(crate) continue_latest: bool,
    /// Do not store the session; see docs/sessions.md
    #[arg(long, help_heading = SESSION)]
    pub(crate) no_store: bool,
    /// Label of the session, which the agent gets as OSTLER_LABEL_NAME (repeatable)
    #[arg(long, value_name = "NAME=VALUE", help_heading = SESSION)]
    pub(crate) label: Vec<String>,
    /// Set an environment variable for the agent; NAME alone passes your value (repeatable)
    #[arg(long, value_name = "NAME[=VALUE]", help_heading = AGENT_SETTINGS)]
    pub(crate) env: Vec<String>,
    /// Confine the agent's process; see docs/sandbox.md
    ///
    /// By default agents are not confined. Commands that Ostler runs for a model always are.
    #[arg(long, value_enum, value_name = "MODE", help_heading = "Permissions")]
    pub(crate) sandbox: Option<SandboxKind>,
    /// Program to start instead of the agent's own
    #[arg(long, value_name = "PATH", help_heading = AGENT_SETTINGS)]
    pub(crate) program: Option<PathBuf>,
    /// Write the agent's raw output to a file; `ostler replay` reads it
    #[arg(long, value_name = "FILE", help_heading = SESSION)]
    pub(crate) raw_log: Option<PathBuf>,
    /// Extra arguments for the agent's program, passed unchanged
    #[arg(last = true, value_name = "ARGS", help_heading = Resettable::Reset)]
    pub(crate) extra: Vec<String>,
}

impl StartArgs {
    /// Returns true if no argument is specific to one agent.
    pub(crate) fn is_for_any_agent(&self) -> bool {
        let limits = &self.limits;
        let is_specific = self.sandbox.is_some_and(|kind| kind != SandboxKind::Off)
            || self.program.is_some()
            || !self.extra.is_empty();
        !is_specific
            && limits.max_turns.is_none()
            && limits.max_budget_usd.is_none()
            && self.agent_settings == AgentSettings::default()
    }
}

/// Sandbox mode of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxKind {
    /// Allow writes to the working directory and the agent's own state
    WorkspaceWrite,
    /// Allow writes only to the agent's own state
    ReadOnly,
    /// Do not confine; a model's commands run even if this machine has no sandbox
    Off,
}

/// Help heading of settings that are passed to the agent.
const AGENT_SETTINGS: &str = "Agent settings";

/// Settings that are passed to the agent.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = AGENT_SETTINGS)]
pub(crate) struct AgentSettings {
    /// Model to use
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Replace the agent's system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) system_prompt: Option<String>,
    /// Append to the agent's system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) append_system_prompt: Option<String>,
    /// Permission mode, by the agent's own name for it
    #[arg(long, value_name = "MODE")]
    pub(crate) permission_mode: Option<String>,
    /// Tools available to the agent; "" for none (repeatable)
    #[arg(long, value_name = "TOOLS")]
    pub(crate) tools: Vec<String>,
    /// Tools to allow without asking, such as 'Bash(git *)' (repeatable)
    #[arg(long, value_name = "TOOLS")]
    pub(crate) allowed_tools: Vec<String>,
    /// Tools to deny (repeatable)
    #[arg(long, value_name = "TOOLS")]
    pub(crate) disallowed_tools: Vec<String>,
    /// Restrict the agent's file access to the tools of the named program
    #[arg(long, value_name = "NAME", value_parser = ["file-tools"])]
    pub(crate) workspace_tools: Option<String>,
    /// Succeed even if a tool call was denied, as long as the agent finished
    #[arg(long, help_heading = "Permissions")]
    pub(crate) tolerate_denials: bool,
    /// MCP servers, as JSON or a file (repeatable)
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) mcp_config: Vec<String>,
    /// Use only the MCP servers from `--mcp-config`
    #[arg(long)]
    pub(crate) strict_mcp: bool,
    /// JSON schema that the answer must match, as JSON or a file
    #[arg(long, value_name = "FILE|JSON")]
    pub(crate) json_schema: Option<String>,
    /// Resume a session
    ///
    /// The id is one that `ostler sessions` lists, the agent's own, or a unique prefix of either.
    #[arg(long, value_name = "ID", allow_hyphen_values = true, help_heading = SESSION)]
    pub(crate) resume: Option<String>,
    /// Id for the new session
    #[arg(long, value_name = "UUID", allow_hyphen_values = true, help_heading = SESSION)]
    pub(crate) session_id: Option<String>,
    /// Continue in a copy of the session given by `--resume`
    #[arg(long, help_heading = SESSION)]
    pub(crate) fork: bool,
    /// Agent setting, such as effort=high; see docs/agents (repeatable)
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true)]
    pub(crate) set: Vec<String>,
}

/// Limits of a run.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Time limit for the task, such as 90s, 10m, 2h or none [default: 1h]
    ///
    /// In a chat, the limit applies to each turn.
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<Time>,
    /// Maximum silence while no tool is running [default: 10m]
    #[arg(long, value_name = "TIME")]
    pub(crate) idle_timeout: Option<Time>,
    /// Time limit for the agent's first output [default: 60s]
    #[arg(long, value_name = "TIME")]
    pub(crate) startup_timeout: Option<Time>,
    /// Grace period after an interrupt, and again after SIGTERM, before the agent is killed
    #[arg(long, value_name = "TIME", hide = true)]
    pub(crate) grace: Option<Time>,
    /// Maximum number of agent steps
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<String>,
    /// Maximum cost of the session, in US dollars
    #[arg(long, value_name = "USD")]
    pub(crate) max_budget_usd: Option<String>,
    /// Maximum number of tokens of all kinds in the session
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,
    /// Maximum number of messages in the session
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_messages: Option<u32>,
    /// Time limit for the whole session, from its first message
    #[arg(long, value_name = "TIME")]
    pub(crate) max_time: Option<Time>,
    #[command(flatten)]
    pub(crate) sizes: SizeLimits,
}

/// Limits on what a session stores.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct SizeLimits {
    /// Maximum size of the stored events, such as 100MB, 2GiB or none [default: 256MB]
    ///
    /// The session ends when it is reached.
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_log_size: Option<SizeLimit>,
    /// Maximum size of the stored raw output [default: 512MB]
    ///
    /// The oldest output is dropped first.
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_raw_size: Option<SizeLimit>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Recording from `--raw-log` or `--output events`; `-` reads stdin
    pub(crate) file: PathBuf,
    /// Agent that was recorded [default: detected from the file]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Setting of the recorded run, such as transport=exec (repeatable)
    ///
    /// The transport is detected from the file as well.
    #[arg(long, value_name = "KEY=VALUE", allow_hyphen_values = true)]
    pub(crate) set: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Human)]
    output: Format,
    /// Shorthand for `--output json`
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

impl ReplayArgs {
    /// Returns the chosen output format.
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.output }
    }
}

/// A time limit; `None` means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Option<Duration>);

impl FromStr for Time {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        ostler::config::time(text).map(Self)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("none"),
            Some(time) if time.subsec_nanos() == 0 => write!(f, "{}s", time.as_secs()),
            Some(time) => write!(f, "{}ms", time.as_millis().max(1)),
        }
    }
}

/// Formats a size limit for the command line.
pub(crate) fn size_text(SizeLimit(limit): SizeLimit) -> String {
    limit.map_or_else(|| "none".to_owned(), |bytes| bytes.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Returns every command with its path, such as `ostler sessions show`.
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

    /// Only clap wraps the text after the flags: a line wider than a narrow terminal is a whole
    /// paragraph.
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
    fn command_definition_is_valid() {
        Cli::command().debug_assert();
    }
}
