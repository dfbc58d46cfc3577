//! Behaviour that is specific to Codex.

use std::fs;

use ostler::permission::{Policy, Trust};
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::scenario::{self, CODEX, CODEX_EXEC, Observed, Subject, Task, TestEnv};
use serde_json::Value;

use crate::driver::{Library, agent, host, runtime, spec};
use crate::rig::finish;

fn ran(subject: &'static Subject, place: &TestEnv, task: &Task) -> Observed {
    scenario::run(&Library(subject), place, task)
}

// Rules see the command without the shell around it; forbidden commands do not run.
#[test]
fn rules_decide_on_commands_and_files() {
    let policy = "[[rule]]\ncommand = \"touch good*\"\ndo = \"allow\"\n";
    let patch = "*** Begin Patch\n*** Add File: patched\n+x\n*** End Patch\n";
    let place = TestEnv::new(
        &CODEX,
        Script::new()
            .rule(Rule::on_call(1).answer(CODEX.shell("touch good-one")))
            .rule(Rule::on_call(2).answer(CODEX.shell("touch bad-one")))
            .rule(Rule::on_call(3).answer(Answer::tool("apply_patch", patch.into())))
            .rule(Rule::any().text("Tried.")),
    );
    let mut wanted = spec(&place, &Task::new("PROMPT").trusting());
    wanted.policy = Some(Policy::parse(policy, "test", Trust::Full).unwrap());
    let seen = runtime()
        .block_on(async { finish(agent(&CODEX).start(&host(&place), wanted).unwrap()).await });
    assert_eq!(
        seen.outcome().cause,
        ostler::Cause::Denied,
        "{:?}",
        seen.outcome()
    );
    let made = ["good-one", "bad-one", "patched"].map(|name| place.work().join(name).exists());
    assert_eq!(made, [true, false, false]);
    assert!(seen.notices("policy_bypass").is_empty());
}

// P55
#[test]
fn an_unknown_session_is_a_wrong_request() {
    const ID: &str = "123e4567-e89b-42d3-a456-426614174000";
    for subject in [&CODEX, &CODEX_EXEC] {
        let place = TestEnv::new(subject, Script::new());
        let seen = ran(
            subject,
            &place,
            &Task::new("Which word?").trusting().set("resume", ID),
        );
        seen.assert_ended("bad_request", 2);
        assert!(
            seen.outcome()["hint"]
                .as_str()
                .unwrap()
                .contains("No such session"),
            "{}",
            seen.outcome()
        );
        assert!(place.server.requests().is_empty());
    }
}

#[test]
fn exec_resumes_its_session() {
    let script = Script::new()
        .rule(Rule::on_text("Remember").text("I will."))
        .rule(Rule::on_text("Which").text("Pelican."));
    let place = TestEnv::new(&CODEX_EXEC, script);
    let first = ran(
        &CODEX_EXEC,
        &place,
        &Task::new("Remember the word pelican.").trusting(),
    );
    let task = Task::new("Which word?")
        .trusting()
        .set("resume", first.native());
    let second = ran(&CODEX_EXEC, &place, &task);
    second.assert_ended("completed", 0);
    assert_eq!(
        (second.answer(), second.native()),
        ("Pelican.", first.native())
    );
    assert!(
        place.server.requests()[1].body["input"]
            .to_string()
            .contains("pelican")
    );
    // Codex counts from the start of the session: the usage of the turn itself is unknown.
    assert_eq!(second.one("turn_ended")["usage"], Value::Null);
}

/// The schemas of the app-server, as the installed version prints them.
struct Schemas(tempfile::TempDir);

impl Schemas {
    fn print() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = CODEX.program().unwrap();
        let args = [
            "app-server",
            "generate-json-schema",
            "--experimental",
            "--out",
        ];
        let made = std::process::Command::new(program)
            .args(args)
            .arg(dir.path())
            .status()
            .unwrap();
        assert!(made.success());
        Self(dir)
    }

    fn read(&self, name: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.0.path().join(name)).unwrap()).unwrap()
    }
}

/// Fails unless an object, or one of its variants, has these fields.
fn has(schema: &Value, kind: &str, names: &[&str]) {
    let variants = ["oneOf", "anyOf"]
        .iter()
        .filter_map(|key| schema[key].as_array())
        .flatten();
    let all: Vec<&Value> = std::iter::once(schema).chain(variants).collect();
    for name in names {
        assert!(
            all.iter().any(|one| one["properties"].get(name).is_some()),
            "{kind} lacks {name}"
        );
    }
}

/// The installed version has the fields that Ostler writes and reads.
#[test]
#[expect(clippy::too_many_lines, reason = "one flat table")]
fn installed_version_has_the_fields() {
    let schemas = Schemas::print();
    let fields: &[(&str, &[&str])] = &[
        (
            "v2/ThreadStartParams.json",
            &[
                "cwd",
                "model",
                "sandbox",
                "approvalPolicy",
                "approvalsReviewer",
                "baseInstructions",
            ],
        ),
        (
            "v2/ThreadStartParams.json",
            &[
                "developerInstructions",
                "config",
                "ephemeral",
                "dynamicTools",
            ],
        ),
        (
            "v2/ThreadResumeParams.json",
            &[
                "threadId",
                "excludeTurns",
                "cwd",
                "model",
                "sandbox",
                "approvalPolicy",
                "config",
            ],
        ),
        (
            "v2/ThreadForkParams.json",
            &[
                "threadId",
                "excludeTurns",
                "cwd",
                "model",
                "sandbox",
                "approvalPolicy",
                "config",
            ],
        ),
        (
            "v2/TurnStartParams.json",
            &[
                "threadId",
                "input",
                "model",
                "sandboxPolicy",
                "outputSchema",
            ],
        ),
        (
            "v2/TurnSteerParams.json",
            &["threadId", "expectedTurnId", "input"],
        ),
        ("v2/TurnInterruptParams.json", &["threadId", "turnId"]),
        (
            "v2/ThreadBackgroundTerminalsCleanParams.json",
            &["threadId"],
        ),
        (
            "v2/AgentMessageDeltaNotification.json",
            &["threadId", "itemId", "delta"],
        ),
        ("v2/ErrorNotification.json", &["error", "willRetry"]),
        (
            "v2/ThreadTokenUsageUpdatedNotification.json",
            &["threadId", "tokenUsage"],
        ),
        ("v2/TurnStartedNotification.json", &["threadId", "turn"]),
        ("v2/TurnCompletedNotification.json", &["threadId", "turn"]),
        ("v2/ItemStartedNotification.json", &["threadId", "item"]),
        ("v2/ItemCompletedNotification.json", &["threadId", "item"]),
        (
            "v2/ReasoningTextDeltaNotification.json",
            &["threadId", "itemId", "delta"],
        ),
        (
            "v2/ReasoningSummaryTextDeltaNotification.json",
            &["threadId", "itemId", "delta"],
        ),
        (
            "v2/FileChangePatchUpdatedNotification.json",
            &["threadId", "itemId", "changes"],
        ),
        ("v2/ThreadClosedNotification.json", &["threadId"]),
        ("v2/ServerRequestResolvedNotification.json", &["requestId"]),
        (
            "v2/ModelReroutedNotification.json",
            &["threadId", "fromModel", "toModel"],
        ),
        (
            "v2/McpServerStatusUpdatedNotification.json",
            &["name", "status", "error"],
        ),
        (
            "CommandExecutionRequestApprovalParams.json",
            &[
                "itemId",
                "command",
                "cwd",
                "reason",
                "networkApprovalContext",
            ],
        ),
        (
            "CommandExecutionRequestApprovalResponse.json",
            &["decision"],
        ),
        (
            "FileChangeRequestApprovalParams.json",
            &["itemId", "grantRoot"],
        ),
        (
            "PermissionsRequestApprovalParams.json",
            &["itemId", "permissions"],
        ),
        (
            "PermissionsRequestApprovalResponse.json",
            &["permissions", "scope"],
        ),
        (
            "DynamicToolCallParams.json",
            &["callId", "tool", "arguments"],
        ),
        ("DynamicToolCallResponse.json", &["contentItems", "success"]),
        // No schema describes `_meta`: the tests of MCP tools with the real program cover it.
        (
            "McpServerElicitationRequestParams.json",
            &["threadId", "serverName", "_meta"],
        ),
        ("McpServerElicitationRequestResponse.json", &["action"]),
    ];
    for (file, names) in fields {
        has(&schemas.read(file), file, names);
    }
}

/// It also has the fields of the items inside them.
#[test]
fn installed_version_has_the_item_fields() {
    let schemas = Schemas::print();
    let schema = schemas.read("v2/TurnCompletedNotification.json");
    let items = schema["definitions"]["ThreadItem"]["oneOf"]
        .as_array()
        .unwrap();
    let fields: &[(&str, &[&str])] = &[
        ("userMessage", &["id"]),
        ("agentMessage", &["id", "text"]),
        ("reasoning", &["id", "summary", "content"]),
        (
            "commandExecution",
            &[
                "id",
                "status",
                "command",
                "cwd",
                "aggregatedOutput",
                "exitCode",
            ],
        ),
        ("fileChange", &["id", "status", "changes"]),
        (
            "mcpToolCall",
            &[
                "id",
                "status",
                "server",
                "tool",
                "arguments",
                "result",
                "error",
            ],
        ),
        (
            "dynamicToolCall",
            &[
                "id",
                "status",
                "tool",
                "arguments",
                "contentItems",
                "success",
            ],
        ),
        ("collabAgentToolCall", &["id", "status", "tool", "prompt"]),
        ("webSearch", &["id", "query"]),
        ("imageView", &["id", "path"]),
    ];
    for (kind, names) in fields {
        let item = items
            .iter()
            .find(|item| item["properties"]["type"]["enum"][0] == *kind);
        has(
            item.unwrap_or_else(|| panic!("there is no item {kind}")),
            kind,
            names,
        );
    }
    let fields: &[(&str, &[&str])] = &[
        ("Turn", &["id", "status", "error", "items"]),
        (
            "TurnError",
            &["message", "codexErrorInfo", "additionalDetails"],
        ),
        ("FileUpdateChange", &["path", "kind"]),
        ("PatchChangeKind", &["move_path"]),
        ("McpToolCallResult", &["content"]),
        ("McpToolCallError", &["message"]),
        ("DynamicToolCallOutputContentItem", &["text"]),
    ];
    for (name, names) in fields {
        has(&schema["definitions"][name], name, names);
    }
    assert!(
        schema["definitions"]["CodexErrorInfo"]
            .to_string()
            .contains("\"httpStatusCode\"")
    );
    let spent = &schemas.read("v2/ThreadTokenUsageUpdatedNotification.json")["definitions"];
    has(
        &spent["ThreadTokenUsage"],
        "ThreadTokenUsage",
        &["total", "last"],
    );
    let counts = [
        "inputTokens",
        "cachedInputTokens",
        "cacheWriteInputTokens",
        "outputTokens",
        "reasoningOutputTokens",
    ];
    has(
        &spent["TokenUsageBreakdown"],
        "TokenUsageBreakdown",
        &counts,
    );
    let network = &schemas.read("CommandExecutionRequestApprovalParams.json")["definitions"]["NetworkApprovalContext"];
    has(network, "NetworkApprovalContext", &["host"]);
}

/// It also has the methods.
#[test]
fn installed_version_has_the_methods() {
    let schemas = Schemas::print();
    let methods: &[(&str, &[&str])] = &[
        (
            "ServerRequest.json",
            &[
                "item/commandExecution/requestApproval",
                "item/fileChange/requestApproval",
                "item/permissions/requestApproval",
                "item/tool/call",
                "item/tool/requestUserInput",
                "mcpServer/elicitation/request",
            ],
        ),
        (
            "ServerNotification.json",
            &[
                "turn/started",
                "turn/completed",
                "item/started",
                "item/completed",
                "error",
            ],
        ),
        (
            "ServerNotification.json",
            &[
                "item/agentMessage/delta",
                "item/reasoning/textDelta",
                "item/reasoning/summaryTextDelta",
                "item/reasoning/summaryPartAdded",
                "item/fileChange/patchUpdated",
                "thread/closed",
                "thread/compacted",
                "thread/tokenUsage/updated",
                "serverRequest/resolved",
                "model/rerouted",
                "mcpServer/startupStatus/updated",
            ],
        ),
        (
            "ClientRequest.json",
            &[
                "thread/start",
                "thread/resume",
                "thread/fork",
                "turn/start",
                "turn/steer",
                "turn/interrupt",
            ],
        ),
    ];
    for (file, names) in methods {
        let all = schemas.read(file).to_string();
        for name in *names {
            assert!(all.contains(&format!("{name:?}")), "{file} lacks {name}");
        }
    }
}
