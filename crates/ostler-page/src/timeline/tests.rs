//! Timelines of small and of long sessions.

use ostler_core::event::{DecidedBy, Permission};
use ostler_core::usage::Tokens;
use serde_json::json;

use super::*;
use crate::transcript::tests::{call, event, prompt, result, text, turn_ended};

fn timeline(kinds: impl IntoIterator<Item = EventKind>) -> Timeline {
    let mut log = TimelineLog::default();
    for (seq, kind) in (1..).zip(kinds) {
        log.push(&event(seq, kind));
    }
    log.timeline()
}

fn asked(decision: Decision) -> EventKind {
    Permission {
        id: "1".into(),
        tool: "Bash".into(),
        kind: None,
        input: None,
        decision,
        by: DecidedBy::Person,
        message: None,
    }
    .into()
}

fn used(model: &str, input: u64, output: u64) -> Usage {
    let tokens = Tokens {
        input,
        output,
        ..Tokens::default()
    };
    Usage::for_turn(Some(model.to_owned()), tokens)
}

#[test]
fn turns_tools_waits_and_thinking_have_their_times() {
    let line = timeline([
        prompt("go"),
        text(TextKind::Thinking, "a", true, None),
        text(TextKind::Thinking, "b", true, None),
        call("1", "Bash", &json!({"command": "ls"}), None),
        asked(Decision::Asked),
        asked(Decision::Denied),
        result("1", false, ""),
        turn_ended("x"),
        prompt("again"),
        call("2", "Read", &json!({}), None),
    ]);
    let span = |it: &Span| {
        (
            it.kind,
            it.from.0,
            it.to.map(|to| to.0),
            it.label.is_empty(),
            it.ok,
        )
    };
    let spans: Vec<_> = line.spans.iter().map(span).collect();
    assert_eq!(
        spans,
        [
            (SpanKind::Thinking, 2_000, Some(4_000), false, None),
            (SpanKind::Tool, 4_000, Some(7_000), false, Some(false)),
            (SpanKind::Wait, 5_000, Some(6_000), false, Some(false)),
            (SpanKind::Tool, 10_000, None, false, None),
        ]
    );
    assert_eq!(line.spans[1].label, "Bash ls");
    let turn = |it: &TurnSpan| (it.seq, it.from.0, it.to.map(|to| to.0), it.cause);
    let turns: Vec<_> = line.turns.iter().map(turn).collect();
    assert_eq!(
        turns,
        [
            (1, 1_000, Some(8_000), Some(Cause::Completed)),
            (9, 9_000, None, None)
        ]
    );
    assert_eq!(
        (line.from, line.to),
        (Some(Timestamp(1_000)), Some(Timestamp(10_000)))
    );
}

#[test]
fn tokens_grow_over_turns_and_models() {
    let mut session = used("a", 100, 10);
    session.scope = Scope::Session;
    let line = timeline([
        prompt("go"),
        used("a", 10, 1).into(),
        used("b", 5, 2).into(),
        used("a", 20, 3).into(),
        turn_ended(""),
        prompt("go"),
        used("a", 7, 1).into(),
        session.into(),
    ]);
    let totals: Vec<_> = line
        .tokens
        .iter()
        .map(|it| (it.seq, it.input, it.total))
        .collect();
    assert_eq!(
        totals,
        [
            (2, Some(10), Some(11)),
            (3, Some(15), Some(18)),
            (4, Some(25), Some(30)),
            (5, Some(25), Some(30)),
            (7, Some(32), Some(38)),
            (8, Some(100), Some(110)),
        ]
    );
}

#[test]
fn many_spans_are_merged() {
    let calls = (0..6_000).flat_map(|n| {
        let id = n.to_string();
        [
            call(&id, "x", &json!({}), None),
            result(&id, n != 3_000, ""),
        ]
    });
    let line = timeline([prompt("go")].into_iter().chain(calls));
    assert!(
        (500..=MAX_SPANS).contains(&line.spans.len()),
        "{}",
        line.spans.len()
    );
    assert_eq!(
        line.spans.iter().filter(|it| it.ok == Some(false)).count(),
        1
    );
    assert!(
        line.spans[0].label.ends_with("tool calls"),
        "{}",
        line.spans[0].label
    );
    let is_sorted = line
        .spans
        .windows(2)
        .all(|pair| pair[0].from <= pair[1].from);
    assert!(is_sorted);
    let usage = (0..5_000).map(|n| used("a", n, 0).into());
    let line = timeline(usage);
    assert!(line.tokens.len() <= MAX_SPANS + 1 && line.tokens.last().unwrap().seq == 5_000);
}
