//! Fields of the tables `[subject]` and `[transports.<id>]` of a manifest.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::scenario::PATIENCE;

/// Settings, variables or files by name.
pub type Pairs = BTreeMap<String, String>;

/// An agent under test, over one of its transports.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Name in the suite, and of its folder of recordings.
    #[serde(skip)]
    pub id: &'static str,
    /// Value of `--agent`.
    #[serde(skip)]
    pub name: &'static str,
    /// Description of the transport.
    pub about: String,
    /// Whether it is part of the conformance suite.
    #[serde(default = "yes")]
    pub in_suite: bool,
    /// Rows of the suite that do not apply, each with the reason.
    #[serde(default)]
    pub lacks: Pairs,
    /// Whether `started` reports its version.
    #[serde(default = "yes")]
    pub(super) reports_version: bool,
    /// Whether it reports nothing until it is done, and only counts its tools.
    #[serde(default)]
    pub silent: bool,
    /// Variables in addition to the redirection's.
    #[serde(default)]
    pub(super) env: Pairs,
    /// Files in the home directory in addition to the redirection's.
    #[serde(default)]
    pub(super) home: Pairs,
    /// Files in the working directory. `{secret}` stands for a text that must not be read.
    #[serde(default)]
    pub(super) work: Pairs,
    /// Its tools.
    pub tools: Tools,
    /// Its settings.
    pub settings: SubjectSettings,
    /// Its counts, prices and durations.
    pub numbers: Numbers,
    /// Expected hints.
    pub hints: ExpectedHints,
    /// Its quirks.
    #[serde(default)]
    pub quirks: Quirks,
}

/// The tools of an agent, apart from its shell.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tools {
    /// The caller's view of a command's output `{text}`.
    #[serde(default = "plain_text")]
    pub(super) printed: String,
    /// A call that is denied to a task without trust; usually a shell command.
    pub(super) forbidden: Option<Call>,
    /// Reads the file `{path}`.
    pub(super) read: Call,
    /// Writes a line to the file `{path}`.
    pub(super) write: Call,
    /// Prefix of bound tool names, as the model sees them.
    #[serde(default)]
    pub bound: String,
    /// Two other tools, in alphabetical order.
    #[serde(default)]
    pub others: [String; 2],
}

/// A tool call by the model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    /// The tool.
    pub(super) tool: String,
    /// Its arguments, with placeholders.
    pub(super) arguments: Value,
}

/// A tool call that fails.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FailingCall {
    /// The tool.
    pub(super) tool: String,
    /// Its arguments.
    pub(super) arguments: Value,
    /// A part of the error.
    pub(super) error: String,
}

/// The settings of an agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubjectSettings {
    /// For every task: selects the transport of an agent that has several.
    #[serde(default)]
    pub always: Pairs,
    /// Lets every tool run.
    #[serde(default)]
    pub trust: Pairs,
    /// Lets a command do its work once it was approved.
    #[serde(default)]
    pub after_approval: Pairs,
    /// Key of the setting that enables deltas; `None`: they are always on.
    pub partial: Option<String>,
    /// Whether text is emitted before it is complete.
    #[serde(default = "yes")]
    pub streams: bool,
    /// A model other than the default.
    #[serde(default)]
    pub model: String,
    /// Limits a call to one retry.
    #[serde(default)]
    pub one_retry: Pairs,
    /// Makes the cost known.
    #[serde(default)]
    pub priced: Pairs,
    /// Sends a prompt of any length to the model.
    #[serde(default)]
    pub long_prompts: LongPrompts,
    /// Key of the system prompt setting, if there is one.
    pub system: Option<String>,
    /// The variables for the key and for the model's address.
    #[serde(default)]
    pub variables: Variables,
    /// The tool with which the model answers a schema; `None`: it answers with text.
    pub(super) structured_tool: Option<String>,
    /// JSON pointer to the schema in a request, unless a tool has it.
    pub(super) schema: Option<String>,
}

/// What makes an agent accept a prompt of any length.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LongPrompts {
    /// Settings.
    pub settings: Pairs,
    /// Variables.
    pub env: Pairs,
}

/// Names of variables.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variables {
    /// The key's.
    pub key: String,
    /// The address's.
    pub url: String,
}

/// Token counts, prices and durations of an agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Numbers {
    /// Which counts it reports.
    pub(super) tokens: Counts,
    /// Price of a million input, cache write, cache read and output tokens with its default model;
    /// `None`: it does not know costs.
    pub price: Option<[f64; 4]>,
    /// Source of its costs when nothing is configured.
    pub cost_source: String,
    /// Status of an overloaded service.
    pub overloaded: u16,
    /// Provider errors that it retries.
    pub retried: Vec<u16>,
    /// Exit codes of a successful and of a failed run, also for an agent without a process.
    pub exit_codes: [i32; 2],
    /// Time limit within which it has certainly started to work, in seconds.
    #[serde(deserialize_with = "seconds")]
    pub soon: Duration,
    /// How long it may retry before it reports a service failure, in seconds.
    #[serde(deserialize_with = "seconds")]
    pub retries_for: Duration,
}

/// Token counts that an agent reports.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Counts {
    /// All four.
    Apart,
    /// Cache writes as part of the input.
    ReadsApart,
    /// Cache writes and reads as part of the input.
    Together,
    /// The same, and no thoughts in the output.
    TogetherWithoutThoughts,
}

/// Expected parts of an agent's hints, and notice codes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedHints {
    /// If the key is wrong.
    pub auth: String,
    /// If the service is unreachable.
    #[serde(default = "address")]
    pub network: String,
    /// Code of the retry notice.
    #[serde(default = "api_retry")]
    pub retry: String,
}

/// Quirks of an agent that do not affect any guarantee.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quirks {
    /// What `started` reports for a model with the provider name `{model}`; empty: nothing.
    pub(super) model: String,
    /// The name in events of the model's tools, if it is always the same.
    pub(super) tool: Option<String>,
    /// Whether the agent adds text around the prompt.
    pub wraps_prompts: bool,
    /// Whether a denied call ends the turn, so that the model never gets the denial.
    pub ends_when_denied: bool,
    /// Whether surrounding whitespace of thoughts is trimmed.
    pub trims_thoughts: bool,
    /// Message of the provider's error by status, and of `other`. Some agents report nothing else.
    pub(super) provider: Pairs,
    /// Whether the status of a provider error is reported.
    pub reports_status: bool,
    /// Statuses that are not reported even so.
    pub unreported_statuses: Vec<u16>,
    /// A shell command that prints 42 and writes it to the file `made`: some agents refuse certain
    /// forms.
    pub sum: String,
    /// A call that fails; usually a shell command.
    pub(super) failing: Option<FailingCall>,
    /// Whether the agent adds text around a command's output for the model.
    pub wraps_outputs: bool,
    /// Whether the caller gets a command's output.
    pub reports_outputs: bool,
    /// Whether an interrupt takes effect only with the model's next output.
    pub stops_at_next_output: bool,
    /// Whether a message for an interrupted turn stays for the next one.
    pub keeps_messages: bool,
    /// Whether it may take longer to exit than it is given, and then gets a signal.
    pub lingers: bool,
    /// Text in the system prompt of model calls that are not part of the work.
    pub side_requests: Vec<String>,
}

impl Default for Quirks {
    fn default() -> Self {
        Self {
            model: "{model}".to_owned(),
            tool: None,
            wraps_prompts: false,
            ends_when_denied: false,
            trims_thoughts: false,
            provider: Pairs::new(),
            reports_status: true,
            unreported_statuses: Vec::new(),
            sum: "echo $((40 + 2)) | tee made".to_owned(),
            failing: None,
            wraps_outputs: false,
            reports_outputs: true,
            stops_at_next_output: false,
            keeps_messages: false,
            lingers: false,
            side_requests: Vec::new(),
        }
    }
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            tokens: Counts::ReadsApart,
            price: None,
            cost_source: "unknown".to_owned(),
            overloaded: 503,
            retried: vec![429, 503],
            exit_codes: [0, 0],
            soon: Duration::from_secs(8),
            retries_for: PATIENCE * 2,
        }
    }
}

fn yes() -> bool {
    true
}

fn plain_text() -> String {
    "{text}".to_owned()
}

fn address() -> String {
    "address of the model".to_owned()
}

fn api_retry() -> String {
    "api_retry".to_owned()
}

fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_secs)
}
