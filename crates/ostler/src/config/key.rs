//! Keys of a configuration file.

use std::fmt;
use std::time::Duration;

use ostler_core::names::named;
use ostler_core::size::SizeLimit;

use super::{ValueError, WebhookField, time};

/// A key. The order of the variants is the order of display.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The agent to use if none is given.
    Agent,
    /// A field of an agent, by the agent's name.
    AgentField(String, Field),
    /// A limit for all agents.
    Limit(Limit),
    /// Whether tasks run in the daemon, if one is running.
    Daemon,
    /// The command that the daemon runs when a session needs attention.
    Notify,
    /// A field of a webhook of the daemon, by the webhook's name.
    Webhook(String, WebhookField),
}

/// A field of an agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// The agent that this is an alternative name of.
    Like,
    /// The command of an agent that speaks the Agent Client Protocol.
    Acp,
    /// The program to start instead of the default one.
    Command,
    /// Arguments for the program, passed unchanged.
    Args,
    /// The model.
    Model,
    /// An environment variable of the agent.
    Env(String),
    /// An alias of a model.
    Alias(String),
    /// A setting of the agent.
    Set(String),
}

named! {
    /// A limit, named like its flag.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Limit {
        /// Maximum duration of a task.
        Timeout = "timeout",
        /// Maximum time without output.
        IdleTimeout = "idle_timeout",
        /// Maximum time until the first output.
        StartupTimeout = "startup_timeout",
        /// Time to exit after a stop request.
        Grace = "grace",
        /// Maximum number of the agent's own steps in a turn.
        MaxTurns = "max_turns",
        /// Maximum cost of the session in US dollars.
        MaxBudgetUsd = "max_budget_usd",
        /// Maximum number of tokens of the session.
        MaxTokens = "max_tokens",
        /// Maximum number of messages of the session.
        MaxMessages = "max_messages",
        /// Maximum duration of the session.
        MaxTime = "max_time",
        /// Maximum size of the session's stored events.
        MaxLogSize = "max_log_size",
        /// Maximum size of the agent's stored raw output.
        MaxRawSize = "max_raw_size",
    }
}

/// Value of a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// A duration; `None` for no limit.
    Time(Option<Duration>),
    /// A number.
    Count(u64),
    /// An amount of money.
    Amount(f64),
    /// A size in bytes; `None` for no limit.
    Size(Option<u64>),
}

impl Limit {
    /// Returns the default, as it would be written.
    #[must_use]
    pub fn usual(self) -> &'static str {
        match self {
            Self::Timeout => "1h",
            Self::IdleTimeout => "10m",
            Self::StartupTimeout => "60s",
            Self::Grace => "5s",
            Self::MaxLogSize => "256MB",
            Self::MaxRawSize => "512MB",
            _ => "none",
        }
    }

    /// Parses a value.
    ///
    /// # Errors
    /// Returns what is expected.
    pub fn measure(self, text: &str) -> Result<Measure, ValueError> {
        let whole = |most: u64| match text.parse::<u64>() {
            Ok(count) if (1..=most).contains(&count) => Ok(Measure::Count(count)),
            _ => Err(ValueError::new("expected a whole number of at least 1")),
        };
        match self {
            Self::Grace if text == "none" => Err(ValueError::new("expected a time such as 5s")),
            Self::Timeout
            | Self::IdleTimeout
            | Self::StartupTimeout
            | Self::Grace
            | Self::MaxTime => time(text).map(Measure::Time),
            Self::MaxLogSize | Self::MaxRawSize => {
                let size = text.parse::<SizeLimit>();
                size.map(|limit| Measure::Size(limit.0))
                    .map_err(ValueError::from_error)
            }
            Self::MaxTokens => whole(u64::MAX),
            Self::MaxTurns | Self::MaxMessages => whole(u32::MAX.into()),
            Self::MaxBudgetUsd => match text.parse::<f64>() {
                Ok(amount) if amount.is_finite() && amount > 0.0 => Ok(Measure::Amount(amount)),
                _ => Err(ValueError::new("expected a number greater than 0")),
            },
        }
    }

    /// Whether `text` allows more than `than`. Unreadable text counts as allowing anything.
    pub(super) fn widens(self, text: &str, than: &str) -> bool {
        let size = |text: &str| match self.measure(text) {
            Ok(Measure::Time(Some(time))) => time.as_secs_f64(),
            #[expect(clippy::cast_precision_loss, reason = "compared only")]
            Ok(Measure::Count(count) | Measure::Size(Some(count))) => count as f64,
            Ok(Measure::Amount(amount)) => amount,
            Ok(Measure::Time(None) | Measure::Size(None)) | Err(_) => f64::INFINITY,
        };
        size(text) > size(than)
    }
}

impl Key {
    /// Whether the value may be a secret for any agent.
    pub(super) fn is_secret(&self) -> bool {
        matches!(self, Self::AgentField(_, Field::Env(_)))
    }
}

/// Formats the key as in a file, with dots.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent => f.write_str("agent"),
            Self::Limit(limit) => write!(f, "limits.{limit}"),
            Self::Daemon => f.write_str("daemon"),
            Self::Notify => f.write_str("notify"),
            Self::Webhook(name, field) => write!(f, "webhooks.{}.{field}", Part(name)),
            Self::AgentField(agent, field) => write!(f, "agents.{}.{field}", Part(agent)),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Like => f.write_str("like"),
            Self::Acp => f.write_str("acp"),
            Self::Command => f.write_str("command"),
            Self::Args => f.write_str("args"),
            Self::Model => f.write_str("model"),
            Self::Env(name) => write!(f, "env.{}", Part(name)),
            Self::Alias(name) => write!(f, "models.{}", Part(name)),
            Self::Set(name) => write!(f, "set.{}", Part(name)),
        }
    }
}

/// A part of a key, quoted if necessary.
pub(super) struct Part<'a>(pub(super) &'a str);

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_bare() {
            f.write_str(self.0)
        } else {
            write!(f, "{:?}", self.0)
        }
    }
}

impl Part<'_> {
    /// Whether the part needs no quotes: letters, digits, dashes and underscores.
    pub(super) fn is_bare(&self) -> bool {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        !self.0.is_empty() && self.0.chars().all(is_plain)
    }
}
