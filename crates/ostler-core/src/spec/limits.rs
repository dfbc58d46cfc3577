//! Limits of a session.

use std::time::Duration;

use crate::clip::OUTPUT_CAP;

/// Limits on time and size, with defaults. `None` means no limit.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum time for the task, including turns that the agent starts by itself
    /// ([`super::AfterTurn::End`]), or for one turn in a session that waits for more messages
    /// ([`super::AfterTurn::Wait`]).
    pub wall: Option<Duration>,
    /// Maximum silence of the agent while no tool runs and no permission request is open.
    pub idle: Option<Duration>,
    /// Maximum time until the agent's first output.
    pub startup: Option<Duration>,
    /// Time between the steps of ending an agent: after a request before SIGTERM, and after SIGTERM
    /// before SIGKILL.
    pub grace: Duration,
    /// Maximum size of an answer, in bytes.
    pub output: usize,
    /// Maximum time for the agent to reply to a request such as a change of model.
    pub control: Duration,
    /// Maximum cost of the session, for the warning at 80% and for agents that do not enforce it
    /// themselves.
    pub budget_usd: Option<f64>,
    /// Maximum number of tokens of the session, all kinds together.
    pub budget_tokens: Option<u64>,
    /// Maximum number of messages in the session.
    pub budget_turns: Option<u32>,
    /// Maximum time of the session, counted from its first turn.
    pub budget_wall: Option<Duration>,
    /// Maximum size of the session's stored events, in bytes of JSON. The session ends when it is
    /// reached.
    pub event_bytes: Option<u64>,
    /// Maximum size of the agent's stored raw output, in bytes. The oldest part is dropped beyond
    /// it.
    pub raw_bytes: Option<u64>,
}

impl Limits {
    /// Default of [`Limits::event_bytes`].
    pub const EVENT_BYTES: u64 = 256_000_000;
    /// Default of [`Limits::raw_bytes`].
    pub const RAW_BYTES: u64 = 512_000_000;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall: Some(Duration::from_secs(60 * 60)),
            idle: Some(Duration::from_secs(10 * 60)),
            startup: Some(Duration::from_secs(60)),
            grace: Duration::from_secs(5),
            output: OUTPUT_CAP,
            control: Duration::from_secs(30),
            budget_usd: None,
            budget_tokens: None,
            budget_turns: None,
            budget_wall: None,
            event_bytes: Some(Self::EVENT_BYTES),
            raw_bytes: Some(Self::RAW_BYTES),
        }
    }
}

setters! { Limits;
    /// Sets the maximum time for the task.
    wall: impl Into<Option<Duration>> => wall.into();
    /// Sets the maximum silence of the agent.
    idle: impl Into<Option<Duration>> => idle.into();
    /// Sets the maximum time until the agent's first output.
    startup: impl Into<Option<Duration>> => startup.into();
    /// Sets the time between the steps of ending an agent.
    grace: Duration => grace;
    /// Sets the maximum size of an answer, in bytes.
    output: usize => output;
    /// Sets the maximum time for the agent to reply to a request.
    control: Duration => control;
    /// Sets the maximum cost of the session.
    budget_usd: impl Into<Option<f64>> => budget_usd.into();
    /// Sets the maximum number of tokens of the session.
    budget_tokens: impl Into<Option<u64>> => budget_tokens.into();
    /// Sets the maximum number of messages in the session.
    budget_turns: impl Into<Option<u32>> => budget_turns.into();
    /// Sets the maximum time of the session.
    budget_wall: impl Into<Option<Duration>> => budget_wall.into();
    /// Sets the maximum size of the session's stored events.
    event_bytes: impl Into<Option<u64>> => event_bytes.into();
    /// Sets the maximum size of the agent's stored raw output.
    raw_bytes: impl Into<Option<u64>> => raw_bytes.into();
}
