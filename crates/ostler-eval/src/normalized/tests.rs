//! Tests of normalized logs: the contract of source document 004, section 3.

use ostler_core::event::{
    Ended, Event, EventKind, Origin, Started, Text, TextKind, Timestamp, ToolCall, ToolResult,
    TurnEnded, TurnStarted,
};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::raw_json::RawJson;
use ostler_core::usage::{Scope, Tokens, Usage};

use super::*;

fn execution() -> ExecutionFacts {
    ExecutionFacts {
        agent: "claude-code".into(),
        agent_version: None,
        adapter_version: "0.1.0".into(),
        configured_model: Some("configured".into()),
        provider: Some("anthropic".into()),
        status: ExecutionStatus::Success,
        exit_code: Some(0),
        started_at: "2025-11-25T10:00:00Z".into(),
        completed_at: "2025-11-25T10:01:00Z".into(),
        duration_ms: 60_000,
        working_directory: "/tmp/test".into(),
        errors: Vec::new(),
    }
}

fn events(kinds: Vec<EventKind>) -> Vec<Event> {
    let numbered = (1..).zip(kinds);
    numbered
        .map(|(seq, kind)| Event {
            seq,
            at: Timestamp(1_700_000_000_000 + i64::try_from(seq).unwrap()),
            session: "s".into(),
            turn: 1,
            kind,
        })
        .collect()
}

fn text(text: &str, message: &str) -> EventKind {
    Text {
        kind: TextKind::Reply,
        text: text.into(),
        delta: true,
        message: Some(message.into()),
        parent: None,
    }
    .into()
}

fn conversation(usage: Usage, outcome: Outcome) -> Vec<Event> {
    events(vec![
        Started {
            agent: "claude".into(),
            agent_version: Some("2.1.0".into()),
            native_session: None,
            model: Some("claude-x".into()),
            cwd: None,
            tools: Vec::new(),
        }
        .into(),
        TurnStarted {
            origin: Origin::Caller,
            prompt: Some("Do it".into()),
        }
        .into(),
        text("I will ", "m1"),
        text("read.", "m1"),
        ToolCall {
            id: "t1".into(),
            name: "Read".into(),
            input: RawJson::parse(r#"{"path":"x"}"#).unwrap(),
            parent: None,
        }
        .into(),
        ToolResult {
            id: "t1".into(),
            name: Some("Read".into()),
            ok: true,
            output: "content".into(),
            denied: false,
            content: None,
        }
        .into(),
        text("Done.", "m2"),
        TurnEnded {
            outcome: outcome.clone(),
            text: "Done.".into(),
            structured: None,
            usage: Some(usage.clone()),
        }
        .into(),
        Ended {
            outcome,
            exit_code: Some(0),
            signal: None,
            usage: Some(usage),
        }
        .into(),
    ])
}

fn valid(log: &NormalizedLog) {
    let value = serde_json::to_value(log).unwrap();
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .map(|it| it.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
}

// S4-19, S4-20, S4-21, S4-23, S4-24, S4-25, S4-26
#[test]
fn a_session_becomes_a_log() {
    let tokens = Tokens {
        input: 100,
        cache_read: 20,
        cache_write: 3,
        output: 50,
        reasoning: None,
    };
    let usage = Usage::for_turn(None, tokens).reported(0.25);
    let log = from_events(&execution(), conversation(usage, Outcome::completed()));
    valid(&log);
    assert_eq!(log.agent_info.name, "claude-code");
    assert_eq!(log.agent_info.version, "2.1.0");
    assert_eq!(log.agent_info.adapter_version, "0.1.0");
    assert_eq!(log.model_info.name.as_deref(), Some("claude-x"));
    assert_eq!(log.model_info.provider.as_deref(), Some("anthropic"));
    assert_eq!(log.execution.duration_ms, 60_000);
    assert_eq!(log.execution.status, ExecutionStatus::Success);
    let messages: Vec<(MessageRole, &str)> = log
        .messages
        .iter()
        .map(|message| (message.role, &*message.content))
        .collect();
    assert_eq!(
        messages,
        [
            (MessageRole::User, "Do it"),
            (MessageRole::Assistant, "I will read."),
            (MessageRole::Tool, "content"),
            (MessageRole::Assistant, "Done."),
        ]
    );
    assert_eq!(log.messages[1].tool_call_ids, ["t1"]);
    assert_eq!(log.tool_calls[0].name, "Read");
    assert_eq!(log.tool_calls[0].arguments, r#"{"path":"x"}"#);
    assert_eq!(log.tool_calls[0].result.as_deref(), Some("content"));
    let usage = log.usage.unwrap();
    assert_eq!(usage.input_tokens, Some(123));
    assert_eq!(usage.cached_input_tokens, Some(20));
    assert_eq!(usage.output_tokens, Some(50));
    assert_eq!(usage.total_tokens, Some(173));
    assert!(log.errors.is_empty());
}

// S4-22, S4-28: the configured model, the errors of the result; unknown stays null.
#[test]
fn a_session_that_failed_becomes_a_valid_log() {
    let mut execution = execution();
    execution.status = ExecutionStatus::Timeout;
    execution.exit_code = Some(-1);
    let truncated = LogError {
        code: Some("output_truncated".into()),
        message: "The output exceeded 10 MB and was truncated.".into(),
        timestamp: None,
    };
    execution.errors = vec![truncated.clone()];
    let outcome = Outcome::new(Cause::WallLimit, "The turn took longer than 5 s.");
    let mut all = conversation(Usage::unknown(Scope::Session), outcome);
    drop(all.remove(0));
    let log = from_events(&execution, &all);
    valid(&log);
    assert_eq!(log.model_info.name.as_deref(), Some("configured"));
    assert_eq!(log.agent_info.version, "unknown");
    assert_eq!(log.usage, None);
    assert_eq!(log.errors[0], truncated);
    assert_eq!(log.errors[1].code.as_deref(), Some("wall_limit"));
    valid(&from_events(&execution, &[] as &[Event]));
}

// S4-20, S4-21, S4-24, S4-25, S4-26, S4-27: the transcripts of the contract's tests.
#[test]
fn a_transcript_becomes_a_log() {
    let transcript = "\u{1b}[1mClaude Code v1.2.3\u{1b}[0m\nModel: claude-sonnet-4\r\n\
        User: fix it\n\u{1b}]0;title\u{7}Assistant: \u{1b}[32mI read\u{1b}[0m\nthe file.\n\
        [TOOL: read_file] path/to/file\nInput tokens: 1,234\nOutput tokens: 5678\n";
    let log = from_text(&execution(), transcript);
    valid(&log);
    assert_eq!(log.agent_info.version, "1.2.3");
    assert_eq!(log.model_info.name.as_deref(), Some("claude-sonnet-4"));
    assert_eq!(log.messages[0].content, "fix it");
    assert_eq!(log.messages[1].content, "I read\nthe file.");
    assert_eq!(log.tool_calls[0].name, "read_file");
    assert_eq!(log.tool_calls[0].arguments, "path/to/file");
    let usage = log.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.total_tokens),
        (Some(1234), Some(5678), Some(6912))
    );
    let bare = from_text(&execution(), "just text\n");
    assert_eq!(bare.usage, None);
    assert_eq!(bare.messages[0].role, MessageRole::Assistant);
    assert_eq!(bare.model_info.name.as_deref(), Some("configured"));
}

#[test]
fn control_sequences_are_removed() {
    let table = [
        ("plain \ttext\n", "plain \ttext\n"),
        ("\u{1b}[1;31mred\u{1b}[0m", "red"),
        ("a\u{1b}]0;title\u{7}b", "ab"),
        ("a\u{1b}]8;;http://x\u{1b}\\b", "ab"),
        ("a\u{1b}Pq\u{1b}not the end\u{1b}\\b", "ab"),
        ("a\u{1b}(Bb", "ab"),
        ("\u{1b}[unfinished", "nfinished"),
        ("cut \u{1b}[", "cut "),
        ("cut \u{1b}", "cut "),
        ("one\r\ntwo\rthree\r", "one\ntwo\nthree\n"),
        ("\u{0}\u{8}\u{7f}\u{85}\u{9b}x", "x"),
        ("© ¿ é \u{a0}中🦀\u{1b}[m©", "© ¿ é \u{a0}中🦀©"),
    ];
    for (text, plain) in table {
        assert_eq!(strip_control_sequences(text), plain, "{text:?}");
    }
}

#[test]
fn the_version_is_a_line_of_its_own() {
    let table = [
        ("Claude Code v1.2.3", "1.2.3"),
        ("  Claude Code  v1.2.3  ", "1.2.3"),
        ("Version: 0.9.1", "0.9.1"),
        ("a b c v1.2", "1.2"),
        ("a b c d v1.2", "unknown"),
        ("v1.2.3", "unknown"),
        ("Claude Code version", "unknown"),
        ("It says: v1.2", "unknown"),
        ("Claude Code v2", "unknown"),
    ];
    for (line, version) in table {
        let log = from_text(&execution(), line);
        assert_eq!(log.agent_info.version, version, "{line:?}");
    }
}

#[test]
fn published_names_carry_the_same_facts() {
    let usage = Usage::unknown(Scope::Session);
    let log = from_events(&execution(), conversation(usage, Outcome::completed()));
    let value = published(&log);
    assert_eq!(value["version"], "1.0.0");
    assert_eq!(value["agent"]["name"], "claude-code");
    assert_eq!(value["usage"]["prompt_tokens"], 0);
    assert_eq!(value["usage"]["measurement_source"], "unavailable");
    let call = &value["messages"][1]["tool_calls"][0];
    assert_eq!(call["function"]["arguments"], r#"{"path":"x"}"#);
    assert_eq!(value["messages"][2]["tool_call_id"], "t1");
    assert!(
        value["messages"]
            .as_array()
            .unwrap()
            .iter()
            .all(|it| it["timestamp"].is_string())
    );
}

proptest::proptest! {
    // S4-19
    #[test]
    fn any_transcript_becomes_a_valid_log(transcript in "(?s)(\\PC|[\\x00-\\x1f]|\\[TOOL: ){0,300}") {
        valid(&from_text(&execution(), &transcript));
    }
}
