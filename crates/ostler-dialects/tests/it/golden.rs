//! Compares the events of every fixture with its golden file. `UPDATE_GOLDEN=1` rewrites the golden
//! files, for a person to review and commit.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ostler_core::dialect::{Action, FromConversation};
use ostler_core::outcome::Cause;
use serde_json::json;

use ostler_dialects::find;

use crate::harness::{fixtures, on_the_wire, recordings, replay_scene};

/// Serializes an output: events as their JSON, anything else as an object with `out`.
pub(crate) fn written(out: &FromConversation) -> String {
    match out {
        FromConversation::Event(kind) => serde_json::to_string(kind).unwrap(),
        FromConversation::Do(Action::Write(bytes)) => json!({"out": "write",
            "text": String::from_utf8_lossy(&on_the_wire(bytes))}).to_string(),
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
        FromConversation::Do(Action::RunTool(order)) => {
            json!({"out": "tool", "id": order.id, "call": order.call, "name": order.name, "input": value(&order.input)})
                .to_string()
        }
        FromConversation::Do(Action::CancelTool(id)) => json!({"out": "tool_off", "id": id}).to_string(),
        FromConversation::Changed { id, error } => json!({"out": "changed", "id": id, "error": error}).to_string(),
        FromConversation::Do(Action::AccessFile(order)) => {
            json!({"out": "file", "order": format!("{order:?}")}).to_string()
        }
        FromConversation::Do(Action::WriteBridge { to, line }) => {
            json!({"out": "write_aside", "to": to, "text": String::from_utf8_lossy(line)}).to_string()
        }
        FromConversation::Do(Action::Terminate) => json!({"out": "terminate"}).to_string(),
        FromConversation::EndProcess => json!({"out": "end_process"}).to_string(),
        FromConversation::Do(Action::CloseInput) => json!({"out": "end_input"}).to_string(),
        FromConversation::Do(other) => panic!("only the machine may ask for it: {other:?}"),
    }
}

fn value<T: serde::Serialize>(it: &T) -> serde_json::Value {
    serde_json::from_str(&serde_json::to_string(it).unwrap()).unwrap()
}

/// Returns every recording of every agent.
fn all() -> impl Iterator<Item = (&'static str, String, Vec<u8>)> {
    let of = |agent: &'static str| {
        recordings(agent)
            .into_iter()
            .map(move |(name, stdout)| (agent, name, stdout))
    };
    agents().into_iter().flat_map(of)
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

// S1-23…S1-27, P43
#[test]
fn every_scenario_ends_with_the_expected_causes() {
    for agent in agents() {
        let recorded = recordings(agent);
        let causes: BTreeMap<String, Vec<Cause>> =
            serde_json::from_slice(&std::fs::read(causes(agent)).unwrap()).unwrap();
        let names: Vec<_> = recorded.iter().map(|(name, _)| name).collect();
        assert_eq!(names, causes.keys().collect::<Vec<_>>(), "{agent}");
        for ((name, stdout), (_, causes)) in recorded.iter().zip(&causes) {
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

/// Returns the file of the expected causes per scenario of an agent. It is separate from the golden
/// files, so that rewriting those cannot hide a changed cause.
fn causes(agent: &str) -> PathBuf {
    fixtures(agent).join("causes.json")
}

/// Returns the agents with recordings.
pub(crate) fn agents() -> Vec<&'static str> {
    let names = ostler_dialects::all()
        .iter()
        .map(|dialect| dialect.about().name);
    let recorded: Vec<&str> = names.filter(|name| causes(name).is_file()).collect();
    assert!(recorded.len() > 3, "{recorded:?}");
    recorded
}
