//! The caller's settings, read once.

use ostler_core::dialect::Dialect;
use ostler_core::spec::{Attendance, Denials, Spec, keys};

use super::prices::Price;

/// At most so many steps when nobody says otherwise.
const MAX_TURNS: u64 = 100;

/// What the conversation keeps to.
#[derive(Debug, Clone)]
pub(super) struct Plan {
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
    /// At most so many tool calls, input tokens and output tokens in a turn.
    pub(super) max_tool_calls: Option<u64>,
    pub(super) max_input_tokens: Option<u64>,
    pub(super) max_output_tokens: Option<u64>,
    /// How many steps in a row may come to nothing.
    pub(super) max_errors: u32,
    pub(super) mode: Mode,
    /// At most so much money in a turn.
    pub(super) max_cost: Option<f64>,
    /// Whether there is a limit on money.
    pub(super) budget: bool,
    pub(super) denials: Denials,
    /// Whether there are rules about tools, or somebody to ask.
    pub(super) asks: bool,
    /// Whether somebody is there to ask.
    pub(super) somebody: bool,
    /// Whether the model can be another one than in the beginning.
    pub(super) set_model: bool,
    /// The model to ask: another one than the body's, when it was changed before the body was there.
    pub(super) model: Option<String>,
    pub(super) agent: &'static str,
}

/// What a loop may do by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// Everything that it is allowed.
    #[default]
    Auto,
    /// Look, and say what it would do.
    Plan,
    /// Look; a person approves whatever changes something.
    Approve,
}

impl Mode {
    fn of(word: &str) -> Self {
        match word {
            "plan" => Self::Plan,
            "approve" => Self::Approve,
            _ => Self::Auto,
        }
    }
}

impl Plan {
    /// The settings of an agent; `errors` is how many steps in a row may come to nothing when nobody says otherwise.
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
            budget: spec.settings.last(keys::MAX_BUDGET_USD).is_some()
                || spec.limits.budget_usd.is_some(),
            denials: spec.denials,
            asks: spec.policy.is_some() || spec.attendance == Attendance::Attended,
            somebody: spec.attendance == Attendance::Attended,
            set_model,
            model: last(keys::MODEL).filter(|_| set_model),
            agent: dialect.name(),
        }
    }
}
