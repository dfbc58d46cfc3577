//! Shell completion of agents, models and sessions, in a real shell.

use std::path::Path;
use std::process::Command;

use ostler_testkit::pty::Pty;

use crate::rig::{Rig, finish};

/// Returns a PATH that starts with the program's directory.
fn path() -> String {
    let dir = Path::new(env!("CARGO_BIN_EXE_ostler")).parent().unwrap();
    format!("{}:/usr/bin:/bin", dir.display())
}

/// Builds a shell command in the rig's directory, with the output of `ostler completions` in the
/// file `script`.
fn shell(rig: &Rig, shell: &str) -> Command {
    let script = finish(&mut rig.ostler(&["completions", shell]));
    assert_eq!((script.code, script.stderr.as_str()), (Some(0), ""));
    rig.file("script", &script.stdout);
    let mut command = Command::new(format!("/usr/bin/{shell}"));
    command
        .env_clear()
        .env("HOME", rig.dir())
        .env("PATH", path())
        .current_dir(rig.dir());
    command
}

/// Returns bash's completions for a command line; the last word is the one under the cursor.
fn offered(rig: &Rig, line: &[&str]) -> Vec<String> {
    let last = line.len() - 1;
    let before = if last == 0 { "" } else { line[last - 1] };
    let words: Vec<String> = line.iter().map(|word| format!("'{word}'")).collect();
    let code = format!(
        "source ./script; COMP_WORDS=({}); COMP_CWORD={last}; COMP_TYPE=9; \
         _clap_complete_ostler ostler '{}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.join(" "),
        line[last],
    );
    let mut command = shell(rig, "bash");
    command.args(["--norc", "--noprofile", "-c", &code]);
    let done = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stderr), "", "{line:?}");
    String::from_utf8(done.stdout)
        .unwrap()
        .lines()
        .map(|line| line.trim().to_owned())
        .collect()
}

#[test]
fn agents_are_completed() {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.path(".config/ostler")).unwrap();
    rig.file(
        ".config/ostler/ostler.toml",
        "[agents.clerk]\nlike = \"claude\"\n",
    );
    assert_eq!(
        offered(&rig, &["ostler", "run", "--agent", "cl"]),
        ["claude", "claude-agent-acp", "clerk"]
    );
    for line in [
        &["ostler", "doctor", "cod"][..],
        &["ostler", "doctor", "--conformance", "cod"],
        &["ostler", "chat", "-a", "cod"],
        &["ostler", "replay", "--agent", "cod"],
        &["ostler", "sessions", "--agent", "cod"],
        &["ostler", "sessions", "list", "--agent", "cod"],
        &["ostler", "policy", "test", "--agent", "cod"],
    ] {
        assert_eq!(offered(&rig, line), ["codex", "codex-acp"], "{line:?}");
    }
    // Bash treats `=` as a separate word.
    assert_eq!(
        offered(&rig, &["ostler", "run", "--agent", "=", "cl"]),
        ["claude", "claude-agent-acp", "clerk"]
    );
    // An invalid file does not disable completion of agent names.
    rig.file(".config/ostler/ostler.toml", "this is wrong");
    assert_eq!(
        offered(&rig, &["ostler", "run", "--agent", "cla"]),
        ["claude", "claude-agent-acp"]
    );
}

#[test]
fn models_of_the_agent_are_completed() {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.path(".config/ostler")).unwrap();
    rig.file(
        ".config/ostler/ostler.toml",
        "[agents.claude.models]\nsonic = \"sonnet\"\n",
    );
    assert_eq!(
        offered(
            &rig,
            &["ostler", "run", "--agent", "claude", "--model", "son"]
        ),
        ["sonic", "sonnet"]
    );
    assert_eq!(
        offered(
            &rig,
            &["ostler", "run", "--agent", "codex", "--model", "son"]
        ),
        [""; 1]
    );
    let of_codex = offered(&rig, &["ostler", "run", "-a", "codex", "--model", "gpt-"]);
    assert!(
        of_codex.len() > 3 && of_codex.iter().all(|model| model.starts_with("gpt-")),
        "{of_codex:?}"
    );
    let any = offered(&rig, &["ostler", "run", "--model", ""]);
    assert!(
        any.contains(&"sonnet".to_owned()) && any.iter().any(|model| model.starts_with("gpt-")),
        "{any:?}"
    );
    let of_loop = offered(&rig, &["ostler", "loop", "--model", "claude"]);
    assert_eq!(of_loop, ["claude-cli", "claude-agent-acp-cli"]);
}

#[test]
fn sessions_are_completed() {
    let rig = Rig::new();
    assert_eq!(offered(&rig, &["ostler", "run", "--resume", ""]), [""; 1]);
    let run = finish(&mut rig.fake_run(
        "read\ninit\nresult done\nread-until-eof",
        &["--output", "json", "first task"],
    ));
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let id = report["session"].as_str().unwrap();
    for line in [
        &["ostler", "run", "--resume", &id[..3]][..],
        &["ostler", "chat", "--resume", ""],
        &["ostler", "loop", "--resume", ""],
        &["ostler", "sessions", "show", ""],
    ] {
        let mut offered = offered(&rig, line);
        // A positional argument may also be a flag.
        offered.retain(|word| !word.starts_with("--"));
        assert!(
            offered.len() == 1 && offered[0].len() >= 8 && id.starts_with(&offered[0]),
            "{line:?}: {offered:?}"
        );
    }
}

#[test]
fn verbs_and_flags_are_completed() {
    let rig = Rig::new();
    assert_eq!(offered(&rig, &["ostler", "repl"]), ["replay"]);
    assert_eq!(
        offered(&rig, &["ostler", "run", "--permis"]),
        ["--permission-mode", "--permissions"]
    );
    assert_eq!(
        offered(&rig, &["ostler", "run", "--permissions", "re"]),
        ["read-only"]
    );
}

// Only one of a name and its aliases is offered; it used to be an alias.
#[test]
fn aliases_are_not_offered() {
    let rig = Rig::new();
    let verbs = offered(&rig, &["ostler", ""]);
    assert!(
        verbs.contains(&"doctor".to_owned()) && !verbs.contains(&"agents".to_owned()),
        "{verbs:?}"
    );
    let verbs = offered(&rig, &["ostler", "sessions", ""]);
    for (name, alias) in [("list", "ls"), ("rm", "remove")] {
        let is_offered = |verb: &str| verbs.iter().any(|offered| offered == verb);
        assert!(is_offered(name) && !is_offered(alias), "{name}: {verbs:?}");
    }
    assert_eq!(
        offered(&rig, &["ostler", "loop", "--max-it"]),
        ["--max-iterations"]
    );
    // Completion still works after a typed alias.
    assert_eq!(
        offered(&rig, &["ostler", "agents", "cod"]),
        ["codex", "codex-acp"]
    );
}

/// The same interactively: bash on a terminal, and the Tab key.
#[test]
fn tab_completes_in_bash() {
    let rig = Rig::new();
    let mut command = shell(&rig, "bash");
    command
        .args(["--norc", "--noprofile", "-i"])
        .env("PS1", "ready> ");
    let mut pty = Pty::start(&command);
    pty.until_seen("ready>", 1);
    pty.keys("source ./script\n");
    pty.until_seen("ready>", 2);
    pty.keys("ostler doctor codex-\t");
    pty.until_seen("ostler doctor codex-acp", 1);
    pty.keys("\u{15}ostler run --agent=codex-\t");
    pty.until_seen("ostler run --agent=codex-acp", 1);
    pty.keys("\u{15}exit\n");
    assert_eq!(pty.end(), Some(0));
}

/// The queries of the other shells' scripts, and their completions.
#[test]
fn every_shell_gets_completions() {
    let rig = Rig::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = finish(&mut rig.ostler(&["completions", shell])).stdout;
        assert!(
            script.contains("ostler") && script.contains("OSTLER_COMPLETE"),
            "{shell}: {script}"
        );
        let mut command = rig.ostler(&["--", "ostler", "doctor", "gem"]);
        command
            .env("OSTLER_COMPLETE", shell)
            .env("_CLAP_COMPLETE_INDEX", "2")
            .env("_CLAP_IFS", "\n");
        let done = finish(&mut command);
        assert_eq!(
            (done.code, done.stdout.trim(), done.stderr.as_str()),
            (Some(0), "gemini", ""),
            "{shell}"
        );
    }
    let unknown = finish(
        rig.ostler(&["--", "ostler", ""])
            .env("OSTLER_COMPLETE", "tcsh"),
    );
    assert!(
        unknown.code == Some(2) && unknown.stderr.contains("tcsh"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn verbs_and_flags_of_the_daemon_are_completed() {
    let rig = Rig::new();
    for (line, wanted) in [
        (&["ostler", "att"][..], "attach"),
        (&["ostler", "appr"], "approvals"),
        (&["ostler", "inter"], "interrupt"),
        (&["ostler", "sto"], "stop"),
        (&["ostler", "pau"], "pause"),
        (&["ostler", "resu"], "resume"),
        (&["ostler", "rest"], "restart"),
        (&["ostler", "for"], "fork"),
        (&["ostler", "sen"], "send"),
        (&["ostler", "ser"], "serve"),
        (&["ostler", "approvals", "ans"], "answer"),
        (&["ostler", "run", "--det"], "--detach"),
        (&["ostler", "run", "--no-d"], "--no-daemon"),
        (&["ostler", "chat", "--dae"], "--daemon"),
        (&["ostler", "send", "--st"], "--steer"),
        (&["ostler", "sessions", "--wa"], "--watch"),
    ] {
        let offered = offered(&rig, line);
        assert!(
            offered.iter().any(|word| word == wanted),
            "{line:?}: {offered:?}"
        );
    }
}
