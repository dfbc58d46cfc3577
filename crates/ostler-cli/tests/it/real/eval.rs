//! An evaluation with real agents: three cases, each with three agents, twice.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::scenario::{CLAUDE, CODEX, COPILOT, Subject, TestEnv};
use serde_json::{Value, json};

use crate::driver::ostler;
use crate::rig::finish;

/// A case's name, the agents that solve it, and what its evaluator expects of `out.txt`.
const CASES: [(&str, &[&str]); 3] = [
    ("write", &["claude", "codex", "copilot"]),
    ("commit", &["claude", "codex"]),
    ("refuse", &[]),
];

/// The key that the user of the test is logged in with.
const LOGIN: &str = "sk-login-of-the-test";

/// Returns the model of an agent: two calls per trial, a command and a closing text.
fn script(subject: &Subject) -> Script {
    let rules = CASES.iter().map(|(name, solved_by)| {
        let word = match solved_by.contains(&subject.name) {
            true => "right",
            false => "wrong",
        };
        let commit = match *name {
            "commit" => " && git add -A && git commit -qm done",
            _ => "",
        };
        let command = format!("echo {word} > out.txt{commit}");
        let answer = Answer::text("I write the file.")
            .and_tool(subject.command(), subject.shell_arguments(&command));
        Rule::on_text(format!("task {name}")).answer(answer)
    });
    rules
        .fold(Script::new(), Script::rule)
        .rule(Rule::on_tool_result().answer(Answer::text("It is written.")))
}

/// Logs the user in to Codex, with Codex itself.
fn log_in(codex: &TestEnv, home: &Path) {
    let mut command = std::process::Command::new(codex.program().unwrap());
    command
        .args(["login", "--with-api-key"])
        .env("HOME", home)
        .env_remove("CODEX_HOME")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(LOGIN.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(home.join(".codex/auth.json").is_file());
}

fn write_suite(dir: &Path, codex: &TestEnv) {
    fs::create_dir_all(dir.join("cases")).unwrap();
    fs::create_dir_all(dir.join("start")).unwrap();
    fs::write(dir.join("start/README.md"), "hello\n").unwrap();
    for (name, _) in CASES {
        let case = json!({
            "name": name,
            "directory": "../start",
            "prompt": format!("This is task {name}."),
            "timeout": "5m",
            "evaluators": [
                {"name": "files", "config": {"matches": {"out.txt": "^right\\s*$"}}},
                {"name": "git-diff", "config": {"assertions": {"max_files_changed": 1}}},
            ],
        });
        fs::write(dir.join(format!("cases/{name}.json")), case.to_string()).unwrap();
    }
    let provider = [
        "model_provider=stand-in".to_owned(),
        "model_providers.stand-in.name=stand-in".to_owned(),
        format!(
            "model_providers.stand-in.base_url={}/v1",
            codex.server.base_url()
        ),
        "model_providers.stand-in.wire_api=responses".to_owned(),
        // The key is that of the login, and of no variable.
        "model_providers.stand-in.requires_openai_auth=true".to_owned(),
    ];
    let suite = json!({
        "suite": "real",
        "cases": ["cases"],
        "repetitions": 2,
        "jobs": 2,
        "agents": [
            {"agent": "claude", "settings": {"permission_mode": "bypassPermissions"}},
            {"agent": "codex", "model": "gpt-5.5",
             "label": "codex",
             "settings": {"permission_mode": "danger-full-access", "config": provider}},
            {"agent": "copilot", "settings": {"permission_mode": "allow-tools"}},
        ],
    });
    fs::write(dir.join("suite.json"), suite.to_string()).unwrap();
}

/// Returns the structure of a JSON value: members and kinds. Elements of an array are merged, and
/// what is unknown stays null.
fn structure(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), structure(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(values) => values.iter().map(structure).fold(Value::Null, merged),
        Value::String(_) => "text".into(),
        Value::Number(_) => "number".into(),
        Value::Bool(_) => "boolean".into(),
        Value::Null => Value::Null,
    }
}

fn merged(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Null, known) | (known, Value::Null) => known,
        (Value::Object(mut all), Value::Object(more)) => {
            for (name, value) in more {
                let known = all.remove(&name).unwrap_or_default();
                all.insert(name, merged(known, value));
            }
            all.into()
        }
        (known, _) => known,
    }
}

/// Checks that two structures have the same members, of the same kinds unless unknown.
fn assert_comparable(one: &Value, other: &Value, path: &str) {
    match (one, other) {
        (Value::Null, _) | (_, Value::Null) => {}
        (Value::Object(a), Value::Object(b)) => {
            assert!(a.keys().eq(b.keys()), "{path}: {one:#} {other:#}");
            for (name, value) in a {
                assert_comparable(value, &b[name], &format!("{path}.{name}"));
            }
        }
        _ => assert_eq!(one, other, "{path}"),
    }
}

/// Returns the configuration of an agent: its program, and what points it at its model. Codex gets
/// neither a key nor its configuration file.
fn agent_table(env: &TestEnv) -> String {
    let own = ["HOME", "PATH", "CODEX_HOME", "OPENAI_API_KEY"];
    let vars = env.host().iter();
    let vars = vars.filter(|(name, _)| !own.contains(&name.as_str()));
    let vars: String = vars
        .map(|(name, value)| format!("{name} = {value:?}\n"))
        .collect();
    let (name, program) = (env.subject.name, env.program().unwrap());
    format!("[agents.{name}]\ncommand = {program:?}\n[agents.{name}.env]\n{vars}")
}

/// The figures of a suite with real agents are known beforehand, every token is booked, and their
/// logs have the same structure. Codex has only a login of the user's home. S4-30, S4-31, S4-46.
#[test]
fn three_agents_solve_what_they_should() {
    let envs = [&CLAUDE, &CODEX, &COPILOT].map(|subject| TestEnv::new(subject, script(subject)));
    let [claude, codex, _] = &envs;
    let home = claude.outside("home");
    log_in(codex, &home);
    let suite = claude.outside("suite");
    write_suite(&suite, codex);
    let config = claude.outside("config");
    fs::create_dir(&config).unwrap();
    let agents: String = envs.iter().map(agent_table).collect();
    fs::write(config.join("ostler.toml"), agents).unwrap();
    let mut command = ostler(claude);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", &home)
        .env("OSTLER_CONFIG_DIR", &config)
        .env("OSTLER_STATE_DIR", claude.outside("state"))
        .env("XDG_CACHE_HOME", claude.outside("cache"))
        .env("TMPDIR", claude.outside(""))
        .stderr(Stdio::piped())
        .args(["eval", "run", "--json"])
        .arg(suite.join("suite.json"));
    let finished = finish(&mut command);
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    for env in &envs {
        check_agent(&report, env);
    }
    let auth = codex.server.requests();
    assert!(
        auth.iter()
            .all(|call| call.header("authorization") == Some(&format!("Bearer {LOGIN}")))
    );
    check_logs(&report);
    for trial in report["trials"].as_array().unwrap() {
        assert_eq!(trial["diff_files"], 1, "a commit hides nothing: {trial:#}");
    }
}

/// Checks the verdicts and the tokens of an agent.
fn check_agent(report: &Value, env: &TestEnv) {
    let name = env.subject.name;
    let trials = report["trials"].as_array().unwrap();
    let own: Vec<&Value> = trials
        .iter()
        .filter(|trial| trial["agent"] == name)
        .collect();
    assert_eq!(own.len(), 6);
    for trial in &own {
        let (_, solved_by) = CASES
            .iter()
            .find(|(case, _)| trial["case"] == *case)
            .unwrap();
        let expected = match solved_by.contains(&name) {
            true => "passed",
            false => "failed",
        };
        assert_eq!(
            (&trial["verdict"], &trial["cause"], &trial["attempts"]),
            (&expected.into(), &"completed".into(), &1.into()),
            "{trial:#}"
        );
    }
    let agents = report["agents"].as_array().unwrap();
    let agent = agents.iter().find(|agent| agent["agent"] == name).unwrap();
    let solved = 2 * CASES.iter().filter(|(_, by)| by.contains(&name)).count();
    assert_eq!(
        (&agent["scored"], &agent["passed"]),
        (&6.into(), &solved.into())
    );
    assert_eq!(env.server.requests().len(), 12, "two calls per trial");
    let sum = env.subject.numbers.sum(&env.server.served());
    let booked = ["input", "cache_write", "cache_read", "output"]
        .map(|kind| agent["tokens"][kind].as_u64().unwrap_or_default());
    assert_eq!(booked, sum, "{name}");
}

/// Checks that the normalized logs of all agents have the same structure. CR-4.2
fn check_logs(report: &Value) {
    let trials = report["trials"].as_array().unwrap();
    let logs: Vec<(String, Value)> = trials
        .iter()
        .filter(|trial| trial["case"] == "write" && trial["repetition"] == 1)
        .map(|trial| {
            let dir = Path::new(trial["artifacts"].as_str().unwrap());
            let text = fs::read_to_string(dir.join("youbencha.log.json")).unwrap();
            (
                trial["agent"].to_string(),
                serde_json::from_str(&text).unwrap(),
            )
        })
        .collect();
    assert_eq!(logs.len(), 3);
    let (_, first) = &logs[0];
    let roles = |log: &Value| -> Vec<String> {
        let messages = log["messages"].as_array().unwrap().iter();
        messages.map(|it| it["role"].to_string()).collect()
    };
    for (agent, log) in &logs {
        assert_comparable(&structure(log), &structure(first), agent);
        assert_eq!(roles(log), roles(first), "{agent}");
        for (part, count) in [("tool_calls", 1), ("errors", 0)] {
            let found = log[part].as_array().unwrap().len();
            assert_eq!(found, count, "{agent}: {log:#}");
        }
        for known in ["input_tokens", "output_tokens", "total_tokens"] {
            assert!(log["usage"][known].is_u64(), "{agent}: {log:#}");
        }
        assert!(log["model_info"]["name"].is_string(), "{agent}: {log:#}");
    }
    let names: BTreeSet<&str> = logs
        .iter()
        .map(|(_, log)| log["agent_info"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        BTreeSet::from(["claude-code", "codex", "copilot-cli"])
    );
}

/// Runs one trial of a repository whose settings for Claude Code plant two hooks. Returns which of
/// them ran, and whether the trial passed.
fn planted_hooks(args: &[&str]) -> (Vec<&'static str>, Value) {
    let script = Script::new()
        .rule(Rule::on_tool_result().answer(Answer::text("Done.")))
        .rule(Rule::any().answer(CLAUDE.shell("echo right > out.txt")));
    let claude = TestEnv::new(&CLAUDE, script);
    let suite = claude.outside("suite");
    fs::create_dir_all(suite.join("start/.claude")).unwrap();
    // The sandbox lets a hook write to the workspace.
    let hook =
        |mark: &str| json!([{"hooks": [{"type": "command", "command": format!("touch {mark}")}]}]);
    let settings = json!({
        "hooks": {"SessionStart": hook("session-hook"), "PreToolUse": hook("tool-hook")},
    });
    fs::write(
        suite.join("start/.claude/settings.json"),
        settings.to_string(),
    )
    .unwrap();
    let case = json!({
        "name": "hooks",
        "directory": "start",
        "prompt": "Write the file.",
        "timeout": "5m",
        "agent": {"type": "claude", "config": {"permission_mode": "bypassPermissions"}},
        "evaluators": [{"name": "files", "config": {"exists": ["out.txt"]}}],
    });
    fs::write(suite.join("case.json"), case.to_string()).unwrap();
    let config = claude.outside("config");
    fs::create_dir(&config).unwrap();
    fs::write(config.join("ostler.toml"), agent_table(&claude)).unwrap();
    let mut command = ostler(&claude);
    command
        .env("OSTLER_CONFIG_DIR", &config)
        .env("OSTLER_STATE_DIR", claude.outside("state"))
        .env("XDG_CACHE_HOME", claude.outside("cache"))
        .env("TMPDIR", claude.outside(""))
        .stderr(Stdio::piped())
        .args(["eval", "run", "--json"])
        .arg(suite.join("case.json"))
        .args(args);
    let finished = finish(&mut command);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    let artifacts = Path::new(report["trials"][0]["artifacts"].as_str().unwrap());
    let diff = fs::read_to_string(artifacts.join("diff.patch")).unwrap();
    let marks = ["session-hook", "tool-hook"];
    let left = marks
        .into_iter()
        .filter(|mark| diff.contains(&format!("b/{mark}")));
    (left.collect(), report)
}

/// Hooks of the evaluated repository do not run, although no policy is set. Issue 21, section 2.
#[test]
fn hooks_of_the_repository_do_not_run() {
    let (left, report) = planted_hooks(&[]);
    assert!(left.is_empty(), "{left:?} {report:#}");
    let (left, report) = planted_hooks(&["--trust-project"]);
    assert_eq!(left, ["session-hook", "tool-hook"], "{report:#}");
}
