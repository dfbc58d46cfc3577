//! What an editor is owed: one answer to each request, whatever happens meanwhile, and nothing that it says is lost.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::editor::{Says, edit};
use super::{HANGS, READS, Raw, fake_claude, scripted, workspace};
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

/// Requests that are answered with about a kilobyte each: half by the server, half by the session.
fn many(session: &str, ids: std::ops::Range<u64>) -> impl Iterator<Item = String> {
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

impl Raw {
    /// Says all of it at once.
    fn say_all(&mut self, lines: impl IntoIterator<Item = String>) {
        let all: String = lines.into_iter().map(|line| line + "\n").collect();
        self.child
            .stdin
            .as_ref()
            .unwrap()
            .write_all(all.as_bytes())
            .unwrap();
    }

    /// The answers from here to the end, by the requests that they answer.
    fn answers(&mut self) -> BTreeMap<u64, Vec<Value>> {
        let mut all: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
        for line in self.lines.by_ref() {
            let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if let Some(id) = line["id"].as_u64().filter(|_| line["method"].is_null()) {
                all.entry(id).or_default().push(line);
            }
        }
        all
    }

    fn until_told(&mut self, kind: &str) {
        while self.hear()["params"]["update"]["sessionUpdate"] != kind {}
    }

    fn ended(&mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        let mut code = None;
        assert!(wait_until(PATIENCE, || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        }));
        code.unwrap().code()
    }
}

fn check_once(answers: &BTreeMap<u64, Vec<Value>>, ids: impl Iterator<Item = u64>) {
    for id in ids {
        let got = answers.get(&id).map_or(&[][..], |got| &got[..]);
        assert_eq!(got.len(), 1, "request {id}: {got:?}");
    }
}

/// An editor that has said all it has to say, and reads a little later, gets every answer: those of the program, those of a
/// session, and that of the prompt under way.
#[test]
fn the_end_of_stdin_loses_no_answer() {
    let rig = Rig::new();
    let dir = workspace(&rig, "w", HANGS);
    let mut raw = Raw::start(scripted(&rig, &[]));
    let session = raw.open(&dir);
    raw.say(&prompt(2, &session, "hang"));
    raw.until_told("agent_message_chunk");
    raw.say_all(many(&session, 10..310));
    raw.say(&request(310, "authenticate", &json!({"methodId": "agent"})));
    drop(raw.child.stdin.take());
    std::thread::sleep(Duration::from_millis(700));
    let answers = raw.answers();
    check_once(&answers, (10..311).chain([2]));
    assert_eq!(answers[&310][0]["result"], json!({}));
    assert_eq!(raw.ended(), Some(0));
}

/// However many requests wait, a cancel arrives.
#[test]
fn a_cancel_is_heard_in_a_crowd() {
    let rig = Rig::new();
    let dir = workspace(&rig, "w", HANGS);
    let mut raw = Raw::start(scripted(&rig, &[]));
    let session = raw.open(&dir);
    raw.say(&prompt(2, &session, "hang"));
    raw.until_told("agent_message_chunk");
    // All to the session: more than it answers unread, more than may wait for it.
    let long = "x".repeat(1_000);
    let params = json!({"sessionId": session, "modeId": long});
    raw.say_all((10..510).map(|id| request(id, "session/set_mode", &params)));
    raw.say(
        &json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
            .to_string(),
    );
    let mut heard = Vec::new();
    while heard.last().is_none_or(|line: &Value| line["id"] != 2) {
        heard.push(raw.hear());
    }
    drop(raw.child.stdin.take()); // the answer came of the cancel, not of the end
    let mut answers = raw.answers();
    for line in heard {
        if let Some(id) = line["id"].as_u64().filter(|_| line["method"].is_null()) {
            answers.entry(id).or_default().push(line);
        }
    }
    check_once(&answers, (10..510).chain([2]));
    assert_eq!(
        answers[&2][0]["result"]["stopReason"], "cancelled",
        "{:?}",
        answers[&2]
    );
    assert!(
        answers
            .values()
            .flatten()
            .any(|answer| answer.to_string().contains("too many requests")),
        "it was no crowd"
    );
}

/// A prompt that waits in a crowd is cancelled with it.
#[test]
fn a_cancel_is_for_the_prompt_before_it() {
    let rig = Rig::new();
    let dir = workspace(&rig, "w", HANGS);
    let mut raw = Raw::start(scripted(&rig, &[]));
    let session = raw.open(&dir);
    let params = json!({"sessionId": session, "modeId": "x".repeat(1_000)});
    raw.say_all((10..250).map(|id| request(id, "session/set_mode", &params)));
    raw.say(&prompt(2, &session, "hang"));
    raw.say(
        &json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
            .to_string(),
    );
    let mut seen = Vec::new();
    let answer = loop {
        let heard = raw.hear();
        if heard["id"] == 2 {
            break heard;
        }
        seen.push(heard);
    };
    assert_eq!(
        seen.iter().filter(|heard| heard["id"].is_u64()).count(),
        240
    );
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    assert_eq!(raw.ended(), Some(0));
}

/// While a session is being closed, and it takes its time, nobody waits for an answer in vain.
#[test]
fn each_request_to_a_closing_session_is_answered_once() {
    let rig = Rig::new();
    let mut raw = Raw::start(fake_claude(
        &rig,
        "pid-file agent\nread-user\ninit\nignore-sigterm\ndelta Hm\nhang",
    ));
    let session = raw.open(rig.dir());
    raw.prompt(&session);
    let agent = rig.number("agent");
    raw.until_told("agent_message_chunk");
    let of = |id: u64, method: &str| {
        request(id, method, &json!({"sessionId": session, "modeId": "plan"}))
    };
    raw.say(&of(3, "session/set_mode")); // the agent never answers this
    raw.say_all([
        of(4, "session/close"),
        of(5, "session/set_mode"),
        prompt(6, &session, "more"),
        of(7, "session/close"),
    ]);
    let option = json!({"sessionId": session, "configId": "model", "value": "opus"});
    raw.say(&request(8, "session/set_config_option", &option));
    let load = json!({"sessionId": session, "cwd": rig.dir(), "mcpServers": []});
    raw.say(&request(9, "session/load", &load));
    assert!(wait_until(PATIENCE, || !alive(agent)));
    assert_ne!(raw.ended(), None);
    let answers = raw.answers();
    check_once(&answers, 2..10);
    assert_eq!(answers[&2][0]["result"]["stopReason"], "cancelled");
    for done in [4, 7] {
        assert_eq!(answers[&done][0]["result"], json!({}));
    }
    for (id, answer) in [3, 5, 6, 8, 9].map(|id| (id, &answers[&id][0])) {
        assert!(answer["error"]["message"].is_string(), "{id}: {answer}");
    }
}

/// A session with so much in it that an editor that does not read it is in its middle.
fn long_session(rig: &Rig, dir: &Path) -> String {
    let (id, _) = edit(scripted(rig, &[]), Says::Nothing, async |editor| {
        let session = editor.open(dir).await;
        for _ in 0..30 {
            editor.prompt(&session, "more").await.unwrap();
        }
        session
    });
    id.to_string()
}

/// A session that is closed while it is being loaded: both are answered. Then its name is free.
#[test]
fn a_load_that_is_cut_short_is_answered() {
    let rig = Rig::new();
    let dir = workspace(
        &rig,
        "w",
        &READS.replace("Again.", &"Again and again. ".repeat(500)),
    );
    let id = long_session(&rig, &dir);
    let load = json!({"sessionId": id, "cwd": dir, "mcpServers": []});
    let mut raw = Raw::start(scripted(&rig, &[]));
    raw.say(&request(1, "session/load", &load));
    raw.say(&request(2, "session/close", &json!({"sessionId": id})));
    std::thread::sleep(Duration::from_millis(500));
    let mut heard = Vec::new();
    while heard.len() < 2 {
        heard.extend(Some(raw.hear()).filter(|line| line["id"].is_u64()));
    }
    assert_eq!(
        (&heard[0]["id"], &heard[0]["error"]["code"]),
        (&json!(1), &json!(-32600)),
        "{heard:?}"
    );
    assert_eq!(
        (&heard[1]["id"], &heard[1]["result"]),
        (&json!(2), &json!({})),
        "{heard:?}"
    );
    raw.say(&request(3, "session/load", &load));
    let answer = std::iter::from_fn(|| Some(raw.hear()))
        .find(|line| line["id"] == 3)
        .unwrap();
    assert!(answer["result"].is_object(), "{answer}");
    // The same when it is the program that ends.
    raw.say(&request(4, "session/close", &json!({"sessionId": id})));
    assert!(std::iter::from_fn(|| Some(raw.hear())).any(|line| line["id"] == 4));
    raw.say(&request(5, "session/load", &load));
    drop(raw.child.stdin.take());
    std::thread::sleep(Duration::from_millis(300));
    check_once(&raw.answers(), 5..6);
}

/// What is offered is what the agent has in the language that is spoken with it, not in its usual one.
#[test]
fn capabilities_are_those_of_the_language_in_use() {
    let rig = Rig::new();
    let offered = |args: &[&str]| {
        let mut command = rig.ostler(&["acp"]);
        command.args(args);
        let mut raw = Raw::start(command);
        raw.say(&request(1, "initialize", &json!({"protocolVersion": 1})));
        let able = raw.hear()["result"]["agentCapabilities"].clone();
        assert_eq!(raw.ended(), Some(0));
        let session = &able["sessionCapabilities"];
        let has = |kind: &str| session[kind].is_object();
        (
            able["loadSession"] == true,
            has("resume"),
            has("additionalDirectories"),
            able["mcpCapabilities"]["http"] == true,
        )
    };
    // Copilot is spoken to in ACP here, which has no setting for further directories, though Copilot's own JSON has.
    assert_eq!(offered(&["--agent", "copilot"]), (true, true, false, true));
    // OpenClaw goes on with nothing, but in ACP it does.
    assert_eq!(
        offered(&["--agent", "openclaw"]),
        (false, false, false, false)
    );
    assert_eq!(
        offered(&["--agent", "openclaw", "--set", "transport=acp"]),
        (true, true, false, true)
    );
    // So a session that wants further directories begins without them.
    let mut raw = Raw::start(rig.ostler(&["acp", "--agent", "copilot", "--program", "/bin/cat"]));
    let server =
        json!({"type": "http", "name": "far", "url": "http://127.0.0.1:9/x", "headers": []});
    let params =
        json!({"cwd": rig.dir(), "mcpServers": [server], "additionalDirectories": ["/tmp"]});
    raw.say(&request(1, "session/new", &params));
    let answer = raw.hear();
    assert!(answer["result"]["sessionId"].is_string(), "{answer}");
    assert_eq!(raw.ended(), Some(0));
}

mod slow {
    use super::*;

    /// An editor that does not read at all cannot keep the program, nor its agents.
    #[test]
    fn nobody_waits_for_ever_for_an_editor_that_does_not_read() {
        let rig = Rig::new();
        let mut raw = Raw::start(fake_claude(
            &rig,
            "pid-file agent\nread-user\ninit\ndelta Hm\nhang",
        ));
        let session = raw.open(rig.dir());
        raw.prompt(&session);
        let agent = rig.number("agent");
        let params = json!({"sessionId": session, "modeId": "x".repeat(1_000)});
        raw.say_all((10..510).map(|id| request(id, "session/set_mode", &params)));
        assert_eq!(raw.ended(), Some(0));
        assert!(!alive(agent));
    }
}
