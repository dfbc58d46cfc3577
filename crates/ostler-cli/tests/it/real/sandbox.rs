//! The real Claude Code in the operating system's sandbox.

use ostler_testkit::machine::{self, Need};
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::real;
use ostler_testkit::scenario::{CLAUDE, TestEnv};
use serde_json::{Value, json};

use crate::driver::{ostler, output};

/// Returns the output of the agent's shell in this sandbox, or `None` if this machine cannot
/// enforce every layer.
fn shell(test_env: &TestEnv, sandbox: &str) -> Option<String> {
    let mut command = ostler(test_env);
    command
        .args(["run", "--agent", "claude", "--program"])
        .arg(real::claude())
        .arg("--dir")
        .arg(test_env.work());
    command.args([
        "--permission-mode",
        "bypassPermissions",
        "--output",
        "events",
        "--sandbox",
        sandbox,
        "PROMPT",
    ]);
    let ran = output(&mut command);
    assert_eq!(test_env.processes(), []);
    let events: Vec<Value> = ran
        .stdout
        .split(|b| *b == b'\n')
        .filter_map(|l| serde_json::from_slice(l).ok())
        .collect();
    let of = |kind: &str| {
        events
            .iter()
            .find(|event| event["type"] == kind || event["code"] == kind)
            .unwrap()
            .clone()
    };
    assert_eq!(of("ended")["outcome"]["cause"], "completed", "{events:#?}");
    if sandbox != "off" {
        let notice = of("sandbox")["message"].as_str().unwrap().to_owned();
        let need = Need::of(!notice.contains("Not enforced"), || notice.clone());
        if !machine::can_run("real::sandbox", &need) {
            return None;
        }
    }
    Some(of("tool_result")["output"].as_str().unwrap().to_owned())
}

fn test_env() -> TestEnv {
    let line = "echo x > made && echo INSIDE; echo x > ../aside && echo OUTSIDE; cat ~/.ssh/id_ed25519 && echo KEY; \
                echo x > $TMPDIR/y && echo TEMP; cat ../beside; echo end";
    let call = json!({ "command": line, "description": "for the test" });
    let test_env = TestEnv::new(
        &CLAUDE,
        Script::new()
            .rule(Rule::on_text("PROMPT").answer(Answer::default().and_tool("Bash", call)))
            .rule(Rule::on_tool_result().answer(Answer::text("Done."))),
    );
    let ssh = test_env.outside("home/.ssh");
    std::fs::create_dir_all(&ssh).unwrap();
    std::fs::write(ssh.join("id_ed25519"), "a-key").unwrap();
    std::fs::write(test_env.outside("beside"), "readable\n").unwrap();
    test_env
}

/// The agent writes only in its directory, reads everything but secrets, and otherwise works as
/// usual.
#[test]
fn workspace_write() {
    let test_env = test_env();
    let Some(output) = shell(&test_env, "workspace-write") else {
        return;
    };
    assert!(
        output.contains("INSIDE") && output.contains("TEMP") && output.contains("readable"),
        "{output}"
    );
    assert!(
        !output.contains("OUTSIDE") && !output.contains("KEY") && !output.contains("a-key"),
        "{output}"
    );
    assert!(test_env.work().join("made").exists() && !test_env.outside("aside").exists());
    // Its own state is stored, so the session can be resumed.
    assert!(test_env.outside("home/.claude/projects").exists());
}

#[test]
fn read_only() {
    let test_env = test_env();
    let Some(output) = shell(&test_env, "read-only") else {
        return;
    };
    assert!(
        output.contains("end") && output.contains("TEMP"),
        "{output}"
    );
    assert!(
        !output.contains("INSIDE") && !output.contains("OUTSIDE") && !output.contains("a-key"),
        "{output}"
    );
    assert!(!test_env.work().join("made").exists() && !test_env.outside("aside").exists());
}

/// The same without a sandbox, which shows that the two tests above prove something.
#[test]
fn off() {
    let test_env = test_env();
    let output = shell(&test_env, "off").unwrap();
    assert!(
        output.contains("INSIDE") && output.contains("OUTSIDE") && output.contains("KEY"),
        "{output}"
    );
}

/// Existing settings can be read and written, in the one file in the home directory.
#[test]
fn settings_that_are_there() {
    let test_env = test_env();
    std::fs::write(
        test_env.outside("home/.claude.json"),
        "{\"numStartups\": 3}",
    )
    .unwrap();
    let Some(output) = shell(&test_env, "workspace-write") else {
        return;
    };
    assert!(output.contains("INSIDE"), "{output}");
    let settings: Value =
        serde_json::from_slice(&std::fs::read(test_env.outside("home/.claude.json")).unwrap())
            .unwrap();
    assert!(settings["numStartups"].as_u64().unwrap() >= 3, "{settings}");
}
