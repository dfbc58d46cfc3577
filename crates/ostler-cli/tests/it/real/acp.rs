//! The real Claude Code in an editor.

use agent_client_protocol::v1::schema as acp;
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::real;
use ostler_testkit::scenario::{CLAUDE, TestEnv};
use serde_json::json;

use crate::acp::editor::{PermissionAnswer, with_editor};
use crate::driver::ostler;

fn test_env() -> TestEnv {
    let call = json!({"command": "touch made", "description": "for the test"});
    TestEnv::new(
        &CLAUDE,
        Script::new()
            .rule(
                Rule::on_text("PROMPT").answer(
                    Answer::thinking("Hm.")
                        .and_text("Let me see.")
                        .and_tool("Bash", call),
                ),
            )
            .rule(Rule::on_tool_result().answer(Answer::text("It is done, all of it.").deltas(3))),
    )
}

/// Claude in an editor, without Node: text, a tool, a permission request, modes and models.
#[test]
fn claude_asks_the_editor() {
    for (answer, status) in [
        (PermissionAnswer::Allow, "completed"),
        (PermissionAnswer::Reject, "failed"),
    ] {
        let test_env = test_env();
        let mut command = ostler(&test_env);
        command
            .args([
                "acp",
                "--agent",
                "claude",
                "--permissions",
                "ask",
                "--program",
            ])
            .arg(real::claude());
        let ((), code) = with_editor(command, answer, async |editor| {
            let opened = editor
                .to
                .send_request(acp::NewSessionRequest::new(test_env.work()))
                .block_task()
                .await
                .unwrap();
            let session = opened.session_id;
            let modes = serde_json::to_value(opened.modes.unwrap()).unwrap();
            assert_eq!(modes["currentModeId"], "default");
            let mode = acp::SetSessionModeRequest::new(session.clone(), "acceptEdits");
            editor.to.send_request(mode).block_task().await.unwrap();
            let answer = editor.prompt(&session, "PROMPT").await.unwrap();
            assert_eq!(answer.stop_reason, acp::StopReason::EndTurn);
            assert!(answer.usage.is_some_and(|usage| usage.total_tokens > 0));
            assert_eq!(
                editor.text(&session, "agent_message_chunk"),
                "Let me see.It is done, all of it."
            );
            let updates = editor.updates(&session);
            let call = updates
                .iter()
                .find(|update| update["sessionUpdate"] == "tool_call")
                .unwrap();
            assert_eq!(
                (&call["title"], &call["kind"]),
                (&json!("touch made"), &json!("execute"))
            );
            let [question] = &editor.permission_requests()[..] else {
                panic!("one permission request was expected")
            };
            assert_eq!(
                serde_json::to_value(&question.tool_call.tool_call_id).unwrap(),
                call["toolCallId"]
            );
            let done = updates
                .iter()
                .rfind(|update| update["sessionUpdate"] == "tool_call_update")
                .unwrap();
            assert_eq!(done["status"], status);
            let model = acp::SetSessionConfigOptionRequest::new(session.clone(), "model", "haiku");
            let options = editor.to.send_request(model).block_task().await.unwrap();
            assert_eq!(
                serde_json::to_value(&options.config_options).unwrap()[0]["currentValue"],
                "haiku"
            );
            let wrong = acp::SetSessionModeRequest::new(session.clone(), "anything");
            assert!(editor.to.send_request(wrong).block_task().await.is_err());
        });
        assert_eq!(code, Some(0));
        assert_eq!(
            test_env.work().join("made").exists(),
            answer == PermissionAnswer::Allow
        );
        assert_eq!(test_env.processes(), []);
    }
}
