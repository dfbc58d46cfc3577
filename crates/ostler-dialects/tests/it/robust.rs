//! Robustness: no input causes a panic, loses a line or changes an event.

use ostler_core::dialect::{FromConversation, Outbox};
use ostler_core::event::EventKind;
use ostler_dialects::find;
use proptest::prelude::*;

use crate::golden::agents;
use crate::harness::{asked, recordings, replay, replay_as, replay_scene, scenario, scenarios};

// P17, P24: every split gives the same events. Every byte of the short recordings, about forty
// positions of the long ones.
#[test]
fn every_split_of_a_recording_gives_the_same_events() {
    for (name, stdout) in scenarios() {
        let whole = replay(&[&stdout]);
        let step = if stdout.len() < 2_500 {
            1
        } else {
            stdout.len() / 40
        };
        for at in (0..stdout.len()).step_by(step) {
            assert_eq!(
                replay(&[&stdout[..at], &stdout[at..]]),
                whole,
                "{name} at {at}"
            );
        }
    }
    let openai = find("openai-api").unwrap();
    for (name, stdout) in recordings("openai-api") {
        let whole = replay_as(openai, &[&stdout]);
        for at in (0..stdout.len()).step_by(stdout.len() / 40) {
            assert_eq!(
                replay_as(openai, &[&stdout[..at], &stdout[at..]]),
                whole,
                "{name} at {at}"
            );
        }
    }
    let stdout = scenario("unknown_lines");
    let bytes: Vec<&[u8]> = stdout.as_bytes().chunks(1).collect();
    assert_eq!(replay(&bytes), replay(&[stdout.as_bytes()]), "byte by byte");
}

const UNKNOWN_LINES: [&str; 4] = [
    r#"{"type":"brand_new","session_id":"other","payload":[1,{"a":null}]}"#,
    r#"{"type":"system","subtype":"brand_new"}"#,
    r#"{"type":"stream_event","event":{"type":"brand_new"}}"#,
    "plain words, \u{1b}[31mred\u{1b}[0m",
];

/// Returns all output except what reports unknown lines.
fn known(outs: Vec<FromConversation>) -> Vec<FromConversation> {
    let unknown_line = |out: &FromConversation| match out {
        FromConversation::Event(EventKind::Notice(notice)) => {
            notice.code.as_str() == "unknown_message"
        }
        FromConversation::Event(EventKind::Unreadable(_)) => true,
        _ => false,
    };
    outs.into_iter().filter(|out| !unknown_line(out)).collect()
}

// P22, S3-29, S3-30: unknown lines at every position add only notices.
#[test]
fn unknown_lines_add_only_notices() {
    for name in [
        "think",
        "tool_denied",
        "control_channel",
        "background_agent",
        "three_turns",
        "rate_limited",
    ] {
        let text = scenario(name);
        let lines: Vec<&str> = text.lines().collect();
        let whole = known(replay(&[text.as_bytes()]));
        for at in 0..=lines.len() {
            for unknown_line in UNKNOWN_LINES {
                let mut with = lines.clone();
                with.insert(at, unknown_line);
                assert_eq!(
                    known(replay(&[with.join("\n").as_bytes()])),
                    whole,
                    "{name} at {at}: {unknown_line}"
                );
            }
        }
    }
}

/// Unknown lines of agents that speak JSON-RPC, and of those that name the type of each line.
const UNKNOWN_MESSAGES: [&str; 8] = [
    "plain words",
    "[\"result\"]",
    "{\"half\":",
    "{}",
    r#"{"method":"brand/new","params":{"threadId":"other"}}"#,
    r#"{"id":"brand-new","result":{"thread":{"id":"other"}}}"#,
    r#"{"id":{"odd":[1]},"error":"odd"}"#,
    r#"{"type":"brand.new","data":{"model":7},"item":[]}"#,
];

// P22, S3-29, S3-30: the same for the other agents with recordings.
#[test]
fn unknown_messages_change_no_other_event() {
    let names = [
        "hello",
        "tool",
        "tool_denied",
        "host_asked_deny",
        "exec_tool",
        "unauthorized",
    ];
    // Those with tests of their own.
    let tested = ["claude", "openai-api"];
    for agent in agents().into_iter().filter(|it| !tested.contains(it)) {
        let dialect = find(agent).unwrap();
        for (name, stdout) in recordings(agent) {
            if !names.contains(&name.as_str()) {
                continue;
            }
            let text = String::from_utf8(stdout).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            let whole = known(replay_scene(dialect, &name, text.as_bytes()));
            for at in 0..=lines.len() {
                for unknown_line in UNKNOWN_MESSAGES {
                    let mut with = lines.clone();
                    with.insert(at, unknown_line);
                    let outs = replay_scene(dialect, &name, with.join("\n").as_bytes());
                    assert_eq!(
                        known(outs),
                        whole,
                        "{agent}: {name} at {at}: {unknown_line}"
                    );
                }
            }
        }
    }
}

#[test]
fn unknown_lines_do_not_affect_a_model_answer() {
    let openai = find("openai-api").unwrap();
    let known = |outs: Vec<FromConversation>| -> Vec<FromConversation> {
        outs.into_iter()
            .filter(|out| !matches!(out, FromConversation::Event(EventKind::Unreadable(_))))
            .collect()
    };
    for name in ["text", "thinking", "two_tools", "denied", "retried"] {
        let text = String::from_utf8(
            recordings("openai-api")
                .into_iter()
                .find(|(n, _)| n == name)
                .unwrap()
                .1,
        )
        .unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let whole = known(replay_as(openai, &[text.as_bytes()]));
        for at in 0..=lines.len() {
            for unknown_line in UNKNOWN_LINES {
                let mut with = lines.clone();
                with.insert(at, unknown_line);
                assert_eq!(
                    known(replay_as(openai, &[with.join("\n").as_bytes()])),
                    whole,
                    "{name} at {at}: {unknown_line}"
                );
            }
        }
    }
}

// P18
#[test]
fn damaged_line_is_preserved_and_the_next_one_parsed() {
    let outs =
        replay(&[b"{\"type\":\"assistant\",\xff\n{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"ok\"}\n"]);
    assert!(outs.iter().any(|out| matches!(out,
                FromConversation::Event(EventKind::Unreadable(it)) if it.lossy
                && it.raw.contains('\u{fffd}'))));
    assert!(matches!(outs.last(),
            Some(FromConversation::TurnEnded(result)) if result.text.as_deref() == Some("ok")));
}

// A program that counts UTF-16 units can split a character; the line is handled anyway.
#[test]
fn unpaired_surrogates_are_repaired() {
    let delta = r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"a\ud83d"}}}"#;
    let late = r#"{"event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"a\ud83d"}},"type":"stream_event"}"#;
    for line in [delta, late] {
        let outs = replay(&[line.as_bytes()]);
        assert!(
            matches!(&outs[..],
                [FromConversation::Event(EventKind::Text(text))] if text.text == "a\u{fffd}"),
            "{outs:?}"
        );
    }
}

/// Strings that the dialect looks for, so that random objects resemble real lines.
fn known_string() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "type",
            "subtype",
            "message",
            "content",
            "id",
            "text",
            "assistant",
            "user",
            "system",
            "result",
            "stream_event",
            "event",
            "delta",
            "content_block_delta",
            "text_delta",
            "tool_result",
            "tool_use",
            "tool_use_id",
            "name",
            "input",
            "usage",
            "input_tokens",
            "init",
            "session_id",
            "control_request",
            "request_id",
            "request",
            "can_use_tool",
            "errors",
            "is_error",
            "modelUsage",
            "model_usage_since_last_result",
            "costUSD",
            "task_started",
            "task_notification",
            "task_id",
            "tasks",
            "background_tasks_changed",
            "permission_denials",
            "rate_limit_event",
            "rate_limit_info",
            "resetsAt",
            "structured_output",
        ])
        .prop_map(str::to_owned),
        ".{0,6}",
    ]
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>().prop_map(
            |f| serde_json::Number::from_f64(f).map_or(serde_json::Value::Null, Into::into)
        ),
        known_string().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::vec((known_string(), inner), 0..6)
                .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
        ]
    })
}

const LAST: &str =
    r#"{"type":"result","subtype":"success","is_error":false,"result":"the result"}"#;

/// Returns true if a result after these lines is still recognized.
fn result_is_recognized_after(lines: &[String]) -> bool {
    let (mut conversation, mut out) = (asked(), Outbox::default());
    for line in lines {
        conversation.on_line(line, &mut out);
    }
    out.drain().count();
    conversation.on_line(LAST, &mut out);
    let outs: Vec<FromConversation> = out.drain().collect();
    matches!(&outs[..], [FromConversation::TurnEnded(result)] if result.text.as_deref() == Some("the result"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_bytes_are_handled(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let line = [&bytes[..], b"\n", LAST.as_bytes()].concat();
        let outs = replay(&[&line]);
        prop_assert!(matches!(outs.last(), Some(FromConversation::TurnEnded(_))));
    }

    #[test]
    fn arbitrary_json_is_handled(values in proptest::collection::vec(any_json(), 1..6)) {
        let lines: Vec<String> = values.iter().map(ToString::to_string).collect();
        prop_assert!(result_is_recognized_after(&lines), "{:?}", lines);
    }

    // A known line with fields of other types is recognized or preserved, and parsing continues.
    #[test]
    fn known_lines_with_odd_fields_are_handled(
        kind in proptest::sample::select(vec!["assistant", "user", "system", "result", "stream_event", "control_request", "control_response", "rate_limit_event"]),
        fields in proptest::collection::vec((known_string(), any_json()), 0..8),
    ) {
        let mut object: serde_json::Map<String, serde_json::Value> = fields.into_iter().collect();
        object.insert("type".into(), kind.into());
        let line = serde_json::Value::Object(object).to_string();
        let (mut conversation, mut out) = (asked(), Outbox::default());
        conversation.on_line(&line, &mut out);
        let unreadable = out.drain().any(|out| matches!(out,
            FromConversation::Event(EventKind::Unreadable(_))));
        prop_assert!(!unreadable, "a field of another type must not lose the line: {}", line);
        prop_assert!(result_is_recognized_after(&[line]));
    }
}
