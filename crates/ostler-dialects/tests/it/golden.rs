//! Compares the events of every fixture with its golden file. `UPDATE_GOLDEN=1` rewrites the golden
//! files, for a person to review and commit.

use ostler_core::dialect::FromConversation;
use ostler_core::outcome::Cause;
use serde_json::json;

use ostler_dialects::find;

use crate::harness::{fixtures, recordings, replay_scene};

/// Serializes an output: events as their JSON, anything else as an object with `out`.
pub(crate) fn written(out: &FromConversation) -> String {
    match out {
        FromConversation::Event(kind) => serde_json::to_string(kind).unwrap(),
        FromConversation::Write(bytes) => json!({"out": "write",
            "text": String::from_utf8_lossy(bytes)}).to_string(),
        FromConversation::TurnStarted => json!({"out": "turn_began"}).to_string(),
        FromConversation::Background(running) => json!({"out": "background", "running": running}).to_string(),
        FromConversation::TurnEnded(result) => json!({
            "out": "turn_over",
            "outcome": value(&result.outcome),
            "text": result.text,
            "structured": value(&result.structured),
            "usage": result.usage.iter().map(value).collect::<Vec<_>>(),
        })
        .to_string(),
        FromConversation::AskPermission(ask) => {
            json!({"out": "ask", "id": ask.id, "call": ask.call, "wants": format!("{:?}",
                ask.wants), "otherwise": format!("{:?}", ask.fallback)})
                .to_string()
        }
        FromConversation::WithdrawPermission(id) => json!({"out": "withdraw", "id": id}).to_string(),
        FromConversation::RunTool(order) => {
            json!({"out": "tool", "id": order.id, "call": order.call, "name": order.name, "input": value(&order.input)})
                .to_string()
        }
        FromConversation::CancelTool(id) => json!({"out": "tool_off", "id": id}).to_string(),
        FromConversation::Changed { id, error } => json!({"out": "changed", "id": id, "error": error}).to_string(),
        FromConversation::AccessFile(order) => json!({"out": "file", "order": format!("{order:?}")}).to_string(),
        FromConversation::WriteBridge { to, line } => {
            json!({"out": "write_aside", "to": to, "text": String::from_utf8_lossy(line)}).to_string()
        }
        FromConversation::Terminate => json!({"out": "terminate"}).to_string(),
        FromConversation::EndProcess => json!({"out": "end_process"}).to_string(),
        FromConversation::EndInput => json!({"out": "end_input"}).to_string(),
    }
}

fn value<T: serde::Serialize>(it: &T) -> serde_json::Value {
    serde_json::from_str(&serde_json::to_string(it).unwrap()).unwrap()
}

/// Returns every recording of every agent.
fn all() -> impl Iterator<Item = (&'static str, String, Vec<u8>)> {
    let of = |agent| {
        recordings(agent)
            .into_iter()
            .map(move |(name, stdout)| (agent, name, stdout))
    };
    AGENTS.iter().flat_map(move |(agent, _)| of(*agent))
}

// S1-15…S1-19, S3-22…S3-30, P20, P22, P43, S1-29, S2-8, S2-9, S3-35
#[test]
fn every_scenario_yields_its_events() {
    let update = crate::updates_golden_files();
    let mut wrong = Vec::new();
    for (agent, name, stdout) in all() {
        let dialect = find(agent).unwrap();
        let found: String = replay_scene(dialect, &name, &stdout)
            .iter()
            .map(|out| written(out) + "\n")
            .collect();
        let path = fixtures(agent).join(&name).join("events.jsonl");
        if update {
            std::fs::write(&path, &found).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        if found != golden {
            let line = found.lines().zip(golden.lines()).position(|(a, b)| a != b);
            wrong.push(format!("{agent}/{name}: line {:?}", line.map(|n| n + 1)));
        }
    }
    assert!(
        wrong.is_empty(),
        "differs from events.jsonl (UPDATE_GOLDEN=1 rewrites): {wrong:#?}"
    );
}

/// Expected causes per scenario, separate from the golden files so that rewriting those cannot hide
/// a changed cause.
type Endings = &'static [(&'static str, &'static [Cause])];

const CLAUDE: Endings = &[
    ("background_agent", &[Cause::Completed, Cause::Completed]),
    ("background_task", &[Cause::Completed, Cause::Completed]),
    ("bad_request", &[Cause::BadRequest]),
    ("batch", &[Cause::Completed]),
    ("budget", &[Cause::Budget]),
    ("compact", &[Cause::Completed, Cause::Completed]),
    (
        "control_channel",
        &[
            Cause::Completed,
            Cause::Completed,
            Cause::Completed,
            Cause::Interrupted,
        ],
    ),
    ("control_malformed", &[]),
    ("forbidden", &[Cause::Auth]),
    ("hello", &[Cause::Completed]),
    ("host_asked_cancelled", &[Cause::Interrupted]),
    ("host_asked_twice", &[Cause::Completed]),
    ("host_changes", &[Cause::Completed, Cause::Completed]),
    ("host_hook", &[Cause::Denied]),
    ("host_hook_and_rule", &[Cause::Completed]),
    ("host_steer", &[Cause::Completed]),
    ("host_steer_interrupted", &[Cause::Interrupted]),
    ("host_steer_late", &[Cause::Completed, Cause::Completed]),
    ("host_tool", &[Cause::Completed]),
    ("host_tool_cancelled", &[Cause::Interrupted]),
    ("interrupted_tool", &[Cause::Interrupted]),
    ("max_turns", &[Cause::TurnLimit]),
    ("no_network", &[Cause::Network]),
    ("not_logged_in", &[Cause::Auth]),
    ("only_main_usage", &[Cause::Completed]),
    ("output_limit", &[Cause::OutputLimit]),
    ("overloaded", &[Cause::Overloaded]),
    ("partial", &[Cause::Completed]),
    ("permission_asked", &[Cause::Denied]),
    ("rate_limit_event", &[Cause::RateLimit]),
    ("rate_limited", &[Cause::RateLimit]),
    ("redacted_thinking", &[Cause::Completed]),
    ("refusal", &[Cause::Refused]),
    ("refusal_recovered", &[Cause::Completed]),
    ("retries", &[]),
    ("schema", &[Cause::Completed]),
    ("schema_failed", &[Cause::Protocol]),
    ("schema_not_kept", &[Cause::Completed]),
    ("server_error", &[Cause::ServerError]),
    ("subagent", &[Cause::Completed]),
    ("think", &[Cause::Completed]),
    (
        "three_turns",
        &[Cause::Completed, Cause::Completed, Cause::Completed],
    ),
    ("tool", &[Cause::Completed]),
    ("tool_denied", &[Cause::Denied]),
    ("tool_image", &[Cause::Completed]),
    ("unknown_lines", &[Cause::Completed]),
    ("unknown_model", &[Cause::BadRequest]),
    ("unknown_resume", &[Cause::BadRequest]),
];

const CODEX: Endings = &[
    ("bad_request", &[Cause::BadRequest]),
    ("context", &[Cause::BadRequest]),
    ("cut", &[Cause::Network]),
    ("exec_err401", &[Cause::Auth]),
    ("exec_hello", &[Cause::Completed]),
    ("exec_tool", &[Cause::Completed]),
    ("hello", &[Cause::Completed]),
    ("host_asked_allow", &[Cause::Completed]),
    ("host_asked_deny", &[Cause::Denied]),
    ("host_asked_mcp", &[Cause::Completed]),
    ("host_asked_patch", &[Cause::Completed]),
    ("host_hook_deny", &[Cause::Denied]),
    ("host_steer", &[Cause::Completed]),
    ("host_steer_interrupted", &[Cause::Interrupted]),
    ("host_tool", &[Cause::Completed]),
    ("in_use", &[Cause::BadRequest]),
    ("nobody_asked", &[Cause::Denied]),
    ("output_limit", &[Cause::OutputLimit]),
    ("overloaded", &[Cause::Overloaded]),
    ("patch", &[Cause::Completed]),
    ("quota", &[Cause::RateLimit]),
    ("rate_limited", &[Cause::RateLimit]),
    ("refused", &[Cause::Refused]),
    ("server_error", &[Cause::ServerError]),
    ("service_unavailable", &[Cause::Overloaded]),
    ("think", &[Cause::Completed]),
    ("tool", &[Cause::Completed]),
    ("tool_failed", &[Cause::Completed]),
    ("two_tools", &[Cause::Completed]),
    ("unauthorized", &[Cause::Auth]),
    ("unknown_model", &[Cause::BadRequest]),
    ("unknown_resume", &[Cause::BadRequest]),
];

const OPENAI: Endings = &[
    ("cut", &[Cause::Network]),
    ("denied", &[Cause::Denied]),
    ("error_in_stream", &[Cause::Network]),
    ("failed_command", &[Cause::Completed]),
    ("output_limit", &[Cause::OutputLimit]),
    ("rate_limited", &[Cause::RateLimit]),
    ("refused", &[Cause::Refused]),
    ("retried", &[Cause::Completed]),
    ("text", &[Cause::Completed]),
    ("thinking", &[Cause::Completed]),
    ("tool", &[Cause::Completed]),
    ("two_tools", &[Cause::Completed]),
    ("unauthorized", &[Cause::Auth]),
    ("unknown_tool", &[Cause::Completed]),
];

const COPILOT: Endings = &[
    ("bad_request", &[Cause::BadRequest]),
    ("cut", &[Cause::Network]),
    ("hello", &[Cause::Completed]),
    ("interrupted", &[Cause::Interrupted]),
    // It ended without its last line; the outcome follows when the process exits.
    ("interrupted_in_tool", &[]),
    ("output_limit", &[Cause::OutputLimit]),
    ("refused", &[Cause::Refused]),
    ("resumed", &[Cause::Completed]),
    ("tool", &[Cause::Completed]),
    ("tool_denied", &[Cause::Denied]),
    ("unauthorized", &[Cause::Auth]),
];

/// Agents with recordings, and the expected causes of each.
const AGENTS: &[(&str, Endings)] = &[
    ("claude", CLAUDE),
    ("codex", CODEX),
    ("copilot", COPILOT),
    ("openai-api", OPENAI),
];

// S1-23…S1-27, P43
#[test]
fn every_scenario_ends_with_the_expected_causes() {
    for (agent, endings) in AGENTS {
        let recorded = recordings(agent);
        let names: Vec<_> = recorded.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            endings.iter().map(|(name, _)| *name).collect::<Vec<_>>()
        );
        for ((name, stdout), (_, causes)) in recorded.iter().zip(*endings) {
            let found: Vec<_> = replay_scene(find(agent).unwrap(), name, stdout)
                .into_iter()
                .filter_map(|out| {
                    if let FromConversation::TurnEnded(result) = out {
                        Some(result.outcome.cause)
                    } else {
                        None
                    }
                })
                .collect();
            assert_eq!(found, *causes, "{agent}: {name}");
        }
    }
}
