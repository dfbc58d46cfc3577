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
        Box::pin(async move { evaluate(spec, evidence.events.iter()) })
    }
}

/// What the events say about the way.
#[derive(Debug, Default)]
struct Facts {
    calls: Vec<String>,
    failed: u64,
    steps: u64,
    turns: u64,
    usage: Option<Usage>,
    duration_ms: Option<i64>,
}

impl Facts {
    fn of(events: impl Iterator<Item = Event>) -> Self {
        let mut facts = Self::default();
        let (mut in_step, mut first) = (false, None);
        for event in events {
            facts.duration_ms = event.at.since(*first.get_or_insert(event.at));
            match event.kind {
                EventKind::TurnStarted(_) => facts.turns += 1,
                EventKind::Text(_) => {
                    facts.steps += u64::from(!std::mem::replace(&mut in_step, true));
                }
                EventKind::ToolCall(call) => {
                    facts.steps += u64::from(!std::mem::replace(&mut in_step, true));
                    facts.calls.push(call.name);
                }
                EventKind::ToolResult(result) => {
                    in_step = false;
                    facts.failed += u64::from(!result.ok);
                }
                EventKind::TurnEnded(_) => in_step = false,
                EventKind::Ended(ended) => facts.usage = ended.usage,
                _ => {}
            }
        }
        facts
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn evaluate(spec: &EvaluatorSpec, events: impl Iterator<Item = Event>) -> Evaluation {
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
    let usage = facts.usage.as_ref();
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

#[cfg(test)]
mod tests {
    use ostler_core::event::{Ended, Origin, Timestamp, ToolCall, ToolResult, TurnStarted};
    use ostler_core::outcome::Outcome;
    use ostler_core::raw_json::RawJson;
    use ostler_core::usage::{Scope, Tokens};
    use serde_json::{Value, json};

    use super::*;
    use crate::trial::Verdict;

    /// Read, Edit, Edit (failed), Bash in two steps and one turn, within three seconds.
    fn events(usage: Option<Usage>) -> Vec<Event> {
        let call = |id: &str, name: &str| -> EventKind {
            ToolCall {
                id: id.into(),
                name: name.into(),
                input: RawJson::parse("{}").unwrap(),
                parent: None,
            }
            .into()
        };
        let result = |id: &str, ok: bool| -> EventKind {
            ToolResult {
                id: id.into(),
                name: None,
                ok,
                output: String::new(),
                denied: false,
                content: None,
            }
            .into()
        };
        let kinds: [EventKind; 10] = [
            TurnStarted {
                origin: Origin::Caller,
                prompt: None,
            }
            .into(),
            call("1", "Read"),
            result("1", true),
            call("2", "Edit"),
            call("3", "Edit"),
            result("2", true),
            result("3", false),
            call("4", "Bash"),
            result("4", true),
            Ended {
                outcome: Outcome::completed(),
                exit_code: Some(0),
                signal: None,
                usage,
            }
            .into(),
        ];
        let last = i64::try_from(kinds.len()).unwrap() - 1;
        (0..)
            .zip(kinds)
            .map(|(at, kind)| Event {
                seq: u64::try_from(at).unwrap() + 1,
                at: Timestamp(1_700_000_000_000 + at * 3_000 / last),
                session: "s".into(),
                turn: 1,
                kind,
            })
            .collect()
    }

    fn known() -> Option<Usage> {
        let tokens = Tokens {
            input: 100,
            cache_read: 20,
            cache_write: 0,
            output: 30,
            reasoning: None,
        };
        let usage = Usage::for_turn(None, tokens).reported(0.25);
        Some(Usage {
            scope: Scope::Session,
            ..usage
        })
    }

    fn verdict(config: Value, usage: Option<Usage>) -> Evaluation {
        let Value::Object(config) = config else {
            panic!("not an object")
        };
        let spec = EvaluatorSpec {
            name: "trajectory".into(),
            kind: "trajectory".into(),
            config,
            weight: 1.0,
            required: true,
        };
        evaluate(&spec, events(usage).into_iter())
    }

    // Each rule holds at its bound, and fails just beyond it.
    #[test]
    fn every_rule_holds_and_fails() {
        for (holds, fails) in [
            (
                json!({"tools_used": ["Bash"]}),
                json!({"tools_used": ["Bash", "Web"]}),
            ),
            (
                json!({"tools_not_used": ["Web"]}),
                json!({"tools_not_used": ["Read"]}),
            ),
            (
                json!({"tool_order": ["Read", "Edit", "Bash"]}),
                json!({"tool_order": ["Read", "Bash", "Edit"]}),
            ),
            (
                json!({"tool_order": ["Edit", "Edit"]}),
                json!({"tool_order": ["Edit", "Edit", "Edit"]}),
            ),
            (
                json!({"tool_calls": {"Edit": {"min": 2, "max": 2}, "Web": {"max": 0}}}),
                json!({"tool_calls": {"Edit": {"min": 3}}}),
            ),
            (
                json!({"tool_calls": {"Web": {"min": 0}}}),
                json!({"tool_calls": {"Edit": {"max": 1}}}),
            ),
            (json!({"min_tool_calls": 4}), json!({"min_tool_calls": 5})),
            (json!({"max_tool_calls": 4}), json!({"max_tool_calls": 3})),
            (
                json!({"max_failed_tool_calls": 1}),
                json!({"max_failed_tool_calls": 0}),
            ),
            (json!({"max_steps": 3}), json!({"max_steps": 2})),
            (json!({"max_turns": 1}), json!({"max_turns": 0})),
            (json!({"max_cost_usd": 0.25}), json!({"max_cost_usd": 0.24})),
            (json!({"max_tokens": 150}), json!({"max_tokens": 149})),
            (
                json!({"max_output_tokens": 30}),
                json!({"max_output_tokens": 29}),
            ),
            (json!({"max_duration_s": 3}), json!({"max_duration_s": 2.9})),
        ] {
            let held = verdict(holds.clone(), known());
            assert_eq!(held.verdict, Verdict::Passed, "{holds}: {held:?}");
            let failed = verdict(fails.clone(), known());
            assert_eq!(failed.verdict, Verdict::Failed, "{fails}: {failed:?}");
        }
    }

    // Catalogue 23: what is unknown is not low.
    #[test]
    fn a_limit_of_something_unknown_is_an_error() {
        for limit in ["max_cost_usd", "max_tokens", "max_output_tokens"] {
            let found = verdict(json!({ limit: 1_000_000 }), None);
            assert_eq!(found.verdict, Verdict::Errored, "{limit}: {found:?}");
        }
        let found = verdict(json!({"max_steps": 3}), None);
        assert_eq!(found.verdict, Verdict::Passed, "{found:?}");
    }
}
