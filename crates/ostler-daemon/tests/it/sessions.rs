//! Sessions: create, list, control, delete.

use std::time::Duration;

use ostler_daemon::ManagerOptions;
use ostler_daemon::api::{CreateSession, SendMessage, WhenBusy};

use crate::rig::{
    ECHO, PATIENCE, Rig, assert_complete, cause, is_gone, labels, of_type, resumable,
};

fn message(text: &str) -> SendMessage {
    SendMessage {
        text: text.to_owned(),
        when_busy: WhenBusy::Queue,
    }
}

// S2-34, S2-36, S2-37, S3-18, S3-34: the first message starts work at once, and the stream ends
// with the session.
#[tokio::test]
async fn a_session_runs_from_its_first_message_to_its_end() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let session = rig.create("echo").await;
    assert_eq!(session.name, format!("claude-{}", &session.id[..8]));
    assert_eq!(session.dir, rig.path("work").canonicalize().unwrap());

    let result = rig.client.result(&session.id, PATIENCE).await.unwrap();
    assert!(result.done);
    assert_eq!((result.turn, result.text.as_str()), (1, "hi"));
    assert_eq!(result.outcome.unwrap()["cause"], "completed");
    assert_eq!(result.session.status, "RUNNING");

    rig.client
        .send(&session.id, &message("more"))
        .await
        .unwrap();
    rig.events_until(&session.id, |event| {
        event["type"] == "turn_ended" && event["turn"] == 2
    })
    .await;
    rig.client.stop(&session.id).await.unwrap();
    let events = rig.all_events(&session.id).await;
    assert_complete(&events);
    assert_eq!(events.last().unwrap()["type"], "ended");
    assert_eq!(of_type(&events, "turn_ended").len(), 2);
    let ended = rig.client.session(&session.id).await.unwrap();
    assert_eq!((ended.status.as_str(), ended.turns), ("STOPPED", 2));
    assert_eq!(
        cause(rig.client.send(&session.id, &message("late")).await),
        "session_ended"
    );
}

// S2-35
#[tokio::test]
async fn lists_show_active_sessions_and_are_paged_and_filtered() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let mut ids = Vec::new();
    for n in 0..3 {
        let request = CreateSession {
            labels: labels(&[("n", &n.to_string()), ("all", "yes")]),
            ..rig.request("echo")
        };
        ids.insert(0, rig.client.create(&request).await.unwrap().id);
    }
    rig.client.stop(&ids[1]).await.unwrap();
    rig.wait_for_end(&ids[1]).await;

    let list = async |query: &str| {
        let page = rig.client.sessions(query).await.unwrap();
        let ids: Vec<String> = page
            .sessions
            .into_iter()
            .map(|session| session.id)
            .collect();
        (ids, page.next)
    };
    assert_eq!(list("").await.0, [ids[0].clone(), ids[2].clone()]);
    assert_eq!(list("all=true").await.0, ids);
    assert_eq!(list("state=ended").await.0, [ids[1].clone()]);
    assert_eq!(list("all=true&label=n%3D1").await.0, [ids[1].clone()]);
    assert_eq!(list("label=n%3D1&label=all%3Dyes").await.0, [""; 0]);
    assert_eq!(list("agent=codex").await.0, [""; 0]);
    let (first, next) = list("all=true&limit=2").await;
    assert_eq!(first, ids[..2]);
    let (second, end) = list(&format!("all=true&limit=2&cursor={}", next.unwrap())).await;
    assert_eq!((second, end), (ids[2..].to_vec(), None));
    for bad in ["state=x", "limit=x", "label=x", "nonsense=1", "all=maybe"] {
        assert_eq!(
            cause(rig.client.sessions(bad).await),
            "bad_request",
            "{bad}"
        );
    }
}

// S2-24: labels are part of the agent's environment and never change.
#[tokio::test]
async fn labels_reach_the_agents_environment() {
    let rig = Rig::new().await;
    rig.agent(
        "dump",
        "dump-env $DIR/env\nread\ninit\ntext hi\nresult hi\nread-until-eof",
    );
    let request = CreateSession {
        labels: labels(&[("campaign-id", "c 7")]),
        name: Some("my session".to_owned()),
        ..rig.request("dump")
    };
    let session = rig.client.create(&request).await.unwrap();
    assert_eq!(
        (session.name.as_str(), &session.labels),
        ("my session", &request.labels)
    );
    let env = rig.file("env").await;
    assert!(env.contains("OSTLER_LABEL_CAMPAIGN_ID=c 7"), "{env}");
    assert!(env.contains(&format!("OSTLER_SESSION={}", session.id)));
    for bad in ["", "a b"] {
        let request = CreateSession {
            labels: labels(&[(bad, "x")]),
            ..rig.request("dump")
        };
        assert_eq!(cause(rig.client.create(&request).await), "bad_spec");
    }
}

#[tokio::test]
async fn an_invalid_session_is_refused_and_leaves_nothing_behind() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let valid = rig.request("echo");
    let cases = [
        (
            CreateSession {
                dir: "work".into(),
                ..valid.clone()
            },
            "bad_request",
        ),
        (
            CreateSession {
                dir: rig.path("none"),
                ..valid.clone()
            },
            "bad_request",
        ),
        (
            CreateSession {
                dir: rig.path("echo"),
                ..valid.clone()
            },
            "bad_request",
        ),
        (
            CreateSession {
                agent: Some("nobody".into()),
                ..valid.clone()
            },
            "unknown_agent",
        ),
        (
            CreateSession {
                name: Some("\n".into()),
                ..valid.clone()
            },
            "bad_request",
        ),
        (
            CreateSession {
                once: true,
                prompt: None,
                ..valid.clone()
            },
            "bad_request",
        ),
        (
            CreateSession {
                prompt: Some("  ".into()),
                ..valid.clone()
            },
            "bad_spec",
        ),
    ];
    for (request, expected) in cases {
        assert_eq!(
            cause(rig.client.create(&request).await),
            expected,
            "{request:?}"
        );
    }
    assert!(
        rig.client
            .sessions("all=true")
            .await
            .unwrap()
            .sessions
            .is_empty()
    );
}

#[tokio::test]
async fn a_deleted_session_is_gone() {
    let rig = Rig::new().await;
    rig.agent("hang", "pid-file $DIR/pid\nread\ninit\nhang");
    let headers = ["Content-Type: application/json", "Idempotency-Key: once"];
    let body = serde_json::to_string(&rig.request("hang")).unwrap();
    let create = async || rig.tcp("POST /v1/sessions", &headers, &body).await;
    let session: ostler_daemon::api::SessionView =
        serde_json::from_value(create().await.body()).unwrap();
    rig.file("pid").await;
    rig.events_until(&session.id, |event| event["type"] == "started")
        .await;
    let raw = rig.path("state/raw");
    let files = || {
        let names = std::fs::read_dir(&raw).into_iter().flatten().flatten();
        let names = names.filter(|it| it.file_name().to_string_lossy().contains(&session.id));
        names.count()
    };
    assert!(files() > 0);
    let path = format!("DELETE /v1/sessions/{}", session.id);
    let code = format!("Ostler-Approval-Code: {}", rig.code);
    let deleted = rig.tcp(&path, &[&code], "").await;
    assert_eq!(deleted.status(), 204);
    assert!(is_gone(&rig.path("pid")));
    assert_eq!(
        cause(rig.client.session(&session.id).await),
        "unknown_session"
    );
    assert!(rig.store.event_rows(&session.id, 1, 10).unwrap().is_empty());
    assert_eq!(files(), 0);
    // The request that created it creates no other one, and its response is not stored any more.
    let again = create().await;
    let found = (again.status(), &again.body()["cause"]);
    assert_eq!(found, (404, &"unknown_session".into()));
    let db = rusqlite::Connection::open(rig.path("state/sessions.db")).unwrap();
    let stored = "SELECT response FROM idempotency";
    let stored: String = db.query_row(stored, [], |row| row.get(0)).unwrap();
    assert_eq!(stored, format!("@{}", session.id));
}

#[tokio::test]
async fn a_turn_is_interrupted_and_a_paused_session_holds_messages() {
    let rig = Rig::new().await;
    rig.agent(
        "slow",
        "read-user\ninit\ndelta Working\nanswer-interrupt\n\
         loop 10\nread-user\ninit\ntext hi\nresult hi\nend",
    );
    let session = rig.create("slow").await;
    rig.events_until(&session.id, |event| event["type"] == "started")
        .await;
    assert!(rig.client.interrupt(&session.id).await.unwrap().interrupted);
    rig.events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;
    assert!(!rig.client.interrupt(&session.id).await.unwrap().interrupted);

    let paused = rig.client.control(&session.id, "pause").await.unwrap();
    assert_eq!(paused.status, "PAUSED");
    rig.client
        .send(&session.id, &message("held"))
        .await
        .unwrap();
    let result = rig
        .client
        .result(&session.id, Duration::from_secs(0))
        .await
        .unwrap();
    assert_eq!(result.session.turns, 1);
    rig.client.control(&session.id, "resume").await.unwrap();
    rig.events_until(&session.id, |event| {
        event["type"] == "turn_ended" && event["turn"] == 2
    })
    .await;
}

/// A script of the scripted agent, which writes a file in every turn.
const WRITES: &str = r#"
[[reply]]
repeat = true
when = { result_of = "write_file" }
text = "done"

[[reply]]
repeat = true
calls = [{ tool = "write_file", input = { path = "a", content = "b" } }]
"#;

// P49: whatever the configuration says by then, the permissions are those of the first session.
#[tokio::test]
async fn a_restarted_session_continues_with_the_same_permissions() {
    use ostler::permission::Preset;
    let rig = Rig::new().await;
    std::fs::write(rig.path("script.toml"), WRITES).unwrap();
    *rig.embedder.preset.lock().unwrap() = Some(Preset::ReadOnly);
    let script = rig.path("script.toml").display().to_string();
    let request = CreateSession {
        agent: Some("scripted".to_owned()),
        model: None,
        settings: [("script".to_owned(), script.into())].into(),
        ..rig.request("")
    };
    let session = rig.client.create(&request).await.unwrap();
    let is_turn_end = |event: &serde_json::Value| event["type"] == "turn_ended";
    let denials = |events: &[serde_json::Value]| {
        let permissions = of_type(events, "permission").into_iter();
        permissions
            .map(|event| event["decision"].to_string())
            .collect::<Vec<_>>()
    };
    let events = rig.events_until(&session.id, is_turn_end).await;
    assert_eq!(denials(&events), ["\"denied\""]);

    *rig.embedder.preset.lock().unwrap() = Some(Preset::All);
    for action in ["restart", "fork"] {
        let again = rig.client.control(&session.id, action).await.unwrap();
        assert_eq!(again.continues.as_deref(), Some(session.id.as_str()));
        assert_ne!(again.id, session.id);
        rig.client.send(&again.id, &message("again")).await.unwrap();
        let events = rig.events_until(&again.id, is_turn_end).await;
        assert_eq!(denials(&events), ["\"denied\""], "{action}: {events:#?}");
    }
    assert!(!rig.path("work/a").exists());
    // A new session has the permissions of the new configuration.
    let session = rig.client.create(&request).await.unwrap();
    rig.events_until(&session.id, is_turn_end).await;
    assert!(rig.path("work/a").exists());
}

// P56: every restart loads the session in a new process, and leaves none behind.
#[tokio::test]
async fn twenty_restarts_leave_one_process() {
    let rig = Rig::new().await;
    rig.shell_agent("echo", "echo $$ > $DIR/pid.$OSTLER_SESSION", ECHO);
    let is_turn_end = |event: &serde_json::Value| event["type"] == "turn_ended";
    let mut session = rig.client.create(&resumable(&rig)).await.unwrap();
    rig.events_until(&session.id, is_turn_end).await;
    let mut earlier = Vec::new();
    for _ in 0..20 {
        let again = rig.client.control(&session.id, "restart").await.unwrap();
        rig.client.send(&again.id, &message("more")).await.unwrap();
        rig.events_until(&again.id, is_turn_end).await;
        earlier.push(std::mem::replace(&mut session, again).id);
    }
    for id in &earlier {
        assert!(is_gone(&rig.path(&format!("pid.{id}"))), "{id}");
    }
    assert!(!is_gone(&rig.path(&format!("pid.{}", session.id))));
    let running = rig.client.sessions("").await.unwrap().sessions;
    assert_eq!(running.len(), 1);
}

// P55: a session that is in use is not loaded a second time, and the refusal names its holder.
#[tokio::test]
async fn a_session_in_use_is_not_resumed() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let session = rig.client.create(&resumable(&rig)).await.unwrap();
    rig.events_until(&session.id, |event| event["to"] == "idle")
        .await;
    let request = CreateSession {
        resume: Some(session.id.clone()),
        ..resumable(&rig)
    };
    let second = rig.client.create(&request).await.unwrap();
    let events = rig.all_events(&second.id).await;
    let outcome = &events.last().unwrap()["outcome"];
    assert_eq!(outcome["detail"]["reason"], "session_in_use", "{outcome}");
    let holder = format!("process {}", std::process::id());
    let message = outcome["message"].as_str().unwrap();
    assert!(message.contains(&holder), "{message}");
    // Once its holder is gone, it can be resumed.
    rig.client.stop(&session.id).await.unwrap();
    rig.wait_for_end(&session.id).await;
    let again = rig.client.create(&request).await.unwrap();
    rig.events_until(&again.id, |event| event["type"] == "turn_ended")
        .await;
}

#[tokio::test]
async fn stopping_the_daemon_lets_a_turn_finish() {
    let options = ManagerOptions {
        drain: PATIENCE,
        ..ManagerOptions::default()
    };
    let rig = Rig::with(options).await;
    rig.agent(
        "worker",
        "read\ninit\nwait-file $DIR/go\ntext done\nresult done\nread-until-eof",
    );
    let session = rig.create("worker").await;
    rig.events_until(&session.id, |event| event["type"] == "started")
        .await;
    rig.signal();
    // New sessions are refused while the turn runs.
    let refused = async {
        while cause_or_ok(rig.client.create(&rig.request("worker")).await) != "shutting_down" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.unwrap();
    std::fs::write(rig.path("go"), "").unwrap();
    let store = rig.store.clone();
    rig.ended().await;
    let turn = store
        .last_event(&session.id, "turn_ended")
        .unwrap()
        .unwrap();
    assert!(turn.contains("\"completed\""), "{turn}");
    let ended = store.last_event(&session.id, "ended").unwrap();
    assert!(ended.is_some());
}

fn cause_or_ok<T: std::fmt::Debug>(
    result: Result<T, ostler_daemon::client::ClientError>,
) -> String {
    match result {
        Ok(_) => "created".to_owned(),
        result => cause(result),
    }
}
