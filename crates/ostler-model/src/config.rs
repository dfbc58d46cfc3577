//! Configuration of the conversation, read from the caller's settings.

use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Attendance, Denials, Spec};

use crate::prices::Price;

/// Default maximum number of steps.
const MAX_TURNS: u64 = 100;

/// The agent that a conversation belongs to.
#[derive(Debug, Clone, Copy)]
pub struct LoopAgent {
    /// Its name.
    pub name: &'static str,
    /// Whether its model can be changed.
    pub set_model: bool,
    /// Default limit of consecutive failed steps.
    pub max_errors: u32,
}

/// Configuration of the conversation.
#[derive(Debug, Clone)]
pub struct LoopConfig {
    pub(crate) system_prompt: Option<String>,
    pub(crate) append_system_prompt: Option<String>,
    pub(crate) json_schema: Option<RawJson>,
    pub(crate) max_turns: u64,
    pub(crate) context_window: Option<u64>,
    pub(crate) price: Option<Price>,
    /// Maximum number of tool calls, input tokens and output tokens per turn.
    pub(crate) max_tool_calls: Option<u64>,
    pub(crate) max_input_tokens: Option<u64>,
    pub(crate) max_output_tokens: Option<u64>,
    /// Maximum number of consecutive failed steps.
    pub(crate) max_errors: u32,
    pub(crate) mode: Mode,
    /// Maximum cost of a turn, in dollars.
    pub(crate) max_cost: Option<f64>,
    /// Whether there is a cost limit.
    pub(crate) has_budget: bool,
    pub(crate) denials: Denials,
    /// Whether tool calls need a decision, by a policy or a person.
    pub(crate) checks_permissions: bool,
    /// Whether the session is attended.
    pub(crate) attended: bool,
    /// Whether the model can be changed.
    pub(crate) set_model: bool,
    /// Model to use instead of the runner's, if it was changed before the runner was ready.
    pub(crate) model: Option<String>,
    pub(crate) agent: &'static str,
}

/// Autonomy of a loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Mode {
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
    /// Reads the settings of an agent.
    #[must_use]
    pub fn of(spec: &Spec, agent: LoopAgent) -> Self {
        let count = |key: &str| spec.value(key).and_then(|value| value.parse().ok());
        let max_cost = spec.max_budget_usd.or(spec.limits.budget_usd);
        Self {
            system_prompt: spec.system_prompt.clone(),
            append_system_prompt: spec.append_system_prompt.clone(),
            json_schema: spec
                .json_schema
                .as_deref()
                .and_then(|schema| RawJson::parse(schema).ok()),
            max_turns: spec.max_turns.map_or(MAX_TURNS, u64::from),
            context_window: count("context_window"),
            price: spec
                .value("price")
                .and_then(|price| Price::parse(&price).ok()),
            max_tool_calls: count("max_tool_calls"),
            max_input_tokens: count("max_input_tokens"),
            max_output_tokens: count("max_output_tokens"),
            max_errors: spec
                .value("max_errors")
                .and_then(|n| n.parse().ok())
                .unwrap_or(agent.max_errors),
            mode: Mode::of(&spec.value("mode").unwrap_or_default()),
            max_cost,
            has_budget: max_cost.is_some(),
            denials: spec.denials,
            checks_permissions: spec.is_supervised(),
            attended: spec.attendance == Attendance::Attended,
            set_model: agent.set_model,
            model: spec.model.clone().filter(|_| agent.set_model),
            agent: agent.name,
        }
    }
}
