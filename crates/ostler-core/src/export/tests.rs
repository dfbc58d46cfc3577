//! Transcripts of a session in which every text tries to become part of the page.

use super::*;
use crate::event::{Ended, Notice, Origin, TurnEnded, TurnStarted};
use crate::outcome::Cause;
use crate::usage::{Scope, Tokens};

const HOSTILE: &str = "</div></pre><script>alert(1)</script>\n```\n# fake \u{1b}[2J\"'&amp;`";

fn record() -> SessionRecord {
    SessionRecord {
        session: "0f8fad5b-d9cb-469f-a165-70867728950e".into(),
        agent: "mock".into(),
        agent_version: Some("<1.0>".into()),
        native_session: Some("`native`\n# x".into()),
        dir: "/work/<b>".into(),
        continues: None,
        held_by: None,
    }
}

fn text(kind: TextKind, text: &str, delta: bool) -> EventKind {
    Text {
        kind,
        text: text.into(),
        delta,
        message: Some("m".into()),
        parent: None,
    }
    .into()
}

fn story() -> Vec<EventKind> {
    let input = serde_json::from_value(serde_json::json!({ "command": HOSTILE })).unwrap();
    let open = serde_json::from_value(serde_json::json!({ "path": "a" })).unwrap();
    let usage = Some(
        Usage::for_turn(
            None,
            Tokens {
                input: 3,
                output: 4,
                ..Tokens::default()
            },
        )
        .partial(0.012),
    );
    let outcome = Outcome::new(Cause::AgentDied, "It <died>.");
    let turn = |text: &str| TurnEnded {
        outcome: outcome.clone(),
        text: text.into(),
        structured: None,
        usage: Some(Usage::unknown(Scope::Turn)),
    };
    vec![
        TurnStarted {
            origin: Origin::Caller,
            prompt: Some(HOSTILE.into()),
        }
        .into(),
        text(TextKind::Thinking, "hm <i>", false),
        text(TextKind::Reply, "One ", true),
        text(TextKind::Reply, "answer.\n```rust\nlet x = 1;", true),
        ToolCall {
            id: "1".into(),
            name: "Bash<x>".into(),
            input,
            parent: None,
        }
        .into(),
        ToolResult {
            id: "1".into(),
            name: None,
            ok: false,
            output: HOSTILE.into(),
            denied: true,
            content: None,
        }
        .into(),
        ToolCall {
            id: "2".into(),
            name: "Read".into(),
            input: open,
            parent: None,
        }
        .into(),
        Notice::new(Level::Warning, "x".into(), "careful <b>").into(),
        turn("not shown again").into(),
        TurnStarted {
            origin: Origin::Caller,
            prompt: Some("second".into()),
        }
        .into(),
        turn("only at the end").into(),
        Ended {
            outcome,
            exit_code: None,
            signal: None,
            usage,
        }
        .into(),
    ]
}

fn exported(format: ExportFormat) -> String {
    let mut export = Export::new(format);
    let mut out = export.head(&record(), Timestamp(0));
    let mut turn = 0;
    for (seq, kind) in (1..).zip(story()) {
        turn += u32::from(matches!(kind, EventKind::TurnStarted(_)));
        out += &export.event(&Event {
            seq,
            at: Timestamp(1_000),
            session: "s".into(),
            turn,
            kind,
        });
    }
    out + &export.foot()
}

// Inline code and indented code open no fence.
#[test]
fn only_open_fences_are_closed() {
    let close_fence = super::markdown::close_fence;
    for text in [
        "```ls``` lists files.",
        "a\n\n    ```\n",
        "```rust\nx\n```",
        "~~~\n```\n~~~",
        "plain",
    ] {
        assert_eq!(close_fence(text), text.trim(), "{text:?}");
    }
    assert_eq!(close_fence("```rust\nx"), "```rust\nx\n```");
    assert_eq!(close_fence("~~~ a`b\nx"), "~~~ a`b\nx\n~~~");
}

#[test]
fn markdown_preserves_its_structure() {
    let page = exported(ExportFormat::Markdown);
    // Every fence that is opened is closed, so that all headings are Ostler's.
    let mut fence: Option<&str> = None;
    let mut headings = Vec::new();
    for line in page.lines() {
        let run = &line[..line.len() - line.trim_start_matches('`').len()];
        match fence {
            Some(open) if run.len() >= open.len() && run.len() == line.len() => fence = None,
            Some(_) => {}
            None if run.len() >= 3 => fence = Some(run),
            None if line.starts_with('#') => headings.push(line),
            None => assert!(!line.replace("\\<", "").contains("<script"), "{line}"),
        }
    }
    assert_eq!(
        (fence, headings),
        (
            None,
            vec!["# mock session 0f8fad5b", "## Turn 1", "## Turn 2"]
        ),
        "{page}"
    );
    for words in [
        "- Agent's session id: `` `native` # x ``\n",
        "> \\</div\\>",
        "> \\# fake \"'\\&amp;\\`\n",
        "One answer.\n```rust\nlet x = 1;\n```\n",
        "**Tool** `Bash<x>` (denied)\n\n````\n</div></pre>",
        "**Tool** `Read` (no result)\n\n```\n{\n  \"path\": \"a\"\n}\n```\n",
        "> second\n",
        "only at the end",
        "Ended: agent\\_died · 7 tokens · ≥ $0.0120 · It \\<died\\>.\n",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(!page.contains('\u{1b}') && !page.contains("not shown again"));
}

#[test]
fn json_lines_are_the_events() {
    let lines = exported(ExportFormat::Jsonl);
    let kinds: Vec<String> = lines
        .lines()
        .map(|line| Event::from_json(line).unwrap().kind.as_str().to_owned())
        .collect();
    assert_eq!(
        kinds,
        story()
            .iter()
            .map(|kind| kind.as_str().to_owned())
            .collect::<Vec<_>>()
    );
}
