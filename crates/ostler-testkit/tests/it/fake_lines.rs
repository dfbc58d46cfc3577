//! The fake agent's lines look like Claude Code's.

use std::process::Command;

use ostler_testkit::fake::Script;

use crate::{FAKE_AGENT, agent, finish, json_lines, kinds, play};

#[test]
fn a_turn_from_the_builder_reads_like_a_recording() {
    let dir = tempfile::tempdir().unwrap();
    let script = Script::new()
        .read()
        .init()
        .text("two\nlines \\ here")
        .tool_use("t1", "Bash", &serde_json::json!({"command": "ls -l"}))
        .tool_result("t1", "a\tb")
        .result("done");
    let mut command = agent(dir.path(), script.as_str());
    command.args(["-p", "--session-id=11111111-2222-4333-8444-555555555555"]);
    let output = finish(command.spawn().unwrap(), "{}\n");
    let lines = json_lines(&output);
    let expected = [
        "system/init",
        "assistant/text",
        "assistant/tool_use",
        "user/tool_result",
        "result/success",
    ];
    assert_eq!(kinds(&lines), expected);
    assert!(
        lines
            .iter()
            .all(|l| l["session_id"] == "11111111-2222-4333-8444-555555555555")
    );
    assert_eq!(
        lines[1]["message"]["content"][0]["text"],
        "two\nlines \\ here"
    );
    assert_eq!(lines[1]["message"]["id"], lines[2]["message"]["id"]);
    assert_eq!(
        lines[2]["message"]["content"][0]["input"]["command"],
        "ls -l"
    );
    assert_eq!(lines[3]["message"]["content"][0]["content"], "a\tb");
    assert_eq!(lines[4]["result"], "done");
    assert_eq!(lines[4]["usage"]["output_tokens"], 25);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_resumed_session_keeps_its_name_and_without_one_there_is_a_default() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = agent(dir.path(), "init");
    command.args(["--resume", "22222222-2222-4333-8444-555555555555"]);
    let lines = json_lines(&finish(command.spawn().unwrap(), ""));
    assert_eq!(
        lines[0]["session_id"],
        "22222222-2222-4333-8444-555555555555"
    );
    let lines = json_lines(&play("init", ""));
    assert_eq!(lines[0]["session_id"].as_str().unwrap().len(), 36);
}

#[test]
fn deltas_open_a_partial_message_and_the_text_closes_it() {
    let lines = json_lines(&play("delta Hel\ndelta lo\ntext Hello\ntext again", ""));
    let expected = [
        "stream_event/message_start",
        "stream_event/content_block_start",
        "stream_event/content_block_delta",
        "stream_event/content_block_delta",
        "assistant/text",
        "stream_event/content_block_stop",
        "stream_event/message_delta",
        "stream_event/message_stop",
        "assistant/text",
    ];
    assert_eq!(kinds(&lines), expected);
    assert_eq!(
        lines[0]["event"]["message"]["id"],
        lines[4]["message"]["id"]
    );
    assert_ne!(
        lines[0]["event"]["message"]["id"],
        lines[8]["message"]["id"]
    );
}

#[test]
fn the_ways_a_turn_can_fail() {
    let script = "result-error success Invalid API key\nresult-error error_max_turns too many";
    let lines = json_lines(&play(script, ""));
    assert_eq!(lines[0]["is_error"], true);
    assert_eq!(
        (&lines[0]["subtype"], &lines[0]["result"]),
        (&"success".into(), &"Invalid API key".into())
    );
    assert_eq!(lines[1]["errors"][0], "too many");
    assert_eq!(lines[1]["terminal_reason"], "max_turns");
}

#[test]
fn permission_and_tasks() {
    let script = "tool-use t9 Bash {}\ncontrol-request r1 Bash {\"command\":\"ls\"}\nwait-control\n\
        task-started b1\ntask-done b1\nthinking hm\nresult ok";
    let input = "{\"type\":\"user\"}\n{\"type\":\"control_response\",\"response\":{}}\n";
    let lines = json_lines(&play(script, input));
    let expected = [
        "assistant/tool_use",
        "control_request/can_use_tool",
        "system/task_started",
        "system/task_notification",
        "assistant/thinking",
        "result/success",
    ];
    assert_eq!(kinds(&lines), expected);
    assert_eq!(lines[1]["request_id"], "r1");
    assert_eq!(lines[1]["request"]["tool_use_id"], "t9");
    assert_eq!(lines[1]["request"]["input"]["command"], "ls");
    assert_eq!(lines[3]["task_id"], "b1");
}

#[test]
fn control_requests_are_answered() {
    let control = |id: &str, subtype: &str| {
        format!(
            r#"{{"type":"control_request","request_id":"{id}","request":{{"subtype":"{subtype}"}}}}"#
        )
    };
    let input = format!(
        "{}\n{{\"type\":\"user\"}}\n{}\n{}\n{}\n",
        control("r1", "initialize"),
        control("r2", "set_model"),
        control("r3", "set_model"),
        control("r4", "interrupt")
    );
    let output = play(
        "read-user\nanswer-control\ntext x\nanswer-interrupt",
        &input,
    );
    let lines = json_lines(&output);
    let ids: Vec<_> = lines
        .iter()
        .filter_map(|l| l["response"]["request_id"].as_str())
        .collect();
    assert_eq!(ids, ["r1", "r2", "r4"]);
    assert_eq!(
        lines[4]["message"]["content"][0]["text"],
        "[Request interrupted by user]"
    );
    assert_eq!(lines[5]["subtype"], "error_during_execution");
    assert_eq!(lines[5]["is_error"], true);
}

#[test]
fn version_and_login_need_no_script() {
    let run = |args: &[&str], env: &[(&str, &str)]| {
        let output = Command::new(FAKE_AGENT)
            .args(args)
            .envs(env.iter().copied())
            .output()
            .unwrap();
        (
            String::from_utf8(output.stdout).unwrap(),
            output.status.code(),
        )
    };
    assert_eq!(
        run(&["--version"], &[]),
        ("2.1.325 (Claude Code)\n".to_owned(), Some(0))
    );
    assert_eq!(
        run(&["--version"], &[("FAKE_AGENT_VERSION", "9.9")]).0,
        "9.9\n"
    );
    let (text, code) = run(&["auth", "status"], &[]);
    assert!(
        text.contains(r#""loggedIn":true"#) && code == Some(0),
        "{text}"
    );
    let (text, code) = run(&["auth", "status"], &[("FAKE_AGENT_LOGGED_IN", "0")]);
    assert!(
        text.contains(r#""loggedIn":false"#) && code == Some(1),
        "{text}"
    );
}

#[test]
fn script_errors_name_the_line() {
    for (script, complaint) in [
        ("init\nnonsense x", "line 2: unknown verb"),
        ("loop 2\ninit", "loop without end"),
        ("sleep soon", "line 1: soon is not a number"),
        ("tool-use t Bash {", "invalid JSON"),
        ("bytes 0", "invalid hex"),
        ("end", "line 1: unknown verb"),
        ("pid-file", "missing path"),
    ] {
        let output = play(script, "");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(complaint), "{script}: {stderr}");
        assert_eq!(output.status.code(), Some(64));
    }
}
