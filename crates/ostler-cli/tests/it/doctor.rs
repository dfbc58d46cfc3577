//! `ostler doctor`: an overview that fits a screen, and full details for one agent.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use insta::assert_snapshot;
use ostler_testkit::pty::Pty;
use ostler_testkit::{fake, real};
use serde_json::Value;

use crate::rig::{Rig, finish};

/// Copilot without a login, as 1.0.102 responds.
const COPILOT: &str = r#"#!/bin/sh
case "$1" in
--version) echo "GitHub Copilot CLI 1.0.102." ;;
--acp) while read -r line; do case "$line" in
    *\"initialize\"*) echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}' ;;
    *\"authenticate\"*) echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Authentication required"}}' ;;
  esac; done ;;
esac
"#;

/// opencode without credentials, as 1.18.33 responds.
const OPENCODE: &str = r#"#!/bin/sh
case "$1" in
--version) echo 1.18.33 ;;
auth) printf '\n┌  Credentials ~/.local/share/opencode/auth.json\n│\n└  0 credentials\n\n' ;;
esac
"#;

const GOOSE: &str = "#!/bin/sh\necho 1.34.0\n";

/// Returns a script that runs the fake agent as Claude Code with these variables.
fn claude(vars: &str) -> String {
    format!(
        "#!/bin/sh\n{vars} exec {} \"$@\"\n",
        fake::program().display()
    )
}

fn install(rig: &Rig, programs: &[(&str, &str)]) {
    std::fs::create_dir_all(rig.path("bin")).unwrap();
    for (name, script) in programs {
        let file = rig.path("bin").join(name);
        std::fs::write(&file, script).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Builds `ostler doctor` with only these programs on PATH.
fn doctor(rig: &Rig, args: &[&str]) -> Command {
    let mut command = rig.ostler(&["doctor"]);
    command.args(args).env("PATH", rig.path("bin"));
    command
}

fn report(rig: &Rig, args: &[&str]) -> Value {
    let done = finish(doctor(rig, args).arg("--json"));
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {}", done.stderr))
}

fn status(report: &Value, agent: &str) -> String {
    let agents = report["agents"].as_array().unwrap();
    agents.iter().find(|it| it["agent"] == agent).unwrap()["status"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn the_report_fits_a_screen() {
    let rig = Rig::new();
    install(
        &rig,
        &[
            ("claude", &claude("")),
            ("copilot", COPILOT),
            ("opencode", OPENCODE),
            ("goose", GOOSE),
        ],
    );
    let done = finish(&mut doctor(&rig, &[]));
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    let (before, rest) = done.stdout.split_once(", gemini").unwrap();
    let (missing, after) = rest.split_once("\n").unwrap();
    assert!(missing.contains(", claude-agent-acp"), "{missing}");
    assert_snapshot!(format!("{before}, …\n{after}"), @r"
    ✓ claude    ready          2.1.325    api_key
    ✗ copilot   needs login    1.0.102
        Run `copilot login`, set COPILOT_GITHUB_TOKEN, or set
        COPILOT_PROVIDER_BASE_URL to use a custom provider.
    ? opencode  unknown login  1.18.33
    ? goose     unknown login  1.34.0
    not installed: codex, …
    not configured: openai-api

    `ostler run` uses claude, the first usable agent. Use `--agent NAME` to choose
    another.
    Run `ostler doctor AGENT` for details and how to install or log in.
    ");
}

/// The longest possible report: everything is installed, and nothing is logged in.
#[test]
fn longest_report_fits_a_screen() {
    let rig = Rig::new();
    let out = claude("FAKE_AGENT_LOGGED_IN=0");
    let codex =
        "#!/bin/sh\ncase \"$1\" in --version) echo codex-cli 0.166.0 ;; *) exit 1 ;; esac\n";
    let version = |number: &str| format!("#!/bin/sh\necho {number}\n");
    let others = real::all().map(|pinned| (pinned.name, version(pinned.reported_version())));
    let others: Vec<(&str, String)> = others.chain([("node", version("v99.0.0"))]).collect();
    let others: Vec<(&str, &str)> = others.iter().map(|(name, it)| (*name, &**it)).collect();
    install(&rig, &others);
    let programs = [
        ("claude", out.as_str()),
        ("codex", codex),
        ("copilot", COPILOT),
        ("opencode", OPENCODE),
        ("goose", GOOSE),
    ];
    install(&rig, &programs);
    let done = finish(&mut doctor(&rig, &[]));
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert!(
        lines.len() <= 24 && lines.iter().all(|line| line.chars().count() <= 80),
        "{}",
        done.stdout
    );
    for agent in ["claude", "codex", "copilot"] {
        assert_eq!(
            status(&report(&rig, &[]), agent),
            "not_logged_in",
            "{agent}"
        );
    }
    assert!(
        done.stdout
            .contains("`ostler run` uses gemini, the first usable agent if it is logged in.")
    );
}

#[test]
fn missing_or_unknown_login_is_not_ready() {
    let rig = Rig::new();
    install(&rig, &[("copilot", COPILOT), ("opencode", OPENCODE)]);
    let found = report(&rig, &[]);
    assert_eq!(
        (status(&found, "copilot"), status(&found, "opencode")),
        ("not_logged_in".into(), "unknown_login".into())
    );
    assert_eq!(
        (&found["ready"], &found["run"]["agent"]),
        (&true.into(), &"opencode".into()),
        "it may be logged in"
    );
    install(
        &rig,
        &[(
            "opencode",
            &OPENCODE.replace("0 credentials", "2 credentials"),
        )],
    );
    assert_eq!(status(&report(&rig, &[]), "opencode"), "ready");
    install(
        &rig,
        &[(
            "copilot",
            &COPILOT.replace(
                r#""error":{"code":-32000,"message":"Authentication required"}"#,
                r#""result":{}"#,
            ),
        )],
    );
    assert_eq!(status(&report(&rig, &[]), "copilot"), "ready");
}

#[test]
fn default_agent_is_shown_with_the_reason() {
    let rig = Rig::new();
    let last = |command: &mut Command| {
        let text = finish(command)
            .stdout
            .replace(&rig.dir().display().to_string(), "DIR");
        text.split("\n\n")
            .last()
            .unwrap()
            .split("\nRun `ostler doctor")
            .next()
            .unwrap()
            .replace('\n', " ")
    };
    let chosen = |command: &mut Command| {
        let report: Value = serde_json::from_str(&finish(command.arg("--json")).stdout).unwrap();
        (
            report["run"]["agent"].as_str().unwrap().to_owned(),
            report["run"]["reason"].as_str().unwrap().to_owned(),
        )
    };
    let pair = |agent: &str, reason: &str| (agent.to_owned(), reason.to_owned());
    assert_eq!(
        chosen(&mut doctor(&rig, &[])),
        pair("scripted", "none_usable")
    );
    assert!(last(&mut doctor(&rig, &[])).starts_with("No agent is ready."));
    install(&rig, &[("copilot", COPILOT)]);
    assert_eq!(
        chosen(&mut doctor(&rig, &[])),
        pair("copilot", "only_installed")
    );
    assert_eq!(
        last(&mut doctor(&rig, &[])),
        "`ostler run` uses copilot, the only installed agent; it is not logged in."
    );
    install(&rig, &[("goose", GOOSE)]);
    assert_eq!(
        chosen(&mut doctor(&rig, &[])),
        pair("goose", "first_usable")
    );
    let named = |command: &mut Command| last(command.env("OSTLER_AGENT", "claude"));
    assert_eq!(
        named(&mut doctor(&rig, &[])),
        "`ostler run` uses claude, configured by $OSTLER_AGENT; it is not installed."
    );
    std::fs::create_dir_all(rig.path(".config/ostler")).unwrap();
    rig.file(".config/ostler/ostler.toml", "agent = \"goose\"\n");
    assert_eq!(
        last(&mut doctor(&rig, &[])),
        "`ostler run` uses goose, configured by DIR/.config/ostler/ostler.toml:1."
    );
    assert_eq!(chosen(&mut doctor(&rig, &[])), pair("goose", "configured"));
}

#[test]
fn one_agent_is_shown_in_full() {
    let rig = Rig::new();
    install(&rig, &[("copilot", COPILOT), ("goose", GOOSE)]);
    let shown = |agent: &str| {
        let done = finish(&mut doctor(&rig, &[agent]));
        (
            done.code,
            done.stdout.replace(&rig.dir().display().to_string(), "DIR"),
        )
    };
    let (code, text) = shown("copilot");
    assert_eq!(code, Some(3));
    assert_snapshot!(text, @r"
    copilot: needs login
      version  1.0.102; 1.0.0 or newer is required; tested with 1.0.102
      path     DIR/bin/copilot
      problem  not logged in: a login or an API key is required
      fix      Run `copilot login`, set COPILOT_GITHUB_TOKEN, or set
               COPILOT_PROVIDER_BASE_URL to use a custom provider.
      models   auto
      docs     docs/agents/copilot.md
    ");
    let (code, text) = shown("goose");
    assert_eq!(code, Some(0));
    assert!(
        text.contains("goose: unknown login") && text.contains("goose configure"),
        "{text}"
    );
    let (code, text) = shown("codex");
    assert!(
        code == Some(3) && text.contains("codex: not installed") && text.contains("npm install"),
        "{text}"
    );
    let only = report(&rig, &["goose"]);
    assert_eq!(
        (only["agents"].as_array().unwrap().len(), &only["run"]),
        (1, &Value::Null)
    );
    let wrong = finish(&mut doctor(&rig, &["claud"]));
    assert!(
        wrong.code == Some(2) && wrong.stderr.contains("did you mean claude"),
        "{}",
        wrong.stderr
    );
}

/// On a terminal, agents being probed are listed until all have responded.
#[test]
fn progress_is_shown_while_agents_are_probed() {
    let rig = Rig::new();
    let gate = rig.path("gate");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &gate,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    install(
        &rig,
        &[(
            "goose",
            &format!("#!/bin/sh\nread -r _ < {}\necho 1.34.0\n", gate.display()),
        )],
    );
    let mut pty = Pty::start(&doctor(&rig, &[]));
    pty.until_seen("probing goose", 1);
    std::fs::write(&gate, "go\n").unwrap();
    pty.until_seen("? goose", 1);
    assert_eq!(pty.end(), Some(0));
    assert!(!pty.seen().contains("probing"), "{}", pty.seen());
}
