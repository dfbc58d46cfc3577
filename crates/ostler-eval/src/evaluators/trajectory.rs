//! `trajectory`: what the agent did on the way: tools, steps, cost, tokens and time.

use std::collections::BTreeMap;

use ostler_core::event::{Event, EventKind};
use ostler_core::usage::Usage;
use serde::Deserialize;

use super::config::{Judgement, parse};
use crate::case::EvaluatorSpec;
use crate::evaluator::{ConfigProblem, EvaluateFuture, Evaluator, Evidence};
use crate::trial::Evaluation;

/// Checks the way to a result against rules.
#[derive(Debug, Clone, Copy, Default)]
pub struct TrajectoryRules;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    /// Tools that must be called at least once.
    tools_used: Vec<String>,
    /// Tools that must not be called.
    tools_not_used: Vec<String>,
    /// Tools that must be called in this order, with any others in between.
    tool_order: Vec<String>,
    /// Number of calls by tool.
    tool_calls: BTreeMap<String, CallCount>,
    min_tool_calls: Option<f64>,
    max_tool_calls: Option<f64>,
    max_failed_tool_calls: Option<f64>,
    /// Messages and rounds of tool calls of the agent.
    max_steps: Option<f64>,
    max_turns: Option<f64>,
    max_cost_usd: Option<f64>,
    max_tokens: Option<f64>,
    max_output_tokens: Option<f64>,
    max_duration_s: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CallCount {
    min: Option<f64>,
    max: Option<f64>,
}

impl Evaluator for TrajectoryRules {
    fn kind(&self) -> &'static str {
        "trajectory"
    }

    fn check(&self, spec: &EvaluatorSpec) -> Vec<ConfigProblem> {
        parse::<Config>(spec).err().into_iter().collect()
    }

    fn evaluate<'a>(&'a self, spec: &'a EvaluatorSpec, evidence: Evidence) -> EvaluateFuture<'a> {
        Box::pin(async move { evaluate(spec, &evidence.events) })
    }
}

/// What the events say about the way.
#[derive(Debug, Default)]
struct Facts<'a> {
    calls: Vec<&'a str>,
    failed: u64,
    steps: u64,
    turns: u64,
    usage: Option<&'a Usage>,
    duration_ms: Option<i64>,
}

impl<'a> Facts<'a> {
    fn of(events: &'a [Event]) -> Self {
        let mut facts = Self::default();
        let mut in_step = false;
        for event in events {
            match &event.kind {
                EventKind::TurnStarted(_) => facts.turns += 1,
                EventKind::Text(_) => {
                    facts.steps += u64::from(!std::mem::replace(&mut in_step, true));
                }
                EventKind::ToolCall(call) => {
                    facts.steps += u64::from(!std::mem::replace(&mut in_step, true));
                    facts.calls.push(&call.name);
                }
                EventKind::ToolResult(result) => {
                    in_step = false;
                    facts.failed += u64::from(!result.ok);
                }
                EventKind::TurnEnded(_) => in_step = false,
                EventKind::Ended(ended) => facts.usage = ended.usage.as_ref(),
                _ => {}
            }
        }
        if let (Some(first), Some(last)) = (events.first(), events.last()) {
            facts.duration_ms = last.at.since(first.at);
        }
        facts
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn evaluate(spec: &EvaluatorSpec, events: &[Event]) -> Evaluation {
    let mut result = Judgement::new(spec);
    let config: Config = match parse(spec) {
        Ok(config) => config,
        Err(problem) => return result.errored(problem.message),
    };
    let facts = Facts::of(events);
    let calls = facts.calls.len() as f64;
    let mut by_tool: BTreeMap<&str, u64> = BTreeMap::new();
    for name in &facts.calls {
        *by_tool.entry(name).or_default() += 1;
    }
    result.metric("tool_calls", facts.calls.len());
    result.metric("failed_tool_calls", facts.failed);
    result.metric("steps", facts.steps);
    result.metric("turns", facts.turns);
    let counts = by_tool
        .iter()
        .map(|(name, count)| ((*name).to_owned(), (*count).into()));
    result.metric("calls_by_tool", serde_json::Map::from_iter(counts));
    for name in &config.tools_used {
        if !by_tool.contains_key(name.as_str()) {
            result.fail(format!("the tool {name:?} was not used"));
        }
    }
    for name in &config.tools_not_used {
        if let Some(count) = by_tool.get(name.as_str()) {
            result.fail(format!("the tool {name:?} was used {count} times"));
        }
    }
    let mut wanted = config.tool_order.iter().peekable();
    for name in &facts.calls {
        let _ = wanted.next_if(|wanted| wanted.as_str() == *name);
    }
    if let Some(missing) = wanted.peek() {
        result.fail(format!(
            "the tools were not used in the order {}: {missing:?} is missing",
            config.tool_order.join(", ")
        ));
    }
    for (name, limits) in &config.tool_calls {
        let count = by_tool.get(name.as_str()).copied().unwrap_or(0) as f64;
        let label = format!("the number of calls of {name:?}");
        result.at_least(&label, count, limits.min);
        result.at_most(&label, count, limits.max);
    }
    result.at_least("tool_calls", calls, config.min_tool_calls);
    result.at_most("tool_calls", calls, config.max_tool_calls);
    result.at_most(
        "failed_tool_calls",
        facts.failed as f64,
        config.max_failed_tool_calls,
    );
    result.at_most("steps", facts.steps as f64, config.max_steps);
    result.at_most("turns", facts.turns as f64, config.max_turns);
    let usage = facts.usage;
    let known = [
        (
            "cost_usd",
            config.max_cost_usd,
            usage.and_then(|usage| usage.cost_usd),
        ),
        (
            "tokens",
            config.max_tokens,
            usage.and_then(Usage::total).map(|count| count as f64),
        ),
        (
            "output_tokens",
            config.max_output_tokens,
            usage
                .and_then(|usage| usage.output)
                .map(|count| count as f64),
        ),
        (
            "duration_s",
            config.max_duration_s,
            facts.duration_ms.map(|ms| ms as f64 / 1000.0),
        ),
    ];
    for (name, max, value) in known {
        match (max, value) {
            (_, Some(value)) => {
                result.metric(name, value);
                result.at_most(name, value, max);
            }
            // An unknown cost must not pass for a low one (catalogue 23).
            (Some(_), None) => {
                return result
                    .errored(format!("{name} is unknown, so its limit cannot be checked"));
            }
            (None, None) => {}
        }
    }
    result.finish()
}
