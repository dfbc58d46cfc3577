//! The Agent Trajectory Interchange Format (ATIF): written as 1.7, read from 1.0 to 1.8.
//!
//! A trajectory is a projection of a session's events. Each message of the agent is a step; its
//! tool calls and their results belong to it. Unknown fields of a file that is read are ignored.

use ostler_core::event::{Event, EventKind, TextKind};
use ostler_core::usage::Usage;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Version that is written.
pub const WRITTEN_VERSION: &str = "ATIF-v1.7";

/// Versions that can be read.
pub const READ_VERSIONS: [&str; 9] = [
    "ATIF-v1.0",
    "ATIF-v1.1",
    "ATIF-v1.2",
    "ATIF-v1.3",
    "ATIF-v1.4",
    "ATIF-v1.5",
    "ATIF-v1.6",
    "ATIF-v1.7",
    "ATIF-v1.8",
];

/// A trajectory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// Version of the format.
    pub schema_version: String,
    /// Ostler's id of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Id of this document among the trajectories of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trajectory_id: Option<String>,
    /// The agent.
    pub agent: TrajectoryAgent,
    /// The steps, numbered from 1.
    pub steps: Vec<Step>,
    /// Remarks for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// Totals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_metrics: Option<FinalMetrics>,
    /// Additional data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Map<String, Value>>,
}

/// The agent of a trajectory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrajectoryAgent {
    /// Its name.
    pub name: String,
    /// Its version, or `unknown`.
    pub version: String,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_name: Option<String>,
}

/// Who a step comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepSource {
    /// Instructions, or events around the agent.
    System,
    /// The prompt.
    User,
    /// The agent.
    Agent,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Number, from 1.
    pub step_id: u32,
    /// When it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// Who it comes from.
    pub source: StepSource,
    /// The message: a text, or parts since 1.6.
    pub message: Value,
    /// The agent's reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<StepToolCall>>,
    /// Results of the tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation: Option<Observation>,
    /// Tokens and cost of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    /// Additional data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Map<String, Value>>,
}

impl Step {
    /// Returns the text of the message, without other parts.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.message {
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
                texts.collect()
            }
            _ => String::new(),
        }
    }
}

/// A tool call of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepToolCall {
    /// Its id.
    pub tool_call_id: String,
    /// Name of the tool.
    pub function_name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

/// Results of a step's tool calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The results.
    pub results: Vec<ObservationResult>,
}

/// A result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObservationResult {
    /// Id of the tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_call_id: Option<String>,
    /// Output: a text, or parts since 1.6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
    /// Additional data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Map<String, Value>>,
}

/// Tokens and cost of a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Metrics {
    /// Input tokens, including cached ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u64>,
    /// Input tokens that were read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Cost in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// Totals of a trajectory.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FinalMetrics {
    /// Input tokens, including cached ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_prompt_tokens: Option<u64>,
    /// Output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_completion_tokens: Option<u64>,
    /// Input tokens that were read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_cached_tokens: Option<u64>,
    /// Cost in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_cost_usd: Option<f64>,
    /// Number of steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_steps: Option<u32>,
}

/// A file that is not a trajectory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AtifError {
    /// It does not have the format.
    #[error("not a trajectory: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Its version is unknown.
    #[error("unknown version {0:?}; versions ATIF-v1.0 to ATIF-v1.8 can be read")]
    Version(String),
    /// Its steps are not numbered from 1.
    #[error("step {index} has the number {found}; steps are numbered from 1 without gaps")]
    StepNumber {
        /// Position in the list, from 1.
        index: u32,
        /// The number that it has.
        found: u32,
    },
    /// A result refers to a call that its step does not make.
    #[error("step {step} has a result of the unknown tool call {call:?}")]
    UnknownCall {
        /// Number of the step.
        step: u32,
        /// The id.
        call: String,
    },
}

/// Reads a trajectory.
///
/// # Errors
/// If the text is not a trajectory of a known version, or breaks the rules of the format.
pub fn read(text: &str) -> Result<Trajectory, AtifError> {
    let trajectory: Trajectory = serde_json::from_str(text)?;
    if !READ_VERSIONS.contains(&&*trajectory.schema_version) {
        return Err(AtifError::Version(trajectory.schema_version));
    }
    for (index, step) in (1_u32..).zip(&trajectory.steps) {
        if step.step_id != index {
            let found = step.step_id;
            return Err(AtifError::StepNumber { index, found });
        }
        let calls = step.tool_calls.as_deref().unwrap_or_default();
        let results = step.observation.iter().flat_map(|it| &it.results);
        for call in results.filter_map(|result| result.source_call_id.as_ref()) {
            if !calls.iter().any(|known| known.tool_call_id == *call) {
                let call = call.clone();
                return Err(AtifError::UnknownCall { step: index, call });
            }
        }
    }
    Ok(trajectory)
}

/// Writes the trajectory of a session. `agent` is used if the events do not name one.
#[must_use]
pub fn write(agent: &str, events: &[Event]) -> Trajectory {
    let mut writer = Writer {
        trajectory: Trajectory {
            schema_version: WRITTEN_VERSION.to_owned(),
            session_id: events.first().map(|event| event.session.to_string()),
            trajectory_id: None,
            agent: TrajectoryAgent {
                name: agent.to_owned(),
                version: "unknown".to_owned(),
                model_name: None,
            },
            steps: Vec::new(),
            notes: None,
            final_metrics: None,
            extra: None,
        },
        closed: true,
    };
    for event in events {
        writer.push(event);
    }
    if writer.trajectory.steps.is_empty() {
        // The format requires a step.
        let at = events.first().map(|event| event.at.to_string());
        let step = writer.step(StepSource::System, at);
        step.message = json!("The session ended before its first turn.");
    }
    let steps = u32::try_from(writer.trajectory.steps.len()).ok();
    if let Some(totals) = &mut writer.trajectory.final_metrics {
        totals.total_steps = steps;
    }
    writer.trajectory
}

struct Writer {
    trajectory: Trajectory,
    /// Whether the next text or call of the agent starts another step.
    closed: bool,
}

impl Writer {
    fn push(&mut self, event: &Event) {
        let at = event.at.to_string();
        match &event.kind {
            EventKind::Started(started) => {
                let agent = &mut self.trajectory.agent;
                agent.name.clone_from(&started.agent);
                if let Some(version) = &started.agent_version {
                    agent.version.clone_from(version);
                }
                agent.model_name.clone_from(&started.model);
            }
            EventKind::TurnStarted(turn) => {
                self.closed = true;
                if let Some(prompt) = &turn.prompt {
                    self.step(StepSource::User, Some(at)).message = json!(prompt);
                }
            }
            EventKind::Text(text) => {
                let step = self.agent_step(at);
                match text.kind {
                    TextKind::Reply => append(&mut step.message, &text.text),
                    TextKind::Thinking => step
                        .reasoning_content
                        .get_or_insert_default()
                        .push_str(&text.text),
                }
            }
            EventKind::ToolCall(call) => {
                let arguments = match serde_json::from_str(call.input.get()) {
                    Ok(Value::Object(arguments)) => arguments,
                    Ok(other) => Map::from_iter([("input".to_owned(), other)]),
                    Err(_) => Map::from_iter([("input".to_owned(), json!(call.input.get()))]),
                };
                let step = self.agent_step(at);
                step.tool_calls.get_or_insert_default().push(StepToolCall {
                    tool_call_id: call.id.clone(),
                    function_name: call.name.clone(),
                    arguments,
                });
            }
            EventKind::ToolResult(result) => self.result(result),
            EventKind::TurnEnded(turn) => {
                self.closed = true;
                let metrics = turn.usage.as_ref().and_then(metrics);
                let last = self.trajectory.steps.last_mut();
                if let Some(step) = last.filter(|step| step.source == StepSource::Agent) {
                    step.metrics = metrics;
                }
            }
            EventKind::Ended(ended) => {
                self.trajectory.final_metrics = ended.usage.as_ref().map(|usage| FinalMetrics {
                    total_prompt_tokens: input(usage),
                    total_completion_tokens: usage.output,
                    total_cached_tokens: usage.cache_read,
                    total_cost_usd: usage.cost_usd,
                    total_steps: None,
                });
                let extra = [
                    ("cause", json!(ended.outcome.cause.as_str())),
                    ("message", json!(ended.outcome.message)),
                ];
                let extra = extra.map(|(name, value)| (name.to_owned(), value));
                self.trajectory.extra = Some(Map::from_iter(extra));
            }
            _ => {}
        }
    }

    /// Adds a result to the step that made the call.
    fn result(&mut self, result: &ostler_core::event::ToolResult) {
        self.closed = true;
        let makes_call = |step: &&mut Step| {
            let calls = step.tool_calls.as_deref().unwrap_or_default();
            calls.iter().any(|call| call.tool_call_id == result.id)
        };
        let Some(step) = self.trajectory.steps.iter_mut().rev().find(makes_call) else {
            return;
        };
        let observation = step.observation.get_or_insert(Observation {
            results: Vec::new(),
        });
        observation.results.push(ObservationResult {
            source_call_id: Some(result.id.clone()),
            content: Some(json!(result.output)),
            extra: (!result.ok).then(|| {
                let facts = [("ok", json!(false)), ("denied", json!(result.denied))];
                Map::from_iter(facts.map(|(name, value)| (name.to_owned(), value)))
            }),
        });
    }

    /// Returns the agent's current step, or starts one.
    fn agent_step(&mut self, at: String) -> &mut Step {
        if self.closed {
            self.closed = false;
            return self.step(StepSource::Agent, Some(at));
        }
        let last = self.trajectory.steps.len().saturating_sub(1);
        &mut self.trajectory.steps[last]
    }

    fn step(&mut self, source: StepSource, timestamp: Option<String>) -> &mut Step {
        let steps = &mut self.trajectory.steps;
        let step_id = u32::try_from(steps.len()).map_or(u32::MAX, |count| count + 1);
        steps.push(Step {
            step_id,
            timestamp,
            source,
            message: json!(""),
            reasoning_content: None,
            tool_calls: None,
            observation: None,
            metrics: None,
            extra: None,
        });
        let last = steps.len() - 1;
        &mut steps[last]
    }
}

fn append(message: &mut Value, text: &str) {
    if let Value::String(message) = message {
        message.push_str(text);
    }
}

fn input(usage: &Usage) -> Option<u64> {
    let parts = [usage.input, usage.cache_read, usage.cache_write];
    parts.into_iter().flatten().reduce(|a, b| a + b)
}

fn metrics(usage: &Usage) -> Option<Metrics> {
    let metrics = Metrics {
        prompt_tokens: input(usage),
        completion_tokens: usage.output,
        cached_tokens: usage.cache_read,
        cost_usd: usage.cost_usd,
    };
    (metrics != Metrics::default()).then_some(metrics)
}

#[cfg(test)]
mod tests;
