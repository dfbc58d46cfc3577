//! Outcomes: how a turn or session ended, with a cause for programs and a message for people.
//!
//! ```
//! use ostler_core::outcome::{Cause, Outcome, Status};
//!
//! let outcome = Outcome::new(Cause::RateLimit, "The limit resets at 17:00.");
//! assert_eq!(outcome.status, Status::Failed);
//! assert_eq!(outcome.cause.as_str(), "rate_limit");
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::codes::{Reason, SpawnFailure};
use crate::names::named;

/// The end of a turn or session. An outcome is data, not an error: a failed run still returns one.
#[must_use]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Coarse classification.
    pub status: Status,
    /// Exact cause.
    pub cause: Cause,
    /// One sentence for a person.
    pub message: String,
    /// Suggested next step, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Facts behind the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<Detail>>,
}

/// Coarse classification of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The agent finished its work.
    Success,
    /// The agent did not finish, and was not asked to stop.
    Failed,
    /// A time limit ended it.
    Timeout,
    /// The caller ended it, or the agent waits for the caller.
    Stopped,
}

named! {
    /// Why a turn or session ended. The list is closed on purpose, so that a program can handle
    /// every cause.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Cause {
        /// The agent finished.
        Completed = "completed",
        /// The agent is not logged in, or its key was rejected.
        Auth = "auth",
        /// The account's rate or quota limit was reached.
        RateLimit = "rate_limit",
        /// The model's service is overloaded.
        Overloaded = "overloaded",
        /// The model API failed (HTTP 5xx); usually temporary.
        ServerError = "server_error",
        /// The model's service could not be reached, or the connection broke.
        Network = "network",
        /// The budget of money, tokens, messages or time was used up.
        Budget = "budget",
        /// The limit on the agent's steps was reached.
        TurnLimit = "turn_limit",
        /// The limit on the wall-clock time of a turn was reached.
        WallLimit = "wall_limit",
        /// The agent was silent for too long while no tool was running.
        IdleLimit = "idle_limit",
        /// The agent printed nothing after it was started.
        StartupLimit = "startup_limit",
        /// The agent produced more output than allowed.
        OutputLimit = "output_limit",
        /// A tool call was denied.
        Denied = "denied",
        /// The model refused the request.
        Refused = "refused",
        /// The caller interrupted the turn.
        Interrupted = "interrupted",
        /// The agent's process ended without finishing the turn.
        AgentDied = "agent_died",
        /// The agent violated its protocol.
        Protocol = "protocol",
        /// The request was invalid: an unknown session id, a bad model name, a prompt that is too
        /// long.
        BadRequest = "bad_request",
        /// The agent is not installed, or cannot be started.
        Unavailable = "unavailable",
        /// The agent asked a question or needs approval, and the run is unattended. The next
        /// message continues it.
        NeedsInput = "needs_input",
        /// The caller stopped the session.
        Stopped = "stopped",
    }
}

impl Cause {
    /// Returns the status that belongs to the cause.
    #[must_use]
    pub fn status(self) -> Status {
        match self {
            Self::Completed => Status::Success,
            Self::WallLimit | Self::IdleLimit | Self::StartupLimit => Status::Timeout,
            Self::Interrupted | Self::NeedsInput | Self::Stopped => Status::Stopped,
            _ => Status::Failed,
        }
    }

    /// Returns the error name used in the source documents S1 and S4 (`docs/requirements.md`), or
    /// `None` for an ending that is not an error.
    ///
    /// Two names differ from S1 on purpose, see `docs/glossary.md`. An agent that cannot be started
    /// is an `EnvironmentError`. One unreadable line is an event; only a turn without a readable
    /// result is an `InvalidResponseError`.
    #[must_use]
    pub fn seed_name(self) -> Option<&'static str> {
        match self {
            Self::Completed | Self::Interrupted | Self::NeedsInput | Self::Stopped => None,
            Self::Auth => Some("AuthenticationError"),
            Self::RateLimit | Self::Overloaded => Some("RateLimitError"),
            Self::ServerError | Self::Network | Self::AgentDied => Some("NetworkError"),
            Self::Denied => Some("ToolPermissionError"),
            Self::Protocol => Some("InvalidResponseError"),
            Self::Unavailable => Some("EnvironmentError"),
            Self::WallLimit | Self::IdleLimit | Self::StartupLimit => Some("TimeoutError"),
            Self::Budget | Self::TurnLimit | Self::OutputLimit => Some("LimitError"),
            Self::Refused | Self::BadRequest => Some("InvalidRequestError"),
        }
    }
}

/// Facts behind an outcome. Each is present only if it is known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Detail {
    /// Exit code of the agent's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal that ended the agent's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Head and tail of the agent's stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// HTTP status returned by the model's service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// When a rate limit resets, as the agent reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<String>,
    /// For an interrupt: whether the agent acknowledged it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<bool>,
    /// The limit that was reached, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    /// The agent's own name for the ending, or that of Ostler's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<String>,
    /// Ostler's reason for the ending, if the cause alone does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Why a process could not be started: `missing`, `not_executable`, `bad_format`,
    /// `bad_directory`, `too_long`, `too_slow`, `called_off`, `unconfined`, `breaker_open`,
    /// `other`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawn: Option<SpawnFailure>,
    /// Tools whose calls were denied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied_tools: Vec<String>,
    /// Ids of the tool calls that wait for a person's approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_calls: Vec<String>,
}

impl Outcome {
    /// Creates an outcome with a message and nothing else.
    pub fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self {
            status: cause.status(),
            cause,
            message: message.into(),
            hint: None,
            detail: None,
        }
    }

    /// Creates the outcome of an agent that finished.
    pub fn completed() -> Self {
        Self::new(Cause::Completed, "The agent finished.")
    }

    /// Adds a hint: what a person can do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds facts.
    pub fn with(mut self, set: impl FnOnce(&mut Detail)) -> Self {
        set(self.detail.get_or_insert_default());
        self
    }

    /// Adds Ostler's reason, which is also the name of the ending unless the agent has one.
    pub fn because(self, reason: Reason) -> Self {
        self.with(|detail| {
            detail
                .native
                .get_or_insert_with(|| reason.as_str().to_owned());
            detail.reason = Some(reason);
        })
    }

    /// Returns Ostler's reason, if there is one.
    #[must_use]
    pub fn reason(&self) -> Option<&Reason> {
        self.detail.as_ref()?.reason.as_ref()
    }

    /// Returns true if the agent finished its work.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.status == Status::Success
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_names_match_their_serialization() {
        for cause in Cause::ALL {
            assert_eq!(
                serde_json::to_string(&cause).unwrap(),
                format!("\"{}\"", cause.as_str())
            );
        }
    }

    // S1-5, S1-20, S1-23…S1-27, S1-29: the names are a contract with readers of the source
    // documents; the glossary has the same.
    #[test]
    fn glossary_lists_the_error_name_of_every_cause() {
        let page = include_str!("../../../docs/glossary.md");
        let (_, table) = page.split_once("| cause | name |\n|---|---|\n").unwrap();
        let mut seen = 0;
        for row in table.lines().take_while(|line| line.starts_with('|')) {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            for code in cells[0].split(", ").map(|code| code.trim_matches('`')) {
                let cause = Cause::ALL
                    .into_iter()
                    .find(|cause| cause.as_str() == code)
                    .expect(code);
                let name = Some(cells[1]).filter(|name| *name != "none: no error");
                assert_eq!(cause.seed_name(), name, "{code}");
                seen += 1;
            }
        }
        assert_eq!(seen, Cause::ALL.len(), "each cause is listed once");
    }

    #[test]
    fn only_an_ending_that_nobody_asked_for_is_a_failure() {
        for (cause, status) in [
            (Cause::WallLimit, Status::Timeout),
            (Cause::IdleLimit, Status::Timeout),
            (Cause::StartupLimit, Status::Timeout),
            (Cause::Interrupted, Status::Stopped),
            (Cause::NeedsInput, Status::Stopped),
            (Cause::Stopped, Status::Stopped),
            (Cause::Auth, Status::Failed),
        ] {
            assert_eq!(cause.status(), status, "{cause}");
        }
    }

    #[test]
    fn only_completed_is_a_success() {
        for cause in Cause::ALL {
            assert_eq!(
                cause.status() == Status::Success,
                cause == Cause::Completed,
                "{cause}"
            );
            let outcome = Outcome::new(cause, "x");
            assert_eq!(outcome.is_success(), cause == Cause::Completed, "{cause}");
        }
    }
}
