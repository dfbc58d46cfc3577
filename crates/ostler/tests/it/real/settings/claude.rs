//! The settings of Claude Code, each given to the real program.

use std::fs;

use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::scenario::{CLAUDE, Task, TestEnv};
use serde_json::json;

use super::{call_with, calling, has_file, run, sibling_dir, talking, text};

const AGENTS: &str = r#"{"reviewer": {"description": "Reviews.", "prompt": "You are a REVIEWER.", "tools": ["Read"]}}"#;

/// `effort` and `betas` reach the model's service.
#[test]
fn effort_and_betas() {
    // The only one that this version lets through.
    const BETA: &str = "context-1m-2025-08-07";
    let task = Task::new("PROMPT").set("effort", "low").set("betas", BETA);
    let call = call_with(&CLAUDE, &task);
    assert_eq!(
        call.body["output_config"]["effort"], "low",
        "{:#}",
        call.body["output_config"]
    );
    let betas: Vec<&str> = call
        .header("anthropic-beta")
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .collect();
    assert!(betas.contains(&BETA), "{betas:?}");
}

/// `fallback_model` answers when the first model is overloaded, and the turn names the model that
/// answered.
#[test]
fn fallback_model() {
    let script = Script::new()
        .rule(Rule::any().for_model("opus").answer(Answer::error(
            529,
            "overloaded_error",
            "Overloaded",
        )))
        .rule(Rule::any().text("From below."));
    let place = TestEnv::new(&CLAUDE, script);
    let task = Task::new("PROMPT")
        .set("model", "opus")
        .set("fallback_model", "haiku");
    let seen = run(&CLAUDE, &place, &task.env("CLAUDE_CODE_MAX_RETRIES", "4"));
    seen.assert_ended("completed", 0);
    assert_eq!(seen.answer(), "From below.");
    let calls = place.server.requests();
    assert!(
        calls.last().unwrap().model().contains("haiku"),
        "{:?}",
        calls.last().unwrap().model()
    );
    assert!(
        text(&seen.one("ended")["usage"], "model").contains("haiku"),
        "{}",
        seen.one("ended")
    );
}

/// `agents` as JSON goes through a private file: the sub-agent exists, with its own prompt and
/// tools. With `forward_subagent_text` its text is emitted with the call it belongs to.
#[test]
fn agents_and_their_words() {
    let input = json!({"description": "review", "prompt": "SUBTASK", "subagent_type": "reviewer", "run_in_background": false});
    for forwarded in [true, false] {
        let script = Script::new()
            .rule(Rule::on_text("SUBTASK").text("I reviewed."))
            .rule(Rule::on_text("PROMPT").answer(Answer::tool("Agent", input.clone())))
            .rule(Rule::on_tool_result().text("It is done."));
        let place = TestEnv::new(&CLAUDE, script);
        let task = Task::new("PROMPT").trusting().set("agents", AGENTS);
        let seen = run(
            &CLAUDE,
            &place,
            &task.set("forward_subagent_text", forwarded.to_string()),
        );
        seen.assert_ended("completed", 0);
        seen.assert_usage(1..=3);
        let calls = place.server.requests();
        let sub = calls
            .iter()
            .find(|call| call.last_user_text().contains("SUBTASK"))
            .expect("a call of the sub-agent");
        assert!(
            sub.system_text().contains("You are a REVIEWER."),
            "{}",
            sub.system_text()
        );
        assert!(
            !sub.tool_names().contains(&"Bash"),
            "{:?}",
            sub.tool_names()
        );
        let call = &seen.one("tool_call")["id"];
        let is_subagent_text = |event: &&serde_json::Value| {
            event["parent"] == *call && text(event, "text").contains("I reviewed.")
        };
        assert_eq!(
            seen.all("text").iter().any(is_subagent_text),
            forwarded,
            "{:#?}",
            seen.all("text")
        );
        assert_eq!(seen.answer(), "It is done.");
    }
}

/// `agent` makes one of `agents` the agent of the session.
#[test]
fn agent() {
    let call = call_with(
        &CLAUDE,
        &Task::new("PROMPT")
            .set("agents", AGENTS)
            .set("agent", "reviewer"),
    );
    assert!(
        call.system_text().contains("You are a REVIEWER."),
        "{}",
        call.system_text()
    );
    assert!(
        !call.tool_names().contains(&"Bash"),
        "{:?}",
        call.tool_names()
    );
}

/// `no_session_persistence` stores nothing that could be resumed.
#[test]
fn no_session_persistence() {
    for (stored, persistence) in [(true, "false"), (false, "true")] {
        let place = talking(&CLAUDE);
        let seen = run(
            &CLAUDE,
            &place,
            &Task::new("PROMPT").set("no_session_persistence", persistence),
        );
        seen.assert_ended("completed", 0);
        let file = format!("{}.jsonl", seen.native());
        assert_eq!(has_file(&place.outside("home"), &file), stored);
        let again = run(
            &CLAUDE,
            &place,
            &Task::new("PROMPT").set("resume", seen.native()),
        );
        assert_eq!(
            again.outcome()["cause"],
            if stored { "completed" } else { "bad_request" }
        );
    }
}

/// `settings` as JSON, through a private file, and as a path.
#[test]
fn settings() {
    let json = json!({"env": {"FLAVOUR": "sweet"}}).to_string();
    for is_path in [false, true] {
        let place = calling(&CLAUDE, CLAUDE.shell("echo \"so $FLAVOUR\""));
        let path = place.outside("settings.json");
        fs::write(&path, &json).unwrap();
        let value = if is_path {
            path.display().to_string()
        } else {
            json.clone()
        };
        let seen = run(
            &CLAUDE,
            &place,
            &Task::new("PROMPT").trusting().set("settings", value),
        );
        seen.assert_ended("completed", 0);
        assert_eq!(seen.answer(), "so sweet");
    }
}

/// `setting_sources` selects whether the project's settings apply.
#[test]
fn setting_sources() {
    for (sources, flavour) in [("user", "so "), ("user,project", "so salty")] {
        let place = calling(&CLAUDE, CLAUDE.shell("echo \"so $FLAVOUR\""));
        fs::create_dir(place.work().join(".claude")).unwrap();
        let settings = json!({"env": {"FLAVOUR": "salty"}}).to_string();
        fs::write(place.work().join(".claude/settings.json"), settings).unwrap();
        let seen = run(
            &CLAUDE,
            &place,
            &Task::new("PROMPT")
                .trusting()
                .set("setting_sources", sources),
        );
        seen.assert_ended("completed", 0);
        assert_eq!(seen.answer().trim_end(), flavour.trim_end(), "{sources}");
    }
}

/// `bare` leaves out the directory's instructions.
#[test]
fn bare() {
    for (bare, is_read) in [("false", true), ("true", false)] {
        let place = talking(&CLAUDE);
        fs::write(place.work().join("CLAUDE.md"), "Speak like a PIRATE.\n").unwrap();
        run(&CLAUDE, &place, &Task::new("PROMPT").set("bare", bare)).assert_ended("completed", 0);
        let said = place.only_call().body.to_string();
        assert_eq!(
            said.contains("Speak like a PIRATE."),
            is_read,
            "bare={bare}"
        );
    }
}

/// `add_dir`, twice: files in each additional directory may be changed, and nowhere else.
#[test]
fn add_dir() {
    let write = |path: &std::path::Path| {
        let input = json!({"file_path": path, "content": "made\n"});
        Answer::tool("Write", input)
    };
    for (added, made) in [(false, [false, false]), (true, [true, true])] {
        let place = TestEnv::new(&CLAUDE, Script::new());
        let dirs = [
            sibling_dir(&place, "second"),
            sibling_dir(&place, "third, with a comma"),
        ];
        let files = dirs.clone().map(|dir| dir.join("made.txt"));
        // The script names the directories, which are only known now.
        let script = Script::new()
            .rule(Rule::on_call(1).answer(write(&files[0])))
            .rule(Rule::on_call(2).answer(write(&files[1])))
            .rule(Rule::any().text("Tried."));
        let place = place.with_script(script);
        let mut task = Task::new("PROMPT").set("permission_mode", "acceptEdits");
        task.tolerate_denials = true;
        let task = dirs.iter().filter(|_| added).fold(task, |task, dir| {
            task.set("add_dir", dir.display().to_string())
        });
        run(&CLAUDE, &place, &task).assert_ended("completed", 0);
        assert_eq!(files.map(|file| file.exists()), made, "added: {added}");
    }
}
