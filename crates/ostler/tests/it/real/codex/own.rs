//! What only Codex does, or does in its own way.

use std::fs;

use ostler::permission::{Policy, Trust};
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::scenario::{self, CODEX, CODEX_EXEC, Place, Seen, Subject, Task};

use crate::driver::{Library, agent, host, runtime, spec};
use crate::rig::finish;

fn ran(subject: &'static Subject, place: &Place, task: &Task) -> Seen {
    scenario::run(&Library(subject), place, task)
}

// Rules see the command without the shell around it; what they forbid does not run.
#[test]
fn rules_decide_on_commands_and_files() {
    let policy = "[[rule]]\ncommand = \"touch good*\"\ndo = \"allow\"\n";
    let patch = "*** Begin Patch\n*** Add File: patched\n+x\n*** End Patch\n";
    let place = Place::new(
        &CODEX,
        Script::new()
            .rule(Rule::on_call(1).answer(CODEX.shell("touch good-one")))
            .rule(Rule::on_call(2).answer(CODEX.shell("touch bad-one")))
            .rule(Rule::on_call(3).answer(Answer::tool("apply_patch", patch.into())))
            .rule(Rule::any().text("Tried.")),
    );
    let mut wanted = spec(&place, &Task::new("PROMPT").trusting());
    wanted.policy = Some(Policy::parse(policy, "test", Trust::Full).unwrap());
    let seen = runtime().block_on(async { finish(agent(&CODEX).start(&host(&place), wanted).unwrap()).await });
    assert_eq!(seen.outcome().cause, ostler::Cause::Denied, "{:?}", seen.outcome());
    let made = ["good-one", "bad-one", "patched"].map(|name| place.work().join(name).exists());
    assert_eq!(made, [true, false, false]);
    assert!(seen.notices("policy_bypass").is_empty());
}

// P55
#[test]
fn an_unknown_session_is_a_wrong_request() {
    const ID: &str = "123e4567-e89b-42d3-a456-426614174000";
    for subject in [&CODEX, &CODEX_EXEC] {
        let place = Place::new(subject, Script::new());
        let seen = ran(subject, &place, &Task::new("Which word?").trusting().set("resume", ID));
        seen.ended_with("bad_request", 2);
        assert!(seen.outcome()["hint"].as_str().unwrap().contains("no such session"), "{}", seen.outcome());
        assert!(place.server.requests().is_empty());
    }
}

#[test]
fn exec_goes_on_with_its_session() {
    let script =
        Script::new().rule(Rule::on_text("Remember").text("I will.")).rule(Rule::on_text("Which").text("Pelican."));
    let place = Place::new(&CODEX_EXEC, script);
    let first = ran(&CODEX_EXEC, &place, &Task::new("Remember the word pelican.").trusting());
    let task = Task::new("Which word?").trusting().set("resume", first.native());
    let second = ran(&CODEX_EXEC, &place, &task);
    second.ended_with("completed", 0);
    assert_eq!((second.answer(), second.native()), ("Pelican.", first.native()));
    assert!(place.server.requests()[1].body["input"].to_string().contains("pelican"));
    // It counts from the session's beginning: what the turn itself used is not known.
    assert_eq!(second.one("turn_ended")["usage"], serde_json::Value::Null);
}

/// The fields that Ostler writes and reads are those of the installed version.
#[test]
fn the_installed_version_has_the_words() {
    let dir = tempfile::tempdir().unwrap();
    let program = CODEX.program.unwrap()();
    let args = ["app-server", "generate-json-schema", "--experimental", "--out"];
    let made = std::process::Command::new(program).args(args).arg(dir.path()).status().unwrap();
    assert!(made.success());
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(dir.path().join(name)).unwrap()).unwrap()
    };
    let fields: &[(&str, &[&str])] = &[
        (
            "v2/ThreadStartParams.json",
            &["cwd", "model", "sandbox", "approvalPolicy", "approvalsReviewer", "baseInstructions"],
        ),
        ("v2/ThreadStartParams.json", &["developerInstructions", "config", "ephemeral", "dynamicTools"]),
        (
            "v2/ThreadResumeParams.json",
            &["threadId", "excludeTurns", "cwd", "model", "sandbox", "approvalPolicy", "config"],
        ),
        (
            "v2/ThreadForkParams.json",
            &["threadId", "excludeTurns", "cwd", "model", "sandbox", "approvalPolicy", "config"],
        ),
        ("v2/TurnStartParams.json", &["threadId", "input", "model", "sandboxPolicy", "outputSchema"]),
        ("v2/TurnSteerParams.json", &["threadId", "expectedTurnId", "input"]),
        ("v2/TurnInterruptParams.json", &["threadId", "turnId"]),
        ("v2/ThreadBackgroundTerminalsCleanParams.json", &["threadId"]),
        ("v2/AgentMessageDeltaNotification.json", &["threadId", "itemId", "delta"]),
        ("v2/ErrorNotification.json", &["error", "willRetry"]),
        ("v2/ThreadTokenUsageUpdatedNotification.json", &["threadId", "tokenUsage"]),
        (
            "CommandExecutionRequestApprovalParams.json",
            &["itemId", "command", "cwd", "reason", "networkApprovalContext"],
        ),
        ("CommandExecutionRequestApprovalResponse.json", &["decision"]),
        ("FileChangeRequestApprovalParams.json", &["itemId", "grantRoot"]),
        ("PermissionsRequestApprovalParams.json", &["itemId", "permissions"]),
        ("PermissionsRequestApprovalResponse.json", &["permissions", "scope"]),
        ("DynamicToolCallParams.json", &["callId", "tool", "arguments"]),
        ("DynamicToolCallResponse.json", &["contentItems", "success"]),
        ("McpServerElicitationRequestResponse.json", &["action"]),
    ];
    for (file, names) in fields {
        let schema = read(file);
        for name in *names {
            assert!(schema["properties"].get(name).is_some(), "{file} lacks {name}");
        }
    }
    let methods = |file: &str| read(file).to_string();
    let (asked, told, wanted) =
        (methods("ServerRequest.json"), methods("ServerNotification.json"), methods("ClientRequest.json"));
    for method in ["item/commandExecution/requestApproval", "item/fileChange/requestApproval", "item/tool/call"] {
        assert!(asked.contains(&format!("{method:?}")), "{method}");
    }
    for method in
        ["turn/started", "turn/completed", "item/started", "item/completed", "serverRequest/resolved", "error"]
    {
        assert!(told.contains(&format!("{method:?}")), "{method}");
    }
    for method in ["thread/start", "thread/resume", "thread/fork", "turn/start", "turn/steer", "turn/interrupt"] {
        assert!(wanted.contains(&format!("{method:?}")), "{method}");
    }
}
