//! `ostler sessions`: an empty store, a list, one session again, and pruning.

use std::sync::Arc;

use ostler_core::event::{At, Ended, Event, Origin, Started, Text, TextKind, TurnEnded, TurnStarted, What};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::usage::{Scope, Usage};
use ostler_store::{Entry, Log, Opening, Store};
use serde_json::Value;

use crate::rig::{Finished, Rig, finish};

/// Prompt, directory, names and ids with something in them that a terminal would obey.
const HOSTILE: &str = "say\u{1b}[2J hel\u{202e}lo\nfake line";

fn run(rig: &Rig, args: &[&str]) -> Finished {
    finish(rig.ostler(&["sessions"]).args(args).env("OSTLER_STATE_DIR", rig.path("state")))
}

/// `ostler run` with an agent that only ends its turn.
fn mock(rig: &Rig) -> std::process::Command {
    let end = r#"{"type":"turn_ended","outcome":{"status":"success","cause":"completed","message":"ok"},"text":"x"}"#;
    let script = format!("script={}", rig.file("script.jsonl", end).display());
    rig.ostler(&["run", "--agent", "mock", "--set", &script, "hi"])
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// What happens in a session, up to its end.
fn story(prompt: &str, ends: bool) -> Vec<What> {
    let outcome = Outcome::new(Cause::Completed, "done");
    let usage = Some(Usage::unknown(Scope::Session).reported(0.25));
    let started = Started {
        agent: "mock".into(),
        agent_version: Some("1.0".into()),
        native_session: Some("native-1".into()),
        model: None,
        cwd: None,
        tools: Vec::new(),
    };
    let text = Text { kind: TextKind::Reply, text: "An answer.".into(), delta: false, message: None, parent: None };
    let mut all: Vec<What> =
        vec![started.into(), TurnStarted { origin: Origin::Caller, prompt: Some(prompt.into()) }.into(), text.into()];
    if ends {
        let turn =
            TurnEnded { outcome: outcome.clone(), text: "An answer.".into(), structured: None, usage: usage.clone() };
        all.extend([turn.into(), Ended { outcome, exit_code: None, signal: None, usage }.into()]);
    }
    all
}

/// Keeps a session that began so many minutes ago.
fn keep(store: &Store, session: &str, minutes: i64, story: Vec<What>) {
    let at = At(now() - minutes * 60_000);
    let agent = if session.starts_with('b') { "scripted" } else { "mock" };
    let opening = Opening {
        session: session.into(),
        agent: agent.into(),
        dir: format!("/nowhere/{session}\u{1b}[2J").into(),
        at,
        continues: None,
        pid: u32::MAX,
    };
    store.open(&opening).unwrap();
    let event = |(seq, what)| Event { seq, at, session: session.into(), turn: 1, what };
    let entries = (1..).zip(story).map(event).map(|event| Entry { event, raw_offset: 0 }).collect();
    // Dropping the store waits for it.
    drop(store.append(Arc::new(entries)));
}

fn filled() -> Rig {
    let rig = Rig::new();
    let store = Store::open(&rig.path("state")).unwrap();
    keep(&store, "aaaa1111-old", 60 * 24 * 40, story("an old task", true));
    keep(&store, "aaaa2222-new", 3, story(HOSTILE, true));
    keep(&store, "bbbb3333-cut", 120, story("cut off", false));
    rig
}

#[test]
fn an_empty_store_and_an_unknown_id() {
    let rig = Rig::new();
    let done = run(&rig, &[]);
    assert_eq!((done.code, done.stdout.as_str(), done.stderr.trim()), (Some(0), "", "No session was found."));
    let done = run(&rig, &["--json"]);
    assert_eq!(serde_json::from_str::<Value>(&done.stdout).unwrap(), serde_json::json!({ "sessions": [] }));
    let done = run(&rig, &["show", "abcd\u{1b}[2J"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""));
    assert!(
        done.stderr.contains("no session abcd") && done.stderr.contains("`ostler sessions` lists them"),
        "{}",
        done.stderr
    );
    assert!(!done.stderr.contains('\u{1b}'));
}

#[test]
fn the_state_directory_is_where_the_environment_says() {
    for (variables, want) in [
        (&[][..], ".local/state/ostler"),
        (&[("XDG_STATE_HOME", "xdg")], "xdg/ostler"),
        (&[("XDG_STATE_HOME", "xdg"), ("OSTLER_STATE_DIR", "own")], "own"),
    ] {
        let rig = Rig::new();
        let variables = variables.iter().map(|(name, dir)| (name, rig.path(dir)));
        assert_eq!(finish(rig.ostler(&["sessions"]).envs(variables)).code, Some(0));
        assert!(rig.path(want).join("sessions.db").exists(), "{want}");
    }
    let rig = Rig::new();
    let done = finish(rig.ostler(&["sessions"]).env("XDG_STATE_HOME", "relative").env_remove("HOME"));
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("OSTLER_STATE_DIR"), "{}", done.stderr);
    let done = finish(rig.ostler(&["sessions"]).env("OSTLER_STATE_DIR", rig.file("file", "")));
    assert_eq!(done.code, Some(70));
    assert!(done.stderr.contains("sessions cannot be kept in") && done.stderr.contains("hint:"), "{}", done.stderr);
}

#[test]
fn a_relative_home_is_no_home() {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.path(".config/ostler")).unwrap();
    rig.file(".config/ostler/policy.toml", "no policy");
    let run = |home: &std::path::Path| finish(mock(&rig).env("HOME", home));
    assert_eq!((run(rig.dir()).code, run(".".as_ref()).code), (Some(2), Some(0)));
}

#[test]
fn nothing_is_made_for_a_session_that_is_not_to_be_kept() {
    let rig = Rig::new();
    let done = finish(mock(&rig).arg("--no-store"));
    assert_eq!((done.code, rig.path(".local").exists()), (Some(0), false), "{}", done.stderr);
}

// A lock that cannot be taken stands for a state directory that cannot be written.
#[test]
fn what_cannot_be_written_can_be_read() {
    let rig = filled();
    let want = run(&rig, &[]);
    std::fs::remove_file(rig.path("state/setup.lock")).unwrap();
    std::fs::create_dir(rig.path("state/setup.lock")).unwrap();
    let done = run(&rig, &[]);
    assert_eq!((done.code, &done.stdout), (Some(0), &want.stdout), "{}", done.stderr);
    assert!(done.stderr.starts_with("The sessions can only be read: "), "{}", done.stderr);
    assert_eq!(run(&rig, &["show", "aaaa2222"]).stdout, "An answer.\n");
    let raw = rig.path("state/raw/aaaa1111-old.log");
    assert!(raw.exists());
    assert_ne!(run(&rig, &["prune", "--older-than", "1d"]).code, Some(0));
    assert!(!raw.exists(), "what can go is gone");
}

#[test]
fn the_list_is_newest_first_and_harmless() {
    let rig = filled();
    let done = run(&rig, &[]);
    let lines: Vec<Vec<&str>> =
        done.stdout.lines().map(|line| line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect()).collect();
    let new = [
        "aaaa2222",
        "mock",
        "3 min ago",
        "1",
        "$0.2500",
        "completed",
        "/nowhere/aaaa2222-new",
        "say hel\\u{202e}lo fake line",
    ];
    let cut = ["bbbb3333", "scripted", "2 h ago", "1", "–", "abandoned", "/nowhere/bbbb3333-cut", "cut off"];
    assert_eq!((&lines[1][..], &lines[2][..]), (&new[..], &cut[..]), "{}", done.stdout);
    assert_eq!((lines.len(), lines[3][0]), (4, "aaaa1111"));
    assert!(!done.stdout.contains('\u{1b}'), "{:?}", done.stdout);
    let ids = |args: &[&str]| -> Vec<String> {
        let report: Value = serde_json::from_str(&run(&rig, args).stdout).unwrap();
        let rows = report["sessions"].as_array().unwrap();
        rows.iter().map(|row| row["session"].as_str().unwrap()[..4].to_owned()).collect()
    };
    assert_eq!(ids(&["--json", "--limit", "1"]), ["aaaa"]);
    assert_eq!(ids(&["--json", "--agent", "scripted"]), ["bbbb"]);
    assert_eq!(ids(&["--json", "--dir", "/nowhere/bbbb3333-cut\u{1b}[2J"]), ["bbbb"]);
    assert_eq!(ids(&["--json", "--live"]), Vec::<String>::new());
}

#[test]
fn a_session_is_shown_again() {
    let rig = filled();
    let done = run(&rig, &["show", "aaaa2222"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "An answer.\n"));
    for words in [
        "aaaa2222-new",
        "mock-aaaa2222\n",
        "native-1",
        "mock 1.0",
        "say hel\\u{202e}lo fake line",
        "✓ completed",
        "3 min ago",
    ] {
        assert!(done.stderr.contains(words), "{words}: {}", done.stderr);
    }
    assert!(!done.stderr.contains('\u{1b}'), "{:?}", done.stderr);
    let done = run(&rig, &["show", "aaaa2222", "--output", "events"]);
    assert_eq!(crate::rig::kinds(&done.events()), ["started", "turn_started", "text", "turn_ended", "ended"]);
    assert_eq!(run(&rig, &["show", "aaaa2222", "--output", "text"]).stdout, "An answer.\n");
    let report: Value = serde_json::from_str(&run(&rig, &["show", "native-1", "--output", "json"]).stdout).unwrap();
    // S2-37
    let row: Value = serde_json::from_str(&run(&rig, &["show", "native-1", "--json"]).stdout).unwrap();
    assert_eq!(row["name"], "mock-aaaa2222");
    assert_eq!((&report["session"], &report["text"]), (&"aaaa2222-new".into(), &"An answer.".into()));
    let row: Value = serde_json::from_str(&run(&rig, &["show", "bbbb", "--json"]).stdout).unwrap();
    assert_eq!(
        (&row["outcome"], &row["prompt"], &row["held_by"]),
        (&"abandoned".into(), &"cut off".into(), &Value::Null)
    );
    let done = run(&rig, &["show", "bbbb"]);
    assert!(done.stderr.contains("no end: it is abandoned"), "{}", done.stderr);
    let done = run(&rig, &["show", "aaaa"]);
    assert_eq!(done.code, Some(2));
    assert!(
        done.stderr.contains("aaaa1111-old, aaaa2222-new") && done.stderr.contains("more of it"),
        "{}",
        done.stderr
    );
}

#[test]
fn old_sessions_go_when_they_are_told_to() {
    let rig = filled();
    assert_eq!(run(&rig, &["prune"]).code, Some(2), "a limit is needed");
    let done = run(&rig, &["prune", "--older-than", "30d", "--dry-run"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "aaaa1111-old\n"));
    assert!(done.stderr.starts_with("1 session would go, "), "{}", done.stderr);
    let report = |args: &[&str]| -> Value { serde_json::from_str(&run(&rig, args).stdout).unwrap() };
    let gone = report(&["prune", "--older-than", "30d", "--json"]);
    assert_eq!(gone["sessions"], serde_json::json!(["aaaa1111-old"]));
    assert!(gone["bytes"].as_u64().unwrap() > 500, "{gone}");
    assert_eq!(report(&["--json"])["sessions"].as_array().unwrap().len(), 2);
    let done = run(&rig, &["prune", "--larger-than", "0"]);
    assert!(done.stderr.starts_with("2 sessions gone, "), "{}", done.stderr);
    assert_eq!(report(&["--json"])["sessions"], serde_json::json!([]));
}

// A run that never got as far as an agent's session is passed over: the one before it is gone on with.
#[test]
fn continue_takes_the_latest_that_can_be_gone_on_with() {
    let rig = Rig::new();
    let run = |args: &[&str]| finish(&mut rig.ostler(&[&["run"], args].concat()));
    let none = run(&["--continue", "hello"]);
    assert!(none.code == Some(2) && none.stderr.contains("no earlier session"), "{}", none.stderr);
    assert_eq!(run(&["--agent", "scripted", "first"]).code, Some(0));
    assert_eq!(run(&["--agent", "claude", "--program", "/nowhere/claude", "second"]).code, Some(3));
    let done = run(&["--continue", "third"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let list = finish(&mut rig.ostler(&["sessions", "--json"]));
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    let rows = list["sessions"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["agent"]), (3, &Value::from("scripted")), "{list}");
    assert_eq!(rows[0]["continues"], rows[2]["session"], "{list}");
}
