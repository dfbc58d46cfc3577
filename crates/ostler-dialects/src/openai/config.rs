//! Configuration of the conversation, read from the caller's settings.

use ostler_core::dialect::Dialect;
use ostler_core::spec::{Attendance, Denials, Spec, keys};

use super::prices::Price;

/// Default maximum number of steps.
const MAX_TURNS: u64 = 100;

/// Configuration of the conversation.
#[derive(Debug, Clone)]
pub(super) struct LoopConfig {
    pub(super) system_prompt: Option<String>,
    pub(super) append_system_prompt: Option<String>,
    pub(super) json_schema: Option<String>,
    pub(super) max_turns: u64,
    pub(super) max_tokens: Option<u64>,
    pub(super) temperature: Option<String>,
    pub(super) reasoning_effort: Option<String>,
    pub(super) context_window: Option<u64>,
    pub(super) price: Option<Price>,
    pub(super) stream_usage: bool,
    pub(super) extra_body: Option<String>,
    /// Maximum number of tool calls, input tokens and output tokens per turn.
    pub(super) max_tool_calls: Option<u64>,
    pub(super) max_input_tokens: Option<u64>,
    pub(super) max_output_tokens: Option<u64>,
    /// Maximum number of consecutive failed steps.
    pub(super) max_errors: u32,
    pub(super) mode: Mode,
    /// Maximum cost of a turn, in dollars.
    pub(super) max_cost: Option<f64>,
    /// Whether there is a cost limit.
    pub(super) has_budget: bool,
    pub(super) denials: Denials,
    /// Whether tool calls need a decision, by a policy or a person.
    pub(super) checks_permissions: bool,
    /// Whether the session is attended.
    pub(super) attended: bool,
    /// Whether the model can be changed.
    pub(super) set_model: bool,
    /// Model to use instead of the runner's, if it was changed before the runner was ready.
    pub(super) model: Option<String>,
    pub(super) agent: &'static str,
}

/// Autonomy of a loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// Does everything that is allowed.
    #[default]
    Auto,
    /// Only reads, and describes what it would do.
    Plan,
    /// Reads freely; a person approves every change.
    Approve,
}

impl Mode {
    fn of(name: &str) -> Self {
        match name {
            "plan" => Self::Plan,
            "approve" => Self::Approve,
            _ => Self::Auto,
        }
    }
}

impl LoopConfig {
    /// Reads the settings of an agent. `errors` is the default limit of consecutive failed steps.
    pub(super) fn of(spec: &Spec, dialect: &dyn Dialect, errors: u32) -> Self {
        let last = |key: &str| spec.settings.last(key).map(str::to_owned);
        let set_model = dialect.capabilities().set_model;
        let count = |key: &str| spec.settings.last(key).and_then(|value| value.parse().ok());
        Self {
            system_prompt: last(keys::SYSTEM_PROMPT),
            append_system_prompt: last(keys::APPEND_SYSTEM_PROMPT),
            json_schema: last(keys::JSON_SCHEMA),
            max_turns: count(keys::MAX_TURNS).unwrap_or(MAX_TURNS),
            max_tokens: count("max_tokens"),
            temperature: last("temperature"),
            reasoning_effort: last("reasoning_effort"),
            context_window: count("context_window"),
            price: last("price").and_then(|price| Price::parse(&price).ok()),
            stream_usage: last("stream_usage").as_deref() != Some("false"),
            extra_body: last("extra_body"),
            max_tool_calls: count("max_tool_calls"),
            max_input_tokens: count("max_input_tokens"),
            max_output_tokens: count("max_output_tokens"),
            max_errors: spec
                .settings
                .last("max_errors")
                .and_then(|n| n.parse().ok())
                .unwrap_or(errors),
            mode: Mode::of(spec.settings.last("mode").unwrap_or_default()),
            max_cost: spec
                .settings
                .last(keys::MAX_BUDGET_USD)
                .and_then(|n| n.parse().ok())
                .or(spec.limits.budget_usd),
            has_budget: spec.settings.last(keys::MAX_BUDGET_USD).is_some()
                || spec.limits.budget_usd.is_some(),
            denials: spec.denials,
            checks_permissions: spec.policy.is_some() || spec.attendance == Attendance::Attended,
            attended: spec.attendance == Attendance::Attended,
            set_model,
            model: last(keys::MODEL).filter(|_| set_model),
            agent: dialect.name(),
        }
    }
}
