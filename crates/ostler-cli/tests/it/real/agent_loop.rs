//! `ostler loop` with the real Claude Code as a plain model: all tools are Ostler's.

use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::scenario::{CLAUDE, TestEnv};
use serde_json::{Value, json};

use super::on_path;
use crate::driver::{check_schema, ostler, output, utf8};

/// The model claims to be done, gets the failed check, writes the file with one of our tools, and
/// the check passes.
#[test]
fn claude() {
    let write = json!({"path": "done.txt", "content": "done\n"});
    let script = Script::new()
        .rule(Rule::on_tool_result().answer(Answer::text("Now it is there.")))
        .rule(Rule::on_text("not done yet").answer(Answer::tool("mcp__ostler__write_file", write)))
        .rule(Rule::on_text("PROMPT").answer(Answer::text("It is done.")));
    let test_env = on_path(TestEnv::new(&CLAUDE, script));
    let ran = output(ostler(&test_env).args([
        "loop",
        "--output",
        "events",
        "--until",
        "cat done.txt",
        "PROMPT",
    ]));
    let events: Vec<Value> = utf8(&ran.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        ran.status.code(),
        Some(0),
        "{}{}",
        utf8(&ran.stderr),
        utf8(&ran.stdout)
    );
    check_schema(&events);
    assert_eq!(
        std::fs::read_to_string(test_env.work().join("done.txt")).unwrap(),
        "done\n"
    );
    let of = |kind: &str| -> Vec<&Value> {
        events
            .iter()
            .filter(|event| event["type"] == kind)
            .collect()
    };
    assert_eq!(
        (&of("started")[0]["agent"], &of("started")[0]["model"]),
        (&json!("loop"), &json!("claude-cli"))
    );
    assert_eq!(
        (&of("tool_call")[0]["name"], &of("tool_result")[0]["ok"]),
        (&json!("write_file"), &json!(true))
    );
    let codes: Vec<&str> = of("notice")
        .iter()
        .filter_map(|notice| notice["code"].as_str())
        .collect();
    let checks: Vec<&str> = codes
        .into_iter()
        .filter(|code| code.ends_with("verified"))
        .collect();
    assert_eq!(checks, ["not_verified", "verified"]);
    let turn_ended = of("turn_ended")[0];
    assert_eq!(turn_ended["text"], "Now it is there.");
    assert!(
        turn_ended["usage"]["output"]
            .as_u64()
            .is_some_and(|tokens| tokens > 0),
        "{turn_ended:#}"
    );
    assert_eq!(test_env.processes(), []);
}
