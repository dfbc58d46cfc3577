//! Settings of Codex, over its app-server and through `codex exec`.

use ostler_testkit::model::{Rule, Script};
use ostler_testkit::scenario::{CODEX, CODEX_EXEC, Task, TestEnv};
use serde_json::json;

use super::{adder, call_with, calling, has_file, run, sibling_dir, talking};

/// `effort` reaches the model's service.
#[test]
fn effort() {
    for subject in [&CODEX, &CODEX_EXEC] {
        let task = Task::new("PROMPT").trusting().set("effort", "low");
        let call = call_with(
            subject,
            &if subject.settings.always.is_empty() {
                task.set("model", "gpt-5.5")
            } else {
                task
            },
        );
        assert_eq!(
            call.body["reasoning"]["effort"], "low",
            "{:#}",
            call.body["reasoning"]
        );
    }
}

/// `config` overrides a key of `config.toml`: with the command tool disabled, the model is not
/// offered it.
#[test]
fn config() {
    for subject in [&CODEX, &CODEX_EXEC] {
        let tools = |task: &Task| {
            call_with(subject, task)
                .tool_names()
                .contains(&"exec_command")
        };
        let task = Task::new("PROMPT").trusting();
        assert!(tools(&task));
        assert!(!tools(
            &task
                .set("config", "features.shell_tool=false")
                .set("config", "features.unified_exec=false")
        ));
    }
}

/// `ephemeral` stores no session.
#[test]
fn ephemeral() {
    for subject in [&CODEX, &CODEX_EXEC] {
        for (ephemeral, stored) in [("false", true), ("true", false)] {
            let place = talking(subject);
            let seen = run(
                subject,
                &place,
                &Task::new("PROMPT").trusting().set("ephemeral", ephemeral),
            );
            seen.assert_ended("completed", 0);
            assert_eq!(
                has_file(
                    &place.outside("home/.codex"),
                    &format!("{}.jsonl", seen.native())
                ),
                stored
            );
        }
    }
}

/// `system_prompt` of `codex exec` goes through a private file.
#[test]
fn system_prompt_of_exec() {
    let call = call_with(
        &CODEX_EXEC,
        &Task::new("PROMPT")
            .trusting()
            .set("system_prompt", "Be a PIRATE."),
    );
    assert!(
        call.system_text().contains("Be a PIRATE."),
        "{}",
        call.system_text()
    );
}

/// `approval_policy`: `untrusted` asks before a command, and unattended the command is denied;
/// `never` does not ask.
#[test]
fn approval_policy() {
    for (policy, asked) in [("untrusted", true), ("never", false)] {
        let place = calling(&CODEX, CODEX.shell("touch made"));
        let seen = run(
            &CODEX,
            &place,
            &Task::new("PROMPT")
                .trusting()
                .set("approval_policy", policy),
        );
        assert_eq!(
            seen.outcome()["cause"],
            if asked { "denied" } else { "completed" },
            "{policy}"
        );
        assert_eq!(
            (
                seen.all("permission").len(),
                place.work().join("made").exists()
            ),
            (usize::from(asked), !asked)
        );
    }
}

/// `mcp_config`: the server is started, and the model is offered its tool.
#[test]
fn mcp_config() {
    let call = call_with(
        &CODEX,
        &Task::new("PROMPT").trusting().set("mcp_config", adder()),
    );
    assert!(
        call.body["tools"].to_string().contains("adder"),
        "{:#}",
        call.body["tools"]
    );
}

/// `add_dir` makes an additional directory writable for commands.
#[test]
fn add_dir() {
    for subject in [&CODEX, &CODEX_EXEC] {
        for added in [true, false] {
            let place = TestEnv::new(subject, Script::new());
            let dir = sibling_dir(&place, "second");
            let line = format!("touch '{}'", dir.join("made").display());
            let script = Script::new().rule(Rule::on_tool_result().text("{tool_result}"));
            let place = place.with_script(script.rule(Rule::any().answer(subject.shell(&line))));
            // Codex lets commands write to the system's temporary directory, which contains the
            // test.
            let task = Task::new("PROMPT")
                .set("permission_mode", "workspace-write")
                .set("config", "sandbox_workspace_write.exclude_slash_tmp=true")
                .set(
                    "config",
                    "sandbox_workspace_write.exclude_tmpdir_env_var=true",
                );
            let task = if added {
                task.set("add_dir", dir.display().to_string())
            } else {
                task
            };
            let seen = run(subject, &place, &task);
            assert_eq!(
                dir.join("made").exists(),
                added,
                "{}: {}",
                subject.name,
                seen.answer()
            );
        }
    }
}

/// `permission_mode`: a call that fails in Codex's own sandbox is a failed call, not a denied one,
/// if Codex reports the call. Often it does not (docs/agents/codex.md).
#[test]
fn permission_mode() {
    for subject in [&CODEX, &CODEX_EXEC] {
        let place = calling(subject, subject.shell("touch made"));
        let seen = run(
            subject,
            &place,
            &Task::new("PROMPT").set("permission_mode", "read-only"),
        );
        seen.assert_ended("completed", 0);
        for result in seen.all("tool_result") {
            assert_eq!(
                (&result["ok"], &result["denied"]),
                (&json!(false), &json!(false)),
                "{result}"
            );
        }
        assert!(!place.work().join("made").exists());
        // The same call creates the file where that is allowed.
        run(
            subject,
            &place,
            &Task::new("PROMPT").set("permission_mode", "danger-full-access"),
        );
        assert!(place.work().join("made").exists());
    }
}
