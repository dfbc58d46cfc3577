//! Arguments of `ostler eval`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::{ConfigArgs, MemberArgs, PolicyArgs, Time};

const EVAL_HELP: &str = "\
Examples:
  ostler eval init my-evaluation
  ostler eval validate my-evaluation
  ostler eval run my-evaluation
  ostler eval run suite.yaml --agent claude,codex --repeat 5 --budget-usd 20
  ostler eval run --resume 20261118-0731-ab12
  ostler eval -c testcase.yaml
  ostler eval report RUN --format html --out report.html
  ostler eval gate RUN --require 'pass@1 >= 0.8'
  ostler eval new-case --from-commit HEAD

A run is stored with every attempt; its artifacts are below .ostler/eval/RUN of the current \
directory. See docs/eval.md and docs/eval-runs.md.

Exit codes of `run` and `regrade`:
    0  every trial is done, and every scored one passed
    1  every trial is done, and one failed, errored or could not run
    2  bad usage, or a fault in a file
    6  the budget was reached
  130  interrupted; `--resume` continues";

#[derive(Debug, Args)]
#[command(after_help = EVAL_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<EvalVerb>,
    #[command(flatten)]
    pub(crate) run: EvalRunArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EvalVerb {
    /// Run the trials of a suite or of cases
    Run(Box<EvalRunArgs>),
    /// List the runs
    List(EvalListArgs),
    /// Show the results of a run
    Report(EvalReportArgs),
    /// Compare two runs, or the agents of one run
    Compare(EvalCompareArgs),
    /// Run the evaluators of a run again, without the agents
    Regrade(Box<EvalRegradeArgs>),
    /// Check suites and cases without running anything
    Validate(EvalValidateArgs),
    /// Write a commented example
    Init(EvalInitArgs),
    /// Check a run against requirements, for CI
    Gate(EvalGateArgs),
    /// Make a case from a commit of your repository
    ///
    /// The prompt is the commit's message, the agent starts from its parent, and its test files
    /// are hidden from the agent.
    NewCase(EvalNewCaseArgs),
    /// Make a case from a recorded session
    Promote(EvalPromoteArgs),
    /// Convert a transcript, a trajectory or events to a normalized log
    Normalize(EvalNormalizeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EvalNewCaseArgs {
    /// The commit that solves the task
    #[arg(long, value_name = "SHA")]
    pub(crate) from_commit: String,
    /// The repository [default: the current directory's]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) repo: Option<PathBuf>,
    /// Directory that the case's own directory is created in
    #[arg(short, long, value_name = "DIR", default_value = "cases", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct EvalPromoteArgs {
    /// Id of the session, or a unique prefix of it
    pub(crate) session: String,
    /// Directory that the case's own directory is created in
    #[arg(short, long, value_name = "DIR", default_value = "cases", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct EvalNormalizeArgs {
    /// Text transcript, trajectory (ATIF), or events (JSON lines)
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Name of the agent, as the log shows it
    #[arg(short, long, value_name = "NAME")]
    pub(crate) agent: String,
    /// The configured model, if the file does not name one
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Exit code of the agent; -1 after a timeout
    #[arg(long, value_name = "CODE", allow_negative_numbers = true)]
    pub(crate) exit_code: Option<i32>,
    /// Field names of the log
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) log_format: LogFormatName,
    /// File to write instead of printing
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) out: Option<PathBuf>,
}

/// Field names of normalized logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum LogFormatName {
    /// The names of `ostler schema youbencha-log`
    #[default]
    Contract,
    /// The names that youBencha 1.0 publishes
    #[value(name = "youbencha-1.0")]
    Youbencha10,
}

/// Files of a suite, and values for `${NAME}` in them.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct EvalSourceArgs {
    /// Suite, case files, directories of cases, Harbor tasks, or SWE-bench rows (.jsonl)
    #[arg(value_name = "SUITE|CASE", value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// Case file, as youBencha names it (repeatable)
    #[arg(short = 'c', long = "config-file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config_file: Vec<PathBuf>,
    /// Value for ${NAME} in files (repeatable)
    #[arg(long = "var", value_name = "NAME=VALUE")]
    pub(crate) variables: Vec<String>,
    /// File with lines NAME=VALUE; `--var` takes precedence (repeatable)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) var_file: Vec<PathBuf>,
    /// Environment variable that files may use as ${NAME} (repeatable)
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_env: Vec<String>,
    /// Accept repositories on hosts of the local network
    #[arg(long)]
    pub(crate) allow_private_hosts: bool,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct EvalRunArgs {
    #[command(flatten)]
    pub(crate) source: EvalSourceArgs,
    /// Agents to compare, instead of those in the files
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) agent: Vec<String>,
    /// Models that each of these agents runs with
    #[arg(
        short,
        long,
        value_name = "MODELS",
        value_delimiter = ',',
        requires = "agent"
    )]
    pub(crate) model: Vec<String>,
    /// Number of repetitions of each case with each agent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: Option<u32>,
    /// Number of trials at once [default: the suite's, or 2]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) jobs: Option<u32>,
    /// Maximum cost of the whole run in US dollars
    #[arg(long, value_name = "USD")]
    pub(crate) budget_usd: Option<f64>,
    /// Run the trials on the workers of a fleet; see docs/fleet.md
    ///
    /// `--jobs` limits how many run at once; by default, the workers do. Permissions and
    /// configuration are those of the workers.
    #[arg(long)]
    pub(crate) fleet: bool,
    #[command(flatten)]
    pub(crate) member: MemberArgs,
    /// Label that a worker of the fleet must have (repeatable)
    #[arg(long, value_name = "LABEL", requires = "fleet")]
    pub(crate) needs_label: Vec<String>,
    /// How long a worker of the fleet may be out of reach before its trial is tried again
    /// [default: 1m]
    #[arg(long, value_name = "TIME", requires = "fleet")]
    pub(crate) lease: Option<Time>,
    /// Start no further trial once one has failed
    #[arg(long)]
    pub(crate) fail_fast: bool,
    /// Continue this run; `--budget-usd` replaces its budget
    #[arg(
        long,
        value_name = "RUN",
        conflicts_with_all = [
            "paths", "config_file", "agent", "repeat", "filter", "seed", "artifacts", "variables",
            "var_file", "allow_env", "allow_private_hosts", "isolation", "share_login",
        ]
    )]
    pub(crate) resume: Option<String>,
    /// Only trials whose `case` or `case/agent` matches this pattern (repeatable)
    #[arg(long, value_name = "PATTERN")]
    pub(crate) filter: Vec<String>,
    /// Seed of the order of trials and of the statistics
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Number of retries after a failure of the infrastructure, such as a rate limit
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) retries: u32,
    /// How trials are isolated [default: sandbox where it holds, otherwise directory]
    #[arg(long, value_enum, value_name = "TIER")]
    pub(crate) isolation: Option<IsolationTier>,
    /// Let agents use your home directory, with its logins and settings
    #[arg(long)]
    pub(crate) share_login: bool,
    /// Leave the workspaces in place
    #[arg(long)]
    pub(crate) keep_workspaces: bool,
    /// Directory of artifacts [default: .ostler/eval]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) artifacts: Option<PathBuf>,
    /// Directory for workspaces [default: ostler-eval-USER in the temporary directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) work_dir: Option<PathBuf>,
    /// Field names of each trial's youbencha.log.json
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) log_format: LogFormatName,
    /// Requirement that decides on the exit code, such as 'pass@1 >= 0.8' (repeatable)
    #[arg(long, value_name = "REQUIREMENT")]
    pub(crate) require: Vec<String>,
    /// Print the results as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

/// How trials are isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IsolationTier {
    /// A directory of its own, with a private home
    Directory,
    /// The same, in Ostler's sandbox
    Sandbox,
    /// The same, with private directories at fixed paths
    PrivateRoot,
}

#[derive(Debug, Args)]
pub(crate) struct EvalListArgs {
    /// Print one JSON object per run
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EvalReportArgs {
    /// Name of the run, or a unique prefix of it
    pub(crate) run: String,
    /// Format
    #[arg(long, value_enum, default_value_t = ReportFormat::Human)]
    pub(crate) format: ReportFormat,
    /// File to write instead of printing; a directory for some formats
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) out: Option<PathBuf>,
}

/// Format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// A table for reading
    Human,
    /// Markdown
    Md,
    /// One JSON object
    Json,
    /// One HTML file, with the conversation and changes of each trial
    Html,
    /// JUnit XML
    Junit,
    /// Trajectories in the Agent Trajectory Interchange Format: one, or a directory with --out
    Atif,
    /// A Harbor job directory, at --out
    Harbor,
    /// Predictions for SWE-bench's own harness, as JSON lines
    Predictions,
}

#[derive(Debug, Args)]
pub(crate) struct EvalCompareArgs {
    /// The first run, or the only one
    pub(crate) before: String,
    /// The second run
    ///
    /// Without one, the agents of the first run are compared with each other.
    pub(crate) after: Option<String>,
    /// Agents to compare: one of the first run, and one of the second (repeatable)
    ///
    /// Their agents, models, prompts and settings may differ. [default: the same agent in two
    /// runs, or each agent of one run with its first]
    #[arg(long, value_name = "A=B")]
    pub(crate) pair: Vec<String>,
    /// Print Markdown
    #[arg(long, conflicts_with = "json")]
    pub(crate) md: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Fields of a trial's identity that may differ, such as agent_version
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) allow_difference: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct EvalRegradeArgs {
    /// Name of the run, or a unique prefix of it
    pub(crate) run: String,
    /// Only trials whose `case` or `case/agent` matches this pattern (repeatable)
    #[arg(long, value_name = "PATTERN")]
    pub(crate) filter: Vec<String>,
    /// How the evaluators' commands are isolated [default: sandbox where it holds]
    #[arg(long, value_enum, value_name = "TIER")]
    pub(crate) isolation: Option<IsolationTier>,
    /// Directory for workspaces [default: ostler-eval-USER in the temporary directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) work_dir: Option<PathBuf>,
    /// Print the results as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

#[derive(Debug, Args)]
pub(crate) struct EvalValidateArgs {
    #[command(flatten)]
    pub(crate) source: EvalSourceArgs,
    /// Print the problems as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

#[derive(Debug, Args)]
pub(crate) struct EvalInitArgs {
    /// Directory to write to
    #[arg(default_value = "evaluation", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct EvalGateArgs {
    /// Name of the run, or a unique prefix of it
    pub(crate) run: String,
    /// Requirement, such as 'pass@1 >= 0.8' (repeatable)
    #[arg(long, value_name = "REQUIREMENT")]
    pub(crate) require: Vec<String>,
    /// Run to compare with
    #[arg(long, value_name = "RUN")]
    pub(crate) against: Option<String>,
    /// How much pass@1 may fall, such as 2pp
    #[arg(
        long,
        value_name = "DIFFERENCE",
        requires = "against",
        default_value = "0pp"
    )]
    pub(crate) max_regression: String,
    /// Fields of a trial's identity that may differ from the baseline, such as agent_version
    #[arg(
        long,
        value_name = "FIELDS",
        value_delimiter = ',',
        requires = "against"
    )]
    pub(crate) allow_difference: Vec<String>,
    /// Accept that tasks of the baseline are missing
    #[arg(long, requires = "against")]
    pub(crate) allow_unmatched: bool,
    /// Accept trials that an evaluator could not judge, and tasks without a scored trial
    #[arg(long)]
    pub(crate) allow_errors: bool,
}
