//! The preset `workspace_tools`: an agent that works on files through one program, and can do nothing else.

use serde_json::json;

use super::{Driver, Task, run};
use crate::model::{Answer, Rule, Script};
use crate::real;

/// A command of file-tools runs, and any other is denied: the pattern holds, since permissions are not bypassed.
pub fn file_tools_and_nothing_else(driver: &dyn Driver) {
    let bash = |line: &str| Answer::tool("Bash", json!({"command": line, "description": "for the test"}));
    let script = Script::new()
        .rule(Rule::on_call(1).answer(bash("file-tools . read note.txt")))
        .rule(Rule::on_call(2).answer(bash("touch made && cat note.txt")))
        .rule(Rule::on_call(3).answer(bash("file-tools . read note.txt; touch made")))
        .rule(Rule::any().text("done"));
    let place = driver.place(script);
    let path = place.host().iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone()).unwrap_or_default();
    let tools = real::built("file-tools");
    let dir = tools.parent().expect("a program is in a directory").display().to_string();
    let place = place.with_host("PATH", &format!("{path}:{dir}"));
    std::fs::write(place.work().join("note.txt"), "the note of the workspace\n").expect("write a file");
    let mut task = Task::new("PROMPT").set("workspace_tools", "file-tools");
    task.tolerate_denials = true;
    let seen = run(driver, &place, &task);
    seen.ended_with("completed", 0);
    let results = seen.all("tool_result");
    assert_eq!(results.len(), 3);
    assert!(
        results[0]["ok"] == true && results[0]["output"].to_string().contains("the note of the workspace"),
        "{results:#?}"
    );
    for denied in &results[1..] {
        assert!(denied["ok"] == false && denied["denied"] == true, "{denied:#}");
    }
    assert!(!place.work().join("made").exists(), "nothing else ran");
    let calls = place.server.requests();
    let offered = calls[0].tool_names();
    assert!(offered.contains(&"Bash") && !["Read", "Edit", "Write"].iter().any(|t| offered.contains(t)), "{offered:?}");
    assert!(calls[0].system_text().contains("file-tools"), "the model is told how");
}
