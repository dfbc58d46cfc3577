//! Wire format of events: a golden file for each kind, parsed back to the same event, and valid
//! against the schema.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests: a fault is a failed test, and UPDATE_GOLDEN is read here"
)]

use std::path::Path;

use ostler_core::event::*;
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::permission::ToolKind;
use ostler_core::raw_json::RawJson;
use ostler_core::usage::{Scope, Tokens, Usage as Spent};

/// Returns one full example of every kind.
#[expect(clippy::too_many_lines, reason = "a flat table")]
fn examples() -> Vec<EventKind> {
    let usage = Spent::for_turn(
        Some("claude-opus-5-5".into()),
        Tokens {
            input: 100,
            cache_read: 11,
            cache_write: 7,
            output: 25,
            reasoning: Some(5),
        },
    )
    .reported(0.25);
    let rate_limit = Outcome::new(Cause::RateLimit, "The account's rate limit is reached.")
        .hint("Wait.")
        .with(|d| {
            d.http_status = Some(429);
            d.resets_at = Some("2026-11-15T20:00:00Z".into());
            d.native = Some("api_error".into());
        });
    let died = Outcome::new(
        Cause::AgentDied,
        "The agent's process was killed by signal 9.",
    )
    .with(|d| {
        d.signal = Some(9);
        d.stderr = Some("boom".into());
    });
    vec![
        Started {
            agent: "claude".into(),
            agent_version: Some("2.1.325".into()),
            native_session: Some("4f4c56cd-7646-45bd-a1d5-b29f6dc87635".into()),
            model: Some("claude-opus-5-5".into()),
            cwd: Some("/workspace".into()),
            tools: vec!["Bash".into(), "Read".into()],
        }
        .into(),
        State {
            from: SessionState::Starting,
            to: SessionState::Working,
        }
        .into(),
        TurnStarted {
            origin: Origin::Caller,
            prompt: Some("Fix the failing test".into()),
        }
        .into(),
        Text {
            kind: TextKind::Reply,
            text: "Hello 😀\n".into(),
            delta: true,
            message: Some("msg_1".into()),
            parent: None,
        }
        .into(),
        ToolCall {
            id: "toolu_1".into(),
            name: "Bash".into(),
            input: RawJson::parse(r#"{"command":"echo hi","n":1e400}"#).unwrap(),
            parent: None,
        }
        .into(),
        ToolResult {
            id: "toolu_1".into(),
            name: Some("Bash".into()),
            ok: true,
            output: "hi".into(),
            denied: false,
            content: None,
        }
        .into(),
        Permission {
            id: "toolu_1".into(),
            tool: "Bash".into(),
            kind: Some(ToolKind::Execute),
            input: Some(RawJson::parse(r#"{"command":"rm -rf /"}"#).unwrap()),
            decision: Decision::Denied,
            by: DecidedBy::Agent,
            message: Some("outside the working directory".into()),
        }
        .into(),
        usage.clone().into(),
        Notice::new(
            Level::Warning,
            NoticeCode::ApiRetry,
            "The request failed and is tried again.",
        )
        .into(),
        Unreadable {
            raw: "not json".into(),
            why: "not JSON".into(),
            length: 8,
            lossy: false,
        }
        .into(),
        Refused {
            request: "interrupt".into(),
            why: "no turn is under way".into(),
            code: "no_turn".into(),
        }
        .into(),
        TurnEnded {
            outcome: rate_limit,
            text: "partial".into(),
            structured: Some(RawJson::parse(r#"{"a":1}"#).unwrap()),
            usage: Some(usage.clone()),
        }
        .into(),
        Ended {
            outcome: died,
            exit_code: None,
            signal: Some(9),
            usage: Some(Spent {
                scope: Scope::Session,
                ..usage
            }),
        }
        .into(),
    ]
}

fn event(kind: EventKind) -> Event {
    Event {
        seq: 7,
        at: Timestamp(1_794_775_123_456),
        session: "0191c0de-0000-4000-8000-000000000001".into(),
        turn: 1,
        kind,
    }
}

#[test]
fn every_kind_has_an_example() {
    let words: Vec<_> = examples().iter().map(EventKind::as_str).collect();
    assert_eq!(words, EventKind::NAMES);
}

/// Fields may be added, never renamed: a change to these files is a change to the contract.
#[test]
fn the_wire_format_matches_the_golden_files() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for kind in examples() {
        let file = dir.join(format!("{}.json", kind.as_str()));
        let json = event(kind).to_json() + "\n";
        if std::env::var_os("UPDATE_GOLDEN").is_some_and(|wanted| wanted == "1") {
            std::fs::write(&file, &json).unwrap();
        }
        let golden = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(
            json,
            golden,
            "{} (UPDATE_GOLDEN=1 rewrites it)",
            file.display()
        );
    }
}

#[test]
fn every_kind_round_trips() {
    for kind in examples() {
        let event = event(kind);
        assert_eq!(Event::from_json(&event.to_json()).unwrap(), event);
    }
}

#[test]
fn unknown_fields_are_ignored_and_unknown_kinds_are_named() {
    let json = event(
        State {
            from: SessionState::Idle,
            to: SessionState::Working,
        }
        .into(),
    )
    .to_json();
    let more = json.replacen('{', r#"{"new_field":{"x":1},"#, 1);
    assert!(Event::from_json(&more).is_ok());
    let error = Event::from_json(&json.replace("\"state\"", "\"mood\""))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("mood") && error.contains("turn_ended"),
        "{error}"
    );
    assert!(Event::from_json("[]").is_err() && Event::from_json("").is_err());
}

#[test]
fn times_are_rfc_3339_in_utc_with_milliseconds() {
    assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000Z");
    assert_eq!(
        Timestamp(1_794_775_123_456).to_string(),
        "2026-11-15T20:38:43.456Z"
    );
    assert_eq!(
        "2026-11-15T20:38:43.456Z".parse(),
        Ok(Timestamp(1_794_775_123_456))
    );
}
