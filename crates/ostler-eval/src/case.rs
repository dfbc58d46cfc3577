//! Cases and suites, after their files were read and checked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One task for an agent: where it works, what it is asked, and how the result is judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Unique within a suite: letters, digits, `-`, `_`, `.` and `/`.
    pub name: String,
    /// Description for people.
    pub description: Option<String>,
    /// The file or directory that defines the case. Relative paths start at its directory.
    pub file: PathBuf,
    /// Where the agent's workspace comes from.
    pub source: Source,
    /// The prompt, unless the suite replaces it.
    pub prompt: String,
    /// The agent that the case itself names, if any.
    pub agent: Option<Contender>,
    /// What a solution looks like, for evaluators that compare.
    pub expected: Option<Expected>,
    /// The evaluators, in the order of the file.
    pub evaluators: Vec<EvaluatorSpec>,
    /// Commands that run in the workspace before the agent.
    pub pre_execution: Vec<CommandSpec>,
    /// Commands that run after the evaluators.
    pub post_evaluation: Vec<CommandSpec>,
    /// Limits of one trial.
    pub limits: TrialLimits,
    /// Directories that the case sees at fixed paths, for tasks that need a root of their own.
    pub mounts: Option<PrivateRoot>,
    /// Where and under which name workspaces are created.
    pub workspace: WorkspaceSettings,
    /// Files that the result of a trial is written to, after the evaluators.
    pub exports: Vec<ResultExport>,
}

/// Where workspaces are created.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkspaceSettings {
    /// Directory for workspaces; a temporary one if there is none.
    pub dir: Option<PathBuf>,
    /// Prefix of the names of workspaces: letters, digits, `.`, `_` and `-`.
    pub name: Option<String>,
}

/// A file that the result of a trial is written to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultExport {
    /// The file, relative to the case's directory.
    pub path: PathBuf,
    /// Whether the whole result is written, or only the verdict, score, cost and times.
    pub full: bool,
    /// Whether a line is appended (JSON Lines), or the file replaced.
    pub append: bool,
}

/// Where a workspace comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// A Git repository: URL or path.
    Repository {
        /// `https:`, `ssh:`, `file:` or a path.
        url: String,
        /// The branch; the default one if there is none.
        branch: Option<String>,
        /// The commit; the tip of the branch if there is none.
        commit: Option<String>,
    },
    /// A plain directory, copied and committed as the base.
    Directory(PathBuf),
    /// An empty workspace.
    Empty,
}

/// What a solution looks like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expected {
    /// A branch or commit of the case's repository.
    Revision(String),
    /// A directory with the expected files.
    Directory(PathBuf),
    /// A patch against the base commit.
    Patch(PathBuf),
}

/// An agent with its configuration: one column of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// Label in reports, unique within a suite. By default the agent, with the model if given.
    pub label: String,
    /// The agent's name in Ostler.
    pub agent: String,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Settings of the agent, by their keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, Value>,
    /// Prompt that replaces the case's. `{prompt}` in it stands for the case's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Text of the `AGENTS.md` that the workspace gets, instead of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

/// An evaluator and its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvaluatorSpec {
    /// Name in results, unique within a case; the kind by default.
    pub name: String,
    /// Kind: `git-diff`, `expected-diff`, `command`, `files`, `trajectory`, `judge`, `script` or
    /// `harbor`.
    pub kind: String,
    /// Its configuration, checked by the evaluator.
    pub config: Map<String, Value>,
    /// Weight in the score of a trial.
    pub weight: f64,
    /// Whether a result other than `passed` fails the trial.
    pub required: bool,
}

/// A command of a case. There is no shell, unless the program is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandSpec {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Directory below the workspace.
    pub dir: Option<PathBuf>,
    /// Additional variables.
    pub env: BTreeMap<String, String>,
    /// How long it may run.
    pub timeout: Duration,
}

/// Limits of one trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TrialLimits {
    /// Wall time of the agent.
    pub timeout: Option<Duration>,
    /// Maximum number of the agent's own steps.
    pub max_turns: Option<u32>,
    /// Maximum cost in US dollars.
    pub max_budget_usd: Option<f64>,
    /// Maximum number of tokens.
    pub max_tokens: Option<u64>,
}

/// A root of its own for a task: what the agent and the verifier find at fixed paths.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PrivateRoot {
    /// The agent's working directory, such as `/app`.
    pub workdir: PathBuf,
    /// Files copied into the root before the agent starts: source on this machine, target inside.
    pub copies: Vec<(PathBuf, PathBuf)>,
    /// Variables inside.
    pub env: BTreeMap<String, String>,
    /// The task directory, for its verifier (`tests/`) and its solution.
    pub task_dir: PathBuf,
}

/// Cases, contenders and repetitions.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// Name of the suite.
    pub name: String,
    /// The cases.
    pub cases: Vec<Case>,
    /// The contenders. A case without any uses the agent that it names itself.
    pub contenders: Vec<Contender>,
    /// Number of repetitions of each case with each contender.
    pub repetitions: u32,
    /// Number of trials that run at once.
    pub jobs: Option<u32>,
    /// Budget of the whole run in US dollars.
    pub budget_usd: Option<f64>,
    /// Seed for the order of trials and for statistics.
    pub seed: u64,
    /// How trials are isolated.
    pub isolation: Option<Isolation>,
}

/// How a trial is kept apart from the machine. Recorded with every result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// A directory of its own, with a private home.
    Directory,
    /// The same, in Ostler's sandbox.
    Sandbox,
    /// The same, in a mount namespace with private directories at fixed paths.
    PrivateRoot,
}

impl Isolation {
    /// Returns the name of the tier.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Sandbox => "sandbox",
            Self::PrivateRoot => "private-root",
        }
    }
}
