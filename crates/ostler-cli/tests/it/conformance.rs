//! `ostler doctor --conformance` with programs that do not behave as expected.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use ostler_testkit::fake;
use ostler_testkit::real::{self, Pinned};
use serde_json::Value;

use crate::driver::{output, utf8};
use crate::rig::{Rig, finish};

fn doctor(program: Option<&str>, agent: &str) -> (Option<i32>, String) {
    let rig = Rig::new();
    let mut command = rig.ostler(&["doctor", "--conformance", agent]);
    if let Some(text) = program {
        let file = rig.file("claude", text);
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        command.env("PATH", format!("{}:/usr/bin:/bin", rig.dir().display()));
    } else {
        command.env("PATH", rig.dir());
    }
    let done = finish(&mut command);
    (done.code, done.stdout + &done.stderr)
}

#[test]
fn silent_agent_fails_every_check() {
    let script = "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 2.1.999; fi\n";
    let (code, output) = doctor(Some(script), "claude");
    assert_eq!(code, Some(1), "{output}");
    assert!(
        output.starts_with("claude 2.1.999 (this release was tested with 2.1.325)"),
        "{output}"
    );
    assert_eq!(
        (output.matches('✗').count(), output.matches('✓').count()),
        (9, 0),
        "{output}"
    );
    assert!(output.contains("9 checks failed"), "{output}");
}

#[test]
fn missing_or_untestable_agent_is_named() {
    let (code, output) = doctor(None, "claude");
    assert_eq!(code, Some(3), "{output}");
    assert!(
        output.contains("claude is not installed") && output.contains("hint: claude CLI not found"),
        "{output}"
    );
    let (code, output) = doctor(None, "mock");
    assert_eq!(code, Some(2), "{output}");
    assert!(
        output.contains("mock cannot be tested")
            && output.contains("claude, ")
            && output.contains(", codex"),
        "{output}"
    );
    let (code, output) = doctor(None, "nobody");
    assert_eq!(code, Some(2), "{output}");
}

/// Creates a rig with this configuration and a program that prints its version, records how it is
/// started, and stays silent.
fn configured(toml: &str, program: &str) -> Rig {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.path(".config/ostler")).unwrap();
    let noted = rig.path("noted");
    let text = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 2.1.999; exit; fi\n\
         echo \"$*|$MARK|$TOKEN|$ANTHROPIC_BASE_URL|$GEMINI_API_KEY\" >> {}\n",
        noted.display()
    );
    std::fs::set_permissions(rig.file(program, &text), PermissionsExt::from_mode(0o755)).unwrap();
    let toml = toml.replace("PROGRAM", &rig.path(program).display().to_string());
    rig.file(".config/ostler/ostler.toml", &toml);
    rig
}

/// The configured command is tested. Configured arguments and variables could select another model,
/// so they are not used.
#[test]
fn configured_command_is_tested() {
    let rig = configured(
        "[agents.claude]\ncommand = \"PROGRAM\"\nargs = [\"--debug-to-stderr\"]\nmodel = \"opus\"\n\
         env = { MARK = \"marked\", TOKEN = \"${NOT_SET}\", ANTHROPIC_BASE_URL = \"http://elsewhere\" }\n\
         [agents.work]\nlike = \"claude\"\nargs = [\"--verbose-work\"]\n",
        "my-claude",
    );
    for (name, args) in [("claude", "--debug-to-stderr"), ("work", "--verbose-work")] {
        let done = finish(&mut rig.ostler(&["doctor", "--conformance", name]));
        assert_eq!(done.code, Some(1), "{}", done.stderr);
        assert!(
            done.stdout.starts_with(&format!("{name} 2.1.999 ")),
            "{}",
            done.stdout
        );
        assert!(
            done.stdout
                .contains("\nconfigured but not used: env, args\n"),
            "{}",
            done.stdout
        );
        let noted = std::fs::read_to_string(rig.path("noted")).unwrap();
        let fields: Vec<&str> = noted.lines().last().unwrap().split('|').collect();
        assert!(
            !fields[0].contains(args) && !fields[0].contains("opus"),
            "{noted}"
        );
        assert_eq!((fields[1], fields[2]), ("", ""), "{noted}");
        assert!(fields[3].starts_with("http://127.0.0.1:"), "{noted}");
    }
}

/// A server other than the scripted model could do anything, so the check stops at its first
/// answer.
#[test]
fn check_stops_if_another_server_answers() {
    let rig = configured("[agents.mine]\nacp = [\"PROGRAM\"]\n", "opencode");
    let play = |row: &str| {
        let recording = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fixtures/conformance/opencode")
            .join(row);
        let (fake, noted) = (fake::program(), rig.path("noted"));
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 1.18.33; exit; fi\necho >> {}\nexec {} play {}\n",
            noted.display(),
            fake.display(),
            recording.canonicalize().unwrap().display()
        );
        std::fs::set_permissions(
            rig.file("opencode", &text),
            PermissionsExt::from_mode(0o755),
        )
        .unwrap();
    };
    play("text.jsonl");
    let done = finish(&mut rig.ostler(&["doctor", "--conformance", "mine"]));
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(
        done.stdout
            .contains("✗ text        the agent answered without a request to the scripted model"),
        "{}",
        done.stdout
    );
    assert_eq!(
        (
            done.stdout.matches('✗').count(),
            done.stdout.matches('✓').count()
        ),
        (1, 0),
        "{}",
        done.stdout
    );
    assert_eq!(
        std::fs::read_to_string(rig.path("noted"))
            .unwrap()
            .lines()
            .count(),
        1
    );
}

/// A gateway would send requests to the user's model.
#[test]
fn agent_behind_a_gateway_is_not_tested() {
    for (name, toml) in [
        (
            "openclaw",
            "[agents.openclaw]\ncommand = \"PROGRAM\"\nset = { transport = \"acp\" }\n",
        ),
        ("mine", "[agents.mine]\nacp = [\"PROGRAM\", \"acp\"]\n"),
    ] {
        let rig = configured(toml, "openclaw");
        let done = finish(&mut rig.ostler(&["doctor", "--conformance", name]));
        assert_eq!(done.code, Some(2), "{} {}", done.stdout, done.stderr);
        assert!(
            done.stderr
                .contains("the gateway's model cannot be scripted"),
            "{}",
            done.stderr
        );
        assert!(!rig.path("noted").exists());
    }
}

/// A configured agent is tested if its program can be redirected to the stand-in.
#[test]
fn configured_agent_is_tested_if_its_program_is_known() {
    let rig = configured("[agents.mine]\nacp = [\"PROGRAM\", \"--acp\"]\n", "gemini");
    let done = finish(&mut rig.ostler(&["doctor", "--conformance", "mine"]));
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(done.stdout.starts_with("mine 2.1.999\n"), "{}", done.stdout);
    let noted = std::fs::read_to_string(rig.path("noted")).unwrap();
    assert_eq!(
        noted.lines().last(),
        Some(format!("--acp||||{}", ostler_testkit::scenario::KEY).as_str())
    );

    let rig = configured(
        "[agents.mine]\nacp = [\"PROGRAM\", \"--acp\"]\n",
        "my-agent",
    );
    let done = finish(&mut rig.ostler(&["doctor", "--conformance", "mine"]));
    assert_eq!(done.code, Some(2), "{}", done.stdout);
    assert!(
        done.stderr.contains("mine cannot be tested") && done.stderr.contains("my-agent"),
        "{}",
        done.stderr
    );
}

/// Returns the report for a real agent on PATH, in an empty home directory.
fn report(agent: Pinned) -> Value {
    let home = tempfile::tempdir().unwrap();
    let bin = home.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(agent.program(), bin.join(agent.name)).unwrap();
    let mut path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    // Some need a newer Node than others, and one of them bundles it.
    if agent.heavy {
        let target = real::target_dir().unwrap();
        let node = real::pinned("openclaw").path(&target).next().unwrap();
        path = format!("{}:{path}", node.display());
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    command
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", path);
    let ran = output(command.args(["doctor", "--json", "--conformance", agent.name]));
    let report: Value =
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{}", utf8(&ran.stderr)));
    assert_eq!(ran.status.code(), Some(0), "{report:#}");
    report
}

/// Fails unless a real agent passes every check that its capabilities allow, and is the version
/// that the probe lists as tested.
pub(crate) fn conforms(agent: &str) {
    let pinned = real::pinned(agent);
    let report = report(pinned);
    assert_eq!(
        (&report["conforms"], report["version"].as_str()),
        (&Value::Bool(true), Some(pinned.reported_version()))
    );
    assert_eq!(
        report["tested_version"],
        pinned.reported_version(),
        "the probe names the version that these tests drive"
    );
    assert_eq!(
        report["drift"],
        serde_json::json!({}),
        "unknown messages from the tested version"
    );
    let passed = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["result"] == "passed")
        .count();
    let able = ostler::Agents::builtin()
        .get(agent)
        .unwrap()
        .about()
        .capabilities;
    let optional = [
        able.stream_text,
        able.tells_tools,
        able.interrupt,
        able.resume,
    ];
    let applicable = 5 + optional.iter().filter(|able| **able).count();
    // With a policy, some use a transport that can do more.
    assert!(passed >= applicable, "{report:#}");
}

/// Generates a test of the check with a real agent, in the agent's group.
macro_rules! conformance_test {
    (real real $agent:ident $name:literal) => {
        $crate::conformance::conformance_test! { @ $agent $name }
    };
    (heavy heavy $agent:ident $name:literal) => {
        $crate::conformance::conformance_test! { @ $agent $name }
    };
    (@ $agent:ident $name:literal) => {
        #[test]
        fn $agent() {
            $crate::conformance::conforms($name);
        }
    };
    ($($other:tt)*) => {};
}

pub(crate) use conformance_test;
