//! Recorded conversations with real agents, in both directions: what was sent then is sent again,
//! and all output is compared with golden files.

use std::path::PathBuf;

use ostler_core::dialect::{Action, Change, Dialect, FileError, FromConversation, ToAgent};
use ostler_core::outcome::Cause;
use ostler_core::permission::Verdict;
use ostler_core::spec::{Attendance, Spec};
use ostler_dialects::acp;
use serde_json::Value;

use super::harness::Harness;
use crate::golden::written;
use crate::harness::fixtures;

fn dialect(name: &str) -> &'static dyn Dialect {
    match name.split('_').next().unwrap() {
        "copilot" => &acp::COPILOT,
        "gemini" => &acp::GEMINI,
        _ => &acp::OPENCODE,
    }
}

/// Returns what the host sent then, as the caller would send it.
fn recorded_message(harness: &Harness, message: &Value, changes: &mut u64) -> Option<ToAgent> {
    let params = &message["params"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut change = |change| {
        *changes += 1;
        Some(ToAgent::Change {
            id: *changes,
            change,
        })
    };
    match message["method"].as_str() {
        Some("session/prompt") => Some(ToAgent::Prompt(text(&params["prompt"][0]["text"]))),
        Some("session/cancel") => Some(ToAgent::Interrupt),
        Some("session/set_mode") => change(Change::PermissionMode(text(&params["modeId"]))),
        Some("session/set_config_option") if params["configId"] == "mode" => {
            change(Change::PermissionMode(text(&params["value"])))
        }
        Some("session/set_config_option") => change(Change::Model(text(&params["value"]))),
        Some(_) => None,
        None if message["error"].is_object() => {
            let file = harness.outs.iter().rev().find_map(|out| {
                if let FromConversation::Do(Action::AccessFile(it)) = out {
                    Some(it)
                } else {
                    None
                }
            });
            let fault = FileError {
                missing: true,
                why: "/workspace/w-gemini.txt".into(),
            };
            Some(ToAgent::FileDone {
                id: file.unwrap().id.clone(),
                result: Err(fault),
            })
        }
        None => {
            let option = message["result"]["outcome"]["optionId"].as_str().unwrap();
            let allowed = ["allow_once", "proceed_once"].contains(&option);
            let verdict = if allowed {
                Verdict::Allow
            } else {
                Verdict::Deny("a rule says so".into())
            };
            Some(ToAgent::Verdict {
                id: harness.asks().last().unwrap().id.clone(),
                verdict,
            })
        }
    }
}

fn replay(name: &str) -> Harness {
    let text = std::fs::read_to_string(fixtures("acp").join(name).join("wire.jsonl")).unwrap();
    let mut spec = Spec::default()
        .dir(PathBuf::from("/workspace"))
        .attendance(Attendance::Attended);
    spec.set("fs", ["true"]).unwrap();
    if name.ends_with("_load") {
        spec.resume = Some("the-session".into());
    }
    let (mut harness, mut changes) = (Harness::started(dialect(name), &spec), 0);
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        if row["dir"] == "←" {
            harness.message(&row["msg"]);
        } else if let Some(say) = recorded_message(&harness, &row["msg"], &mut changes) {
            harness.send(say);
        }
    }
    harness
}

/// How each recording ends, turn by turn.
const ENDINGS: &[(&str, &[Cause])] = {
    use Cause::{Auth, BadRequest, Completed, Denied, Interrupted};
    &[
        (
            "copilot",
            &[
                Completed,
                Completed,
                Denied,
                Completed,
                Completed,
                Interrupted,
                Completed,
                Auth,
            ],
        ),
        ("copilot_load", &[Completed]),
        (
            "gemini",
            &[
                Completed,
                Completed,
                Denied,
                Completed,
                Completed,
                Interrupted,
                Completed,
                Auth,
            ],
        ),
        ("gemini_load", &[BadRequest]),
        (
            "opencode",
            &[
                Completed,
                Completed,
                Completed,
                Completed,
                Completed,
                Interrupted,
                Completed,
                Auth,
            ],
        ),
        ("opencode_load", &[Completed]),
    ]
};

// S2-20: three agents, one story.
#[test]
fn every_recording_yields_its_events() {
    let update = crate::updates_golden_files();
    for (name, causes) in ENDINGS {
        let mut harness = replay(name);
        if name.ends_with("gemini_load") {
            harness.send(ToAgent::Prompt("ECHO after load".into()));
        }
        let found: String = harness.outs.iter().map(|out| written(out) + "\n").collect();
        let path = fixtures("acp").join(name).join("events.jsonl");
        if update {
            std::fs::write(&path, &found).unwrap();
        }
        assert_eq!(
            found,
            std::fs::read_to_string(&path).unwrap_or_default(),
            "{name} (UPDATE_GOLDEN=1 rewrites)"
        );
        let endings = harness.outs.iter().filter_map(|out| match out {
            FromConversation::TurnEnded(over) => Some(over.outcome.cause),
            _ => None,
        });
        assert_eq!(endings.collect::<Vec<_>>(), *causes, "{name}");
    }
}

// Requests and responses are the same as when they were recorded, with the same ids.
#[test]
fn written_messages_match_the_recordings() {
    for name in ["copilot", "gemini"] {
        let text = std::fs::read_to_string(fixtures("acp").join(name).join("wire.jsonl")).unwrap();
        let rows = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let recorded: Vec<Value> = rows
            .filter(|row| row["dir"] == "→")
            .map(|mut row| row["msg"].take())
            .collect();
        let written = replay(name).writes();
        assert_eq!(written.len(), recorded.len(), "{name}");
        for (written_message, recorded_message_json) in written.iter().zip(&recorded) {
            assert_eq!(
                written_message.get("id"),
                recorded_message_json.get("id"),
                "{name}"
            );
            // The client's name and the error for a missing file were different.
            let differs = recorded_message_json["method"] == "initialize"
                || recorded_message_json["error"].is_object();
            let another = recorded_message_json["method"] == "session/set_config_option";
            assert!(
                differs || another || written_message == recorded_message_json,
                "{name}: {written_message} instead of {recorded_message_json}"
            );
        }
    }
}
