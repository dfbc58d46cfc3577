//! Tests of trajectories: versions, rules of the format, and a round trip.

use super::*;

fn step(id: u32) -> String {
    format!(r#"{{"step_id":{id},"source":"user","message":"hi"}}"#)
}

fn document(version: &str, steps: &str) -> String {
    format!(
        r#"{{"schema_version":"{version}","session_id":"s","agent":{{"name":"a","version":"1"}},
            "steps":[{steps}],"unknown":1}}"#
    )
}

#[test]
fn every_version_is_read() {
    for version in READ_VERSIONS {
        let found = read(&document(version, &step(1))).unwrap();
        assert_eq!(found.steps[0].text(), "hi", "{version}");
    }
    let parts = r#"{"step_id":1,"source":"agent","message":[{"type":"text","text":"a"},
        {"type":"image","source":{"media_type":"image/png","path":"x"}},{"type":"text","text":"b"}]}"#;
    assert_eq!(
        read(&document("ATIF-v1.6", parts)).unwrap().steps[0].text(),
        "ab"
    );
}

#[test]
fn a_file_that_breaks_the_rules_is_refused() {
    let unknown_call = r#"{"step_id":1,"source":"agent","message":"","observation":
        {"results":[{"source_call_id":"x","content":"y"}]}}"#;
    for (text, expected) in [
        (document("ATIF-v2.0", &step(1)), "unknown version"),
        (document("ATIF-v1.7", &step(2)), "numbered from 1"),
        (document("ATIF-v1.7", unknown_call), "unknown tool call"),
        ("{}".to_owned(), "not a trajectory"),
    ] {
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_written_trajectory_is_read_back() {
    use ostler_core::event::{Event, EventKind};
    let kind = |json: &str| EventKind::from_json(json).unwrap();
    let kinds = [
        kind(
            r#"{"type":"started","agent":"a","agent_version":"2","native_session":null,"model":"m","cwd":null}"#,
        ),
        kind(r#"{"type":"turn_started","origin":"caller","prompt":"do it"}"#),
        kind(r#"{"type":"text","kind":"thinking","text":"hm","delta":true,"message":"1"}"#),
        kind(r#"{"type":"text","kind":"reply","text":"reading","delta":false,"message":"1"}"#),
        kind(r#"{"type":"tool_call","id":"t","name":"Read","input":{"path":"x"},"parent":null}"#),
        kind(
            r#"{"type":"tool_result","id":"t","name":"Read","ok":false,"output":"no","denied":true}"#,
        ),
        kind(r#"{"type":"text","kind":"reply","text":"done","delta":false,"message":"2"}"#),
    ];
    let events: Vec<Event> = (1..)
        .zip(kinds)
        .map(|(seq, kind)| Event {
            seq,
            at: ostler_core::event::Timestamp(1_700_000_000_000),
            session: "s".into(),
            turn: 1,
            kind,
        })
        .collect();
    let written = write("fallback", &events);
    let text = serde_json::to_string(&written).unwrap();
    assert_eq!(read(&text).unwrap(), written);
    assert_eq!(written.agent.model_name.as_deref(), Some("m"));
    let sources: Vec<StepSource> = written.steps.iter().map(|step| step.source).collect();
    assert_eq!(
        sources,
        [StepSource::User, StepSource::Agent, StepSource::Agent]
    );
    let step = &written.steps[1];
    assert_eq!(step.reasoning_content.as_deref(), Some("hm"));
    assert_eq!(step.tool_calls.as_ref().unwrap()[0].arguments["path"], "x");
    let result = &step.observation.as_ref().unwrap().results[0];
    assert_eq!(result.extra.as_ref().unwrap()["denied"], true);
    assert_eq!(
        write("fallback", &[]).steps.len(),
        1,
        "the format requires a step"
    );
}
