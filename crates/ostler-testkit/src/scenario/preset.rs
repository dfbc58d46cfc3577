//! The preset `workspace_tools`: an agent that works on files through one program and can do
//! nothing else.

use serde_json::json;

use super::{Driver, Task, TestEnv, run};
use crate::model::{Answer, ModelServer, Rule, Script};
use crate::real;

/// A `file-tools` command runs, and any other is denied: the pattern applies because permissions
/// are not bypassed. S1-11, S1-12.
pub fn file_tools_and_nothing_else(driver: &dyn Driver) {
    let bash = |line: &str| {
        Answer::tool(
            "Bash",
            json!({"command": line, "description": "for the test"}),
        )
    };
    // The commands contain the path of the workspace, which is known only once the environment
    // exists.
    let env = driver.test_env(Script::new());
    let work = env.work().display().to_string();
    let lines = [
        format!("file-tools {work} read note.txt"),
        "touch made && cat note.txt".to_owned(),
        format!("file-tools {work} read note.txt; touch made"),
        "file-tools .git write hooks/x --content y".to_owned(),
        "cd .git && file-tools . write hooks/x --content y".to_owned(),
        format!("file-tools {work}/.git write hooks/x --content y"),
        "file-tools / read etc/passwd".to_owned(),
    ];
    let calls = lines
        .iter()
        .zip(1..)
        .map(|(line, nth)| Rule::on_call(nth).answer(bash(line)));
    let env = with_script(
        env,
        calls
            .fold(Script::new(), Script::rule)
            .rule(Rule::any().text("done")),
    );
    let path = env
        .host()
        .iter()
        .find(|(name, _)| name == "PATH")
        .map(|(_, path)| path.clone())
        .unwrap_or_default();
    let tools = real::built("file-tools");
    let dir = tools
        .parent()
        .expect("a program is in a directory")
        .display()
        .to_string();
    let env = env.with_host("PATH", &format!("{path}:{dir}"));
    std::fs::write(env.work().join("note.txt"), "the note of the workspace\n")
        .expect("write a file");
    std::fs::create_dir_all(env.work().join(".git/hooks")).expect("create a directory");
    let mut task = Task::new("PROMPT").set("workspace_tools", "file-tools");
    task.tolerate_denials = true;
    let seen = run(driver, &env, &task);
    seen.assert_ended("completed", 0);
    let results = seen.all("tool_result");
    assert_eq!(results.len(), lines.len());
    assert!(
        results[0]["ok"] == true
            && results[0]["output"]
                .to_string()
                .contains("the note of the workspace"),
        "{results:#?}"
    );
    for denied in &results[1..] {
        assert!(
            denied["ok"] == false && denied["denied"] == true,
            "{denied:#}"
        );
    }
    assert!(!env.work().join("made").exists(), "nothing else ran");
    assert!(
        !env.work().join(".git/hooks/x").exists(),
        "no hook was written"
    );
    let calls = env.server.requests();
    let offered = calls[0].tool_names();
    assert!(
        offered.contains(&"Bash")
            && !["Read", "Edit", "Write"]
                .iter()
                .any(|t| offered.contains(t)),
        "{offered:?}"
    );
    assert!(
        calls[0].system_text().contains("file-tools"),
        "the model gets the instructions"
    );
}

/// Returns the same environment with another script for the model.
fn with_script(mut env: TestEnv, script: Script) -> TestEnv {
    let server = ModelServer::start(script);
    let (old, new) = (env.server.base_url(), server.base_url());
    for (name, value) in env.host().to_vec() {
        env = env.with_host(&name, &value.replace(&old, &new));
    }
    env.server = server;
    env
}
