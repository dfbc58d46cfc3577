//! Usage errors: they name the problem and the fix, and nothing is started.

use insta::assert_snapshot;

use crate::rig::{Rig, finish, finish_with};

/// Returns the exit code and stderr of a call that must fail early.
fn run_refused(args: &[&str]) -> String {
    let rig = Rig::new();
    let done = finish(&mut rig.ostler(args));
    assert_eq!(done.stdout, "", "nothing on stdout");
    let stderr = done.stderr.replace(&rig.dir().display().to_string(), "DIR");
    format!("exit {}\n{stderr}", done.code.unwrap())
}

#[test]
fn an_unknown_agent() {
    let refused = run_refused(&["run", "--agent", "nobody", "hi"]);
    let (shown, _) = refused.split_once(", copilot").unwrap();
    assert_snapshot!(shown, @r#"
    exit 2
    error: unknown agent "nobody"
      hint: available agents: claude, codex
    "#);
}

#[test]
fn no_task() {
    assert_snapshot!(run_refused(&["run"]), @r#"
    exit 2
    error: no task given
      hint: run `ostler run "…"`, pipe the task to stdin, or use `--prompt-file FILE`
    "#);
}

// S3-17, S4-43
#[test]
fn bad_value_names_key_value_and_allowed_values() {
    assert_snapshot!(run_refused(&["run", "--agent", "claude", "--permission-mode", "ask", "hi"]), @r#"
    exit 2
    error: permission_mode = "ask": expected one of: acceptEdits, auto, bypassPermissions, manual, dontAsk, plan, default
      hint: see `ostler run --help` and docs/agents/claude.md for the settings
    "#);
    assert_snapshot!(run_refused(&["run", "--agent", "claude", "--max-turns", "0", "hi"]), @r#"
    exit 2
    error: max_turns = "0": expected a whole number of at least 1
      hint: see `ostler run --help` and docs/agents/claude.md for the settings
    "#);
}

#[test]
fn an_unknown_setting_suggests_the_nearest() {
    let text = run_refused(&["run", "--agent", "claude", "--set", "efort=high", "hi"]);
    assert!(
        text.starts_with("exit 2") && text.contains("effort"),
        "{text}"
    );
}

// P29: an id that looks like a flag is treated as an id or an error, never as a flag.
#[test]
fn a_session_id_that_looks_like_a_flag() {
    let text = run_refused(&[
        "run",
        "--agent",
        "claude",
        "--session-id",
        "--version",
        "hi",
    ]);
    assert!(
        text.contains("session_id = \"--version\"") && text.contains("UUID"),
        "{text}"
    );
}

// S4-39
#[test]
fn a_prompt_file_outside_the_directory() {
    let text = run_refused(&["run", "--prompt-file", "../../../etc/passwd"]);
    assert!(
        text.starts_with("exit 2") && text.contains("outside the working directory"),
        "{text}"
    );
    let text = run_refused(&["run", "--prompt-file", "/etc/passwd"]);
    assert!(text.contains("outside the working directory"), "{text}");
}

#[test]
fn a_bad_time_and_a_bad_variable() {
    let text = run_refused(&["run", "--timeout", "soon", "hi"]);
    assert!(text.starts_with("exit 2") && text.contains("10m"), "{text}");
    let text = run_refused(&["run", "--env", "NOT_SET_ANYWHERE", "hi"]);
    assert!(text.contains("the variable is not set"), "{text}");
    // S2-29
    let text = run_refused(&[
        "run",
        "--agent",
        "claude",
        "--env",
        "OSTLER_SESSION=x",
        "hi",
    ]);
    assert!(text.contains("are reserved"), "{text}");
}

// A limit beyond the clock's range is a usage error, not a crash.
#[test]
fn out_of_range_time_is_refused() {
    for time in ["1e19", "1e300h", "99999999h"] {
        let text = run_refused(&["run", "--agent", "claude", "--timeout", time, "hi"]);
        assert!(
            text.starts_with("exit 2") && text.contains("expected"),
            "{text}"
        );
    }
}

#[test]
fn an_unknown_flag_says_what_to_type_instead() {
    let text = run_refused(&["run", "--agent", "claude", "--fix the bug"]);
    assert!(
        text.starts_with("exit 2")
            && text.contains("--prompt TEXT")
            && text.contains("--set KEY=VALUE"),
        "{text}"
    );
    assert!(!text.contains("'-- "), "{text}");
    let text = run_refused(&["run", "--effort", "high", "hi"]);
    assert!(
        text.contains("effort is a setting of claude: use `--set effort=VALUE`"),
        "{text}"
    );
    let text = run_refused(&["run", "two", "words"]);
    assert!(text.contains("in quotes"), "{text}");
    let text = run_refused(&["run", "--resum", "x", "hi"]);
    assert!(text.contains("'--resume'"), "{text}");
}

// S1-3, S4-2, P33: a missing agent is named with what to do, also in the events.
#[test]
fn a_missing_agent() {
    let rig = Rig::new();
    let done = finish(
        rig.ostler(&["run", "--agent", "claude", "--output", "events", "hi"])
            .env("PATH", "/nowhere"),
    );
    assert_eq!((done.code, done.cause().as_str()), (Some(3), "unavailable"));
    let outcome = done.outcome();
    assert_eq!(outcome["detail"]["spawn"], "missing");
    let hint = outcome["hint"].as_str().unwrap();
    assert!(
        hint.contains("https://claude.ai/code") && hint.contains("/nowhere"),
        "{hint}"
    );
}

#[test]
fn missing_directory() {
    let rig = Rig::new();
    let done = finish(&mut rig.fake_run(
        "init\nresult x",
        &["--output", "json", "--dir", "missing", "hi"],
    ));
    assert_eq!(done.code, Some(2));
    assert!(
        done.stdout.contains("bad_directory") && done.stdout.contains("--dir"),
        "{}",
        done.stdout
    );
}

#[test]
fn help_and_version() {
    let rig = Rig::new();
    let help = finish(&mut rig.ostler(&["run", "--help"]));
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    for word in [
        "Examples:",
        "Exit codes:",
        "--resume",
        "--json-schema",
        "--set",
        "--idle-timeout",
    ] {
        assert!(help.stdout.contains(word), "{word}");
    }
    assert_eq!(
        finish(&mut rig.ostler(&["--version"])).stdout,
        format!("ostler {}\n", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(finish(&mut rig.ostler(&[])).code, Some(2));
}

#[test]
fn manual_pages() {
    let rig = Rig::new();
    let man = finish(&mut rig.ostler(&["man"])).stdout;
    assert!(
        man.contains(".TH ostler") && man.contains("doctor"),
        "{man}"
    );
    assert_eq!(
        finish(&mut rig.ostler(&["man", "--dir", "."])).code,
        Some(0)
    );
    assert!(rig.path("ostler-run.1").exists());
}

#[test]
fn task_comes_from_arguments_stdin_both_or_a_file() {
    let rig = Rig::new();
    rig.file("task.md", "from a file");
    let script = "read\ndump-stdin seen\ninit\nresult done\nread-until-eof";
    let sent = |args: &[&str], stdin: &str| {
        let done = finish_with(&mut rig.fake_run(script, args), stdin);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        std::fs::read_to_string(rig.path("seen")).unwrap()
    };
    assert!(sent(&["from the line"], "").contains("\"from the line\""));
    assert!(
        sent(&["--prompt", "--help"], "").contains("\"--help\""),
        "a task may look like a flag"
    );
    assert!(sent(&["-p", "- one\n- two"], "").contains("\"- one\\n- two\""));
    assert!(sent(&[], "from stdin").contains("\"from stdin\""));
    assert!(sent(&["-"], "from stdin").contains("\"from stdin\""));
    assert!(sent(&["--stdin", "describe"], "the diff").contains("describe\\n\\nthe diff"));
    assert!(sent(&["--prompt-file", "task.md"], "").contains("\"from a file\""));
}

// P32: an open pipe on stdin is not read when the task is given.
#[test]
fn open_stdin_does_not_block() {
    let rig = Rig::new();
    let mut command = rig.fake_run(
        "read\ninit\nresult done\nread-until-eof",
        &["--output", "text", "hi"],
    );
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let held = child.stdin.take();
    let done = crate::rig::collect(child);
    drop(held);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "done\n"));
}

// S4-1…S4-4
#[test]
fn doctor_reports_agents_and_what_to_do() {
    use ostler_testkit::fake;
    let rig = Rig::new();
    let none = finish(&mut rig.ostler(&["doctor"]));
    assert_eq!(none.code, Some(3));
    assert!(
        none.stdout.contains("https://claude.ai/code"),
        "{}",
        none.stdout
    );

    let bin = rig.path("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(fake::program(), bin.join("claude")).unwrap();
    let doctor = |vars: &[(&str, &str)]| {
        // The probe gets only Claude's own variables; the fake agent's are passed explicitly in
        // this test.
        let wrapper = format!(
            "#!/bin/sh\n{}exec {} \"$@\"\n",
            vars.iter()
                .map(|(k, v)| format!("{k}='{v}' "))
                .collect::<String>(),
            fake::program().display()
        );
        std::fs::remove_file(bin.join("claude")).unwrap();
        std::fs::write(bin.join("claude"), wrapper).unwrap();
        std::fs::set_permissions(
            bin.join("claude"),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        let done = finish(
            rig.ostler(&["doctor", "--json"])
                .env("PATH", format!("{}:/usr/bin:/bin", bin.display())),
        );
        let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
        (
            done.code,
            report["agents"][0]["status"].as_str().unwrap().to_owned(),
            report["agents"][0].clone(),
        )
    };
    let ready = doctor(&[]);
    assert_eq!((ready.0, ready.1.as_str()), (Some(0), "ready"));
    assert!(ready.2["minimum_version"].is_string(), "{}", ready.2);
    let out = doctor(&[(fake::LOGGED_IN, "0")]);
    assert_eq!((out.0, out.1.as_str()), (Some(3), "not_logged_in"));
    assert!(
        out.2["problem"].as_str().unwrap().contains("API key"),
        "S4-3"
    );
    let old = doctor(&[(fake::VERSION, "0.9.1 (Claude Code)")]);
    assert_eq!((old.0, old.1.as_str()), (Some(3), "too_old"));
    let broken = doctor(&[(fake::VERSION, "what?")]);
    assert_eq!((broken.0, broken.1.as_str()), (Some(3), "broken"));
}

// S3-30: doctor reports unknown agent messages and untested agent versions.
#[test]
fn doctor_reports_agent_drift() {
    use ostler_testkit::fake;
    let rig = Rig::new();
    let verbs = "read-user\ninit\nprint {\"type\":\"brand_new\"}\nprint {\"type\":\"brand_new\",\"x\":1}\ntext hi\nresult hi\nexit 0";
    let run = finish(&mut rig.fake_run(verbs, &["--output", "text", "do it"]));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let doctor = |args: &[&str]| {
        let bin = rig.path("bin");
        let wrapper = format!(
            "#!/bin/sh\n{}='99.0.0 (Claude Code)' exec {} \"$@\"\n",
            fake::VERSION,
            fake::program().display()
        );
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("claude"), wrapper).unwrap();
        std::fs::set_permissions(
            bin.join("claude"),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        finish(
            rig.ostler(args)
                .env("PATH", format!("{}:/usr/bin:/bin", bin.display())),
        )
        .stdout
    };
    let report: serde_json::Value = serde_json::from_str(&doctor(&["doctor", "--json"])).unwrap();
    let claude = &report["agents"][0];
    assert_eq!(
        (&claude["newer_than_tested"], claude["status"].as_str()),
        (&true.into(), Some("ready")),
        "{claude}"
    );
    let [unknown] = &claude["unknown_messages"].as_array().unwrap()[..] else {
        panic!("{claude}")
    };
    assert_eq!(
        (&unknown["kind"], &unknown["count"], &unknown["sessions"]),
        (&"type \"brand_new\"".into(), &2.into(), &1.into())
    );
    assert!(
        unknown["agent_version"].is_string() && claude["unknown_hint"].is_string(),
        "{claude}"
    );
    assert!(
        doctor(&["doctor"]).contains("newer than tested · sends unknown messages"),
        "{}",
        doctor(&["doctor"])
    );
    let human = doctor(&["doctor", "claude"]);
    let human = human.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        human.contains("newer than tested")
            && human.contains("type \"brand_new\": 2 times in 1 session, by "),
        "{human}"
    );
    // Without a store nothing is known, nothing is created, and nothing fails.
    std::fs::remove_dir_all(rig.path(".local")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&doctor(&["doctor", "--json"])).unwrap();
    assert_eq!(
        report["agents"][0]["unknown_messages"],
        serde_json::json!([])
    );
    assert!(!rig.path(".local").exists());
    // The same with an invalid store.
    std::fs::create_dir_all(rig.path(".local/state/ostler")).unwrap();
    std::fs::write(rig.path(".local/state/ostler/sessions.db"), "no database").unwrap();
    let report: serde_json::Value = serde_json::from_str(&doctor(&["doctor", "--json"])).unwrap();
    assert_eq!(report["agents"][0]["status"], "ready");
}
