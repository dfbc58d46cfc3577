//! Approvals: permission requests that any client answers, once.

use std::time::Duration;

use ostler_daemon::ManagerOptions;
use ostler_daemon::api::{Answer, AnswerDecision, ApprovalView};

use crate::rig::{PATIENCE, Rig, cause, of_type};

const ALLOW: Answer = Answer {
    decision: AnswerDecision::Allow,
    message: None,
    always: false,
};

/// A script that asks about these commands at once.
fn asking(commands: usize) -> String {
    let mut verbs = "read\ninit\n".to_owned();
    for n in 0..commands {
        verbs += &format!("control-request q{n} Bash {{\"command\":\"rm {n}\"}}\n");
    }
    verbs += &"wait-control\n".repeat(commands);
    verbs + "dump-stdin $DIR/stdin\ntext hi\nresult hi\nread-until-eof"
}

async fn pending(rig: &Rig, count: usize) -> Vec<ApprovalView> {
    let found = async {
        loop {
            let pending = rig.client.pending_approvals().await.unwrap().approvals;
            if pending.len() == count {
                return pending;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, found)
        .await
        .expect("approvals")
}

// P44: five requests, each answered once by some client; a late answer is a typed error.
#[tokio::test]
async fn each_request_is_answered_once() {
    let rig = Rig::new().await;
    rig.agent("asks", &asking(5));
    let session = rig.create("asks").await;
    let pending = pending(&rig, 5).await;
    for approval in &pending {
        assert_eq!(approval.session, session.id);
        let command = &approval.event["input"]["command"];
        assert!(command.as_str().unwrap().starts_with("rm "), "{approval:?}");
        assert!(approval.expires_at > approval.asked_at);
        // Two clients answer at the same time: one of them decides.
        let (first, second) = tokio::join!(
            rig.client.answer(&approval.id, &ALLOW),
            rig.client.answer(&approval.id, &ALLOW)
        );
        let failed = [first, second].into_iter().filter(Result::is_err);
        let causes: Vec<String> = failed.map(cause).collect();
        assert_eq!(causes, ["already_decided"]);
    }
    let events = rig
        .events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;
    let allowed = of_type(&events, "permission");
    let allowed = allowed
        .iter()
        .filter(|event| event["decision"] == "allowed");
    assert_eq!(allowed.count(), 5);
    assert_eq!(
        cause(rig.client.answer(&pending[0].id, &ALLOW).await),
        "already_decided"
    );
    assert_eq!(
        cause(rig.client.answer("0123", &ALLOW).await),
        "unknown_approval"
    );
    let all = rig
        .tcp("GET /v1/approvals?state=allowed", &[], "")
        .await
        .body();
    assert_eq!(all["approvals"].as_array().unwrap().len(), 5);
    let by = all["approvals"][0]["decided_by"].as_str().unwrap();
    assert!(by.starts_with("process "), "{by}");
}

#[tokio::test]
async fn a_denial_reaches_the_agent_with_its_message() {
    let rig = Rig::new().await;
    rig.agent("asks", &asking(1));
    rig.create("asks").await;
    let approval = pending(&rig, 1).await.remove(0);
    let deny = Answer {
        decision: AnswerDecision::Deny,
        message: Some("not on my machine".to_owned()),
        always: false,
    };
    let answered = rig.client.answer(&approval.id, &deny).await.unwrap();
    assert_eq!(answered.state, "denied");
    let stdin = rig.file("stdin").await;
    assert!(stdin.contains("not on my machine"), "{stdin}");
}

#[tokio::test]
async fn an_unanswered_request_expires_and_is_denied() {
    let rig = Rig::with(ManagerOptions {
        approval_timeout: Duration::from_millis(50),
        ..ManagerOptions::default()
    })
    .await;
    rig.agent("asks", &asking(1));
    let session = rig.create("asks").await;
    let events = rig
        .events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;
    let permissions = of_type(&events, "permission");
    assert_eq!(permissions.last().unwrap()["decision"], "denied");
    let all = rig.tcp("GET /v1/approvals", &[], "").await.body();
    let approval = &all["approvals"][0];
    assert_eq!(approval["state"], "expired");
    let id = approval["id"].as_str().unwrap();
    assert_eq!(
        cause(rig.client.answer(id, &ALLOW).await),
        "approval_expired"
    );
}

// A store that fails when the request expires does not leave the turn waiting.
#[tokio::test]
async fn a_request_expires_although_the_store_failed_at_first() {
    let rig = Rig::with(ManagerOptions {
        approval_timeout: Duration::from_millis(50),
        ..ManagerOptions::default()
    })
    .await;
    let db = rusqlite::Connection::open(rig.path("state/sessions.db")).unwrap();
    let broken = "CREATE TRIGGER broken BEFORE UPDATE ON approvals
        WHEN NEW.state = 'expired' AND NEW.decided_at < OLD.expires_at + 500
        BEGIN SELECT RAISE(ABORT, 'broken'); END";
    db.execute_batch(broken).unwrap();
    rig.agent("asks", &asking(1));
    let session = rig.create("asks").await;
    let events = rig
        .events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;
    let permissions = of_type(&events, "permission");
    assert_eq!(permissions.last().unwrap()["decision"], "denied");
}

#[tokio::test]
async fn a_request_of_a_session_that_ends_is_withdrawn() {
    let rig = Rig::new().await;
    rig.agent("asks", &asking(1));
    let session = rig.create("asks").await;
    let approval = pending(&rig, 1).await.remove(0);
    rig.client.stop(&session.id).await.unwrap();
    rig.wait_for_end(&session.id).await;
    assert_eq!(
        cause(rig.client.answer(&approval.id, &ALLOW).await),
        "approval_expired"
    );
}

// The command gets the request on its stdin, and nothing of it in its arguments.
#[tokio::test]
async fn a_command_is_run_when_a_session_needs_attention() {
    use std::os::unix::fs::PermissionsExt;
    let dir = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let script =
        "#!/bin/bash\nread -r line\necho \"$1 $# $line\" > $0.$$.new\nmv $0.$$.new $0.$$.out\n";
    let path = dir.path().join("notify");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let rig = Rig::in_dir(dir, ManagerOptions::default()).await;
    rig.agent("asks", &asking(1));
    let session = rig.create("asks").await;
    let approval = pending(&rig, 1).await.remove(0);
    rig.client.answer(&approval.id, &ALLOW).await.unwrap();
    rig.events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;
    rig.client.stop(&session.id).await.unwrap();
    let mut seen = Vec::new();
    let all = async {
        while seen.len() < 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let files = std::fs::read_dir(rig.dir.path()).unwrap().flatten();
            let outputs =
                files.filter(|file| file.path().extension().is_some_and(|it| it == "out"));
            seen = outputs
                .map(|file| std::fs::read_to_string(file.path()).unwrap())
                .collect();
        }
    };
    tokio::time::timeout(PATIENCE, all)
        .await
        .expect("three notifications");
    let mut occasions: Vec<String> = seen
        .iter()
        .map(|text| {
            let json = text.strip_prefix("an argument 1 ").unwrap();
            let value: serde_json::Value = serde_json::from_str(json).unwrap();
            assert_eq!(value["session"]["id"], session.id.as_str());
            value["occasion"].as_str().unwrap().to_owned()
        })
        .collect();
    occasions.sort();
    assert_eq!(occasions, ["needs_approval", "session_ended", "turn_ended"]);
}

// While the daemon drains, a turn may need an answer to finish.
#[tokio::test]
async fn a_request_is_answered_while_the_daemon_stops() {
    let rig = Rig::with(ManagerOptions {
        drain: PATIENCE,
        ..ManagerOptions::default()
    })
    .await;
    rig.agent("asks", &asking(1));
    let session = rig.create("asks").await;
    let approval = pending(&rig, 1).await.remove(0);
    rig.signal();
    let is_stopping = async {
        while rig.client.create(&rig.request("asks")).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, is_stopping).await.unwrap();
    let answered = rig.client.answer(&approval.id, &ALLOW).await.unwrap();
    assert_eq!(answered.state, "allowed");
    let store = rig.store.clone();
    rig.ended().await;
    let turn = store.last_event(&session.id, "turn_ended").unwrap();
    assert!(turn.as_ref().unwrap().contains("\"completed\""), "{turn:?}");
}

/// Asks in the name of a sub-agent, which has a session id of its own.
const SUB_AGENT: &str = r#"read
init
print {"type":"control_request","request_id":"q","session_id":"another","parent_tool_use_id":"parent","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"},"tool_use_id":"t","agent_id":"a1"}}
wait-control
dump-stdin $DIR/stdin
text hi
result hi
read-until-eof"#;

// P47: a sub-agent has no session that a client knows, so its parent's owns the request.
#[tokio::test]
async fn a_request_of_a_sub_agent_belongs_to_its_session() {
    let rig = Rig::new().await;
    rig.agent("asks", SUB_AGENT);
    let session = rig.create("asks").await;
    let approval = pending(&rig, 1).await.remove(0);
    assert_eq!(approval.session, session.id);
    rig.client.answer(&approval.id, &ALLOW).await.unwrap();
    let stdin = rig.file("stdin").await;
    assert!(stdin.contains("\"allow\""), "{stdin}");
    rig.events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;
}

// P51, P60: a request that waits for an hour neither blocks the daemon nor its heartbeats.
#[tokio::test(start_paused = true)]
async fn a_request_can_wait_for_an_hour() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let rig = Rig::new().await;
    let script = rig.path("script.toml");
    let text = "[[reply]]\ncalls = [{ tool = \"write_file\", input = { path = \"a\", content = \"b\" } }]\n\
        [[reply]]\ntext = \"done\"\n";
    std::fs::write(&script, text).unwrap();
    *rig.embedder.preset.lock().unwrap() = Some(ostler::permission::Preset::Ask);
    let request = ostler_daemon::api::CreateSession {
        agent: Some("scripted".to_owned()),
        model: None,
        settings: [("script".to_owned(), script.to_str().unwrap().into())].into(),
        limits: [("none".to_owned(), true.into())].into(),
        ..rig.request("")
    };
    let session = rig.client.create(&request).await.unwrap();
    let mut socket = tokio::net::UnixStream::connect(rig.client.socket())
        .await
        .unwrap();
    let head = format!(
        "GET /v1/sessions/{}/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        session.id
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    // Time passes whenever nothing else happens.
    let (mut text, mut buffer) = (String::new(), [0_u8; 4096]);
    while !text.contains("\"turn_ended\"") {
        let length = socket.read(&mut buffer).await.unwrap();
        assert!(length > 0, "{text}");
        text += &String::from_utf8_lossy(&buffer[..length]);
    }
    let beats = text.matches(": heartbeat").count();
    assert!(beats >= 200, "{beats} heartbeats in an hour");
    assert!(text.contains("\"denied\"") && !rig.path("work/a").exists());
}

// The timer of a session may be late: what counts is the time that the client was told.
#[tokio::test]
async fn an_answer_after_the_expiry_denies() {
    let rig = Rig::new().await;
    rig.agent("asks", &asking(1));
    let session = rig.create("asks").await;
    let approval = pending(&rig, 1).await.remove(0);
    let db = rusqlite::Connection::open(rig.path("state/sessions.db")).unwrap();
    db.execute("UPDATE approvals SET expires_at = 1", [])
        .unwrap();
    for _ in 0..2 {
        let late = rig.client.answer(&approval.id, &ALLOW).await;
        assert_eq!(cause(late), "approval_expired");
    }
    let stdin = rig.file("stdin").await;
    assert!(
        stdin.contains("\"deny\"") && !stdin.contains("\"allow\""),
        "{stdin}"
    );
    let is_turn_end = |event: &serde_json::Value| event["type"] == "turn_ended";
    let events = rig.events_until(&session.id, is_turn_end).await;
    let decisions = of_type(&events, "permission").into_iter();
    let decisions: Vec<_> = decisions.map(|event| &event["decision"]).collect();
    assert_eq!(decisions, ["asked", "denied"]);
    let stored = rig.store.approval(&approval.id).unwrap().unwrap();
    assert_eq!(stored.state.as_str(), "expired");
    assert_eq!(stored.decided_by.as_deref(), Some("timeout"));
}
