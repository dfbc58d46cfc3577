//! Requests from an editor: each gets exactly one response, whatever happens meanwhile, and no
//! message is lost.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::editor::{PermissionAnswer, with_editor};
use super::{HANGS, READS, RawClient, fake_claude, scripted, workspace};
use crate::rig::{PATIENCE, Rig};
use ostler_testkit::processes::{alive, wait_until};

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn prompt(id: u64, session: &str, text: &str) -> String {
    request(
        id,
        "session/prompt",
        &json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]}),
    )
}

/// Returns requests whose responses are about a kilobyte each: half from the server, half from the
/// session.
fn bulk_requests(session: &str, ids: std::ops::Range<u64>) -> impl Iterator<Item = String> {
    let long = "x".repeat(1_000);
    ids.map(move |id| match id % 2 {
        0 => request(id, &format!("session/{long}"), &json!({})),
        _ => request(
            id,
            "session/set_mode",
            &json!({"sessionId": session, "modeId": long}),
        ),
    })
}

impl RawClient {
    /// Writes all lines at once.
    fn send_all(&mut self, lines: impl IntoIterator<Item = String>) {
        let all: String = lines.into_iter().map(|line| line + "\n").collect();
        self.child
            .stdin
            .as_ref()
            .unwrap()
            .write_all(all.as_bytes())
            .unwrap();
    }

    /// Returns all remaining responses, by request id.
    fn responses(&mut self) -> BTreeMap<u64, Vec<Value>> {
        let mut all: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
        for line in self.lines.by_ref() {
            let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if let Some(id) = line["id"].as_u64().filter(|_| line["method"].is_null()) {
                all.entry(id).or_default().push(line);
            }
        }
        all
    }

    fn wait_for_update(&mut self, kind: &str) {
        while self.receive()["params"]["update"]["sessionUpdate"] != kind {}
    }

    fn exit_code(&mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        let mut code = None;
        assert!(wait_until(PATIENCE, || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        }));
        code.unwrap().code()
    }
}

fn check_one_response_each(responses: &BTreeMap<u64, Vec<Value>>, ids: impl Iterator<Item = u64>) {
    for id in ids {
        let got = responses.get(&id).map_or(&[][..], |got| &got[..]);
        assert_eq!(got.len(), 1, "request {id}: {got:?}");
    }
}

/// An editor that closes stdin and reads later gets every response: the program's, the session's,
/// and the running prompt's.
#[test]
fn no_response_is_lost_at_end_of_stdin() {
    let rig = Rig::new();
    let dir = workspace(&rig, "w", HANGS);
    let mut client = RawClient::start(scripted(&rig, &[]));
    let session = client.open(&dir);
    client.send(&prompt(2, &session, "hang"));
    client.wait_for_update("agent_message_chunk");
    client.send_all(bulk_requests(&session, 10..310));
    client.send(&request(310, "authenticate", &json!({"methodId": "agent"})));
    drop(client.child.stdin.take());
    std::thread::sleep(Duration::from_millis(700));
    let responses = client.responses();
    check_one_response_each(&responses, (10..311).chain([2]));
    assert_eq!(responses[&310][0]["result"], json!({}));
    assert_eq!(client.exit_code(), Some(0));
}

/// A cancel gets through however many requests are queued.
#[test]
fn cancel_gets_through_a_full_queue() {
    let rig = Rig::new();
    let dir = workspace(&rig, "w", HANGS);
    let mut client = RawClient::start(scripted(&rig, &[]));
    let session = client.open(&dir);
    client.send(&prompt(2, &session, "hang"));
    client.wait_for_update("agent_message_chunk");
    // All to the session: more responses than it buffers unread, more requests than its queue
    // holds.
    let long = "x".repeat(1_000);
    let params = json!({"sessionId": session, "modeId": long});
    client.send_all((10..510).map(|id| request(id, "session/set_mode", &params)));
    client.send(
        &json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
            .to_string(),
    );
    let mut received = Vec::new();
    while received.last().is_none_or(|line: &Value| line["id"] != 2) {
        received.push(client.receive());
    }
    drop(client.child.stdin.take()); // the response comes from the cancel
    let mut responses = client.responses();
    for line in received {
        if let Some(id) = line["id"].as_u64().filter(|_| line["method"].is_null()) {
            responses.entry(id).or_default().push(line);
        }
    }
    check_one_response_each(&responses, (10..510).chain([2]));
    assert_eq!(
        responses[&2][0]["result"]["stopReason"], "cancelled",
        "{:?}",
        responses[&2]
    );
    assert!(
        responses
            .values()
            .flatten()
            .any(|answer| answer.to_string().contains("too many requests")),
        "the queue never filled up"
    );
}

/// A cancel also cancels a prompt that is still queued.
#[test]
fn cancel_applies_to_the_queued_prompt_before_it() {
    let rig = Rig::new();
    let dir = workspace(&rig, "w", HANGS);
    let mut client = RawClient::start(scripted(&rig, &[]));
    let session = client.open(&dir);
    let params = json!({"sessionId": session, "modeId": "x".repeat(1_000)});
    client.send_all((10..250).map(|id| request(id, "session/set_mode", &params)));
    client.send(&prompt(2, &session, "hang"));
    client.send(
        &json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
            .to_string(),
    );
    // The order of the responses is not fixed: the cancelled prompt need not wait for its turn.
    let mut responses = BTreeMap::<u64, Vec<Value>>::new();
    while responses.len() < 241 {
        let received = client.receive();
        if let Some(id) = received["id"]
            .as_u64()
            .filter(|_| received["method"].is_null())
        {
            responses.entry(id).or_default().push(received);
        }
    }
    check_one_response_each(&responses, (10..250).chain([2]));
    let answer = &responses[&2][0];
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    assert_eq!(client.exit_code(), Some(0));
}

/// Requests to a session that is slow to close are all answered.
#[test]
fn each_request_to_a_closing_session_is_answered_once() {
    let rig = Rig::new();
    let mut client = RawClient::start(fake_claude(
        &rig,
        "pid-file agent\nread-user\ninit\nignore-sigterm\ndelta Hm\nhang",
    ));
    let session = client.open(rig.dir());
    client.prompt(&session);
    let agent = rig.number("agent");
    client.wait_for_update("agent_message_chunk");
    let of = |id: u64, method: &str| {
        request(id, method, &json!({"sessionId": session, "modeId": "plan"}))
    };
    client.send(&of(3, "session/set_mode")); // the agent never answers this
    client.send_all([
        of(4, "session/close"),
        of(5, "session/set_mode"),
        prompt(6, &session, "more"),
        of(7, "session/close"),
    ]);
    let option = json!({"sessionId": session, "configId": "model", "value": "opus"});
    client.send(&request(8, "session/set_config_option", &option));
    let load = json!({"sessionId": session, "cwd": rig.dir(), "mcpServers": []});
    client.send(&request(9, "session/load", &load));
    assert!(wait_until(PATIENCE, || !alive(agent)));
    assert_ne!(client.exit_code(), None);
    let responses = client.responses();
    check_one_response_each(&responses, 2..10);
    assert_eq!(responses[&2][0]["result"]["stopReason"], "cancelled");
    for done in [4, 7] {
        assert_eq!(responses[&done][0]["result"], json!({}));
    }
    for (id, answer) in [3, 5, 6, 8, 9].map(|id| (id, &responses[&id][0])) {
        assert!(answer["error"]["message"].is_string(), "{id}: {answer}");
    }
}

/// Creates a session that is too long to be loaded without the editor reading it.
fn long_session(rig: &Rig, dir: &Path) -> String {
    let (id, _) = with_editor(scripted(rig, &[]), PermissionAnswer::None, async |editor| {
        let session = editor.open(dir).await;
        for _ in 0..30 {
            editor.prompt(&session, "more").await.unwrap();
        }
        session
    });
    id.to_string()
}

/// If a session is closed while it is being loaded, both requests are answered and the id is free
/// again.
#[test]
fn interrupted_load_is_answered() {
    let rig = Rig::new();
    let dir = workspace(
        &rig,
        "w",
        &READS.replace("Again.", &"Again and again. ".repeat(500)),
    );
    let id = long_session(&rig, &dir);
    let load = json!({"sessionId": id, "cwd": dir, "mcpServers": []});
    let mut client = RawClient::start(scripted(&rig, &[]));
    client.send(&request(1, "session/load", &load));
    client.send(&request(2, "session/close", &json!({"sessionId": id})));
    std::thread::sleep(Duration::from_millis(500));
    let mut received = Vec::new();
    while received.len() < 2 {
        received.extend(Some(client.receive()).filter(|line| line["id"].is_u64()));
    }
    assert_eq!(
        (&received[0]["id"], &received[0]["error"]["code"]),
        (&json!(1), &json!(-32600)),
        "{received:?}"
    );
    assert_eq!(
        (&received[1]["id"], &received[1]["result"]),
        (&json!(2), &json!({})),
        "{received:?}"
    );
    client.send(&request(3, "session/load", &load));
    let answer = std::iter::from_fn(|| Some(client.receive()))
        .find(|line| line["id"] == 3)
        .unwrap();
    assert!(answer["result"].is_object(), "{answer}");
    // The same if the program ends.
    client.send(&request(4, "session/close", &json!({"sessionId": id})));
    assert!(std::iter::from_fn(|| Some(client.receive())).any(|line| line["id"] == 4));
    client.send(&request(5, "session/load", &load));
    drop(client.child.stdin.take());
    std::thread::sleep(Duration::from_millis(300));
    check_one_response_each(&client.responses(), 5..6);
}

/// The capabilities are those of the dialect in use, not of the agent's default one.
#[test]
fn capabilities_are_those_of_the_dialect_in_use() {
    let rig = Rig::new();
    let offered = |args: &[&str]| {
        let mut command = rig.ostler(&["acp"]);
        command.args(args);
        let mut client = RawClient::start(command);
        client.send(&request(1, "initialize", &json!({"protocolVersion": 1})));
        let capabilities = client.receive()["result"]["agentCapabilities"].clone();
        assert_eq!(client.exit_code(), Some(0));
        let session = &capabilities["sessionCapabilities"];
        let has = |kind: &str| session[kind].is_object();
        (
            capabilities["loadSession"] == true,
            has("resume"),
            has("additionalDirectories"),
            capabilities["mcpCapabilities"]["http"] == true,
        )
    };
    // Copilot is driven over ACP here, which has no setting for additional directories, unlike its
    // own JSON protocol.
    assert_eq!(offered(&["--agent", "copilot"]), (true, true, false, true));
    // OpenClaw can resume sessions over ACP only.
    assert_eq!(
        offered(&["--agent", "openclaw"]),
        (false, false, false, false)
    );
    assert_eq!(
        offered(&["--agent", "openclaw", "--set", "transport=acp"]),
        (true, true, false, true)
    );
    // A session that requests additional directories starts without them.
    let mut client =
        RawClient::start(rig.ostler(&["acp", "--agent", "copilot", "--program", "/bin/cat"]));
    let server =
        json!({"type": "http", "name": "far", "url": "http://127.0.0.1:9/x", "headers": []});
    let params =
        json!({"cwd": rig.dir(), "mcpServers": [server], "additionalDirectories": ["/tmp"]});
    client.send(&request(1, "session/new", &params));
    let answer = client.receive();
    assert!(answer["result"]["sessionId"].is_string(), "{answer}");
    assert_eq!(client.exit_code(), Some(0));
}

mod slow {
    use super::*;

    /// An editor that never reads cannot keep the program or its agents running.
    #[test]
    fn editor_that_never_reads_does_not_block_the_exit() {
        let rig = Rig::new();
        let mut client = RawClient::start(fake_claude(
            &rig,
            "pid-file agent\nread-user\ninit\ndelta Hm\nhang",
        ));
        let session = client.open(rig.dir());
        client.prompt(&session);
        let agent = rig.number("agent");
        let params = json!({"sessionId": session, "modeId": "x".repeat(1_000)});
        client.send_all((10..510).map(|id| request(id, "session/set_mode", &params)));
        assert_eq!(client.exit_code(), Some(0));
        assert!(!alive(agent));
    }
}
