//! `ostler acp` as an editor sees it: the Agent Client Protocol over pipes, driven by the official
//! client.

pub(crate) mod editor;
pub(crate) mod protocol_checker;
mod responses;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use agent_client_protocol::v1::schema as acp;
use ostler_testkit::fake;
use ostler_testkit::processes::{alive, wait_until};
use serde_json::{Value, json};

use self::editor::{PermissionAnswer, with_editor};
use crate::rig::{PATIENCE, Rig, signal};

/// Creates a directory in which the scripted agent plays this script.
fn workspace(rig: &Rig, name: &str, script: &str) -> PathBuf {
    let dir = rig.path(name);
    std::fs::create_dir_all(dir.join(".ostler")).unwrap();
    std::fs::write(dir.join(".ostler/script.toml"), script).unwrap();
    dir.canonicalize().unwrap()
}

fn scripted(rig: &Rig, args: &[&str]) -> Command {
    let mut command = rig.ostler(&["acp", "--agent", "scripted", "--trust-project"]);
    command.args(args);
    command
}

/// A script that thinks, writes text, reads a file, and reports it.
const READS: &str = r#"
[[reply]]
when = { prompt = "go" }
thinking = "Hm."
text = "Let me see. "
calls = [{ tool = "read_file", input = { path = "a.txt" } }]
usage = { input = 10, output = 5, cached = 3 }

[[reply]]
when = { result_of = "read_file" }
text = "It is all there."
usage = { input = 10, output = 5, cached = 3 }

[[reply]]
repeat = true
text = "Again."
"#;

#[test]
fn a_prompt_is_answered_piece_by_piece() {
    let rig = Rig::new();
    let dir = workspace(&rig, "w", READS);
    std::fs::write(dir.join("a.txt"), "forty-two\n").unwrap();
    let ((), code) = with_editor(
        scripted(&rig, &[]),
        PermissionAnswer::None,
        async |editor| {
            let info = serde_json::to_value(&editor.initialized).unwrap();
            assert_eq!(
                (&info["protocolVersion"], &info["agentInfo"]["name"]),
                (&json!(1), &json!("ostler-scripted"))
            );
            assert_eq!(info["agentCapabilities"]["loadSession"], true);
            assert_eq!(
                info["agentCapabilities"]["promptCapabilities"]["embeddedContext"],
                true
            );
            let session = editor.open(&dir).await;
            let answer =
                serde_json::to_value(editor.prompt(&session, "go").await.unwrap()).unwrap();
            assert_eq!(answer["stopReason"], "end_turn");
            assert_eq!(
                (
                    &answer["usage"]["totalTokens"],
                    &answer["usage"]["cachedReadTokens"]
                ),
                (&json!(36), &json!(6))
            );
            let kinds = [
                "agent_thought_chunk",
                "agent_message_chunk",
                "tool_call",
                "tool_call_update",
                "agent_message_chunk",
            ];
            assert_eq!(editor.update_kinds(&session), kinds);
            assert_eq!(editor.text(&session, "agent_thought_chunk"), "Hm.");
            assert_eq!(
                editor.text(&session, "agent_message_chunk"),
                "Let me see. It is all there."
            );
            let updates = editor.updates(&session);
            let of = |kind: &str| {
                updates
                    .iter()
                    .find(|update| update["sessionUpdate"] == kind)
                    .unwrap()
            };
            let call = of("tool_call");
            assert_eq!(
                (&call["kind"], &call["title"]),
                (&json!("read"), &json!("read_file a.txt"))
            );
            assert_eq!(call["locations"], json!([{"path": dir.join("a.txt")}]));
            assert_eq!(call["rawInput"], json!({"path": "a.txt"}));
            let done = of("tool_call_update");
            assert_eq!(
                (&done["status"], &done["toolCallId"]),
                (&json!("completed"), &call["toolCallId"])
            );
            assert!(
                done["content"][0]["content"]["text"]
                    .as_str()
                    .unwrap()
                    .contains("forty-two"),
                "{done}"
            );
            // The session continues.
            editor.prompt(&session, "more").await.unwrap();
            assert!(
                editor
                    .text(&session, "agent_message_chunk")
                    .ends_with("Again.")
            );
        },
    );
    assert_eq!(code, Some(0));
}

// Issue 14, break 1: an editor's session does not play the script of an untrusted directory.
#[test]
fn untrusted_script_is_not_played() {
    let rig = Rig::new();
    let dir = workspace(&rig, "w", READS);
    let ((), code) = with_editor(
        rig.ostler(&["acp", "--agent", "scripted"]),
        PermissionAnswer::None,
        async |editor| {
            let session = editor.open(&dir).await;
            editor.prompt(&session, "go").await.unwrap();
            let text = editor.text(&session, "agent_message_chunk");
            assert!(!text.is_empty() && !text.contains("Let me see. "), "{text}");
        },
    );
    assert_eq!(code, Some(0));
}

const WRITES: &str = r#"
[[reply]]
when = { prompt = "write" }
calls = [{ tool = "write_file", input = { path = "made.txt", content = "made\n" } }]

[[reply]]
when = { result_of = "write_file" }
text = "So be it."
"#;

/// Runs `WRITES` and returns the permission request, the call's final update, and whether the file
/// exists.
fn run_with_answer(answer: PermissionAnswer) -> (Value, Value, bool) {
    let rig = Rig::new();
    let dir = workspace(&rig, "w", WRITES);
    let (seen, code) = with_editor(
        scripted(&rig, &["--permissions", "ask"]),
        answer,
        async |editor| {
            let session = editor.open(&dir).await;
            let answer = editor.prompt(&session, "write").await.unwrap();
            assert_eq!(answer.stop_reason, acp::StopReason::EndTurn);
            let [question] = &editor.permission_requests()[..] else {
                panic!("one permission request was expected")
            };
            assert_eq!(question.session_id, session);
            let updates = editor.updates(&session);
            let done = updates
                .iter()
                .rfind(|update| update["sessionUpdate"] == "tool_call_update")
                .unwrap();
            (serde_json::to_value(question).unwrap(), done.clone())
        },
    );
    assert_eq!(code, Some(0));
    (seen.0, seen.1, dir.join("made.txt").exists())
}

#[test]
fn allowed_call_runs() {
    let (question, done, is_created) = run_with_answer(PermissionAnswer::Allow);
    let kinds: Vec<_> = question["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| &option["kind"])
        .collect();
    assert_eq!(kinds, ["allow_once", "allow_always", "reject_once"]);
    let call = &question["toolCall"];
    assert_eq!(
        (&call["kind"], &call["content"][0]["type"]),
        (&json!("edit"), &json!("diff"))
    );
    assert_eq!(call["content"][0]["newText"], "made\n");
    assert_eq!(
        (&done["status"], &done["toolCallId"]),
        (&json!("completed"), &call["toolCallId"])
    );
    assert!(is_created);
    assert!(run_with_answer(PermissionAnswer::Always).2);
}

#[test]
fn rejected_call_does_not_run() {
    let (_, done, is_created) = run_with_answer(PermissionAnswer::Reject);
    assert_eq!(done["status"], "failed");
    assert!(!is_created);
}

const HANGS: &str = r#"
[[reply]]
when = { prompt = "hang" }
text = "Working on it."
hang = true

[[reply]]
repeat = true
text = "Here I am."
"#;

#[test]
fn session_continues_after_a_cancelled_turn() {
    let rig = Rig::new();
    let dir = workspace(&rig, "w", HANGS);
    with_editor(
        scripted(&rig, &[]),
        PermissionAnswer::None,
        async |editor| {
            let session = editor.open(&dir).await;
            let cancel = async {
                editor
                    .wait_for_update(&session, |update| {
                        update["sessionUpdate"] == "agent_message_chunk"
                    })
                    .await;
                let second = editor.prompt(&session, "too early").await.unwrap_err();
                assert_eq!(i32::from(second.code), -32600, "{second}");
                editor.cancel(&session);
            };
            let (answer, ()) = tokio::join!(editor.prompt(&session, "hang"), cancel);
            assert_eq!(answer.unwrap().stop_reason, acp::StopReason::Cancelled);
            // Cancelled immediately, before the turn has started.
            let one_retry = editor.prompt(&session, "more");
            editor.cancel(&session);
            let _ = one_retry.await;
            assert_eq!(
                editor.prompt(&session, "more").await.unwrap().stop_reason,
                acp::StopReason::EndTurn
            );
            assert!(
                editor
                    .text(&session, "agent_message_chunk")
                    .ends_with("Here I am.")
            );
        },
    );
}

/// An open permission request is withdrawn when its turn is cancelled.
#[test]
fn open_permission_request_does_not_block_a_cancel() {
    let rig = Rig::new();
    let dir = workspace(&rig, "w", WRITES);
    with_editor(
        scripted(&rig, &["--permissions", "ask"]),
        PermissionAnswer::None,
        async |editor| {
            let session = editor.open(&dir).await;
            let cancel = async {
                editor
                    .wait_for_update(&session, |update| update["sessionUpdate"] == "tool_call")
                    .await;
                while editor.permission_requests().is_empty() {
                    tokio::task::yield_now().await;
                }
                editor.cancel(&session);
            };
            let (answer, ()) = tokio::join!(editor.prompt(&session, "write"), cancel);
            assert_eq!(answer.unwrap().stop_reason, acp::StopReason::Cancelled);
        },
    );
    assert!(!dir.join("made.txt").exists());
}

#[test]
fn concurrent_sessions_run_in_their_own_directories() {
    let rig = Rig::new();
    let (one, two) = (workspace(&rig, "one", HANGS), workspace(&rig, "two", READS));
    std::fs::write(two.join("a.txt"), "two\n").unwrap();
    with_editor(
        scripted(&rig, &[]),
        PermissionAnswer::None,
        async |editor| {
            let (first, second) = (editor.open(&one).await, editor.open(&two).await);
            assert_ne!(first, second);
            let meanwhile = async {
                editor
                    .wait_for_update(&first, |update| {
                        update["sessionUpdate"] == "agent_message_chunk"
                    })
                    .await;
                assert_eq!(
                    editor.prompt(&second, "go").await.unwrap().stop_reason,
                    acp::StopReason::EndTurn
                );
                editor.cancel(&first);
            };
            let (answer, ()) = tokio::join!(editor.prompt(&first, "hang"), meanwhile);
            assert_eq!(answer.unwrap().stop_reason, acp::StopReason::Cancelled);
            assert_eq!(editor.text(&first, "agent_message_chunk"), "Working on it.");
            assert_eq!(
                editor.text(&second, "agent_message_chunk"),
                "Let me see. It is all there."
            );
            let closed = editor
                .to
                .send_request(acp::CloseSessionRequest::new(first.clone()))
                .block_task()
                .await;
            closed.unwrap();
            let gone = editor.prompt(&first, "more").await.unwrap_err();
            assert_eq!(i32::from(gone.code), -32002, "{gone}");
        },
    );
}

#[test]
fn loaded_session_replays_its_history_and_continues() {
    let rig = Rig::new();
    let dir = workspace(&rig, "w", READS);
    std::fs::write(dir.join("a.txt"), "x\n").unwrap();
    let (id, _) = with_editor(
        scripted(&rig, &[]),
        PermissionAnswer::None,
        async |editor| {
            let session = editor.open(&dir).await;
            editor.prompt(&session, "go").await.unwrap();
            session
        },
    );
    // Twice: the second load includes the messages sent after the first.
    for (round, past) in ["go", "goround 0"].into_iter().enumerate() {
        with_editor(
            scripted(&rig, &[]),
            PermissionAnswer::None,
            async |editor| {
                let listed = editor
                    .to
                    .send_request(acp::ListSessionsRequest::new().cwd(dir.clone()))
                    .block_task()
                    .await
                    .unwrap();
                assert_eq!(
                    listed
                        .sessions
                        .iter()
                        .map(|it| &it.session_id)
                        .collect::<Vec<_>>(),
                    [&id]
                );
                editor
                    .to
                    .send_request(acp::LoadSessionRequest::new(id.clone(), dir.clone()))
                    .block_task()
                    .await
                    .unwrap();
                assert_eq!(editor.text(&id, "user_message_chunk"), past);
                let text = editor.text(&id, "agent_message_chunk");
                assert!(text.starts_with("Let me see. It is all there."), "{text}");
                let again = editor
                    .to
                    .send_request(acp::LoadSessionRequest::new(id.clone(), dir.clone()))
                    .block_task()
                    .await;
                assert_eq!(i32::from(again.unwrap_err().code), -32600);
                editor.prompt(&id, &format!("round {round}")).await.unwrap();
                assert!(editor.text(&id, "agent_message_chunk").len() > text.len());
            },
        );
    }
    with_editor(
        scripted(&rig, &[]),
        PermissionAnswer::None,
        async |editor| {
            let unknown =
                acp::LoadSessionRequest::new("00000000-0000-4000-8000-000000000000", dir.clone());
            let error = editor
                .to
                .send_request(unknown)
                .block_task()
                .await
                .unwrap_err();
            assert_eq!(i32::from(error.code), -32002, "{error}");
            // Without the history.
            editor
                .to
                .send_request(acp::ResumeSessionRequest::new(id.clone(), dir.clone()))
                .block_task()
                .await
                .unwrap();
            assert_eq!(editor.update_kinds(&id), [""; 0]);
        },
    );
}

// Issue 15, point 8: acpx opens a session, disconnects, and loads it before any message was sent.
#[test]
fn session_without_messages_loads_as_empty() {
    let rig = Rig::new();
    let dir = workspace(&rig, "w", READS);
    let (id, _) = with_editor(
        scripted(&rig, &[]),
        PermissionAnswer::None,
        async |editor| editor.open(&dir).await,
    );
    let load = || acp::LoadSessionRequest::new(id.clone(), dir.clone());
    // Twice without a message, so that the second load finds an empty session too.
    with_editor(
        scripted(&rig, &[]),
        PermissionAnswer::None,
        async |editor| {
            editor.to.send_request(load()).block_task().await.unwrap();
            assert_eq!(editor.update_kinds(&id), [""; 0]);
        },
    );
    with_editor(
        scripted(&rig, &[]),
        PermissionAnswer::None,
        async |editor| {
            editor.to.send_request(load()).block_task().await.unwrap();
            assert_eq!(editor.update_kinds(&id), [""; 0]);
            editor.prompt(&id, "hello").await.unwrap();
            assert_eq!(editor.text(&id, "agent_message_chunk"), "Again.");
        },
    );
    // Later messages belong to the session with that id.
    with_editor(
        scripted(&rig, &[]),
        PermissionAnswer::None,
        async |editor| {
            let list = acp::ListSessionsRequest::new().cwd(dir.clone());
            let listed = editor
                .to
                .send_request(list)
                .block_task()
                .await
                .unwrap()
                .sessions;
            let listed: Vec<_> = listed
                .iter()
                .map(|it| (&it.session_id, it.title.as_deref()))
                .collect();
            assert_eq!(listed, [(&id, Some("hello"))]);
            editor.to.send_request(load()).block_task().await.unwrap();
            assert_eq!(editor.text(&id, "user_message_chunk"), "hello");
            editor.prompt(&id, "more").await.unwrap();
        },
    );
    with_editor(
        scripted(&rig, &[]),
        PermissionAnswer::None,
        async |editor| {
            editor
                .to
                .send_request(acp::ResumeSessionRequest::new(id.clone(), dir.clone()))
                .block_task()
                .await
                .unwrap();
            editor
                .to
                .send_request(acp::CloseSessionRequest::new(id.clone()))
                .block_task()
                .await
                .unwrap();
            editor.to.send_request(load()).block_task().await.unwrap();
            assert_eq!(editor.text(&id, "user_message_chunk"), "hellomore");
        },
    );
}

#[test]
fn failures_have_a_cause_and_a_hint() {
    let rig = Rig::new();
    let script = r#"
[[reply]]
when = { prompt = "key" }
error = { status = 401, message = "no such key" }
[[reply]]
when = { prompt = "slow" }
error = { status = 429, message = "slow down" }
[[reply]]
when = { prompt = "long" }
text = "So much"
finish = "length"
[[reply]]
when = { prompt = "bad" }
finish = "content_filter"
"#;
    let dir = workspace(&rig, "w", script);
    with_editor(
        scripted(&rig, &[]),
        PermissionAnswer::None,
        async |editor| {
            let session = editor.open(&dir).await;
            let auth =
                serde_json::to_value(editor.prompt(&session, "key").await.unwrap_err()).unwrap();
            assert_eq!(
                (&auth["code"], &auth["message"]),
                (&json!(-32000), &json!("Authentication required"))
            );
            assert!(
                auth["data"]["cause"] == "auth" && auth["data"]["hint"].is_string(),
                "{auth}"
            );
            let limit =
                serde_json::to_value(editor.prompt(&session, "slow").await.unwrap_err()).unwrap();
            assert_eq!(
                (&limit["code"], &limit["data"]["cause"]),
                (&json!(-32603), &json!("rate_limit"))
            );
            assert_eq!(
                editor.prompt(&session, "long").await.unwrap().stop_reason,
                acp::StopReason::MaxTokens
            );
            assert_eq!(
                editor.prompt(&session, "bad").await.unwrap().stop_reason,
                acp::StopReason::Refusal
            );
            let image = acp::ContentBlock::Image(acp::ImageContent::new("AA==", "image/png"));
            let image = acp::PromptRequest::new(session.clone(), vec![image]);
            let error = editor
                .to
                .send_request(image)
                .block_task()
                .await
                .unwrap_err();
            assert!(
                i32::from(error.code) == -32602 && error.message.contains("image"),
                "{error}"
            );
            let nowhere = acp::NewSessionRequest::new(dir.join("nowhere"));
            let error = editor
                .to
                .send_request(nowhere)
                .block_task()
                .await
                .unwrap_err();
            assert!(
                i32::from(error.code) == -32602 && error.message.contains("directory"),
                "{error}"
            );
        },
    );
}

/// The program with raw pipes, without an ACP client.
pub(crate) struct RawClient {
    pub(crate) child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl RawClient {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.child.stdin.as_ref().unwrap(), "{line}").unwrap();
    }

    fn receive(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    pub(crate) fn open(&mut self, dir: &Path) -> String {
        let params = json!({"cwd": dir, "mcpServers": []});
        self.send(
            &json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params})
                .to_string(),
        );
        self.receive()["result"]["sessionId"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    pub(crate) fn prompt(&mut self, session: &str) {
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]});
        self.send(
            &json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": params})
                .to_string(),
        );
    }
}

#[test]
fn invalid_messages_get_errors_and_do_no_harm() {
    let rig = Rig::new();
    let mut client = RawClient::start(scripted(&rig, &[]));
    let table = [
        ("hello", Some((json!(null), -32700))),
        ("[]", Some((json!(null), -32600))),
        ("", None),
        (
            r#"{"jsonrpc":"2.0","method":"_x/unknown","params":{}}"#,
            None,
        ),
        (
            r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"none"}}"#,
            None,
        ),
        (r#"{"jsonrpc":"2.0","id":"never/1","result":{}}"#, None),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"session/fly"}"#,
            Some((json!(7), -32601)),
        ),
        (
            r#"{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":{"sessionId":"none","prompt":[{"type":"text","text":"x"}]}}"#,
            Some((json!("p"), -32002)),
        ),
        (
            r#"{"jsonrpc":"2.0","id":8,"method":"session/prompt","params":{"sessionId":1}}"#,
            Some((json!(8), -32602)),
        ),
        (
            r#"{"jsonrpc":"2.0","id":9,"method":"session/new","params":{"cwd":"here"}}"#,
            Some((json!(9), -32602)),
        ),
    ];
    for (line, want) in table {
        client.send(line);
        if let Some((id, code)) = want {
            let received = client.receive();
            assert_eq!(
                (&received["id"], &received["error"]["code"]),
                (&id, &json!(code)),
                "{line}: {received}"
            );
        }
    }
    client
        .send(r#"{"jsonrpc":"2.0","id":10,"method":"authenticate","params":{"methodId":"agent"}}"#);
    assert_eq!(client.receive()["result"], json!({}));
    drop(client.child.stdin.take());
    assert_eq!(client.child.wait().unwrap().code(), Some(0));
    assert!(client.lines.next().is_none(), "unexpected output");
}

/// Builds `ostler acp` with the fake agent playing `script` as Claude.
pub(crate) fn fake_claude(rig: &Rig, script: &str) -> Command {
    let mut command = rig.ostler(&["acp", "--agent", "claude", "--grace", "500ms", "--env"]);
    command.arg(format!(
        "{}={}",
        fake::SCRIPT,
        fake::script(rig.dir(), script).display()
    ));
    command.arg("--program").arg(fake::program());
    command
}

/// No process survives, however the program is ended during a turn.
#[test]
fn exit_during_a_turn_leaves_no_process() {
    use rustix::process::Signal;
    for (how, code) in [
        (None, Some(0)),
        (Some(Signal::TERM), Some(143)),
        (Some(Signal::INT), Some(130)),
    ] {
        let rig = Rig::new();
        let mut client = RawClient::start(fake_claude(
            &rig,
            "pid-file agent\nread-user\ninit\nspawn-child child\ndelta Hm\nhang",
        ));
        let session = client.open(rig.dir());
        client.prompt(&session);
        let (agent, child) = (rig.number("agent"), rig.number("child"));
        assert!(alive(agent) && alive(child));
        // `Child::wait` closes the test's end of stdin, which must not be mistaken for the signal's
        // effect.
        let stdin = client.child.stdin.take();
        match how {
            None => drop(stdin),
            Some(sent) => {
                signal(&client.child, sent);
                std::mem::forget(stdin);
            }
        }
        assert_eq!(client.child.wait().unwrap().code(), code, "{how:?}");
        assert!(
            wait_until(PATIENCE, || !alive(agent) && !alive(child)),
            "{how:?}: something is left"
        );
    }
}

#[test]
fn flags_for_values_from_the_editor_are_refused() {
    let rig = Rig::new();
    for flag in [
        &["--dir", "/"][..],
        &["--resume", "x"],
        &["--continue"],
        &["--session-id", "x"],
    ] {
        let done = crate::rig::finish(&mut scripted(&rig, flag));
        assert_eq!((done.code, &*done.stdout), (Some(2), ""), "{flag:?}");
        assert!(
            done.stderr.contains(flag[0]) && done.stderr.contains("hint:"),
            "{}",
            done.stderr
        );
    }
}

/// If an agent does not support MCP servers, the session starts without them and a warning says so.
#[test]
fn unsupported_mcp_servers_are_named() {
    let rig = Rig::new();
    let mut child = scripted(&rig, &[]).stdin(Stdio::piped()).spawn().unwrap();
    let server = json!({"name": "files", "command": "/bin/false", "args": [], "env": []});
    let params = json!({"cwd": rig.dir(), "mcpServers": [server]});
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params});
    writeln!(child.stdin.take().unwrap(), "{line}").unwrap();
    let done = crate::rig::collect(child);
    assert!(done.stdout.contains("sessionId"), "{}", done.stdout);
    assert!(
        done.stderr
            .contains("does not support MCP servers; ignoring files"),
        "{}",
        done.stderr
    );
}

mod slow {
    use ostler_testkit::processes::peak_rss_kib;

    use super::*;

    /// A slow editor loses nothing, and its backlog does not grow in the program's memory.
    #[test]
    fn a_slow_editor_loses_nothing() {
        const PIECES: usize = 20_000;
        let rig = Rig::new();
        let piece = "x".repeat(4_000);
        let script = format!(
            "read-user\ninit\nloop {PIECES}\ndelta {piece}\nend\nresult done\npid-file done\nread-until-eof"
        );
        let mut client = RawClient::start(fake_claude(&rig, &script));
        let session = client.open(rig.dir());
        client.prompt(&session);
        rig.number("done"); // the agent did not wait for the editor
        let peak = peak_rss_kib(client.child.id()).unwrap();
        let mut pieces = 0;
        let answer = loop {
            let received = client.receive();
            if received["id"] == 2 {
                break received;
            }
            let update = &received["params"]["update"];
            if update["sessionUpdate"] == "agent_message_chunk" {
                assert_eq!(update["content"]["text"], piece);
                pieces += 1;
            }
        };
        assert_eq!(
            (pieces, &answer["result"]["stopReason"]),
            (PIECES, &json!("end_turn"))
        );
        assert!(peak < 64 * 1024, "{peak} KiB for 80 MB that were not read");
        drop(client.child.stdin.take());
        assert_eq!(client.child.wait().unwrap().code(), Some(0));
    }
}
