//! Agents with real guards attack the daemon from an orphan without an environment.

use std::os::unix::fs::PermissionsExt;

use ostler_testkit::fake;

use crate::rig::{Rig, finish};
use crate::serve::{Served, block_on, command, create, events_until};
use crate::serve_options::text;

/// Starts an orphan without an environment, and waits for its attack.
const AGENT: &str = r#"#!/bin/bash
( ( env -i setsid bash $DIR/orphan < /dev/null > /dev/null 2>&1 & ) )
touch $DIR/orphaned
while [ ! -e $DIR/attacked ]; do sleep 0.02; done
exec -a "$0" $FAKE "$@"
"#;

/// Sends requests over the socket, and over TCP with all secrets. `$DIR/statuses` has the answers.
const ORPHAN: &str = r#"
while [ ! -e $DIR/orphaned ]; do sleep 0.02; done
read -r _ _ _ parent _ < /proc/$$/stat
cat /proc/$parent/comm > $DIR/parent
note() { echo "$1 $2" >> $DIR/statuses; }
ask() {
    $FAKE request $SOCKET $2 $3 $DIR/answer
    note $1 "$(cat $DIR/answer)"
}
tcp() {
    exec 9<>/dev/tcp/127.0.0.1/$PORT
    printf '%s HTTP/1.1\r\nHost: 127.0.0.1:$PORT\r\n%s\r\nContent-Length: %s\r\nConnection: close\r\n\r\n%s' \
        "$2" "$3" ${#4} "$4" >&9
    read -r _ status _ <&9
    exec 9>&-
    note $1 $status
}
ask list GET /v1/sessions
ask code GET /v1/approval-code
ask link POST /v1/browser-links
ask approve POST /v1/approvals/0123
ask delete DELETE /v1/sessions/0123
TOKEN="Authorization: Bearer $(cat $DIR/ostler/token)"
tcp tcp-list "GET /v1/sessions" "$TOKEN"
tcp tcp-approve "POST /v1/approvals/0123" "$TOKEN"$'\r\n'"Ostler-Approval-Code: $CODE"
tcp tcp-link "POST /v1/browser-session" \
    $'Content-Type: application/json\r\nOrigin: http://127.0.0.1:$PORT' '{"code":"$LINK"}'
touch $DIR/attacked
"#;

/// The requests of [`ORPHAN`].
const REQUESTS: [&str; 8] = [
    "list",
    "code",
    "link",
    "approve",
    "delete",
    "tcp-list",
    "tcp-approve",
    "tcp-link",
];

/// Starts a daemon that listens on TCP too.
fn serve(rig: &Rig) -> Served {
    Served::start_with(rig, &["--listen", "127.0.0.1:0"])
}

/// Installs the attacker as `claude`, with the secrets of the daemon.
fn install(rig: &Rig, served: &Served) {
    let code = finish(&mut command(rig, &["serve", "--print-code"])).stdout;
    let link = block_on(served.client.browser_link()).unwrap().url;
    let (origin, login) = link.split_once("/#login=").unwrap();
    let port = origin.rsplit_once(':').unwrap().1;
    let fill = |text: &str| {
        text.replace("$DIR", &rig.dir().display().to_string())
            .replace("$FAKE", &fake::program().display().to_string())
            .replace("$SOCKET", &served.client.socket().display().to_string())
            .replace("$PORT", port)
            .replace("$LINK", login)
            .replace("$CODE", code.trim())
    };
    rig.file("orphan", &fill(ORPHAN));
    let agent = rig.file("claude", &fill(AGENT));
    std::fs::set_permissions(agent, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = "read\ninit\ntext hi\nresult hi\nread-until-eof";
    rig.file("claude.script", script);
}

/// Checks that an orphan sent all requests, and that each was refused.
fn check_refused(rig: &Rig) {
    let read = |name| std::fs::read_to_string(rig.path(name)).unwrap();
    assert_eq!(read("parent"), "agent-guard\n", "its guard adopted it");
    let refused: String = REQUESTS.map(|name| format!("{name} 403\n")).concat();
    assert_eq!(read("statuses"), refused);
}

#[test]
fn an_orphan_of_another_run_cannot_control_the_daemon() {
    let rig = Rig::new();
    let served = serve(&rig);
    install(&rig, &served);
    let run = ["run", "--agent=claude", "--output=text", "go"];
    let done = finish(&mut command(&rig, &run));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    check_refused(&rig);
    let metrics = text(&served, "/metrics");
    let counted = "\nostler_requests_denied_total{agent_of=\"other\"} 8\n";
    assert!(metrics.contains(counted), "{metrics}");
    served.stop();
}

// P59: the guard tells whose orphan it is, so the session has a notice of each attempt.
#[test]
fn an_orphan_of_a_session_is_refused_and_reported() {
    let rig = Rig::new();
    let served = serve(&rig);
    install(&rig, &served);
    let session = create(&rig, &served);
    block_on(served.client.result(&session.id, crate::rig::PATIENCE)).unwrap();
    check_refused(&rig);
    block_on(served.client.stop(&session.id)).unwrap();
    let events = block_on(events_until(&served.client, &session.id, "ended"));
    let denied = events.iter().filter(|it| it["code"] == "control_denied");
    let denied: Vec<_> = denied.map(|it| it["message"].as_str().unwrap()).collect();
    assert_eq!(denied.len(), REQUESTS.len(), "{denied:#?}");
    let own = |message: &&str| message.starts_with("A process of this session requested ");
    assert!(denied.iter().all(own), "{denied:#?}");
    served.stop();
}
