//! How a turn or a session ended: a cause a program can branch on, and words a person can act on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The end of a turn or of a session. It is data, not an error: a failed run resolves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// The coarse answer.
    pub status: Status,
    /// The exact answer.
    pub cause: Cause,
    /// One sentence for a person.
    pub message: String,
    /// What to do about it, when there is something to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Facts behind the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<Detail>>,
}

/// The coarse answer to "did it work?".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The agent finished its work.
    Success,
    /// It did not, and nobody asked it to stop.
    Failed,
    /// A time limit ended it.
    Timeout,
    /// The caller ended it, or it waits for the caller.
    Stopped,
}

/// Why a turn or session ended. The list is closed on purpose: a program can handle all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The agent finished.
    Completed,
    /// Not logged in, or the key was rejected.
    Auth,
    /// The account's rate or quota limit.
    RateLimit,
    /// The model's service is overloaded.
    Overloaded,
    /// The model API failed (HTTP 5xx); usually temporary.
    ServerError,
    /// The model's service could not be reached, or broke off.
    Network,
    /// The money limit.
    Budget,
    /// The limit on the agent's steps.
    TurnLimit,
    /// The limit on a turn's wall time.
    WallLimit,
    /// Nothing was heard for too long while no tool ran.
    IdleLimit,
    /// The agent said nothing after it was started.
    StartupLimit,
    /// More output than was allowed.
    OutputLimit,
    /// A tool call was denied.
    Denied,
    /// The model refused the request.
    Refused,
    /// The caller interrupted the turn.
    Interrupted,
    /// The agent's process ended without finishing the turn.
    AgentDied,
    /// The agent said something that cannot be right.
    Protocol,
    /// The request was wrong: an unknown session id, a bad model name, a prompt that is too long.
    BadRequest,
    /// The agent is not installed, or cannot be started.
    Unavailable,
    /// The agent asked a person something, or needs approval, and nobody is there: it goes on with the next message.
    NeedsInput,
    /// The caller stopped the session.
    Stopped,
}

impl Cause {
    /// Every cause, in the order of the documentation.
    pub const ALL: [Self; 21] = [
        Self::Completed,
        Self::Auth,
        Self::RateLimit,
        Self::Overloaded,
        Self::ServerError,
        Self::Network,
        Self::Budget,
        Self::TurnLimit,
        Self::WallLimit,
        Self::IdleLimit,
        Self::StartupLimit,
        Self::OutputLimit,
        Self::Denied,
        Self::Refused,
        Self::Interrupted,
        Self::AgentDied,
        Self::Protocol,
        Self::BadRequest,
        Self::Unavailable,
        Self::NeedsInput,
        Self::Stopped,
    ];

    /// The coarse answer that goes with the cause.
    #[must_use]
    pub fn status(self) -> Status {
        match self {
            Self::Completed => Status::Success,
            Self::WallLimit | Self::IdleLimit | Self::StartupLimit => Status::Timeout,
            Self::Interrupted | Self::NeedsInput | Self::Stopped => Status::Stopped,
            _ => Status::Failed,
        }
    }

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Auth => "auth",
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::ServerError => "server_error",
            Self::Network => "network",
            Self::Budget => "budget",
            Self::TurnLimit => "turn_limit",
            Self::WallLimit => "wall_limit",
            Self::IdleLimit => "idle_limit",
            Self::StartupLimit => "startup_limit",
            Self::OutputLimit => "output_limit",
            Self::Denied => "denied",
            Self::Refused => "refused",
            Self::Interrupted => "interrupted",
            Self::AgentDied => "agent_died",
            Self::Protocol => "protocol",
            Self::BadRequest => "bad_request",
            Self::Unavailable => "unavailable",
            Self::NeedsInput => "needs_input",
            Self::Stopped => "stopped",
        }
    }

    /// The error name that readers of documents 001 and 004 know, or `None` for an ending that is
    /// not an error.
    ///
    /// Two names differ from document 001 on purpose, see `docs/glossary.md`: an agent that cannot
    /// be started is an `EnvironmentError`, and one unreadable line is an event; only a turn without
    /// a readable result is an `InvalidResponseError`.
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

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The facts behind an outcome. Each is there only when it is known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Detail {
    /// The exit code of the agent's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the agent's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Head and tail of what the agent wrote to stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// The HTTP status that the model's service answered with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// When a rate limit ends, as the agent said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<String>,
    /// For an interrupt: whether the agent acknowledged it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<bool>,
    /// The limit that was reached, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    /// The agent's own word for the ending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<String>,
    /// Why a process could not be started: `missing`, `not_executable`, `bad_format`, `bad_directory`, `too_long`,
    /// `too_slow`, `called_off`, `breaker_open`, `other`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawn: Option<String>,
    /// The tools whose calls were denied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied_tools: Vec<String>,
}

impl Outcome {
    /// An outcome with a message and nothing else.
    #[must_use]
    pub fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self {
            status: cause.status(),
            cause,
            message: message.into(),
            hint: None,
            detail: None,
        }
    }

    /// The agent finished.
    #[must_use]
    pub fn completed() -> Self {
        Self::new(Cause::Completed, "The agent finished.")
    }

    /// Adds what a person can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn with(mut self, set: impl FnOnce(&mut Detail)) -> Self {
        set(self.detail.get_or_insert_default());
        self
    }

    /// True when the agent finished its work.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.status == Status::Success
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_word_on_the_wire() {
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
    fn the_glossary_has_the_name_of_every_cause() {
        let page = include_str!("../../../docs/glossary.md");
        let (_, table) = page.split_once("| cause | name |\n|---|---|\n").unwrap();
        let mut seen = 0;
        for row in table.lines().take_while(|line| line.starts_with('|')) {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            for word in cells[0].split(", ").map(|word| word.trim_matches('`')) {
                let cause = Cause::ALL
                    .into_iter()
                    .find(|cause| cause.as_str() == word)
                    .expect(word);
                let name = Some(cells[1]).filter(|name| *name != "none: no error");
                assert_eq!(cause.seed_name(), name, "{word}");
                seen += 1;
            }
        }
        assert_eq!(seen, Cause::ALL.len(), "each once");
    }

    #[test]
    fn only_completed_is_a_success() {
        for cause in Cause::ALL {
            assert_eq!(
                cause.status() == Status::Success,
                cause == Cause::Completed,
                "{cause}"
            );
        }
    }
}
