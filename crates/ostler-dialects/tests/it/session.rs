//! Recordings through the session machine: every turn ends once, tool calls are paired with
//! results, and totals are correct.

use std::time::Duration;

use ostler_core::dialect::{Exit, FromConversation};
use ostler_core::event::{EventKind, TextKind, TurnEnded};
use ostler_core::machine::{Effect, Input, Machine};
use ostler_core::outcome::Cause;
use ostler_core::spec::{AfterTurn, Limits};
use ostler_core::usage::CostSource;

use crate::harness::{replay, scenario, scenarios};

/// Returns the events of a session with this output. A prompt is sent for each turn that the agent
/// did not start itself.
fn session(stdout: &[u8], after: AfterTurn) -> Vec<EventKind> {
    let (mut machine, mut fx) = (Machine::new(Limits::default(), after), Vec::new());
    let now = Duration::ZERO;
    for input in [Input::Start, Input::Send("hello".into()), Input::Spawned] {
        machine.handle(now, input, &mut fx);
    }
    for out in replay(&[stdout]) {
        machine.handle(now, out.into(), &mut fx);
    }
    machine.handle(
        now,
        Input::Exited(
            Exit {
                code: Some(0),
                ..Exit::default()
            },
            None,
        ),
        &mut fx,
    );
    fx.into_iter()
        .filter_map(|fx| {
            if let Effect::Emit { kind, .. } = fx {
                Some(kind)
            } else {
                None
            }
        })
        .collect()
}

fn turns(events: &[EventKind]) -> Vec<&TurnEnded> {
    events
        .iter()
        .filter_map(|kind| {
            if let EventKind::TurnEnded(ended) = kind {
                Some(&**ended)
            } else {
                None
            }
        })
        .collect()
}

#[test]
fn every_turn_ends_once_and_every_tool_call_is_paired() {
    for (name, stdout) in scenarios() {
        let events = session(&stdout, AfterTurn::Wait);
        let count = |name: &str| events.iter().filter(|kind| kind.as_str() == name).count();
        assert_eq!(count("turn_started"), count("turn_ended"), "{name}");
        assert_eq!(
            (count("ended"), events.last().unwrap().as_str()),
            (1, "ended"),
            "{name}"
        );
        for call in events.iter().filter_map(|kind| {
            if let EventKind::ToolCall(call) = kind {
                Some(call)
            } else {
                None
            }
        }) {
            let results = events
                .iter()
                .filter(
                    |kind| matches!(kind, EventKind::ToolResult(result) if result.id == call.id),
                )
                .count();
            assert_eq!(results, 1, "{name} {}", call.id);
        }
    }
}

// P21, S3-26, S3-39: thinking, text and tool_use with one message id, spread over several lines,
// count once.
#[test]
fn totals_match_the_result() {
    for (name, tokens, cost) in [
        ("think", (100, 11, 7, 25), 0.000_937_2),
        ("partial", (100, 11, 7, 25), 0.000_937_2),
        ("tool", (200, 22, 14, 50), 0.001_874_4),
    ] {
        let events = session(scenario(name).as_bytes(), AfterTurn::End);
        let ended = turns(&events);
        let usage = ended[0].usage.as_ref().unwrap();
        let found = (
            usage.input.unwrap(),
            usage.cache_read.unwrap(),
            usage.cache_write.unwrap(),
            usage.output.unwrap(),
        );
        assert_eq!(
            (found, usage.cost_usd, usage.cost_source),
            (tokens, Some(cost), CostSource::Reported),
            "{name}"
        );
        // The usage emitted during the turn is the same, except for the cost.
        let live = events
            .iter()
            .find_map(|kind| {
                if let EventKind::Usage(usage) = kind {
                    Some(usage)
                } else {
                    None
                }
            })
            .unwrap();
        assert_eq!(live.output, Some(tokens.3), "{name}");
    }
}

#[test]
fn turn_usage_excludes_earlier_turns_in_every_version() {
    for name in ["control_channel", "three_turns"] {
        let events = session(scenario(name).as_bytes(), AfterTurn::Wait);
        let costs: Vec<f64> = turns(&events)
            .iter()
            .filter_map(|t| t.usage.as_ref()?.cost_usd)
            .collect();
        let expected: &[f64] = if name == "three_turns" {
            &[0.5, 0.5, 0.5]
        } else {
            &[0.000_937_2, 0.001_874_4, 0.001_874_4]
        };
        assert_eq!(
            costs.len(),
            expected.len(),
            "{name}: the interrupted turn has no usage"
        );
        assert!(
            costs
                .iter()
                .zip(expected)
                .all(|(a, b)| (a - b).abs() < 1e-9),
            "{name} {costs:?}"
        );
    }
    let main_only = session(scenario("only_main_usage").as_bytes(), AfterTurn::End);
    let usage = turns(&main_only)[0].usage.clone().unwrap();
    assert_eq!(
        (usage.input, usage.cost_usd, usage.model.as_deref()),
        (Some(40), Some(0.25), Some("claude-opus-5-5"))
    );
    assert!(
        turns(&session(
            scenario("unknown_resume").as_bytes(),
            AfterTurn::End
        ))[0]
            .usage
            .is_none(),
        "unknown stays unknown"
    );
}

// S3-25, design 4: the text of the answer is emitted once, and does not include thinking.
#[test]
fn streamed_text_is_not_repeated() {
    for name in ["partial", "think", "hello"] {
        let events = session(scenario(name).as_bytes(), AfterTurn::End);
        let text_of = |kind| -> String {
            events
                .iter()
                .filter_map(|event| {
                    if let EventKind::Text(text) = event {
                        (text.kind == kind).then_some(&*text.text)
                    } else {
                        None
                    }
                })
                .collect()
        };
        assert_eq!(
            text_of(TextKind::Reply),
            "Hello from the mock model.",
            "{name}"
        );
        assert_eq!(
            text_of(TextKind::Thinking),
            if name == "think" { "Let me think." } else { "" },
            "{name}"
        );
        assert_eq!(
            turns(&events)[0].text,
            "Hello from the mock model.",
            "{name}"
        );
    }
}

// P35: a result while a background task is running does not end the session; the following turn is
// handled.
#[test]
fn background_tasks_keep_the_session_open() {
    for name in ["background_task", "background_agent"] {
        let events = session(scenario(name).as_bytes(), AfterTurn::End);
        assert_eq!(turns(&events).len(), 2, "{name}");
        assert!(
            !events.iter().any(
                |kind| matches!(kind, EventKind::Notice(notice) if notice.code.as_str() == "late_result")
            ),
            "{name}"
        );
    }
}

// S1-27
#[test]
fn denied_turn_names_its_tools_and_retains_its_text() {
    let events = session(scenario("tool_denied").as_bytes(), AfterTurn::End);
    let ended = turns(&events)[0];
    assert_eq!(
        (
            ended.outcome.cause,
            ended
                .outcome
                .detail
                .as_ref()
                .unwrap()
                .denied_tools
                .as_slice()
        ),
        (Cause::Denied, &["Bash".to_owned()][..])
    );
    assert!(ended.text.starts_with("Done: rm in"));
    assert!(
        events.iter().any(
            |kind| matches!(kind, EventKind::ToolResult(result) if result.denied && !result.ok)
        )
    );
}

// S1-20: an API error is not an answer.
#[test]
fn an_error_text_is_not_the_answer() {
    for name in ["not_logged_in", "overloaded", "unknown_model"] {
        let events = session(scenario(name).as_bytes(), AfterTurn::End);
        assert_eq!(turns(&events)[0].text, "", "{name}");
        assert!(
            !events.iter().any(|kind| matches!(kind, EventKind::Text(_))),
            "{name}"
        );
    }
}

// S1-18: the content of the block is the output. Claude Code combines both streams of a command in
// it; its `tool_use_result` repeats that, and its `stderr` is empty in every recording.
#[test]
fn tool_output_is_the_content_of_its_block() {
    let line = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"out\nerr","is_error":false}]},"tool_use_result":{"stdout":"out\nerr","stderr":"","interrupted":false}}"#;
    let outs = replay(&[line.as_bytes(), b"\n"]);
    let [FromConversation::Event(EventKind::ToolResult(result))] = &outs[..] else {
        panic!("{outs:?}")
    };
    assert_eq!(
        (result.id.as_str(), result.ok, result.output.as_str()),
        ("t1", true, "out\nerr")
    );
    let mut commands = 0;
    for (name, stdout) in scenarios() {
        for line in String::from_utf8_lossy(&stdout).lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            if let Some(stderr) = line["tool_use_result"].get("stderr") {
                commands += 1;
                assert_eq!(
                    stderr, "",
                    "{name}: stderr is separate now and should be reported separately"
                );
            }
        }
    }
    assert!(commands > 3, "{commands}");
}
