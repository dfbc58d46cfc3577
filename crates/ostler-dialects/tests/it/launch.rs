//! Launch of Claude Code: one case per setting, combinations, and everything that is rejected.

use ostler_core::dialect::{ARG_CAP, Arg, Launch, Launching};
use ostler_core::spec::{Spec, SpecError};

use crate::harness::claude;

const UUID: &str = "123e4567-e89b-42d3-a456-426614174000";

fn spec(settings: &[(&str, &str)]) -> Result<Spec, SpecError> {
    let mut spec = Spec::default();
    spec.apply(&settings.iter().copied().collect())?;
    Ok(spec)
}

fn launch(settings: &[(&str, &str)]) -> Result<Launch, SpecError> {
    claude().launch(&Launching::new(&spec(settings)?))
}

/// Returns the arguments after those that are always passed.
fn args(settings: &[(&str, &str)]) -> String {
    let plain = |arg: &Arg| match arg {
        Arg::Plain(text) => text.clone(),
        Arg::InFile { prefix, text } => format!("{prefix}<file of {} bytes>", text.len()),
    };
    let all: Vec<String> = launch(settings).unwrap().args.iter().map(plain).collect();
    assert_eq!(
        all[..4],
        [
            "-p",
            "--output-format=stream-json",
            "--input-format=stream-json",
            "--verbose"
        ]
    );
    assert!(
        all[4..].iter().all(|arg| arg.starts_with("--")),
        "no argument can be mistaken for a prompt: {all:?}"
    );
    all[4..]
        .iter()
        .filter(|arg| *arg != "--include-partial-messages")
        .cloned()
        .collect::<Vec<_>>()
        .join("\n")
}

// S3-1…S3-14, S1-9…S1-13, S0-6, S1-7, S1-8, S1-29, S2-5, S3-36, S4-12
#[test]
fn every_key_becomes_its_argument() {
    let table: &[(&str, &str)] = &[
        ("model", "opus"),
        ("fallback_model", "sonnet,haiku"),
        ("effort", "xhigh"),
        ("system_prompt", "--be nice"),
        ("append_system_prompt", "-p"),
        ("tools", "Bash"),
        ("allowed_tools", "Bash(git log *, x)"),
        ("disallowed_tools", "Edit"),
        ("permission_mode", "acceptEdits"),
        ("permission_prompt", "none"),
        ("permission_prompt", "host"),
        ("permission_prompt", "stdio"),
        ("workspace_tools", "file-tools"),
        ("add_dir", "/a,b c"),
        ("mcp_config", "servers.json"),
        ("mcp_config", r#"{"mcpServers":{}}"#),
        ("strict_mcp", "true"),
        ("strict_mcp", "false"),
        ("json_schema", r#"{"type":"object"}"#),
        ("max_turns", "3"),
        ("max_budget_usd", "0.5"),
        ("agents", r#"{"r":{"description":"d","prompt":"p"}}"#),
        ("agent", "code-reviewer_2"),
        ("session_id", UUID),
        ("resume", "--version"),
        ("no_session_persistence", "true"),
        ("settings", r#"{"a":1}"#),
        ("setting_sources", "user,project"),
        ("betas", "context-1m"),
        ("bare", "true"),
        ("forward_subagent_text", "true"),
        ("include_partial", "true"),
    ];
    let seen: Vec<String> = table
        .iter()
        .map(|(key, value)| format!("{key}: {}", args(&[(key, value)])))
        .collect();
    insta::assert_snapshot!(seen.join("\n"));
    for setting in claude().about().settings {
        let tested = table.iter().any(|(key, _)| *key == setting.key) || setting.key == "fork";
        assert!(tested && !setting.help.is_empty(), "{}", setting.key);
    }
}

#[test]
fn lists_repeat_their_flag_and_arguments_follow_table_order() {
    insta::assert_snapshot!(
        args(&[("allowed_tools", "Bash(file-tools *)"), ("allowed_tools", "Read"), ("tools", "Bash"), ("tools", "Read"), ("model", "opus"), ("add_dir", "/x"), ("add_dir", "/y")]),
        @r"
    --model=opus
    --tools=Bash
    --tools=Read
    --allowed-tools=Bash(file-tools *)
    --allowed-tools=Read
    --add-dir=/x
    --add-dir=/y
    "
    );
    // S1-10: a resumed session is passed the system prompt as given; the program uses the one it
    // recorded.
    insta::assert_snapshot!(args(&[("resume", UUID), ("system_prompt", "x")]), @r"
    --system-prompt-file=<file of 1 bytes>
    --resume=123e4567-e89b-42d3-a456-426614174000
    ");
    insta::assert_snapshot!(args(&[("resume", "a title"), ("fork", "true"), ("session_id", UUID)]), @r"
    --session-id=123e4567-e89b-42d3-a456-426614174000
    --resume=a title
    --fork-session
    ");
    assert_eq!(
        args(&[("tools", "")]),
        "--tools=",
        "an empty value disables all tools"
    );
}

// S1-11
#[test]
fn preset_is_limited_to_one_workspace_and_safe_modes() {
    let preset = |dir: &str, mode: Option<&str>| {
        let mut spec = spec(&[("workspace_tools", "file-tools")]).unwrap();
        spec.dir = Some(dir.into());
        spec.permission_mode = mode.map(str::to_owned);
        claude().launch(&Launching::new(&spec))
    };
    for mode in [
        None,
        Some("default"),
        Some("manual"),
        Some("dontAsk"),
        Some("plan"),
    ] {
        let args = preset("/home/u/my-work", mode).unwrap().args;
        let pattern = Arg::Plain("--allowed-tools=Bash(file-tools /home/u/my-work *)".into());
        assert!(args.contains(&pattern), "{mode:?} {args:?}");
    }
    for mode in ["bypassPermissions", "acceptEdits", "auto"] {
        assert!(preset("/w", Some(mode)).is_err(), "{mode}");
    }
    for dir in ["/w *", "/w)", "/a b", "/a,b", "/$HOME", "/a'b"] {
        assert!(preset(dir, None).is_err(), "{dir}");
    }
}

// S3-15
#[test]
fn text_is_streamed_unless_disabled() {
    let partial = |settings: &[(&str, &str)]| {
        launch(settings)
            .unwrap()
            .args
            .contains(&Arg::Plain("--include-partial-messages".into()))
    };
    assert!(partial(&[]) && partial(&[("include_partial", "true")]));
    assert!(!partial(&[("include_partial", "false")]));
}

// Anyone can read a command line, so it must not contain anything that may be a secret.
#[test]
fn secrets_are_not_on_the_command_line() {
    let json = r#" {"mcpServers":{"a":{"env":{"KEY":"hunter2"}}}}"#;
    for key in [
        "mcp_config",
        "settings",
        "agents",
        "system_prompt",
        "append_system_prompt",
    ] {
        let launch = launch(&[(key, json)]).unwrap();
        assert!(
            launch
                .args
                .iter()
                .any(|arg| matches!(arg, Arg::InFile { text, .. } if text == json)),
            "{key}"
        );
        assert!(
            !launch
                .args
                .iter()
                .any(|arg| matches!(arg, Arg::Plain(text) if text.contains("hunter2"))),
            "{key}"
        );
    }
    assert_eq!(
        args(&[("mcp_config", "/a/b.json"), ("settings", "c.json")]),
        "--mcp-config=/a/b.json\n--settings=c.json"
    );
}

#[test]
fn secrets_are_not_in_errors() {
    let table: &[&[(&str, &str)]] = &[
        &[("mcp_config", "{hunter2")],
        &[("settings", "{hunter2")],
        &[("agents", "hunter2")],
        &[("system_prompt", "hunter2\0")],
        &[
            ("append_system_prompt", "hunter2"),
            ("append_system_prompt", "b"),
        ],
        &[("mcp_confg", "{\"a\":\"hunter2\"}")],
    ];
    for settings in table {
        let error = launch(settings).unwrap_err();
        assert!(
            !format!("{error} {error:?}").contains("hunter2"),
            "{error:?}"
        );
        assert!(
            error
                .to_string()
                .starts_with(&format!("{}: ", settings[0].0)),
            "{error}"
        );
    }
    let path = "x".repeat(ARG_CAP + 1);
    assert_eq!(launch(&[("settings", &path)]).unwrap_err().value, "");
}

// P28: a system prompt of one megabyte goes through a file; a value that cannot is rejected, not
// truncated.
#[test]
fn long_values_go_into_files() {
    let long = "x".repeat(1024 * 1024);
    assert_eq!(
        args(&[("system_prompt", &long)]),
        "--system-prompt-file=<file of 1048576 bytes>"
    );
    assert_eq!(
        args(&[("append_system_prompt", &long)]),
        "--append-system-prompt-file=<file of 1048576 bytes>"
    );
    let json = format!("{{\"a\":\"{}\"}}", "x".repeat(ARG_CAP));
    for (key, prefix) in [
        ("settings", "--settings="),
        ("agents", "--agents="),
        ("mcp_config", "--mcp-config="),
    ] {
        assert!(args(&[(key, &json)]).starts_with(&format!("{prefix}<file of ")));
    }
    assert!(
        launch(&[("json_schema", &json)])
            .unwrap_err()
            .why
            .contains("command-line limit")
    );
}

// P29, S3-17: every error names the key, the value and what is allowed.
#[test]
fn invalid_values_are_rejected_before_the_start() {
    let table: &[&[(&str, &str)]] = &[
        &[("model", "--version")],
        &[("model", "two words")],
        &[("effort", "extreme")],
        &[("permission_mode", "yolo")],
        &[("permission_prompt", "me")],
        &[("allowed_tools", "Read,Bash(rm *)")],
        &[("allowed_tools", "Read Bash(rm *)")],
        &[("allowed_tools", "Read(a (b), Bash(rm *))")],
        &[("allowed_tools", "Bash(a)x")],
        &[("tools", "Bash(")],
        &[("disallowed_tools", "")],
        &[("max_turns", "0")],
        &[("max_budget_usd", "-1")],
        &[("json_schema", "[]")],
        &[("agents", "{")],
        &[("agent", "../x")],
        &[("session_id", "--version")],
        &[("resume", "")],
        &[("setting_sources", "user,cloud")],
        &[("settings", "{nope")],
        &[("mcp_config", "{nope")],
        &[("betas", "a,b")],
        &[("strict_mcp", "yes")],
        &[("modell", "opus")],
        &[("cwd", "/x")],
        &[("session_id", UUID), ("resume", "x")],
        &[("fork", "true")],
        &[("model", "a"), ("model", "b")],
    ];
    let seen: Vec<String> = table
        .iter()
        .map(|settings| launch(settings).unwrap_err().to_string())
        .collect();
    insta::assert_snapshot!(seen.join("\n"));
}

#[test]
fn extra_arguments_pass_unless_they_break_the_contract() {
    let extra = |args: &[&str]| {
        let extra_args = args.iter().map(|arg| (*arg).to_owned()).collect();
        claude().launch(&Launching::new(&Spec::default().extra_args(extra_args)))
    };
    let ok = extra(&["--debug-file", "log.txt", "--plugin-dir=x", "--chrome"]).unwrap();
    assert_eq!(
        ok.args[ok.args.len() - 4..],
        ["--debug-file", "log.txt", "--plugin-dir=x", "--chrome"].map(|a| Arg::Plain(a.into()))
    );
    for bad in [
        &["-p"][..],
        &["--print"],
        &["--output-format=json"],
        &["--output-format", "json"],
        &["--input-format=text"],
        &["--verbose"],
        &["--"],
        &["a prompt"],
        &["--plugin-dir=x", "mcp"],
        &["--version"],
        &["--debug\0"],
    ] {
        assert_eq!(extra(bad).unwrap_err().key, "extra args", "{bad:?}");
    }
}

// P31, S3-16, S2-6
#[test]
fn environment_is_limited_to_the_agents_variables() {
    let launch = launch(&[]).unwrap();
    assert_eq!(launch.program, "claude");
    assert_eq!(
        launch.env,
        [("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned())]
    );
    for mark in [
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_MESSAGING_SOCKET",
    ] {
        assert!(launch.inherits.never.contains(&mark), "{mark}");
    }
    assert!(
        launch.inherits.always.contains(&"ANTHROPIC_*") && !launch.inherits.always.contains(&"*")
    );
    let mut spec = Spec::default();
    spec.env.insert(
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC".into(),
        "0".into(),
    );
    assert!(
        claude()
            .launch(&Launching::new(&spec))
            .unwrap()
            .env
            .is_empty(),
        "the caller's value takes precedence"
    );
}

#[test]
fn documentation_lists_every_setting() {
    let page = include_str!("../../../../docs/agents/claude.md");
    for setting in ostler_dialects::find("claude").unwrap().about().settings {
        assert!(
            page.contains(&format!("| `{}` | `--", setting.key)),
            "docs/agents/claude.md lacks {}",
            setting.key
        );
    }
    let page = include_str!("../../../../docs/agents/openai-api.md");
    let (_, table) = page.split_once("## Settings").unwrap();
    for setting in ostler_dialects::find("openai-api")
        .unwrap()
        .about()
        .settings
    {
        assert!(
            table.contains(&format!("`{}`", setting.key)),
            "docs/agents/openai-api.md lacks {}",
            setting.key
        );
    }
}

// Issue 17, item 2.
#[test]
fn policy_excludes_project_settings_unless_the_caller_selects_them() {
    use ostler_core::permission::Policy;
    use ostler_core::spec::ProjectSettings;
    let ignores = |spec: &Spec| {
        let launch = claude().launch(&Launching::new(spec)).unwrap();
        let flag = Arg::Plain("--setting-sources=user".to_owned());
        launch.args.contains(&flag)
    };
    let ruled = Spec::default().policy(Policy::default());
    assert!(!ignores(&Spec::default()) && ignores(&ruled));
    assert!(!ignores(
        &ruled.clone().project_settings(ProjectSettings::Trusted)
    ));
    let mut selected = ruled.clone();
    selected.set("setting_sources", ["user,project"]).unwrap();
    assert!(!ignores(&selected));
    assert!(!ignores(
        &ruled.extra_args(vec!["--setting-sources=user,local".to_owned()])
    ));
}
