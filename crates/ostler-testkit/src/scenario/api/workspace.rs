//! Ostler's built-in tools, as used by the model.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::{answers, completes};
use crate::model::Answer;
use crate::scenario::{Driver, Observed, Task, run};

/// One call per answer, then a final text.
fn one_by_one(calls: &[(&str, Value)]) -> Vec<Answer> {
    let calls = calls
        .iter()
        .map(|(name, input)| Answer::tool(*name, input.clone()));
    calls.chain([Answer::text("Done.")]).collect()
}

fn outputs(seen: &Observed) -> Vec<&str> {
    seen.all("tool_result")
        .iter()
        .filter_map(|result| result["output"].as_str())
        .collect()
}

/// Each tool once, and its effects.
pub fn every_tool(driver: &dyn Driver) {
    let calls = [
        ("make_directory", json!({"path": "src"})),
        (
            "create_file",
            json!({"path": "src/a.txt", "content": "one\ntwo\n"}),
        ),
        (
            "edit_file",
            json!({"path": "src/a.txt", "edits": [{"find": "two", "replace": "three"}]}),
        ),
        ("read_file", json!({"path": "src/a.txt"})),
        ("search_files", json!({"pattern": "thr.e"})),
        ("move_file", json!({"from": "src/a.txt", "to": "src/b.txt"})),
        ("list_files", json!({"path": "src"})),
        ("write_file", json!({"path": "c.txt", "content": "four\n"})),
        ("delete_file", json!({"path": "c.txt"})),
        (
            "run_command",
            json!({"command": "sh", "args": ["-c", "cat src/b.txt"]}),
        ),
    ];
    let env = answers(driver, one_by_one(&calls));
    let seen = completes(driver, &env, &Task::new("PROMPT"));
    for (result, (name, _)) in seen.all("tool_result").iter().zip(&calls) {
        assert_eq!(
            (&result["name"], &result["ok"]),
            (&json!(name), &json!(true)),
            "{result:#}"
        );
    }
    let outputs = outputs(&seen);
    assert!(
        outputs[3].contains("three") && !outputs[3].contains("two"),
        "{}",
        outputs[3]
    );
    assert!(outputs[4].contains("src/a.txt"), "{}", outputs[4]);
    assert!(
        outputs[6].contains("b.txt") && !outputs[6].contains("a.txt"),
        "{}",
        outputs[6]
    );
    assert!(outputs[9].contains("three"), "{}", outputs[9]);
    assert_eq!(
        fs::read_to_string(env.work().join("src/b.txt")).unwrap_or_default(),
        "one\nthree\n"
    );
    assert!(!env.work().join("c.txt").exists());
    let offered = env.server.requests()[0].tool_names().len();
    assert_eq!(
        offered,
        calls.len(),
        "{:?}",
        env.server.requests()[0].tool_names()
    );
}

/// Modifying calls of one message run in order.
pub fn in_order(driver: &dyn Driver) {
    let both = Answer::tool("write_file", json!({"path": "a.txt", "content": "first\n"}))
        .and_tool(
            "edit_file",
            json!({"path": "a.txt", "edits": [{"find": "first", "replace": "second"}]}),
        )
        .and_tool("read_file", json!({"path": "a.txt"}));
    let env = answers(driver, [both, Answer::text("Done.")]);
    let seen = completes(driver, &env, &Task::new("PROMPT"));
    assert!(outputs(&seen)[2].contains("second"), "{:?}", outputs(&seen));
}

/// Nothing outside the workspace is read or written, whatever the path looks like.
pub fn outside_is_denied(driver: &dyn Driver) {
    let calls = [
        ("read_file", json!({"path": "../outside.txt"})),
        ("read_file", json!({"path": "/etc/passwd"})),
        ("read_file", json!({"path": "link/outside.txt"})),
        ("write_file", json!({"path": "../made.txt", "content": "x"})),
        (
            "move_file",
            json!({"from": "here.txt", "to": "../made.txt"}),
        ),
    ];
    let env = answers(driver, one_by_one(&calls));
    fs::write(env.outside("outside.txt"), "a word from outside").expect("write a file");
    fs::write(env.work().join("here.txt"), "").expect("write a file");
    symlink("..", env.work().join("link")).expect("create a link");
    let seen = run(driver, &env, &Task::new("PROMPT"));
    seen.assert_ended("denied", 7);
    for result in seen.all("tool_result") {
        assert_eq!(
            (&result["ok"], &result["denied"]),
            (&json!(false), &json!(true)),
            "{result:#}"
        );
        assert!(
            result["output"]
                .as_str()
                .is_some_and(|words| words.starts_with("path_outside_workspace: ")),
            "{result}"
        );
    }
    assert_eq!(seen.all("permission").len(), calls.len());
    assert!(
        seen.all("permission")
            .iter()
            .all(|event| event["decision"] == "denied" && event["by"] == "rule")
    );
    assert_eq!(
        seen.outcome()["detail"]["denied_tools"],
        json!(["read_file", "write_file", "move_file"])
    );
    assert!(!env.outside("made.txt").exists() && env.work().join("here.txt").exists());
    assert!(
        !seen
            .events
            .iter()
            .any(|event| event.to_string().contains("a word from outside"))
    );
}

/// A command that no rule allows does not run.
pub fn commands_are_denied(driver: &dyn Driver) {
    let calls = [
        ("run_command", json!({"command": "touch", "args": ["made"]})),
        (
            "run_command",
            json!({"command": "git", "args": ["push", "--force"]}),
        ),
    ];
    let env = answers(driver, one_by_one(&calls));
    let seen = run(driver, &env, &Task::new("PROMPT"));
    seen.assert_ended("denied", 7);
    assert!(
        seen.all("tool_result")
            .iter()
            .all(|result| result["denied"] == true),
        "{:#?}",
        seen.story()
    );
    assert!(!env.work().join("made").exists());
}

/// A failing command produces a result with its exit code and output.
pub fn a_failing_command(driver: &dyn Driver) {
    let env = answers(
        driver,
        [
            driver.subject().shell("echo oh no >&2; exit 3"),
            Answer::text("Done."),
        ],
    );
    let seen = completes(driver, &env, &Task::new("PROMPT"));
    let result = seen.one("tool_result");
    assert_eq!(
        (&result["ok"], &result["denied"]),
        (&json!(false), &json!(false))
    );
    assert!(
        result["output"]
            .as_str()
            .is_some_and(|o| o.contains("oh no") && o.contains('3')),
        "{result:#}"
    );
}

/// A missing file produces a result, not a failed run.
pub fn a_missing_file(driver: &dyn Driver) {
    let env = answers(
        driver,
        one_by_one(&[("read_file", json!({"path": "nowhere.txt"}))]),
    );
    let seen = completes(driver, &env, &Task::new("PROMPT"));
    assert!(
        outputs(&seen)[0].starts_with("file_not_found: "),
        "{:?}",
        outputs(&seen)
    );
}
