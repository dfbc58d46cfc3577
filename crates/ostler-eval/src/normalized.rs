//! Normalized logs: one structure for every agent, as source document 004 defines it.
//!
//! A log is a projection of a session's events ([`from_events`]), or of a trajectory
//! ([`from_atif`]) or a text transcript ([`from_text`]) if that is all there is. [`published`]
//! writes it with the field names of youBencha 1.0. Whatever is unknown stays null.

mod from_atif;
mod from_events;
mod from_text;
mod projection;
mod published;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::from_atif::from_atif;
pub use self::from_events::from_events;
pub use self::from_text::from_text;
use self::from_text::strip_control_sequences;
pub use self::projection::{LogFormat, NormalizedLogs, SchemaMismatch, normalize_log};
pub use self::published::published;
use crate::adapter::ExecutionStatus;

/// Version of the schema of [`NormalizedLog`].
pub const SCHEMA_VERSION: &str = "1.0.0";

/// File name of a normalized log in the artifacts of a trial.
pub const FILE_NAME: &str = "youbencha.log.json";

/// Returns the JSON schema of a normalized log.
#[must_use]
pub fn schema() -> Value {
    schemars::schema_for!(NormalizedLog).to_value()
}

/// How an agent was run: everything that its events do not say.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionFacts {
    /// The agent's name in the log.
    pub agent: String,
    /// The agent's version, if it was probed.
    pub agent_version: Option<String>,
    /// Version of Ostler.
    pub adapter_version: String,
    /// The model, as configured.
    pub configured_model: Option<String>,
    /// Provider of the model, if it is known.
    pub provider: Option<String>,
    /// Result of the run.
    pub status: ExecutionStatus,
    /// Exit code; -1 after a timeout.
    pub exit_code: Option<i32>,
    /// When it started: RFC 3339.
    pub started_at: String,
    /// When it ended: RFC 3339.
    pub completed_at: String,
    /// Wall time.
    pub duration_ms: u64,
    /// Directory that the agent worked in.
    pub working_directory: String,
    /// What went wrong, such as a timeout or truncated output.
    pub errors: Vec<LogError>,
}

/// A normalized log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NormalizedLog {
    /// Version of this schema.
    pub version: String,
    /// The agent.
    pub agent_info: AgentInfo,
    /// The model.
    pub model_info: ModelInfo,
    /// Times and result.
    pub execution: ExecutionInfo,
    /// The conversation.
    pub messages: Vec<LogMessage>,
    /// Tool calls, in order.
    pub tool_calls: Vec<LogToolCall>,
    /// Tokens and cost; null if nothing was reported.
    pub usage: Option<LogUsage>,
    /// What went wrong.
    pub errors: Vec<LogError>,
    /// The machine and the directory.
    pub environment: EnvironmentInfo,
}

/// The agent of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentInfo {
    /// Its name.
    pub name: String,
    /// Its version, or `unknown`.
    pub version: String,
    /// Version of Ostler.
    pub adapter_version: String,
}

/// The model of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelInfo {
    /// As the agent reported it, or as configured.
    pub name: Option<String>,
    /// Its provider.
    pub provider: Option<String>,
    /// Parameters that were set.
    pub parameters: BTreeMap<String, Value>,
}

/// Times and result of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionInfo {
    /// RFC 3339.
    pub started_at: String,
    /// RFC 3339.
    pub completed_at: String,
    /// Wall time.
    pub duration_ms: u64,
    /// Exit code; -1 after a timeout, null if there was none.
    pub exit_code: Option<i32>,
    /// Result.
    pub status: ExecutionStatus,
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageRole {
    /// Instructions.
    System,
    /// The prompt.
    User,
    /// The agent.
    Assistant,
    /// A tool.
    Tool,
}

/// A message of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogMessage {
    /// Who wrote it.
    pub role: MessageRole,
    /// The text, without control sequences.
    pub content: String,
    /// RFC 3339; null if unknown.
    pub timestamp: Option<String>,
    /// Ids of the tool calls that the message makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_call_ids: Vec<String>,
    /// Id of the tool call that the message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// A tool call of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogToolCall {
    /// Its id.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments: JSON if the agent reported JSON, otherwise the text after the tool's name.
    pub arguments: String,
    /// Output of the tool; null if there was none.
    pub result: Option<String>,
    /// Whether the tool succeeded; null if unknown.
    pub ok: Option<bool>,
    /// RFC 3339; null if unknown.
    pub timestamp: Option<String>,
}

/// Tokens and cost. Unknown counters are null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogUsage {
    /// All input tokens, including those read from and written to a cache.
    pub input_tokens: Option<u64>,
    /// Input tokens that were read from a cache.
    pub cached_input_tokens: Option<u64>,
    /// Output tokens, including reasoning.
    pub output_tokens: Option<u64>,
    /// Reasoning tokens, a part of the output.
    pub reasoning_tokens: Option<u64>,
    /// Sum of input and output.
    pub total_tokens: Option<u64>,
    /// Cost in US dollars.
    pub cost_usd: Option<f64>,
    /// Where the cost comes from: `reported`, `estimated`, `partial` or `unknown`.
    pub cost_source: String,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogError {
    /// Code for programs, such as the cause of an outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What happened, and what to do.
    pub message: String,
    /// RFC 3339; null if unknown.
    pub timestamp: Option<String>,
}

/// The machine and the directory of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentInfo {
    /// Operating system.
    pub os: String,
    /// Version of Ostler.
    pub ostler_version: String,
    /// Directory that the agent worked in.
    pub working_directory: String,
}

/// Creates a log without a conversation.
fn empty(execution: &ExecutionFacts) -> NormalizedLog {
    NormalizedLog {
        version: SCHEMA_VERSION.to_owned(),
        agent_info: AgentInfo {
            name: contract_name(&execution.agent).to_owned(),
            version: execution
                .agent_version
                .clone()
                .unwrap_or_else(|| "unknown".to_owned()),
            adapter_version: execution.adapter_version.clone(),
        },
        model_info: ModelInfo {
            name: execution.configured_model.clone(),
            provider: execution.provider.clone(),
            parameters: BTreeMap::new(),
        },
        execution: ExecutionInfo {
            started_at: execution.started_at.clone(),
            completed_at: execution.completed_at.clone(),
            duration_ms: execution.duration_ms,
            exit_code: execution.exit_code,
            status: execution.status,
        },
        messages: Vec::new(),
        tool_calls: Vec::new(),
        usage: None,
        errors: execution.errors.clone(),
        environment: EnvironmentInfo {
            os: std::env::consts::OS.to_owned(),
            ostler_version: execution.adapter_version.clone(),
            working_directory: execution.working_directory.clone(),
        },
    }
}

/// Completes a log: texts without control sequences, and the provider that the model's name tells.
fn complete(mut log: NormalizedLog) -> NormalizedLog {
    for message in &mut log.messages {
        message.content = strip_control_sequences(&message.content);
    }
    for call in &mut log.tool_calls {
        if let Some(result) = &mut call.result {
            *result = strip_control_sequences(result);
        }
    }
    for error in &mut log.errors {
        error.message = strip_control_sequences(&error.message);
    }
    let model = &mut log.model_info;
    if model.provider.is_none() {
        model.provider = model.name.as_deref().and_then(provider_of);
    }
    log
}

/// Returns the name of an agent in youBencha's contract: that of its adapter there, if it has one.
fn contract_name(agent: &str) -> &str {
    let names = include_str!("normalized/agents.txt").lines();
    let mut names = names.filter_map(|line| line.split_once(' '));
    let found = names.find(|(name, _)| *name == agent);
    found.map_or(agent, |(_, name)| name)
}

/// Returns the provider that a model's name tells: `PROVIDER/MODEL`, or a well-known family.
fn provider_of(model: &str) -> Option<String> {
    if let Some((provider, _)) = model.split_once('/') {
        return Some(provider.to_owned());
    }
    let families = include_str!("normalized/providers.txt").lines();
    let mut families = families.filter_map(|line| line.split_once(' '));
    let found = families.find(|(family, _)| model.starts_with(family));
    found.map(|(_, provider)| provider.to_owned())
}

#[cfg(test)]
mod tests;
