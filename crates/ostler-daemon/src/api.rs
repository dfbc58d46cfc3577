//! Types of the API, as they are on the wire. Fields may be added, never renamed.

mod usage;

pub use self::usage::{UsageSums, UsageTable};

use std::collections::BTreeMap;
use std::path::PathBuf;

use ostler::Agents;
use ostler_core::event::SessionState;
use ostler_core::outcome::{Cause, Status};
use ostler_core::permission::ToolKind;
use ostler_core::raw_json::RawJson;
use ostler_core::usage::CostSource;
use ostler_page::diff::FileDiff;
use ostler_store::{SearchHit, SessionRow, SessionStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::placement::FleetPlacement;

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
    /// Sandbox of the agent's process: `workspace-write`, `read-only` or `off`; by default, that
    /// of the daemon. It is fixed for the life of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
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
    /// Runs the session on a worker of the fleet; `{}` for any worker. See docs/fleet-sessions.md.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetPlacement>,
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
    /// The session whose agent started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The start of the first prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Whether the daemon runs it; others are only shown.
    pub managed: bool,
    /// The first line of the first prompt, of at most 120 characters.
    #[serde(default)]
    pub title: Option<String>,
    /// Number of permission requests that wait for an answer.
    #[serde(default)]
    pub pending_approvals: u64,
    /// Number of its last event; 0 if it has none.
    #[serde(default)]
    pub last_seq: u64,
    /// What runs it.
    #[serde(default)]
    pub driver: SessionDriver,
    /// How its last turn ended; absent before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_turn: Option<OutcomeView>,
    /// Whether its agent accepts a message for the current turn.
    #[serde(default)]
    pub steer: bool,
}

/// What runs a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionDriver {
    /// A daemon.
    Daemon,
    /// Another process, such as `ostler run`.
    #[default]
    Other,
}

/// A page of a session's events, as they are stored.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HistoryPage {
    /// The events, in order. `docs/events.md` describes them.
    #[schemars(with = "Vec<Value>")]
    pub events: Vec<RawJson>,
    /// Number of the first event: `before` of the previous page; null for an empty page.
    pub first: Option<u64>,
    /// Number of the last event: `after` of the next page; null for an empty page.
    pub last: Option<u64>,
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
    /// Input tokens not read from a cache, in turns that have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Input tokens read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Input tokens written to a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Output tokens, including reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Reasoning tokens, a part of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

/// How a turn or a session ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutcomeView {
    /// Coarse classification.
    pub status: Status,
    /// Exact cause. The last event has the message.
    pub cause: Cause,
}

impl From<Cause> for OutcomeView {
    fn from(cause: Cause) -> Self {
        Self {
            status: cause.status(),
            cause,
        }
    }
}

impl From<SessionRow> for SessionView {
    fn from(row: SessionRow) -> Self {
        let (state, outcome): (_, Option<OutcomeView>) = match row.status {
            SessionStatus::Live(_) => (row.state, None),
            SessionStatus::Ended(cause) => (SessionState::Ended, Some(cause.into())),
            SessionStatus::Abandoned => (SessionState::Ended, None),
        };
        let status = source_status(state, outcome.as_ref().map(|outcome| outcome.status));
        let short = row.session.get(..8).unwrap_or(&row.session);
        let agent = Agents::builtin().get(&row.agent);
        let counters = row.counters;
        Self {
            last_turn: row.last_turn.map(OutcomeView::from),
            steer: agent.is_some_and(|agent| agent.about().capabilities.steer),
            name: match &row.name {
                Some(name) => name.clone(),
                None => format!("{}-{short}", row.agent),
            },
            managed: row.name.is_some(),
            driver: match row.name {
                Some(_) => SessionDriver::Daemon,
                None => SessionDriver::Other,
            },
            title: row.title(),
            pending_approvals: row.pending_approvals,
            last_seq: row.last_seq,
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
                input: counters.input,
                cache_read: counters.cache_read,
                cache_write: counters.cache_write,
                output: counters.output,
                reasoning: counters.reasoning,
            },
            native_session: row.native_session,
            continues: row.continues,
            parent: row.parent,
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

/// Body of `POST /v1/sessions/{id}/report`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The text, at most 2,000 characters.
    pub text: String,
    /// How serious it is.
    #[serde(default)]
    pub level: ReportLevel,
}

/// How serious a report is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportLevel {
    /// Information.
    #[default]
    Info,
    /// Something is not as it should be.
    Warning,
    /// Something went wrong.
    Error,
}

/// A permission request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalView {
    /// Its id, valid for one answer.
    pub id: String,
    /// The session.
    pub session: String,
    /// The agent of the session.
    pub agent: String,
    /// The directory of the session.
    pub dir: PathBuf,
    /// Name of the session.
    pub name: String,
    /// The `permission` event, with the tool, its kind and its exact arguments.
    pub event: Value,
    /// Name of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// What the tool does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ToolKind>,
    /// The command, the paths or the arguments, on one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The requested changes of files: `path`, `added`, `removed` and `hunks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diff: Vec<FileDiff>,
    /// When the daemon read the files with `before` in `diff`, usually when it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_read_at: Option<String>,
    /// The rule because of which it was asked, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What is allowed by an answer with `always`, if it can still be answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<String>,
    /// The same as a rule of a policy file, if it can be written as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always_rule: Option<String>,
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

/// A list of permission requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalList {
    /// The requests, oldest first; those with `state=decided`, newest first.
    pub approvals: Vec<ApprovalView>,
    /// Value of `cursor` for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
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
    /// Whether the same action is allowed for the rest of the session: see `always` of the
    /// request.
    #[serde(default, skip_serializing_if = "is_false")]
    pub always: bool,
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

/// A one-time link that logs a browser in.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrowserLink {
    /// The address to open. Its fragment contains the code, so servers and logs never see it.
    pub url: String,
    /// When it expires: RFC 3339.
    pub expires_at: String,
}

impl std::fmt::Debug for BrowserLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrowserLink")
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// Body of `POST /v1/browser-session`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BrowserLogin {
    /// The code in the fragment of the link.
    pub code: String,
}

/// Response to a login, besides the cookie.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageKey {
    /// The page's key: sent in the header `Ostler-Page-Key` with every request that changes
    /// something. The page stores it for its own origin.
    pub key: String,
}

/// What a browser may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrowserSessionView {
    /// Whether its cookie is valid, so that it may read.
    pub authenticated: bool,
    /// Whether it also sent the page's key, so that it may create sessions and send messages.
    pub can_prompt: bool,
    /// Whether it may also approve, because the approval code was entered in it.
    pub can_approve: bool,
    /// The daemon's version.
    pub version: String,
}

/// Body of `POST /v1/browser-session/approve`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnterCode {
    /// The approval code.
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
    /// Number of the event in which the text begins.
    pub seq: u64,
    /// Its turn.
    pub turn: u32,
    /// When it was said.
    pub at: String,
    /// Who said it: `user`, `agent`, `thinking`, `tool` or `result`.
    pub speaker: String,
    /// The match with its context, in parts.
    pub snippet: Vec<SnippetPart>,
    /// The snippet as text.
    pub excerpt: String,
}

/// A part of a snippet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnippetPart {
    /// The text.
    pub text: String,
    /// Whether it is what was searched for.
    pub hit: bool,
}

impl From<SearchHit> for SearchMatch {
    fn from(hit: SearchHit) -> Self {
        Self {
            excerpt: hit.excerpt(),
            session: hit.session.into(),
            seq: hit.seq,
            turn: hit.turn,
            at: hit.at.to_string(),
            speaker: hit.speaker.as_str().to_owned(),
            snippet: hit
                .snippet
                .into_iter()
                .map(|part| SnippetPart {
                    text: part.text,
                    hit: part.hit,
                })
                .collect(),
        }
    }
}

/// Matches of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchMatches {
    /// One match per text, newest first.
    pub matches: Vec<SearchMatch>,
    /// Value of `cursor` for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
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
