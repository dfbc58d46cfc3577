//! Tools: allowed, denied, missing, from an MCP server, and in the background.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Driver, Observed, SECRET, Task, TestEnv, run};
use crate::model::{Answer, Request, Rule, Script};

/// The model makes one call, then reports the result.
fn once(driver: &dyn Driver, call: Answer) -> TestEnv {
    let script = Script::new().rule(Rule::on_text("PROMPT").answer(call));
    driver.test_env(script.rule(Rule::on_tool_result().text("It gave: {tool_result}")))
}

/// The model runs a shell command once.
fn shell(driver: &dyn Driver, line: &str) -> TestEnv {
    once(driver, driver.subject().shell(line))
}

/// Checks that a reported call has the model's arguments, or the command in their place.
fn assert_call_reported(call: &Value, given: &Value, line: &str) {
    if call["input"] == *given {
        return;
    }
    let (reported, given) = (
        call["input"].as_object().expect("arguments"),
        given.as_object().expect("arguments"),
    );
    let wrong = given.iter().find(|(key, value)| {
        reported
            .get(*key)
            .is_some_and(|reported| reported != *value)
    });
    assert_eq!(wrong, None, "{call}");
    let holds = |value: &Value| value.as_str().is_some_and(|text| text.starts_with(line));
    let anywhere =
        |value: &Value| holds(value) || value.as_array().is_some_and(|list| list.iter().any(holds));
    assert!(reported.values().any(anywhere), "{call}");
}

/// An allowed tool runs in the working directory, and the model gets its result. S1-17, S1-18,
/// S1-30, S2-9, S2-21.
pub fn tool_allowed(driver: &dyn Driver) {
    let line = driver.subject().quirks.sum.as_str();
    let env = shell(driver, line);
    let seen = run(driver, &env, &Task::new("PROMPT").trusting());
    seen.assert_story("tool");
    seen.assert_ended("completed", 0);
    assert_call_reported(
        seen.one("tool_call"),
        &driver.subject().shell_arguments(line),
        line,
    );
    let is_printed = |text: &str| driver.subject().is_printed(text, "42");
    let output = seen.one("tool_result")["output"]
        .as_str()
        .unwrap_or_default();
    assert!(
        is_printed(output) || (output.is_empty() && !driver.subject().quirks.reports_outputs),
        "{output:?}"
    );
    assert!(
        seen.answer()
            .strip_prefix("It gave: ")
            .is_some_and(is_printed),
        "{:?}",
        seen.answer()
    );
    if env.skips_live_checks() {
        return;
    }
    assert_eq!(
        fs::read_to_string(env.work().join("made")).ok().as_deref(),
        Some("42\n")
    );
    let reported = &env.server.requests()[1].last_tool_results()[0].text;
    assert!(is_printed(reported), "{reported:?}");
}

/// A denied call has no effect, and the turn reports it although the agent calls it a success.
/// S1-27.
pub fn tool_denied(driver: &dyn Driver) {
    let env = once(driver, driver.subject().forbidden());
    let seen = run(driver, &env, &Task::new("PROMPT"));
    seen.assert_story("denied_tool");
    seen.assert_ended("denied", 7);
    let (tool, _) = driver.subject().forbidden_call();
    let quirks = &driver.subject().quirks;
    assert_eq!(
        seen.outcome()["detail"]["denied_tools"],
        json!([quirks.reported_tool(tool)])
    );
    assert_eq!(seen.one("permission")["id"], seen.one("tool_call")["id"]);
    nothing_was_done(&env, &seen);
    if env.skips_live_checks() || quirks.ends_when_denied {
        return;
    }
    let reported = &env.server.requests()[1].last_tool_results()[0];
    // Some providers have no failure flag: there, the text says it.
    assert!(
        reported.is_error
            || ["rejected", "declined"]
                .iter()
                .any(|word| reported.text.contains(word)),
        "the model is notified: {reported:?}"
    );
}

/// A caller that tolerates denials gets a success; the denial is still an event.
pub fn tool_denied_and_tolerated(driver: &dyn Driver) {
    let env = once(driver, driver.subject().forbidden());
    let task = Task {
        tolerate_denials: true,
        ..Task::new("PROMPT")
    };
    let seen = run(driver, &env, &task);
    seen.assert_ended("completed", 0);
    assert_eq!(
        (
            &seen.one("tool_result")["denied"],
            &seen.one("tool_result")["ok"]
        ),
        (&json!(true), &json!(false))
    );
    nothing_was_done(&env, &seen);
}

/// Checks that the forbidden call had no effect and showed nothing.
fn nothing_was_done(env: &TestEnv, seen: &Observed) {
    assert!(!env.work().join("made").exists());
    assert!(
        !seen
            .events
            .iter()
            .any(|event| event.to_string().contains(SECRET)),
        "{:#?}",
        seen.events
    );
    assert!(
        !env.server
            .requests()
            .iter()
            .any(|call| call.body.to_string().contains(SECRET))
    );
}

/// `tools` says which tools exist: the model is offered no others, and calling another fails.
/// S1-11, S3-44.
pub fn tools_limit_what_exists(driver: &dyn Driver) {
    let env = shell(driver, "touch made");
    let [first, second] = &driver.subject().tools.others;
    let seen = run(
        driver,
        &env,
        &Task::new("PROMPT")
            .trusting()
            .set("tools", second)
            .set("tools", first),
    );
    seen.assert_ended("completed", 0);
    assert_eq!(offered(&env.server.requests()[0]), [first, second]);
    let mut reported: Vec<&str> = seen.one("started")["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    reported.sort_unstable();
    assert_eq!(reported, [first, second]);
    assert_eq!(seen.one("tool_result")["ok"], false);
    assert!(!env.work().join("made").exists());
}

/// No tools at all: the agent is a pipe from a prompt to an answer. S0-5.
pub fn no_tools_at_all(driver: &dyn Driver) {
    let env = driver.test_env(Script::always("Just words."));
    let seen = run(driver, &env, &Task::new("PROMPT").set("tools", ""));
    seen.assert_ended("completed", 0);
    assert_eq!(offered(&env.only_call()), [""; 0]);
    assert_eq!(seen.answer(), "Just words.");
}

/// `allowed_tools` lets matching calls run without asking, and no others. S1-11, S1-30.
pub fn allowed_tools_allow_nothing_else(driver: &dyn Driver) {
    let subject = driver.subject();
    let env = driver.test_env(
        Script::new()
            .rule(Rule::on_call(1).answer(subject.shell("touch good-one")))
            .rule(Rule::on_call(2).answer(subject.shell("touch bad-one")))
            .rule(Rule::on_call(3).answer(subject.shell("touch good-one; touch bad-two")))
            .rule(Rule::any().text("Tried.")),
    );
    let seen = run(
        driver,
        &env,
        &Task::new("PROMPT").set("allowed_tools", "Bash(touch good-*)"),
    );
    seen.assert_ended("denied", 7);
    seen.assert_usage(1..=4);
    let ok: Vec<&Value> = seen
        .all("tool_result")
        .iter()
        .map(|result| &result["ok"])
        .collect();
    assert_eq!(ok, [true, false, false]);
    let mut made: Vec<String> = fs::read_dir(env.work())
        .expect("read the working directory")
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    made.sort();
    assert_eq!(made, ["good-one"]);
}

/// Disallowed tools are not even offered.
pub fn disallowed_tools_are_gone(driver: &dyn Driver) {
    let env = shell(driver, "touch made");
    let command = driver.subject().command();
    let seen = run(
        driver,
        &env,
        &Task::new("PROMPT")
            .trusting()
            .set("disallowed_tools", command),
    );
    assert!(!offered(&env.server.requests()[0]).contains(&command));
    assert!(!env.work().join("made").exists(), "{:#?}", seen.story());
    assert_eq!(seen.one("tool_result")["ok"], false);
}

/// Two calls in one message are two calls, each with its own result. P21.
pub fn two_tools_at_once(driver: &dyn Driver) {
    let (tool, input, part) = driver.subject().failing_call();
    let both = driver.subject().shell("echo one").and_tool(tool, input);
    let env = driver.test_env(
        Script::new()
            .rule(Rule::on_text("PROMPT").answer(both))
            .rule(Rule::on_tool_result().text("Both ran.")),
    );
    let seen = run(driver, &env, &Task::new("PROMPT").trusting());
    seen.assert_story("two_tools");
    seen.assert_ended("completed", 0);
    let (calls, results) = (seen.all("tool_call"), seen.all("tool_result"));
    // They may be reported in any order.
    for (ok, part) in [(true, "one"), (false, part)] {
        let is_good = |call: &&&Value| call["input"].to_string().contains("echo one");
        let call = calls
            .iter()
            .find(|call| is_good(call) == ok)
            .expect("each call is reported");
        let result = results
            .iter()
            .find(|result| result["id"] == call["id"])
            .expect("a result for each call");
        assert_eq!(
            (&result["ok"], &result["denied"]),
            (&json!(ok), &json!(false)),
            "{result}"
        );
        let is_reported = !ok || driver.subject().quirks.reports_outputs;
        assert!(
            result["output"]
                .as_str()
                .is_some_and(|output| output.contains(part) || !is_reported),
            "{result}"
        );
    }
}

/// A permission request over the control channel in an unattended session is denied. P46, P50.
pub fn unattended_permission_request_is_denied(driver: &dyn Driver) {
    let env = shell(driver, "touch made");
    let seen = run(
        driver,
        &env,
        &Task::new("PROMPT").set("permission_prompt", "stdio"),
    );
    seen.assert_ended("denied", 7);
    let permission = seen.one("permission");
    assert_eq!(
        (
            &permission["decision"],
            &permission["by"],
            &permission["tool"]
        ),
        (&json!("denied"), &json!("default"), &json!("Bash"))
    );
    assert_eq!(
        (&permission["id"], &permission["input"]["command"]),
        (&seen.one("tool_call")["id"], &json!("touch made"))
    );
    assert_eq!(seen.one("tool_result")["denied"], true);
    assert!(!env.work().join("made").exists());
}

/// A subagent's text is not the answer, but its tokens and its calls count.
pub fn a_sub_agent_counts(driver: &dyn Driver) {
    let subject = driver.subject();
    let input = json!({"description": "count", "prompt": "SUBTASK", "subagent_type": "general-purpose", "run_in_background": false});
    let env = driver.test_env(
        Script::new()
            .rule(Rule::on_text("SUBTASK").answer(subject.shell("echo counted")))
            .rule(Rule::on_text("PROMPT").answer(Answer::tool("Agent", input)))
            .rule(Rule::on_call(3).text("I counted."))
            .rule(Rule::on_call(4).text("It is done.")),
    );
    let seen = run(driver, &env, &Task::new("PROMPT").trusting());
    seen.assert_ended("completed", 0);
    seen.assert_usage(1..=4);
    let calls = seen.all("tool_call");
    assert_eq!(
        (&calls[0]["parent"], &calls[1]["parent"]),
        (&Value::Null, &calls[0]["id"])
    );
    assert_eq!(seen.answer(), "It is done.");
}

/// A stdio MCP server that adds: just enough of the protocol, line by line.
pub const ADDER: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"adder","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"add","description":"Adds.","inputSchema":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}}}]}' ;;
    *'"tools/call"'*) result='{"content":[{"type":"text","text":"the sum is 42"}]}' ;;
    *) result='{}' ;;
  esac
  [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;

/// The given MCP server is used; with `strict_mcp`, one from the directory is not. S3-3, S3-4,
/// S3-37.
pub fn an_mcp_server_and_no_other(driver: &dyn Driver) {
    let env = driver.test_env(
        Script::new()
            .rule(
                Rule::on_text("PROMPT")
                    .answer(Answer::tool("mcp__adder__add", json!({"a": 40, "b": 2}))),
            )
            .rule(Rule::on_tool_result().text("{tool_result}")),
    );
    let server = |name: &str| {
        json!({"mcpServers": {name: {"command": "sh", "args": ["-c", ADDER]}}}).to_string()
    };
    fs::write(env.work().join(".mcp.json"), server("stranger"))
        .expect("write a project's own servers");
    let task = Task::new("PROMPT")
        .trusting()
        .set("mcp_config", server("adder"))
        .set("strict_mcp", "true");
    let seen = run(driver, &env, &task);
    seen.assert_ended("completed", 0);
    assert_eq!(seen.answer(), "the sum is 42");
    let call = env.server.requests()[0].body.to_string();
    assert!(
        call.contains("mcp__adder__add") && !call.contains("stranger"),
        "{call}"
    );
}

/// A background task outlives its turn: when it ends, the agent starts another turn, and only then
/// the session ends. P35.
pub fn a_background_task_is_waited_for(driver: &dyn Driver) {
    let input = json!({"command": "sleep 2; echo made > made", "description": "for the test", "run_in_background": true});
    let env = driver.test_env(
        Script::new()
            .rule(Rule::on_call(1).answer(Answer::tool("Bash", input)))
            .rule(Rule::on_call(2).text("It is under way."))
            .rule(Rule::any().text("It is done.")),
    );
    let seen = run(driver, &env, &Task::new("PROMPT").trusting());
    seen.assert_ended("completed", 0);
    seen.assert_usage_by_turn(&[1..=2, 3..=3]);
    assert!(env.work().join("made").exists(), "the task was cut off");
    let origins: Vec<&Value> = seen
        .all("turn_started")
        .iter()
        .map(|turn| &turn["origin"])
        .collect();
    let answers: Vec<&Value> = seen
        .all("turn_ended")
        .iter()
        .map(|turn| &turn["text"])
        .collect();
    assert_eq!(
        (origins, answers),
        (
            vec![&json!("caller"), &json!("agent")],
            vec![&json!("It is under way."), &json!("It is done.")]
        )
    );
    assert!(
        env.server.requests()[2]
            .news()
            .contains("task-notification"),
        "the model is notified"
    );
}

/// An endless background task gets as long as a turn, and is then cut off with a notice. P35.
pub fn an_endless_background_task_is_cut_off(driver: &dyn Driver) {
    let input =
        json!({"command": "sleep 300", "description": "for the test", "run_in_background": true});
    let env = driver.test_env(
        Script::new()
            .rule(Rule::on_text("PROMPT").answer(Answer::tool("Bash", input)))
            .rule(Rule::on_tool_result().text("It is under way.")),
    );
    let seen = run(
        driver,
        &env,
        &Task::new("PROMPT").trusting().wall(Duration::from_secs(5)),
    );
    seen.assert_ended("completed", 0);
    assert!(
        seen.story().contains(&"notice background_cut".to_owned()),
        "{:#?}",
        seen.story()
    );
}

/// Returns the tools that the model is offered. Omits the placeholder that Claude Code adds for
/// tools that it can look up.
fn offered(call: &Request) -> Vec<&str> {
    let mut names = call.tool_names();
    names.retain(|name| *name != "DeferredToolPlaceholder");
    names.sort_unstable();
    names
}
