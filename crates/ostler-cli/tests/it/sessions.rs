//! `ostler sessions`: an empty store, listing, showing, searching, exporting, removing and pruning.

use std::sync::Arc;

use ostler_core::event::{
    Ended, Event, EventKind, Origin, Started, Text, TextKind, Timestamp, TurnEnded, TurnStarted,
};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::usage::{Scope, Usage};
use ostler_store::{Log, LogEntry, NewSession, Store};
use ostler_testkit::pty::Pty;
use serde_json::{Value, json};

use crate::rig::{Finished, Rig, finish};

/// Text with escape sequences that a terminal would interpret, for prompts, directories, names and
/// ids.
const HOSTILE: &str = "say\u{1b}[2J hel\u{202e}lo\nfake line";

fn run(rig: &Rig, args: &[&str]) -> Finished {
    finish(
        rig.ostler(&["sessions"])
            .args(args)
            .env("OSTLER_STATE_DIR", rig.path("state")),
    )
}

/// Builds `ostler run` with an agent that ends its turn immediately.
fn mock(rig: &Rig) -> std::process::Command {
    let end = r#"{"type":"turn_ended","outcome":{"status":"success","cause":"completed","message":"ok"},"text":"x"}"#;
    let script = format!("script={}", rig.file("script.jsonl", end).display());
    rig.ostler(&["run", "--agent", "mock", "--set", &script, "hi"])
}

fn now() -> i64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// Returns the events of a session, optionally with its end.
fn session_events(prompt: &str, ends: bool) -> Vec<EventKind> {
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
    let text = Text {
        kind: TextKind::Reply,
        text: "An answer.".into(),
        delta: false,
        message: None,
        parent: None,
    };
    let mut all: Vec<EventKind> = vec![
        started.into(),
        TurnStarted {
            origin: Origin::Caller,
            prompt: Some(prompt.into()),
        }
        .into(),
        text.into(),
    ];
    if ends {
        let turn = TurnEnded {
            outcome: outcome.clone(),
            text: "An answer.".into(),
            structured: None,
            usage: usage.clone(),
        };
        all.extend([
            turn.into(),
            Ended {
                outcome,
                exit_code: None,
                signal: None,
                usage,
            }
            .into(),
        ]);
    }
    all
}

/// Stores a session that started this many minutes ago.
fn store_session(store: &Store, session: &str, minutes: i64, story: Vec<EventKind>) {
    let at = Timestamp(now() - minutes * 60_000);
    let agent = if session.starts_with('b') {
        "scripted"
    } else {
        "mock"
    };
    let opening = NewSession {
        session: session.into(),
        agent: agent.into(),
        dir: format!("/nowhere/{session}\u{1b}[2J").into(),
        at,
        continues: None,
        labels: std::collections::BTreeMap::new(),
        pid: u32::MAX,
    };
    store.open(&opening).unwrap();
    let event = |(seq, kind)| Event {
        seq,
        at,
        session: session.into(),
        turn: 1,
        kind,
    };
    let entries = (1..)
        .zip(story)
        .map(event)
        .map(|event| LogEntry {
            event,
            raw_offset: 0,
        })
        .collect();
    // Dropping the store waits for pending writes.
    drop(store.append(Arc::new(entries)));
}

fn filled_store() -> Rig {
    let rig = Rig::new();
    let store = Store::open(&rig.path("state")).unwrap();
    store_session(
        &store,
        "aaaa1111-old",
        60 * 24 * 40,
        session_events("an old task", true),
    );
    store_session(
        &store,
        "bbbb3333-cut",
        120,
        session_events("cut off", false),
    );
    store_session(&store, "aaaa2222-new", 3, session_events(HOSTILE, true));
    rig
}

#[test]
fn an_empty_store_and_an_unknown_id() {
    let rig = Rig::new();
    let done = run(&rig, &[]);
    assert_eq!(
        (done.code, done.stdout.as_str(), done.stderr.trim()),
        (Some(0), "", "No sessions found.")
    );
    let done = run(&rig, &["--json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&done.stdout).unwrap(),
        serde_json::json!({ "sessions": [] })
    );
    let done = run(&rig, &["show", "abcd\u{1b}[2J"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""));
    assert!(
        done.stderr.contains("no session abcd")
            && done.stderr.contains("run `ostler sessions --all`"),
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
        (
            &[("XDG_STATE_HOME", "xdg"), ("OSTLER_STATE_DIR", "own")],
            "own",
        ),
    ] {
        let rig = Rig::new();
        let variables = variables.iter().map(|(name, dir)| (name, rig.path(dir)));
        assert_eq!(
            finish(rig.ostler(&["sessions"]).envs(variables)).code,
            Some(0)
        );
        assert!(rig.path(want).join("sessions.db").exists(), "{want}");
    }
    let rig = Rig::new();
    let done = finish(
        rig.ostler(&["sessions"])
            .env("XDG_STATE_HOME", "relative")
            .env_remove("HOME"),
    );
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("OSTLER_STATE_DIR"), "{}", done.stderr);
    let done = finish(
        rig.ostler(&["sessions"])
            .env("OSTLER_STATE_DIR", rig.file("file", "")),
    );
    assert_eq!(done.code, Some(70));
    assert!(
        done.stderr.contains("cannot store sessions in") && done.stderr.contains("hint:"),
        "{}",
        done.stderr
    );
}

#[test]
fn relative_home_is_ignored() {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.path(".config/ostler")).unwrap();
    rig.file(".config/ostler/policy.toml", "no policy");
    let run = |home: &std::path::Path| finish(mock(&rig).env("HOME", home));
    assert_eq!(
        (run(rig.dir()).code, run(".".as_ref()).code),
        (Some(2), Some(0))
    );
}

#[test]
fn no_store_creates_no_file() {
    let rig = Rig::new();
    let done = finish(mock(&rig).arg("--no-store"));
    assert_eq!(
        (done.code, rig.path(".local").exists()),
        (Some(0), false),
        "{}",
        done.stderr
    );
}

// The database is opened while the agent starts, so a session reports that it is not stored.
#[test]
fn run_continues_without_a_store_that_is_damaged() {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.path("state")).unwrap();
    rig.file("state/sessions.db", &"no database".repeat(500));
    let run = |arguments: &[&str]| {
        let mut command = mock(&rig);
        finish(
            command
                .args(arguments)
                .env("OSTLER_STATE_DIR", rig.path("state")),
        )
    };
    for arguments in [&[][..], &["--output", "text"]] {
        let done = run(arguments);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert!(done.stderr.contains("not a database"), "{}", done.stderr);
    }
    let done = run(&["--output", "events"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.contains("store_failed"), "{}", done.stdout);
}

// A lock that cannot be taken simulates a read-only state directory.
#[test]
fn read_only_store_can_be_read() {
    let rig = filled_store();
    let want = run(&rig, &[]);
    std::fs::remove_file(rig.path("state/setup.lock")).unwrap();
    std::fs::create_dir(rig.path("state/setup.lock")).unwrap();
    let done = run(&rig, &[]);
    assert_eq!(
        (done.code, &done.stdout),
        (Some(0), &want.stdout),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr.starts_with("warning: sessions are read-only: "),
        "{}",
        done.stderr
    );
    assert_eq!(
        run(&rig, &["show", "aaaa1111"]).stdout,
        "› an old task\nAn answer.\n"
    );
    let raw = rig.path("state/raw/aaaa1111-old.log");
    assert!(raw.exists());
    assert_ne!(run(&rig, &["prune", "--older-than", "1d"]).code, Some(0));
    assert!(!raw.exists(), "what can go is gone");
}

#[test]
fn the_list_is_newest_first_and_harmless() {
    let rig = filled_store();
    let done = run(&rig, &[]);
    let lines: Vec<Vec<&str>> = done
        .stdout
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|c| !c.is_empty())
                .collect()
        })
        .collect();
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
    let cut = [
        "bbbb3333",
        "scripted",
        "2 h ago",
        "1",
        "–",
        "abandoned",
        "/nowhere/bbbb3333-cut",
        "cut off",
    ];
    assert_eq!(
        (&lines[1][..], &lines[2][..]),
        (&new[..], &cut[..]),
        "{}",
        done.stdout
    );
    assert_eq!((lines.len(), lines[3][0]), (4, "aaaa1111"));
    assert!(!done.stdout.contains('\u{1b}'), "{:?}", done.stdout);
    let ids = |args: &[&str]| -> Vec<String> {
        let report: Value = serde_json::from_str(&run(&rig, args).stdout).unwrap();
        let rows = report["sessions"].as_array().unwrap();
        rows.iter()
            .map(|row| row["session"].as_str().unwrap()[..4].to_owned())
            .collect()
    };
    assert_eq!(ids(&["--json", "--limit", "1"]), ["aaaa"]);
    assert_eq!(ids(&["--json", "--agent", "scripted"]), ["bbbb"]);
    assert_eq!(
        ids(&["--json", "--dir", "/nowhere/bbbb3333-cut\u{1b}[2J"]),
        ["bbbb"]
    );
    assert_eq!(ids(&["--json", "--live"]), Vec::<String>::new());
}

#[test]
fn stored_session_is_shown() {
    let rig = filled_store();
    let done = run(&rig, &["show", "aaaa2222"]);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "› say hel\\u{202e}lo\n› fake line\nAn answer.\n")
    );
    for words in [
        "aaaa2222-new",
        "native-1",
        "mock 1.0",
        "✓ completed",
        "3 min ago",
    ] {
        assert!(done.stderr.contains(words), "{words}: {}", done.stderr);
    }
    assert!(!done.stderr.contains('\u{1b}'), "{:?}", done.stderr);
    let done = run(&rig, &["show", "aaaa2222", "--output", "events"]);
    assert_eq!(
        crate::rig::kinds(&done.events()),
        ["started", "turn_started", "text", "turn_ended", "ended"]
    );
    assert_eq!(
        run(&rig, &["show", "aaaa2222", "--output", "text"]).stdout,
        "An answer.\n"
    );
    let report: Value =
        serde_json::from_str(&run(&rig, &["show", "native-1", "--output", "json"]).stdout).unwrap();
    // S2-37
    let row: Value =
        serde_json::from_str(&run(&rig, &["show", "native-1", "--json"]).stdout).unwrap();
    assert_eq!(row["name"], "mock-aaaa2222");
    assert_eq!(
        (&report["session"], &report["text"]),
        (&"aaaa2222-new".into(), &"An answer.".into())
    );
    let row: Value = serde_json::from_str(&run(&rig, &["show", "bbbb", "--json"]).stdout).unwrap();
    assert_eq!(
        (&row["outcome"], &row["prompt"], &row["held_by"]),
        (&"abandoned".into(), &"cut off".into(), &Value::Null)
    );
    let done = run(&rig, &["show", "bbbb"]);
    assert!(
        done.stderr.contains("the session is incomplete: abandoned"),
        "{}",
        done.stderr
    );
    let done = run(&rig, &["show", "aaaa"]);
    assert_eq!(done.code, Some(2));
    assert!(
        done.stderr.contains("aaaa2222-new, aaaa1111-old")
            && done.stderr.contains("a longer prefix"),
        "{}",
        done.stderr
    );
}

#[test]
fn user_messages_are_shown_in_every_turn() {
    let rig = Rig::new();
    let mut all = session_events("first", false);
    for prompt in ["second\nwith another line", "third"] {
        let mut next = session_events(prompt, true);
        next.truncate(4);
        let last = all.len();
        all.extend(next);
        if last == 3 {
            let outcome = Outcome::new(Cause::Completed, "done");
            all.insert(
                3,
                TurnEnded {
                    outcome,
                    text: "An answer.".into(),
                    structured: None,
                    usage: None,
                }
                .into(),
            );
        }
    }
    let (mut turn, at) = (0, Timestamp(now()));
    let store = Store::open(&rig.path("state")).unwrap();
    store_session(&store, "eeee6666", 0, Vec::new());
    let entries = (1..).zip(all).map(|(seq, kind)| {
        turn += u32::from(matches!(kind, EventKind::TurnStarted(_)));
        LogEntry {
            event: Event {
                seq,
                at,
                session: "eeee6666".into(),
                turn,
                kind,
            },
            raw_offset: 0,
        }
    });
    drop(store.append(Arc::new(entries.collect())));
    drop(store);
    let want =
        "› first\nAn answer.\n\n› second\n› with another line\nAn answer.\n\n› third\nAn answer.\n";
    assert_eq!(run(&rig, &["show", "eeee"]).stdout, want);
}

#[test]
fn prune_removes_old_sessions() {
    let rig = filled_store();
    assert_eq!(run(&rig, &["prune"]).code, Some(2), "a limit is needed");
    let done = run(&rig, &["prune", "--older-than", "30d", "--dry-run"]);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "aaaa1111-old\n")
    );
    assert!(
        done.stderr.starts_with("Would remove 1 session, "),
        "{}",
        done.stderr
    );
    let report =
        |args: &[&str]| -> Value { serde_json::from_str(&run(&rig, args).stdout).unwrap() };
    let gone = report(&["prune", "--older-than", "30d", "--json"]);
    assert_eq!(gone["sessions"], serde_json::json!(["aaaa1111-old"]));
    assert!(gone["bytes"].as_u64().unwrap() > 500, "{gone}");
    assert_eq!(report(&["--json"])["sessions"].as_array().unwrap().len(), 2);
    let done = run(&rig, &["prune", "--larger-than", "0"]);
    assert!(
        done.stderr.starts_with("Removed 2 sessions, "),
        "{}",
        done.stderr
    );
    assert_eq!(report(&["--json"])["sessions"], serde_json::json!([]));
}

// A run that never got an agent's session is skipped: the one before it is resumed.
#[test]
fn continue_takes_the_latest_resumable_session() {
    let rig = Rig::new();
    let run = |args: &[&str]| finish(&mut rig.ostler(&[&["run"], args].concat()));
    let none = run(&["--continue", "hello"]);
    assert!(
        none.code == Some(2) && none.stderr.contains("no session to resume"),
        "{}",
        none.stderr
    );
    assert_eq!(run(&["--agent", "scripted", "first"]).code, Some(0));
    assert_eq!(
        run(&[
            "--agent",
            "claude",
            "--program",
            "/nowhere/claude",
            "second"
        ])
        .code,
        Some(3)
    );
    let done = run(&["--continue", "third"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let list = |args: &[&str]| -> Value {
        serde_json::from_str(&finish(rig.ostler(&["sessions", "--json"]).args(args)).stdout)
            .unwrap()
    };
    // Sessions without a turn are not listed by default.
    assert_eq!(list(&[])["sessions"].as_array().unwrap().len(), 2);
    let list = list(&["--all"]);
    let rows = list["sessions"].as_array().unwrap();
    assert_eq!(
        (rows.len(), &rows[0]["agent"]),
        (3, &Value::from("scripted")),
        "{list}"
    );
    assert_eq!(rows[0]["continues"], rows[2]["session"], "{list}");
}

// P49: permissions granted to an earlier run are not stored: an unattended resumed session has the
// permissions of the caller that resumes it.
#[test]
fn a_resumed_session_has_the_permissions_of_its_caller() {
    let rig = Rig::new();
    let script = "dump-args args\nread\ninit\nresult ok\nread-until-eof";
    let run = |args: &[&str]| {
        let done =
            finish(&mut rig.fake_run(script, &[args, &["--output", "events", "go"]].concat()));
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        (done, std::fs::read_to_string(rig.path("args")).unwrap())
    };
    let (first, args) = run(&["--permission-mode", "bypassPermissions"]);
    assert!(args.contains("bypassPermissions"), "{args}");
    // The file that the real agent would have stored.
    std::fs::create_dir_all(rig.path(".claude/projects/here")).unwrap();
    rig.file(
        ".claude/projects/here/00000000-0000-4000-8000-00000000fa4e.jsonl",
        "{}\n",
    );
    let id = first.events()[0]["session"].as_str().unwrap().to_owned();
    let (_, args) = run(&["--resume", &id]);
    assert!(
        args.contains("--resume=") && !args.contains("bypass"),
        "{args}"
    );
    let (_, args) = run(&["--resume", &id, "--permission-mode", "plan"]);
    assert!(
        args.contains("--permission-mode=plan") && !args.contains("bypass"),
        "{args}"
    );
}

// A streaming model fills its session's limit, not the disk.
#[test]
fn a_flood_is_stored_up_to_the_limit_and_can_be_shown() {
    let rig = Rig::new();
    let mut command = rig.fake_run(
        "read\ninit\nloop forever\nflood 100000 1000\nend",
        &[
            "--output",
            "events",
            "--max-log-size",
            "200KB",
            "--max-raw-size",
            "100KB",
            "--grace",
            "200ms",
            "go",
        ],
    );
    let done = finish(command.env("OSTLER_STATE_DIR", rig.path("state")));
    assert_eq!(
        (done.code, done.cause().as_str()),
        (Some(6), "output_limit"),
        "{}",
        done.stderr
    );
    let size = |path: std::path::PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.len());
    let files = |dir| {
        std::fs::read_dir(rig.path(dir))
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    let raw: u64 = files("state/raw").map(size).sum();
    let rest: u64 = files("state").filter(|path| path.is_file()).map(size).sum();
    assert!(raw <= 100_000, "{raw}");
    // The end of the turn repeats the answer; the database and its log store each event once.
    assert!(rest < 3_000_000, "{rest}");
    let id = done.events()[0]["session"].as_str().unwrap().to_owned();
    let shown = run(&rig, &["show", &id, "--output", "events"]);
    assert_eq!(shown.stdout, done.stdout, "the whole session, with its end");
    let human = run(&rig, &["show", &id]);
    assert!(
        [&human.stdout, &human.stderr]
            .iter()
            .any(|text| text.contains("limit of 200 KB")),
        "{}",
        human.stderr
    );
    assert!(run(&rig, &[]).stdout.contains("output_limit"));
}

#[test]
fn invalid_size_is_refused_with_an_example() {
    let rig = Rig::new();
    for flag in ["--max-log-size", "--max-raw-size"] {
        let done = finish(&mut rig.ostler(&["run", flag, "many", "hi"]));
        assert!(
            done.code == Some(2) && done.stderr.contains("500MB"),
            "{}",
            done.stderr
        );
    }
}

#[test]
fn a_failed_start_is_listed_on_request() {
    let rig = Rig::new();
    let start = finish(&mut rig.ostler(&[
        "run",
        "--agent",
        "claude",
        "--program",
        "/nowhere/claude",
        "task",
    ]));
    assert_eq!(start.code, Some(3));
    let list = |args: &[&str]| finish(rig.ostler(&["sessions"]).args(args));
    let done = list(&[]);
    assert!(
        done.stdout.is_empty() && done.stderr.contains("hint: use `--all`"),
        "{}",
        done.stderr
    );
    assert!(
        list(&["--all"]).stdout.contains("unavailable"),
        "{}",
        list(&["--all"]).stdout
    );
}

/// Returns the id after `session ` in the last line.
fn printed_id(done: &Finished) -> String {
    let line = done
        .stderr
        .lines()
        .find(|line| line.contains("session "))
        .unwrap();
    line.split_once("session ")
        .unwrap()
        .1
        .split(' ')
        .next()
        .unwrap()
        .to_owned()
}

// The same id is listed, printed by run and chat, and accepted by show and --resume.
#[test]
fn same_id_is_printed_listed_and_accepted() {
    const NATIVE: &str = "00000000-0000-4000-8000-00000000fa4e";
    let rig = Rig::new();
    let done = finish(&mut rig.fake_run("read\ninit\ntext Hi.\nresult Hi.", &["the first"]));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let id = printed_id(&done);
    assert_eq!(id.len(), 8, "{}", done.stderr);
    assert!(
        done.stderr
            .contains(&format!("ostler run --resume {id} \"…\"")),
        "{}",
        done.stderr
    );
    let list = finish(&mut rig.ostler(&["sessions"]));
    assert!(
        list.stdout
            .lines()
            .nth(1)
            .is_some_and(|line| line.starts_with(&format!("{id}  claude"))),
        "{}",
        list.stdout
    );
    for given in [&id, &id[..5], NATIVE, &NATIVE[..9]] {
        let shown = finish(&mut rig.ostler(&["sessions", "show", given]));
        assert_eq!(
            (shown.code, shown.stdout.as_str()),
            (Some(0), "› the first\nHi.\n"),
            "{given}: {}",
            shown.stderr
        );
    }
    // The file that the real agent would have stored.
    std::fs::create_dir_all(rig.path(".claude/projects/here")).unwrap();
    rig.file(&format!(".claude/projects/here/{NATIVE}.jsonl"), "{}\n");
    let script = ostler_testkit::fake::script(
        rig.dir(),
        "dump-args args\nread\ninit\ntext Again.\nresult Again.",
    );
    for given in [&id[..], &id[..5], NATIVE, &NATIVE[..9]] {
        // The session's agent is used, although another one is configured.
        let mut again = rig.ostler(&["run", "--resume", given, "--env"]);
        again.arg(format!(
            "{}={}",
            ostler_testkit::fake::SCRIPT,
            script.display()
        ));
        again
            .arg("--program")
            .arg(ostler_testkit::fake::program())
            .arg("more")
            .env("OSTLER_AGENT", "scripted");
        let done = finish(&mut again);
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(0), "Again.\n"),
            "{given}: {}",
            done.stderr
        );
        assert!(
            std::fs::read_to_string(rig.path("args"))
                .unwrap()
                .contains(NATIVE),
            "{given}"
        );
        std::fs::remove_file(rig.path("args")).unwrap();
    }
    // A session that is not stored is known only to the agent.
    let done =
        finish(&mut rig.fake_run("read\ninit\ntext Hi.\nresult Hi.", &["--no-store", "hello"]));
    assert_eq!(printed_id(&done), NATIVE);
    assert!(
        done.stderr
            .contains(&format!("ostler run --agent claude --resume {NATIVE}")),
        "{}",
        done.stderr
    );
}

#[test]
fn ambiguous_id_lists_the_candidates() {
    let rig = filled_store();
    for args in [
        &["sessions", "show", "a"][..],
        &["run", "--resume", "aaaa", "more"],
        &["sessions", "rm", "-y", "a"],
    ] {
        let done = finish(rig.ostler(args).env("OSTLER_STATE_DIR", rig.path("state")));
        assert_eq!(done.code, Some(2), "{args:?}");
        assert!(
            done.stderr.contains("aaaa2222-new, aaaa1111-old"),
            "{args:?}: {}",
            done.stderr
        );
    }
}

#[test]
fn sessions_are_found_by_their_text() {
    let rig = filled_store();
    let done = run(&rig, &["search", "AN OLD"]);
    assert_eq!(done.code, Some(0));
    let line = done.stdout.lines().nth(1).unwrap();
    assert!(
        line.starts_with("aaaa1111  mock") && line.ends_with("you  an old task"),
        "{}",
        done.stdout
    );
    let report: Value =
        serde_json::from_str(&run(&rig, &["search", "answer", "--json", "-n", "1"]).stdout)
            .unwrap();
    let hits = report["hits"].as_array().unwrap();
    assert_eq!(
        (hits.len(), &hits[0]["session"]),
        (1, &"aaaa2222-new".into())
    );
    assert_eq!(
        (&hits[0]["match"]["speaker"], &hits[0]["match"]["turn"]),
        (&"agent".into(), &1.into())
    );
    let found = &hits[0]["match"];
    assert_eq!(
        (&found["seq"], &found["excerpt"]),
        (&3.into(), &"An answer.".into())
    );
    assert_eq!(found["snippet"][1], json!({"text": "answer", "hit": true}));
    let count = |args: &[&str]| {
        let done = run(&rig, &[&["search"], args].concat());
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        done.stdout.lines().count().saturating_sub(1)
    };
    assert_eq!(count(&["an", "--agent", "mock"]), 2, "one line per session");
    assert_eq!(count(&["an", "--agent", "mock", "--all-matches"]), 3);
    assert_eq!(count(&["answer an"]), 3);
    assert_eq!(count(&["\"answer an\""]), 0);
    assert_eq!(count(&["an", "--speaker", "user"]), 1);
    assert_eq!(count(&["answer", "--since", "1h"]), 1);
    assert_eq!(count(&["answer", "--until", "1h"]), 2);
    assert_eq!(run(&rig, &["search", "a", "--speaker", "me"]).code, Some(2));
    let hostile = run(&rig, &["search", "fake"]);
    assert!(
        !hostile.stdout.contains(['\u{1b}', '\u{202e}']) && hostile.stdout.lines().count() == 2,
        "{}",
        hostile.stdout
    );
    let none = run(&rig, &["search", "no such thing"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""));
    assert!(
        none.stderr
            .contains("No sessions contain \"no such thing\"."),
        "{}",
        none.stderr
    );
    assert_eq!(run(&rig, &["search", " "]).code, Some(2));
}

#[test]
fn a_session_is_exported() {
    let rig = filled_store();
    let done = run(&rig, &["export", "aaaa2222"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    for words in [
        "# mock session aaaa2222\n",
        "## Turn 1\n",
        "> fake line\n",
        "\nAn answer.\n",
        "completed · $0.2500",
    ] {
        assert!(done.stdout.contains(words), "{words}: {}", done.stdout);
    }
    let page = run(&rig, &["export", "aaaa2222", "--format", "html"]).stdout;
    assert!(
        page.starts_with("<!doctype html>")
            && page.ends_with("</html>\n")
            && page.contains("An answer.")
            && page.contains("default-src 'none'"),
        "{page}"
    );
    // The same data as that of the daemon, in the page that the daemon serves.
    let (_, data) = page.split_once("id=\"ostler-data\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["session"]["agent"], "mock");
    let prompt = "say\u{1b}[2J hel\u{202e}lo\nfake line"; // the exact text
    assert_eq!(data["transcript"]["items"][0]["text"], prompt);
    assert!(!page.contains('\u{1b}'));
    let file = rig.path("out.jsonl");
    let done = run(
        &rig,
        &[
            "export",
            "aaaa2222",
            "--format",
            "jsonl",
            "--to",
            file.to_str().unwrap(),
        ],
    );
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), ""));
    let events = run(&rig, &["show", "aaaa2222", "--output", "events"]).stdout;
    assert_eq!(std::fs::read_to_string(file).unwrap(), events);
    let done = run(&rig, &["export", "aaaa2222", "--to", "/nowhere/x"]);
    assert!(
        done.code == Some(2) && done.stderr.contains("cannot write /nowhere/x"),
        "{}",
        done.stderr
    );
}

#[test]
fn removal_needs_confirmation_and_a_session_that_is_not_running() {
    let rig = filled_store();
    let store = Store::open(&rig.path("state")).unwrap();
    let opening = NewSession {
        session: "cccc4444-live".into(),
        agent: "mock".into(),
        dir: "/nowhere".into(),
        at: Timestamp(now()),
        continues: None,
        labels: std::collections::BTreeMap::new(),
        pid: std::process::id(),
    };
    store.open(&opening).unwrap();
    store.flush();
    let left = || -> Vec<String> {
        let report: Value = serde_json::from_str(&run(&rig, &["--json"]).stdout).unwrap();
        report["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["session"].as_str().unwrap()[..4].to_owned())
            .collect()
    };
    let done = run(&rig, &["rm", "bbbb"]);
    assert!(
        done.code == Some(2) && done.stderr.contains("hint: use `--yes`"),
        "{}",
        done.stderr
    );
    // All or nothing: the second session is running.
    let done = run(&rig, &["rm", "--yes", "bbbb", "cccc"]);
    assert_eq!(done.code, Some(2));
    let process = format!("is running in process {}", std::process::id());
    assert!(
        done.stderr.contains("cccc4444-live is running") && done.stderr.contains(&process),
        "{}",
        done.stderr
    );
    assert_eq!(left(), ["cccc", "aaaa", "bbbb", "aaaa"]);
    let done = run(&rig, &["rm", "--yes", "bbbb", "bbbb3333"]);
    assert!(
        done.code == Some(0) && done.stderr.starts_with("Removed bbbb3333, "),
        "{}",
        done.stderr
    );
    let gone: Value =
        serde_json::from_str(&run(&rig, &["rm", "--yes", "--json", "aaaa1111"]).stdout).unwrap();
    assert_eq!(gone["sessions"], serde_json::json!(["aaaa1111-old"]));
    assert_eq!(
        run(&rig, &["rm", "--yes", "aaaa1111"]).code,
        Some(2),
        "it is gone"
    );
    let ask = |answer: &str| {
        let mut pty = Pty::start(
            rig.ostler(&["sessions", "rm", "aaaa2222"])
                .env("OSTLER_STATE_DIR", rig.path("state")),
        );
        pty.until_seen("Remove this session? This cannot be undone. [y/N]", 1);
        pty.keys(answer);
        pty.end()
    };
    assert_eq!(
        (ask("\r"), left()),
        (Some(1), vec!["cccc".to_owned(), "aaaa".to_owned()])
    );
    assert_eq!((ask("y\r"), left()), (Some(0), vec!["cccc".to_owned()]));
}

#[test]
fn partly_unknown_cost_is_a_lower_bound() {
    let rig = Rig::new();
    let outcome = Outcome::new(Cause::Completed, "done");
    let usage = Some(Usage::unknown(Scope::Session).partial(0.012));
    let mut all = session_events("a task", false);
    all.push(
        TurnEnded {
            outcome: outcome.clone(),
            text: String::new(),
            structured: None,
            usage: usage.clone(),
        }
        .into(),
    );
    all.push(
        Ended {
            outcome,
            exit_code: None,
            signal: None,
            usage,
        }
        .into(),
    );
    store_session(
        &Store::open(&rig.path("state")).unwrap(),
        "dddd5555",
        1,
        all,
    );
    assert!(
        run(&rig, &[]).stdout.contains("  ≥ $0.0120  "),
        "{}",
        run(&rig, &[]).stdout
    );
    let shown = run(&rig, &["show", "dddd"]);
    assert!(
        shown.stderr.contains("✓ completed · ≥ $0.0120 · "),
        "{}",
        shown.stderr
    );
    let row: Value = serde_json::from_str(&run(&rig, &["show", "dddd", "--json"]).stdout).unwrap();
    assert_eq!(
        (&row["cost_usd"], &row["cost_source"]),
        (&0.012.into(), &"partial".into())
    );
}

#[test]
fn usage_is_summed_up() {
    let rig = filled_store();
    let usage = |args: &[&str]| {
        finish(
            rig.ostler(&["usage"])
                .args(args)
                .env("OSTLER_STATE_DIR", rig.path("state")),
        )
    };
    let done = usage(&[]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let words: Vec<Vec<&str>> = done
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        words[0],
        [
            "agent", "sessions", "turns", "input", "cached", "output", "tokens", "cost"
        ]
    );
    assert_eq!(
        words[1],
        ["mock", "2", "2", "–", "–", "–", "–", "$0.5000"],
        "{}",
        done.stdout
    );
    assert_eq!(
        words[2],
        ["total", "2", "2", "–", "–", "–", "–", "$0.5000"],
        "{}",
        done.stdout
    );
    let report: Value =
        serde_json::from_str(&usage(&["--since", "7d", "--by", "dir", "--json"]).stdout).unwrap();
    assert_eq!(
        (&report["by"], report["groups"].as_array().unwrap().len()),
        (&"dir".into(), 1),
        "{report:#}"
    );
    assert_eq!(report["groups"][0]["dir"], "/nowhere/aaaa2222-new\u{1b}[2J");
    assert_eq!(
        (&report["total"]["turns"], &report["total"]["cost_usd"]),
        (&1.into(), &0.25.into())
    );
    assert!(!usage(&["--by", "dir"]).stdout.contains('\u{1b}'));
    assert_eq!(usage(&["--by", "day"]).stdout.lines().count(), 4);
    assert!(
        usage(&["--since", "1s", "--by", "model"])
            .stderr
            .contains("No turns began")
    );
    assert_eq!(usage(&["--since", "soon"]).code, Some(2));
    let split = usage(&["--by", "agent", "--split", "day"]);
    let lines: Vec<&str> = split.stdout.lines().collect();
    assert_eq!(lines.len(), 5, "{}", split.stdout);
    assert!(
        lines[1].starts_with("mock") && lines[2].starts_with("  20"),
        "{}",
        split.stdout
    );
    let args = [
        "--split", "dir", "--until", "1d", "--tz", "-03:30", "--json",
    ];
    let report: Value = serde_json::from_str(&usage(&args).stdout).unwrap();
    let parts = &report["groups"][0]["parts"];
    assert_eq!(
        (&report["split"], parts.as_array().unwrap().len()),
        (&"dir".into(), 1),
        "{report:#}"
    );
    assert_eq!(parts[0]["dir"], "/nowhere/aaaa1111-old\u{1b}[2J");
    assert_eq!(usage(&["--tz", "2"]).code, Some(2));
    let same = usage(&["--by", "day", "--split", "day"]);
    assert!(
        same.code == Some(2) && same.stderr.contains("hint:"),
        "{}",
        same.stderr
    );
}
