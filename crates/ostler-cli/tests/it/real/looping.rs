//! A loop of the program around the real Claude Code, which is nothing but the model here: the tools are Ostler's.

use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::scenario::{CLAUDE, Place};
use serde_json::{Value, json};

use super::on_path;
use crate::driver::{ostler, output, utf8, valid};

/// The model says that it is done, hears that it is not, writes the file with a tool of ours, and the check passes.
#[test]
fn claude() {
    let write = json!({"path": "done.txt", "content": "done\n"});
    let script = Script::new()
        .rule(Rule::on_tool_result().answer(Answer::text("Now it is there.")))
        .rule(Rule::on_text("not done yet").answer(Answer::tool("mcp__ostler__write_file", write)))
        .rule(Rule::on_text("PROMPT").answer(Answer::text("It is done.")));
    let place = on_path(Place::new(&CLAUDE, script));
    let ran = output(ostler(&place).args([
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
    valid(&events);
    assert_eq!(
        std::fs::read_to_string(place.work().join("done.txt")).unwrap(),
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
    let told: Vec<&str> = codes
        .into_iter()
        .filter(|code| code.ends_with("verified"))
        .collect();
    assert_eq!(told, ["not_verified", "verified"]);
    let over = of("turn_ended")[0];
    assert_eq!(over["text"], "Now it is there.");
    assert!(
        over["usage"]["output"]
            .as_u64()
            .is_some_and(|tokens| tokens > 0),
        "{over:#}"
    );
    assert_eq!(place.left(), []);
}
