//! The mock agent: it plays given events, and follows the same rules as every other agent.

use std::sync::Arc;
use std::time::Duration;

use ostler::event::EventKind;
use ostler::testing::{Events, MockAgent};
use ostler::{Agent, Agents, Cause, Spec};

use crate::rig::{Seen, finish, finish_after, host, read_until};

const SCRIPT: &str = r#"
# a thought, a tool, an answer
{"type":"started","agent":"mock","agent_version":"1","native_session":"n1","model":"m","cwd":"/","tools":[]}
{"type":"text","kind":"thinking","text":"hm","delta":false,"message":"m1"}
{"type":"tool_call","id":"t1","name":"Bash","input":{"command":"ls"},"parent":null}
{"wait_ms": 10}
{"type":"tool_result","id":"t1","name":"Bash","ok":true,"output":"README.md","denied":false}
{"type":"text","kind":"reply","text":"done","delta":false,"message":"m2"}
{"type":"turn_ended","outcome":{"status":"success","cause":"completed","message":"Done."},"text":"","structured":null,"usage":null}
"#;

fn mock() -> Arc<dyn Agent> {
    Agents::builtin().get("mock").unwrap()
}

fn asking(script: Option<&str>) -> Spec {
    let mut spec = Spec::new("hello");
    if let Some(path) = script {
        spec.set("script", [path]).unwrap();
    }
    spec
}

async fn play(script: &str, limits: ostler::spec::Limits) -> Seen {
    let agent = MockAgent::playing(script.parse::<Events>().unwrap());
    finish(
        agent
            .start(&host(&[]), asking(None).limits(limits))
            .unwrap(),
    )
    .await
}

// S2-22, S4-46, S2-3
#[tokio::test]
async fn a_script_file_is_played() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("script.jsonl");
    std::fs::write(&path, SCRIPT).unwrap();
    let session = mock().start(&host(&[]), asking(path.to_str())).unwrap();
    assert_eq!(session.remote().pid(), None);
    let seen = finish(session).await;
    assert_eq!(
        (seen.outcome().cause, seen.turn().text.as_str()),
        (Cause::Completed, "done")
    );
    let words: Vec<&str> = seen
        .kinds()
        .map(EventKind::as_str)
        .filter(|word| *word != "state")
        .collect();
    assert_eq!(
        words,
        [
            "turn_started",
            "started",
            "text",
            "tool_call",
            "tool_result",
            "text",
            "turn_ended",
            "ended"
        ]
    );
}

// S3-17: a missing or malformed script is an invalid setting.
#[tokio::test]
async fn a_wrong_script_is_a_wrong_setting() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("script.jsonl");
    let missing = mock().start(&host(&[]), asking(path.to_str())).unwrap_err();
    assert_eq!(missing.key, "script");
    std::fs::write(&path, "{\"type\":\"text\"}\n").unwrap();
    let broken = mock().start(&host(&[]), asking(path.to_str())).unwrap_err();
    assert!(broken.why.contains("line 1"), "{broken}");
}

// P37, S4-8: it hangs on command, can be interrupted, and runs into limits like any other agent.
#[tokio::test]
async fn a_hanging_script_can_be_ended() {
    let hang = "{\"type\":\"text\",\"kind\":\"reply\",\"text\":\"half\",\"delta\":false,\"message\":\"m\"}\n{\"hang\":true}";
    let agent = MockAgent::playing(hang.parse::<Events>().unwrap());
    let mut session = agent.start(&host(&[]), asking(None)).unwrap();
    let read = read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
    session.remote().interrupt();
    let seen = finish_after(read, session).await;
    assert_eq!(
        (seen.outcome().cause, seen.turn().text.as_str()),
        (Cause::Interrupted, "half")
    );
    let limits = ostler::spec::Limits::default().wall(Duration::from_millis(100));
    assert_eq!(play(hang, limits).await.outcome().cause, Cause::WallLimit);
}

// An event reserved for the session, such as `ended`, is unreadable in a script. It ends nothing:
// the turn then runs into its limit.
#[tokio::test]
async fn a_script_cannot_forge_reserved_events() {
    let forged = "{\"type\":\"ended\",\"outcome\":{\"status\":\"success\",\"cause\":\"completed\",\"message\":\"\"},\"exit_code\":0,\"signal\":null}";
    let limits = ostler::spec::Limits::default().idle(Duration::from_millis(200));
    let seen = play(forged, limits).await;
    assert_eq!(seen.unreadable().len(), 1);
    assert!(!seen.outcome().is_success());
}
