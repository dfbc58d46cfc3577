//! Types of the API, as they are on the wire. Fields may be added, never renamed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ostler_core::event::SessionState;
use ostler_core::outcome::{Cause, Status};
use ostler_core::usage::CostSource;
use ostler_store::{Approval, SessionRow, SessionStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Body of `POST /v1/sessions`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSession {
    /// The agent; the configured one, or the first that is ready, if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The session's only root, an absolute path. It never changes.
    pub dir: PathBuf,
    /// The first message. Without one, the session waits for messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Name for people; `{agent}-{short id}` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels. The agent's process gets each as `OSTLER_LABEL_<NAME>`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Limits, by the names of `[limits]` in `ostler.toml`: `{"timeout": "10m"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Value>,
    /// Settings of the agent, by their keys: a value, or a list of values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, Value>,
    /// Preset of permissions: `read-only`, `workspace`, `ask` or `all`. They apply besides the
    /// user's policy, and are fixed for the life of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    /// Whether permission requests wait for an answer; `true` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attended: Option<bool>,
    /// Whether the session ends after its first turn; `false` by default.
    #[serde(default, skip_serializing_if = "is_false")]
    pub once: bool,
    /// Id of the session to resume. Its agent and directory must be the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// Whether to resume a copy of the session.
    #[serde(default, skip_serializing_if = "is_false")]
    pub fork: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

/// A session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionView {
    /// Ostler's id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// The agent's name in Ostler.
    pub agent: String,
    /// Its state.
    pub state: SessionState,
    /// Its status by the names of source document 002: `CREATED` … `FAILED`.
    pub status: String,
    /// The directory that the agent works in.
    pub dir: PathBuf,
    /// The model, as reported by the agent.
    pub model: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// When it was created: RFC 3339.
    pub created_at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Number of turns that were started.
    pub turns: u32,
    /// Tokens and cost so far.
    pub usage: UsageView,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeView>,
    /// The agent's id of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_session: Option<String>,
    /// The session that it continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
    /// The start of the first prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Whether the daemon runs it; others are only shown.
    pub managed: bool,
}

/// Tokens and cost of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageView {
    /// Total number of tokens, as far as known.
    pub tokens: Option<u64>,
    /// Cost in US dollars, if known.
    pub cost_usd: Option<f64>,
    /// Where the cost comes from.
    pub cost_source: CostSource,
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutcomeView {
    /// Coarse classification.
    pub status: Status,
    /// Exact cause. The last event has the message.
    pub cause: Cause,
}

impl From<SessionRow> for SessionView {
    fn from(row: SessionRow) -> Self {
        let (state, outcome) = match row.status {
            SessionStatus::Live(_) => (row.state, None),
            SessionStatus::Ended(cause) => {
                let status = cause.status();
                (SessionState::Ended, Some(OutcomeView { status, cause }))
            }
            SessionStatus::Abandoned => (SessionState::Ended, None),
        };
        let status = source_status(state, outcome.as_ref().map(|outcome| outcome.status));
        let short = row.session.get(..8).unwrap_or(&row.session);
        Self {
            name: match &row.name {
                Some(name) => name.clone(),
                None => format!("{}-{short}", row.agent),
            },
            managed: row.name.is_some(),
            state,
            status: status.to_owned(),
            outcome,
            created_at: row.began_at.to_string(),
            ended_at: row.ended_at.map(|at| at.to_string()),
            id: row.session,
            agent: row.agent,
            dir: row.dir,
            model: row.model,
            labels: row.labels,
            turns: row.turns,
            usage: UsageView {
                tokens: row.tokens,
                cost_usd: row.cost_usd,
                cost_source: row.cost_source,
            },
            native_session: row.native_session,
            continues: row.continues,
            prompt: row.prompt,
        }
    }
}

/// Returns the status of a session by the names of source document 002 (S2-23). A session that was
/// left behind by an unclean shutdown has failed (S2-32).
#[must_use]
pub fn source_status(state: SessionState, ended: Option<Status>) -> &'static str {
    match (state, ended) {
        (SessionState::Created, _) => "CREATED",
        (SessionState::Starting, _) => "STARTING",
        (SessionState::Idle, _) => "RUNNING",
        (SessionState::Working, _) => "WORKING",
        (SessionState::Paused, _) => "PAUSED",
        (SessionState::Stopping, _) => "STOPPING",
        (SessionState::Ended, Some(Status::Success | Status::Stopped)) => "STOPPED",
        (SessionState::Ended, _) => "FAILED",
    }
}

/// A page of sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionPage {
    /// The sessions, newest first.
    pub sessions: Vec<SessionView>,
    /// Value of `cursor` for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Body of `POST /v1/sessions/{id}/messages`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendMessage {
    /// The message.
    pub text: String,
    /// What to do during a turn.
    #[serde(default)]
    pub when_busy: WhenBusy,
}

/// What to do with a message that arrives during a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenBusy {
    /// Queue it for the next turn.
    #[default]
    Queue,
    /// Add it to the current turn, if the agent supports that.
    Steer,
    /// Refuse it.
    Refuse,
}

/// A permission request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalView {
    /// Its id, valid for one answer.
    pub id: String,
    /// The session.
    pub session: String,
    /// The `permission` event, with the tool, its kind and its exact arguments.
    pub event: Value,
    /// `pending`, `allowed`, `denied`, `expired` or `withdrawn`.
    pub state: String,
    /// When it was asked.
    pub asked_at: String,
    /// When it is denied if it was not answered.
    pub expires_at: String,
    /// Possible answers.
    pub options: Vec<String>,
    /// When it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<String>,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The message with the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl From<Approval> for ApprovalView {
    fn from(approval: Approval) -> Self {
        Self {
            event: serde_json::from_str(&approval.event).unwrap_or(Value::Null),
            id: approval.id,
            session: approval.session,
            state: approval.state.as_str().to_owned(),
            asked_at: approval.asked_at.to_string(),
            expires_at: approval.expires_at.to_string(),
            options: vec!["allow".to_owned(), "deny".to_owned()],
            decided_at: approval.decided_at.map(|at| at.to_string()),
            decided_by: approval.decided_by,
            message: approval.message,
        }
    }
}

/// A list of permission requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalList {
    /// The requests, oldest first.
    pub approvals: Vec<ApprovalView>,
}

/// Body of `POST /v1/approvals/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The decision.
    pub decision: AnswerDecision,
    /// The reason for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A decision on a permission request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerDecision {
    /// The tool may run.
    Allow,
    /// The tool may not run.
    Deny,
}

/// The conclusion of a session's last turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionResult {
    /// The session.
    pub session: SessionView,
    /// Whether there is a conclusion: the last turn, or the session, has ended.
    pub done: bool,
    /// Number of the turn.
    pub turn: u32,
    /// The answer, or the partial text of a turn that was cut short.
    pub text: String,
    /// How the turn ended, as in its `turn_ended` event; or the session, if it had no turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Value>,
    /// Tokens and cost of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentView {
    /// Its name in Ostler.
    pub name: String,
    /// Whether it can be used.
    pub ready: bool,
    /// Why it cannot be used, and how to fix that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Models that it is known to have.
    pub models: Vec<String>,
    /// What it can do.
    pub capabilities: Value,
}

/// The code that a TCP client needs to approve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalCode {
    /// The code, valid until the daemon stops.
    pub code: String,
}

/// A list of agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentList {
    /// The agents, in order of preference.
    pub agents: Vec<AgentView>,
}

/// A match of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchMatch {
    /// The session.
    pub session: SessionView,
    /// The turn of the first match.
    pub turn: u32,
    /// When it was said.
    pub at: String,
    /// Who said it: `user`, `agent` or `tool`.
    pub speaker: String,
    /// The match with its context.
    pub excerpt: String,
}

/// Matches of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchMatches {
    /// One match per session, newest first.
    pub matches: Vec<SearchMatch>,
}

/// Result of an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interrupted {
    /// Whether there was a turn to interrupt.
    pub interrupted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    // S2-23, S2-32
    #[test]
    fn every_state_has_a_name_in_the_source_document() {
        let names: Vec<&str> = SessionState::ALL
            .into_iter()
            .map(|state| source_status(state, None))
            .collect();
        assert_eq!(
            names,
            [
                "CREATED", "STARTING", "RUNNING", "WORKING", "PAUSED", "STOPPING", "FAILED"
            ]
        );
        for cause in Cause::ALL {
            let failed = !matches!(cause.status(), Status::Success | Status::Stopped);
            let name = source_status(SessionState::Ended, Some(cause.status()));
            assert_eq!(name == "FAILED", failed, "{cause}");
        }
    }
}
