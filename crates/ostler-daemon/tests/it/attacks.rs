//! An agent attacks the daemon that runs it. It runs as the same user and knows the socket, the
//! token, and even secrets that it could not have.

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
ask POST /v1/sessions/$ME/messages $DIR/send
ask POST /v1/sessions/$ME/stop $DIR/stop
ask POST /v1/approvals/0123 $DIR/approve
ask DELETE /v1/sessions/$ME $DIR/delete
# Without the mark, in another session, and with a parent that has exited.
env -i setsid "$FAKE" request "$SOCKET" POST /v1/approvals/0123 $DIR/envless
( ( env -i setsid bash -c "while [ ! -e $DIR/orphaned ]; do sleep 0.02; done
    $FAKE request $SOCKET POST /v1/approvals/0123 $DIR/orphan" & ) )
# As an orphan that has a mark.
( ( setsid bash -c "while [ ! -e $DIR/orphaned ]; do sleep 0.02; done
    $FAKE request $SOCKET GET /v1/sessions $DIR/marked" & ) )
touch $DIR/orphaned
# With the mark of another session.
OSTLER_SESSION=$OTHER "$FAKE" request "$SOCKET" GET /v1/sessions/$OTHER $DIR/forged
OSTLER_SESSION=$OTHER "$FAKE" request "$SOCKET" POST /v1/approvals/0123 $DIR/forged-approve
# Over TCP, with the token, the approval code or the link of a browser.
tcp() {
    local file=$1 start=$2 more=$3 body=$4
    exec 9<>/dev/tcp/127.0.0.1/$PORT
    printf '%s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\n%sContent-Length: %s\r\nConnection: close\r\n\r\n%s' \
        "$start" $PORT "$more" ${#body} "$body" >&9
    read -r _ status _ <&9
    exec 9>&-
    printf %s "$status" > $DIR/$file.new
    mv $DIR/$file.new $DIR/$file
}
TOKEN=$(printf 'Authorization: Bearer %s\r\n_' "$(cat $DIR/run/token)")
TOKEN=${TOKEN%_}
CODE=$(printf 'Ostler-Approval-Code: $THE_CODE\r\n_')
CODE=${CODE%_}
JSON=$(printf 'Content-Type: application/json\r\nOrigin: http://127.0.0.1:%s\r\n_' $PORT)
JSON=${JSON%_}
tcp tcp-list "GET /v1/sessions" "$TOKEN"
tcp tcp-other "GET /v1/sessions/$OTHER" "$TOKEN"
tcp tcp-approve "POST /v1/approvals/0123" "$TOKEN"
tcp tcp-code "POST /v1/approvals/0123" "$TOKEN$CODE"
tcp tcp-link "POST /v1/browser-session" "$JSON" '{"code":"$LINK"}'
tcp tcp-own "GET /v1/sessions/$ME" ""
"#;

const TALK: &str = "read\ninit\ntext hi\nresult hi\nread-until-eof";

// P59
#[tokio::test]
async fn an_agent_cannot_control_its_daemon() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let other = rig.create("echo").await;
    // The link of another browser, which is still valid.
    let link = rig.client.browser_link().await.unwrap();
    let (_, link) = link.url.split_once("#login=").unwrap();
    let attack = ATTACK
        .replace("$OTHER", &other.id)
        .replace("$PORT", &rig.port.to_string())
        .replace("$THE_CODE", &rig.code)
        .replace("$LINK", link);
    rig.shell_agent("attacker", &attack, TALK);
    let session = rig.create("attacker").await;
    rig.events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;

    for own in ["own", "tcp-own"] {
        assert_eq!(rig.file(own).await, "200", "it may read its own session");
    }
    for name in [
        "other",
        "list",
        "all",
        "approvals",
        "search",
        "send",
        "stop",
        "approve",
        "delete",
        "envless",
        "orphan",
        "marked",
        "forged",
        "forged-approve",
        "tcp-list",
        "tcp-other",
        "tcp-approve",
        "tcp-code",
        "tcp-link",
    ] {
        assert_eq!(rig.file(name).await, "403", "{name}");
    }

    rig.client.stop(&session.id).await.unwrap();
    let events = rig.all_events(&session.id).await;
    let notices = of_type(&events, "notice");
    let denied = notices
        .iter()
        .filter(|event| event["code"] == "control_denied");
    // All but the orphan without a mark, which could belong to any session.
    assert_eq!(denied.count(), 18, "{notices:#?}");
    let claimed = |event: &&serde_json::Value| {
        event["message"]
            .as_str()
            .unwrap()
            .starts_with("An orphaned process")
    };
    assert!(
        notices.iter().copied().any(|event| claimed(&event)),
        "{notices:#?}"
    );
    let metrics = rig.tcp("GET /metrics", &[], "").await.0;
    let counted = metrics.contains("\nostler_requests_denied_total{agent_of=\"daemon\"} 18\n");
    assert!(counted, "{metrics}");
    // The link was not used up.
    let headers = [
        format!("Host: 127.0.0.1:{}", rig.port),
        format!("Origin: http://127.0.0.1:{}", rig.port),
        "Content-Type: application/json".to_owned(),
    ];
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let body = format!("{{\"code\":\"{link}\"}}");
    let login = rig.raw("POST /v1/browser-session", &headers, &body).await;
    assert_eq!(login.status(), 200, "{}", login.0);
    let stopped = rig.client.session(&other.id).await.unwrap();
    assert_eq!(stopped.status, "RUNNING", "the other session is unharmed");
}
