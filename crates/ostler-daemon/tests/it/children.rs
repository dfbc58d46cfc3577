//! Sessions that an agent starts from inside its own session.

use ostler_daemon::ManagerOptions;
use ostler_daemon::api::{CreateSession, SessionView};
use serde_json::Value;

use crate::rig::{Rig, of_type};

const TALK: &str = "read\ninit\ntext hi\nresult hi\nread-until-eof";

/// Requests of a parent. A child only talks.
const PARENT: &str = r#"
ask() { "$FAKE" request "$SOCKET" "$@"; }
id() { grep -o '"id":"[^"]*"' $DIR/$1 | head -1 | cut -d'"' -f4; }
if [ -z "$OSTLER_LABEL_PARENT" ]; then
ME=$OSTLER_SESSION
ask POST /v1/sessions/$ME/report $DIR/report '{"text":"half done","level":"warning"}'
ask POST /v1/sessions/$OTHER/report $DIR/report-other '{"text":"x"}'
ask POST /v1/sessions/$ME/report $DIR/report-empty '{"text":" "}'
ask POST /v1/sessions $DIR/one '{"dir":"$DIR/work/sub","prompt":"go","labels":{"team":"a"}}'
ask POST /v1/sessions $DIR/two '{"dir":"$DIR/work","prompt":"go"}'
ONE=$(id one) TWO=$(id two)
ask GET /v1/sessions/$ONE $DIR/read-child
ask GET /v1/sessions/$ONE/result $DIR/result-child
ask GET /v1/sessions/${ONE%???} $DIR/prefix-child
ask POST /v1/sessions/$ONE/messages $DIR/send-child '{"text":"x"}'
ask POST /v1/sessions/$ONE/restart $DIR/restart-child
ask DELETE /v1/sessions/$ONE $DIR/delete-child
ask POST /v1/sessions/$OTHER/stop $DIR/stop-other
ask POST /v1/sessions/$ME/stop $DIR/stop-own
ask POST /v1/sessions/$TWO/stop $DIR/stop-child
ask POST /v1/sessions $DIR/outside '{"dir":"$DIR","prompt":"go"}'
ask POST /v1/sessions $DIR/link '{"dir":"$DIR/work/link","prompt":"go"}'
ask POST /v1/sessions $DIR/dots '{"dir":"$DIR/work/../","prompt":"go"}'
ask POST /v1/sessions $DIR/permissions '{"dir":"$DIR/work","permissions":"all"}'
ask POST /v1/sessions $DIR/settings '{"dir":"$DIR/work","settings":{"permission_mode":"plan"}}'
ask POST /v1/sessions $DIR/resume '{"dir":"$DIR/work","resume":"$OTHER"}'
ask POST /v1/sessions $DIR/agent '{"dir":"$DIR/work","agent":"codex"}'
fi
"#;

async fn parent(rig: &Rig, lines: &str, request: CreateSession) -> SessionView {
    let dir = rig.dir.path().display().to_string();
    // Inside of single quotes, the shell replaces nothing.
    rig.shell_agent("parent", &lines.replace("$DIR", &dir), TALK);
    rig.client.create(&request).await.unwrap()
}

fn attended(rig: &Rig, attended: bool) -> CreateSession {
    CreateSession {
        attended: Some(attended),
        ..rig.request("parent")
    }
}

#[tokio::test]
async fn an_agent_starts_children_within_its_own_limits() {
    let rig = Rig::new().await;
    std::fs::create_dir(rig.path("work/sub")).unwrap();
    std::os::unix::fs::symlink("/", rig.path("work/link")).unwrap();
    rig.agent("echo", crate::rig::ECHO);
    let other = rig.create("echo").await;
    let lines = PARENT.replace("$OTHER", &other.id);
    let session = parent(&rig, &lines, attended(&rig, false)).await;
    rig.events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;
    for (name, status) in [
        ("report", "202"),
        ("report-other", "403"),
        ("report-empty", "400"),
        ("one", "201"),
        ("two", "201"),
        ("read-child", "200"),
        ("prefix-child", "403"),
        ("send-child", "403"),
        ("restart-child", "403"),
        ("delete-child", "403"),
        ("stop-other", "403"),
        ("stop-own", "403"),
        ("stop-child", "202"),
        ("outside", "403"),
        ("link", "403"),
        ("dots", "403"),
        ("permissions", "403"),
        ("settings", "403"),
        ("resume", "403"),
        ("agent", "403"),
    ] {
        let answer = rig.file(name).await;
        assert!(answer.starts_with(status), "{name}: {answer}");
    }
    let result = rig.file("result-child").await;
    assert!(result == "200" || result == "202", "{result}");

    let created: SessionView = serde_json::from_str(&rig.file("one").await[4..]).unwrap();
    let child = rig.client.session(&created.id).await.unwrap();
    assert_eq!(child.parent.as_deref(), Some(session.id.as_str()));
    assert_eq!(child.labels["parent"], session.id);
    let path = format!("GET /v1/sessions?all=true&parent={}", session.id);
    let children = rig.tcp(&path, &[], "").await.body();
    let children = children["sessions"].as_array().unwrap();
    assert!(children.len() >= 2 && children.iter().all(|it| it["parent"] == *session.id));
    assert_eq!(child.labels["team"], "a");
    assert_eq!(child.dir, rig.path("work/sub").canonicalize().unwrap());
    // The same permissions, and no one who could be asked for more.
    let stored = |id: &str| rig.store.managed(id).unwrap().unwrap();
    let mut grants = [&session.id, &child.id].map(|id| {
        let granted: Value = serde_json::from_str(&stored(id).granted).unwrap();
        granted
    });
    grants
        .iter_mut()
        .for_each(|granted| granted["limits"] = Value::Null);
    assert_eq!(grants[0], grants[1]);
    assert!(stored(&child.id).request.contains(r#""attended":false"#));
    let stopped: SessionView = serde_json::from_str(&rig.file("two").await[4..]).unwrap();
    rig.wait_for_end(&stopped.id).await;
    let view = rig.client.session(&child.id).await.unwrap();
    assert!(view.outcome.is_none(), "the other child still runs");

    // The parent's end is that of its children.
    rig.client.stop(&session.id).await.unwrap();
    let ended = rig.wait_for_end(&child.id).await;
    assert_eq!(ended.status, "STOPPED");
    let events = rig.all_events(&session.id).await;
    let reports: Vec<&Value> = of_type(&events, "notice");
    let reports = reports
        .iter()
        .filter(|event| event["code"] == "agent_report");
    let reports: Vec<_> = reports
        .map(|event| (&event["message"], &event["level"]))
        .collect();
    assert_eq!(
        reports,
        [(&Value::from("half done"), &Value::from("warning"))]
    );
    let notices = of_type(&events, "notice").into_iter();
    let denied = notices.filter(|event| event["code"] == "control_denied");
    assert_eq!(denied.count(), 14, "every refusal is reported");
    let view = rig.client.session(&other.id).await.unwrap();
    assert!(view.outcome.is_none(), "a session of the user still runs");
}

/// Every session starts one more.
const NESTED: &str = r#"
"$FAKE" request "$SOCKET" POST /v1/sessions $DIR/level.$OSTLER_SESSION '{"dir":"$DIR/work","prompt":"go"}'
"#;

#[tokio::test]
async fn children_are_nested_three_deep_at_most() {
    let rig = Rig::new().await;
    let mut at = parent(&rig, NESTED, rig.request("parent")).await.id;
    for _ in 0..3 {
        let answer = rig.file(&format!("level.{at}")).await;
        assert!(answer.starts_with("201 "), "{answer}");
        at = serde_json::from_str::<SessionView>(&answer[4..])
            .unwrap()
            .id;
    }
    let answer = rig.file(&format!("level.{at}")).await;
    assert!(answer.starts_with("409 "), "{answer}");
}

const MANY: &str = r#"
if [ -z "$OSTLER_LABEL_PARENT" ]; then
for n in $(seq 17); do
    "$FAKE" request "$SOCKET" POST /v1/sessions $DIR/many.$n '{"dir":"$DIR/work"}'
done
fi
"#;

#[tokio::test]
async fn an_agent_starts_sixteen_children_at_most() {
    let rig = Rig::with(ManagerOptions::default()).await;
    parent(&rig, MANY, rig.request("parent")).await;
    let last = rig.file("many.17").await;
    assert!(last.starts_with("409 "), "{last}");
    for n in 1..=16 {
        assert!(
            rig.file(&format!("many.{n}")).await.starts_with("201 "),
            "{n}"
        );
    }
}

const SPENDING: &str = r#"
if [ -z "$OSTLER_LABEL_PARENT" ]; then
child() { "$FAKE" request "$SOCKET" POST /v1/sessions $DIR/$1 "{\"dir\":\"$DIR/work\",\"limits\":{\"max_tokens\":$2}}"; }
child first 900
child second 500
child third 1
fi
"#;

/// Children play another script than their parent, which is in its turn meanwhile.
const CHARGED: &str = r#"
if [ -n "$OSTLER_LABEL_PARENT" ]; then exec -a "$DIR/child" "$FAKE" "$@"; fi
child() { "$FAKE" request "$SOCKET" POST /v1/sessions $DIR/$1 '{"dir":"$DIR/work","prompt":"go","limits":{"max_tokens":150}}'; }
child first
child second
"#;

// Each child uses 143 tokens, which its parent may not use any more.
#[tokio::test]
async fn what_children_use_is_charged_to_their_parent() {
    let rig = Rig::new().await;
    let dir = rig.dir.path().display().to_string();
    let request = CreateSession {
        limits: [("max_tokens".to_owned(), 250.into())].into(),
        ..rig.request("parent")
    };
    let waits = "read\ninit\ntext wait\nanswer-interrupt\nread-until-eof";
    rig.shell_agent("parent", &CHARGED.replace("$DIR", &dir), waits);
    std::fs::write(rig.path("child.script"), TALK).unwrap();
    let session = rig.client.create(&request).await.unwrap();
    for name in ["first", "second"] {
        let answer = rig.file(name).await;
        assert!(answer.starts_with("201 "), "{name}: {answer}");
    }
    let events = rig.all_events(&session.id).await;
    let turn = of_type(&events, "turn_ended").remove(0);
    assert_eq!(turn["outcome"]["cause"], "budget", "{turn}");
    let message = turn["outcome"]["message"].as_str().unwrap();
    assert!(message.contains("its children have used"), "{message}");
    let near = |event: &Value| event["code"] == "budget_near";
    assert!(events.iter().any(near), "{events:#?}");
}

// What one child may use is not available to the next.
#[tokio::test]
async fn children_share_what_their_parent_has_left() {
    let rig = Rig::new().await;
    let request = CreateSession {
        limits: [("max_tokens".to_owned(), 1_000.into())].into(),
        ..rig.request("parent")
    };
    parent(&rig, SPENDING, request).await;
    let third = rig.file("third").await;
    assert!(
        third.starts_with("409 ") && third.contains("used up"),
        "{third}"
    );
    for (name, tokens) in [("first", 900), ("second", 100)] {
        let answer = rig.file(name).await;
        let id = serde_json::from_str::<SessionView>(&answer[4..])
            .unwrap()
            .id;
        let granted = rig.store.managed(&id).unwrap().unwrap().granted;
        let granted: Value = serde_json::from_str(&granted).unwrap();
        assert_eq!(granted["limits"]["budget_tokens"], tokens, "{name}");
    }
}
