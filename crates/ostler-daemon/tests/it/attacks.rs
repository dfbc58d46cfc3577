//! An agent attacks the daemon that runs it. It runs as the same user and knows the socket.

use crate::rig::{ECHO, Rig, of_type};

/// Sends requests from inside a session, in ways that hide where they come from.
const ATTACK: &str = r#"
ask() { "$FAKE" request "$SOCKET" "$@"; }
ME=$OSTLER_SESSION
ask GET /v1/sessions/$ME $DIR/own
ask GET /v1/sessions/$OTHER $DIR/other
ask GET /v1/sessions $DIR/list
ask GET /v1/events $DIR/all
ask GET /v1/approvals $DIR/approvals
ask GET /v1/search?q=a $DIR/search
ask POST /v1/sessions $DIR/create
ask POST /v1/sessions/$ME/messages $DIR/send
ask POST /v1/sessions/$ME/stop $DIR/stop
ask POST /v1/approvals/0123 $DIR/approve
ask DELETE /v1/sessions/$ME $DIR/delete
# Without the mark, in another session, and with a parent that has exited.
env -i setsid "$FAKE" request "$SOCKET" POST /v1/approvals/0123 $DIR/envless
( ( env -i setsid "$FAKE" request "$SOCKET" POST /v1/approvals/0123 $DIR/orphan & ) & )
# With the mark of another session.
OSTLER_SESSION=$OTHER "$FAKE" request "$SOCKET" GET /v1/sessions/$OTHER $DIR/forged
OSTLER_SESSION=$OTHER "$FAKE" request "$SOCKET" POST /v1/approvals/0123 $DIR/forged-approve
"#;

const TALK: &str = "read\ninit\ntext hi\nresult hi\nread-until-eof";

// P59
#[tokio::test]
async fn an_agent_cannot_control_its_daemon() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let other = rig.create("echo").await;
    let attack = ATTACK.replace("$OTHER", &other.id);
    rig.shell_agent("attacker", &attack, TALK);
    let session = rig.create("attacker").await;
    rig.events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;

    assert_eq!(rig.file("own").await, "200", "it may read its own session");
    for name in [
        "other",
        "list",
        "all",
        "approvals",
        "search",
        "create",
        "send",
        "stop",
        "approve",
        "delete",
        "envless",
        "orphan",
        "forged",
        "forged-approve",
    ] {
        assert_eq!(rig.file(name).await, "403", "{name}");
    }

    rig.client.stop(&session.id).await.unwrap();
    let events = rig.all_events(&session.id).await;
    let notices = of_type(&events, "notice");
    let denied = notices
        .iter()
        .filter(|event| event["code"] == "control_denied");
    assert!(denied.count() >= 10, "{notices:#?}");
    let stopped = rig.client.session(&other.id).await.unwrap();
    assert_eq!(stopped.status, "RUNNING", "the other session is unharmed");
}
