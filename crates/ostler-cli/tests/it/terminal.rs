//! Untrusted text on a terminal: every verb and output format, over a store full of escape
//! sequences and invisible characters.

use std::process::Command;
use std::sync::Arc;

use ostler_core::event::{
    DecidedBy, Decision, Ended, Event, EventKind, Level, Notice, NoticeCode, Origin, Permission,
    Refused, Started, Text, TextKind, Timestamp, ToolCall, ToolResult, TurnEnded, TurnStarted,
    Unreadable,
};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::raw_json::RawJson;
use ostler_store::{Log, LogEntry, NewSession, Store};
use ostler_testkit::fake;
use ostler_testkit::pty::Pty;

use crate::rig::Rig;

/// Escape sequences (clipboard, link, title, hidden text), C0 and C1 controls, bidi controls,
/// separators, zero-width characters, tags.
const HOSTILE: &str = "evil\u{1b}]52;c;aGk=\u{7}\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\\u{1b}[8mhidden\u{1b}[2J\u{9b}2J\u{9d}0;t\u{9c}\
    \u{8}\u{7f}\r\u{202e}rtl\u{202a}\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}\u{2028}\u{2029}\u{200b}\u{200d}\u{2060}\u{feff}\
    \u{e0041}\u{e007f}\u{ad}end";

/// Returns the same text as part of a file name.
fn file_name() -> String {
    HOSTILE.replace('/', "")
}

/// Returns true for a character that must not reach a terminal.
fn is_bad(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{e0000}'..='\u{e0fff}' | '\u{fffd}')
}

/// Strips Ostler's own colours from a terminal's input; sequences that hide text are not among
/// them.
fn without_colours(text: &str) -> String {
    let mut pieces = text.split("\u{1b}[");
    let mut left = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let end = piece
            .find(|c: char| !(c.is_ascii_digit() || c == ';'))
            .unwrap_or(piece.len());
        let hides = piece[..end]
            .split(';')
            .any(|code| matches!(code, "7" | "8" | "30" | "40"));
        match piece[end..].strip_prefix('m').filter(|_| !hides) {
            Some(rest) => left.push_str(rest),
            None => left.push_str(&format!("\u{1b}[{piece}")),
        }
    }
    left
}

/// Runs a command on a terminal, and returns its output after checking that it is harmless.
fn run_harmless(command: &mut Command) -> String {
    let kind = format!("{:?}", command.get_args().collect::<Vec<_>>());
    // A status line moves the cursor; it is disabled under CI.
    let written = Pty::start(command.env("CI", "1").env("CLICOLOR_FORCE", "1")).written();
    let text = String::from_utf8(written).unwrap_or_else(|error| panic!("{kind}: {error}"));
    let left = without_colours(&text.replace("\r\n", "\n"));
    let bad: Vec<char> = left.chars().filter(|c| is_bad(*c)).collect();
    assert!(bad.is_empty(), "{kind}: {bad:?} in {left:?}");
    left
}

/// Returns every kind of event, with hostile text in every field that others control.
fn hostile_events() -> Vec<EventKind> {
    let h = || HOSTILE.to_owned();
    let outcome = Outcome::new(Cause::Refused, h()).hint(h());
    let text = |kind| Text {
        kind,
        text: h(),
        delta: false,
        message: None,
        parent: None,
    };
    let permission = |decision| Permission {
        id: h(),
        tool: h(),
        kind: None,
        input: Some(RawJson::string(HOSTILE)),
        decision,
        by: DecidedBy::Person,
        message: Some(h()),
    };
    vec![
        Started {
            agent: h(),
            agent_version: Some(h()),
            native_session: Some(h()),
            model: Some(h()),
            cwd: Some(h()),
            tools: vec![h()],
        }
        .into(),
        TurnStarted {
            origin: Origin::Caller,
            prompt: Some(h()),
        }
        .into(),
        text(TextKind::Thinking).into(),
        text(TextKind::Reply).into(),
        ToolCall {
            id: "1".into(),
            name: h(),
            input: RawJson::of(&serde_json::json!({ "command": HOSTILE, "args": [HOSTILE] })),
            parent: None,
        }
        .into(),
        ToolResult {
            id: "1".into(),
            name: Some(h()),
            ok: true,
            output: format!("@@ 1 @@\n+{HOSTILE}\n-{HOSTILE}"),
            denied: false,
            content: None,
        }
        .into(),
        ToolCall {
            id: "2".into(),
            name: h(),
            input: RawJson::string(HOSTILE),
            parent: None,
        }
        .into(),
        ToolResult {
            id: "2".into(),
            name: None,
            ok: false,
            output: h(),
            denied: false,
            content: None,
        }
        .into(),
        permission(Decision::Asked).into(),
        permission(Decision::Denied).into(),
        Notice::new(Level::Warning, HOSTILE.into(), HOSTILE).into(),
        Notice::new(Level::Info, "x".into(), HOSTILE).into(),
        Notice::new(Level::Warning, NoticeCode::StoreFailed, HOSTILE).into(),
        Unreadable {
            raw: h(),
            why: h(),
            length: 9,
            lossy: true,
        }
        .into(),
        Refused {
            request: HOSTILE.into(),
            why: h(),
            code: HOSTILE.into(),
        }
        .into(),
        TurnEnded {
            outcome: outcome.clone(),
            text: h(),
            structured: Some(RawJson::string(HOSTILE)),
            usage: None,
        }
        .into(),
        Ended {
            outcome,
            exit_code: None,
            signal: None,
            usage: None,
        }
        .into(),
    ]
}

fn filled_store() -> Rig {
    let rig = Rig::new();
    let store = Store::open(&rig.path("state")).unwrap();
    for (session, ends) in [("aaaa1111-whole", true), ("bbbb2222-cut", false)] {
        let dir = format!("/nowhere/{HOSTILE}").into();
        let opening = NewSession {
            session: session.into(),
            agent: HOSTILE.into(),
            dir,
            at: Timestamp(1),
            continues: Some(HOSTILE.into()),
            labels: std::collections::BTreeMap::new(),
            pid: u32::MAX,
        };
        store.open(&opening).unwrap();
        let mut story = hostile_events();
        story.truncate(if ends { 17 } else { 15 });
        let event = |(seq, kind)| Event {
            seq,
            at: Timestamp(1),
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
        drop(store.append(Arc::new(entries)));
    }
    rig
}

const FORMS: [&str; 4] = ["human", "text", "json", "events"];

// Regression: U+202E and U+009B reached the terminal unescaped in `sessions show`.
#[test]
fn stored_sessions() {
    let rig = filled_store();
    let run =
        |args: &[&str]| run_harmless(rig.ostler(args).env("OSTLER_STATE_DIR", rig.path("state")));
    assert!(run(&["sessions"]).contains("evil"));
    // JSON keeps its meaning with these characters escaped.
    let list: serde_json::Value = serde_json::from_str(&run(&["sessions", "--json"])).unwrap();
    assert_eq!(list["sessions"][0]["agent"], HOSTILE);
    for id in ["aaaa1111", "bbbb2222"] {
        let row: serde_json::Value =
            serde_json::from_str(&run(&["sessions", "show", id, "--json"])).unwrap();
        assert_eq!(row["native_session"], HOSTILE);
        for form in FORMS {
            let shown = run(&["sessions", "show", id, "--output", form]);
            assert!(shown.contains("evil") || form == "json", "{form}: {shown}");
        }
    }
    let events = run(&["sessions", "show", "aaaa1111", "--output", "events"]);
    let text = events
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    assert_eq!(
        text.filter(|event| event["text"] == HOSTILE).count(),
        3,
        "{events}"
    );
    run(&["sessions", "prune", "--older-than", "1h", "--dry-run"]);
}

#[test]
fn runs_and_replays() {
    let rig = Rig::new();
    let script: String = hostile_events()
        .iter()
        .take(16)
        .map(|kind| serde_json::to_string(kind).unwrap() + "\n")
        .collect();
    let mock = format!("script={}", rig.file("script.jsonl", &script).display());
    let edit = serde_json::json!({ "file_path": HOSTILE, "old_string": HOSTILE, "new_string": format!("{HOSTILE}\n+x") });
    let claude = format!(
        "read\ninit\ntool-use t1 Edit {edit}\ntool-result t1 {HOSTILE}\ntext {HOSTILE} **{HOSTILE}** `{HOSTILE}`\n\
         print {HOSTILE}\nstderr {HOSTILE}\nresult-error x {HOSTILE}"
    );
    let content = serde_json::json!([{ "type": "text", "text": HOSTILE }]);
    let message = serde_json::json!({ "id": "m", "content": content });
    let recording =
        serde_json::json!({ "type": "assistant", "session_id": "s", "message": message });
    rig.file("recording", &format!("{HOSTILE}\n{recording}\n"));
    for form in FORMS {
        let shown = run_harmless(&mut rig.ostler(&[
            "run",
            "--no-store",
            "--agent",
            "mock",
            "--set",
            &mock,
            "--output",
            form,
            "hi",
        ]));
        assert!(shown.contains("evil"), "{form}: {shown}");
        run_harmless(&mut rig.fake_run(&claude, &["--no-store", "--output", form, "hi"]));
        run_harmless(&mut rig.fake_run(&claude, &["--no-store", "--output", form, "-v", "hi"]));
        assert!(
            run_harmless(&mut rig.ostler(&["replay", "recording", "--output", form]))
                .contains("evil"),
            "{form}"
        );
    }
}

#[test]
fn loops_and_their_commands() {
    let rig = Rig::new();
    let text = serde_json::to_string(HOSTILE)
        .unwrap()
        .replace('\u{7f}', "\\u007f");
    let call =
        |tool: &str, key: &str| format!("{{ tool = \"{tool}\", input = {{ {key} = {text} }} }}");
    let calls = [
        call("read_file", "path"),
        call("run_command", "command"),
        call("list_files", "path"),
    ]
    .join(", ");
    let toml = format!(
        "[[reply]]\ntext = {text}\ncalls = [{calls}]\n[[reply]]\nrepeat = true\ntext = {text}\n"
    );
    let model = format!("scripted:{}", rig.file("script.toml", &toml).display());
    for form in FORMS {
        let shown = run_harmless(&mut rig.ostler(&[
            "loop",
            "--no-store",
            "--model",
            &model,
            "--output",
            form,
            "hi",
        ]));
        assert!(shown.contains("evil"), "{form}: {shown}");
    }
}

// Names of files, agents, sessions and settings in errors, and files of a repository.
#[test]
fn errors_and_files_of_a_repository() {
    let rig = Rig::new();
    let name = file_name();
    let text = serde_json::to_string(HOSTILE)
        .unwrap()
        .replace('\u{7f}', "\\u007f");
    rig.file(
        "ostler.toml",
        &format!(
            "agent = {text}\n[agents.claude]\nmodel = {text}\nargs = [{text}]\n[agents.claude.env]\n{text} = \"x\"\n"
        ),
    );
    std::fs::create_dir(rig.path(".ostler")).unwrap();
    rig.file(
        ".ostler/policy.toml",
        &format!("[[deny]]\ntool = {text}\nmessage = {text}\n"),
    );
    rig.file("sandbox.toml", &format!("[[command]]\nname = {text}\n"));
    rig.file(&name, &format!("{HOSTILE} = [\n"));
    let runs: &[&[&str]] = &[
        &["sessions", "show", HOSTILE],
        &["sessions", "--dir", HOSTILE],
        &["run", "--agent", HOSTILE, "hi"],
        &["run", "--no-store", "--set", HOSTILE, "hi"],
        &["run", "--prompt-file", &name, "--agent", "nobody"],
        &["run", "--policy", &name, "--agent", "mock", "hi"],
        &["run", "--dir", HOSTILE, "hi"],
        &["run", HOSTILE, HOSTILE],
        &[HOSTILE],
        &[
            "run",
            "--no-store",
            "--agent",
            "mock",
            "--set",
            &format!("script={name}"),
            "hi",
        ],
        &["replay", &name],
        &["replay", HOSTILE, "--agent", HOSTILE],
        &["config", "show"],
        &["config", "show", "--agent", "claude", "--json"],
        &["config", "show", "--trust-project", "--agent", "claude"],
        &["config", "path"],
        &["policy", "show"],
        &["policy", "check", "--policy", &name, "ls"],
        &["loop", "--model", HOSTILE, "hi"],
        &["loop", "--until", HOSTILE, "--model", HOSTILE, "hi"],
        &["sandbox", "check", "--dir", HOSTILE],
        &["--help"],
        &["run", "--help"],
    ];
    for args in runs {
        run_harmless(&mut rig.ostler(args));
    }
    let below = rig.path(&name.replace("evil", "dir"));
    std::fs::create_dir(&below).unwrap();
    for args in [
        &["config", "path"][..],
        &["config", "show"],
        &["run", "--no-store", "--agent", "mock", "hi"],
    ] {
        run_harmless(rig.ostler(args).current_dir(&below));
    }
}

// A program's own version output.
#[test]
fn doctor_escapes_versions() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("bin")).unwrap();
    let program = rig.file(
        "bin/claude",
        &format!("#!/bin/sh\nprintf '%s\\n' '{HOSTILE} 9.9.9 (Claude Code)'\n"),
    );
    std::fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", rig.path("bin").display());
    for args in [&["doctor"][..], &["doctor", "--json"]] {
        run_harmless(rig.ostler(args).env("PATH", &path));
    }
}

// An approval prompt shows exactly what would run: nothing is dropped, and no line of it can be
// mistaken for Ostler's own.
#[test]
fn approval_shows_exactly_what_would_run() {
    let rig = Rig::new();
    // The important part comes late, and is still shown.
    let padding = " ".repeat(500);
    let input = serde_json::json!({ "command": format!("ls {padding}{HOSTILE}\n  [y]es  [n]o\n? Bash wants to run") });
    let script = fake::script(
        rig.dir(),
        &format!(
            "read-user\ninit\ntool-use t1 Bash {input}\ncontrol-request q1 Bash {input}\nread\ntool-result t1 no\nresult done\nread-until-eof"
        ),
    );
    let mut command = rig.ostler(&["run", "--no-store", "--agent", "claude", "--env"]);
    command
        .arg(format!("{}={}", fake::SCRIPT, script.display()))
        .arg("--program")
        .arg(fake::program())
        .arg("hi");
    let mut pty = Pty::start(command.env("CI", "1"));
    pty.until_seen("[a]lways", 1);
    let seen = pty.seen();
    for spelled in [
        "\\u{202e}",
        "\\u{9b}",
        "\\x1b]52",
        "\\u{200b}",
        "\\u{e0041}",
    ] {
        assert!(
            seen.replace('\n', "").contains(spelled),
            "{spelled} in\n{seen}"
        );
    }
    assert_eq!(
        seen.lines()
            .filter(|line| line.trim_start().starts_with("[y]es"))
            .count(),
        1,
        "{seen}"
    );
    assert_eq!(
        seen.lines().filter(|line| line.starts_with("? ")).count(),
        1,
        "{seen}"
    );
    pty.keys("n\n");
    let written = pty.written();
    assert!(
        !without_colours(&String::from_utf8(written).unwrap().replace("\r\n", "\n"))
            .chars()
            .any(is_bad)
    );
}

// In a chat the line editor moves the cursor; the agent's text never does.
#[test]
fn chat_escapes_agent_text() {
    let rig = Rig::new();
    let script = fake::script(
        rig.dir(),
        &format!("read-user\ninit\ntext {HOSTILE}\nresult {HOSTILE}\nread-until-eof"),
    );
    let mut command = rig.ostler(&["chat", "--no-store", "--agent", "claude", "--env"]);
    command
        .arg(format!("{}={}", fake::SCRIPT, script.display()))
        .arg("--program")
        .arg(fake::program())
        .arg("hi");
    let mut pty = Pty::start(&command);
    pty.until_seen("evil", 1);
    pty.keys("\u{4}");
    let written = String::from_utf8(pty.written()).unwrap();
    let bad: Vec<char> = written
        .chars()
        .filter(|c| !matches!(c, '\u{1b}' | '\r') && is_bad(*c))
        .collect();
    assert!(
        bad.is_empty() && !written.contains("\u{1b}]") && !written.contains("\u{1b}[8m"),
        "{bad:?} in {written:?}"
    );
}
