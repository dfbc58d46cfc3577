//! `ostler replay`: detects the agent from the file, uses the recorded times, and refuses other
//! files.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::rig::{Finished, Rig, finish, finish_with};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name)
}

fn replay(rig: &Rig, file: &Path, args: &[&str]) -> Finished {
    finish(rig.ostler(&["replay"]).args(args).arg(file))
}

#[test]
fn agent_is_detected() {
    let rig = Rig::new();
    for (file, agent) in [
        ("claude/hello/stdout.jsonl", "claude"),
        ("codex/hello/stdout.jsonl", "codex"),
        ("copilot/hello/stdout.jsonl", "copilot"),
        ("openai-api/text/stdout.jsonl", "openai-api"),
        ("openclaw/hello/stdout.json", "openclaw"),
    ] {
        let done = replay(&rig, &fixture(file), &["--json"]);
        let report: Value = serde_json::from_str(&done.stdout)
            .unwrap_or_else(|_| panic!("{file}: {}", done.stderr));
        assert_eq!(
            (done.code, report["agent"].as_str()),
            (Some(0), Some(agent)),
            "{file}"
        );
        // From a pipe, too.
        let bytes = std::fs::read(fixture(file)).unwrap();
        let piped = finish_with(&mut rig.ostler(&["replay", "-", "--json"]), &bytes);
        assert_eq!(
            serde_json::from_str::<Value>(&piped.stdout).unwrap()["agent"],
            agent,
            "{file}"
        );
    }
}

#[test]
fn a_recording_without_times_shows_none() {
    let rig = Rig::new();
    let file = fixture("claude/tool/stdout.jsonl");
    let human = replay(&rig, &file, &[]);
    let timed = |text: &str| {
        let is_time = |word: &str| {
            let number = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            number.len() < word.len() && number.parse::<f64>().is_ok() && word.ends_with('s')
        };
        text.split(|c: char| c.is_whitespace() || c == '·')
            .any(is_time)
    };
    assert!(
        human.stderr.contains("✓ Bash") && human.stderr.contains("✓ completed"),
        "{}",
        human.stderr
    );
    assert!(
        !timed(&human.stderr) && timed("completed · 12ms"),
        "{}",
        human.stderr
    );
    let report: Value = serde_json::from_str(&replay(&rig, &file, &["--json"]).stdout).unwrap();
    for key in ["started_at", "ended_at", "duration_ms"] {
        assert_eq!(report[key], Value::Null, "{key}");
    }
    let events = replay(&rig, &file, &["--output", "events"]).events();
    assert!(
        events
            .iter()
            .all(|event| event["at"] == "1970-01-01T00:00:00.000Z"),
        "{}",
        events[0]
    );
}

#[test]
fn events_are_replayed_with_their_times() {
    let rig = Rig::new();
    let run = finish(&mut rig.fake_run(
        "read\ninit\ntext hello\nresult hello\nread-until-eof",
        &["--output", "events", "hi"],
    ));
    let mut is_over = false;
    let lines: Vec<String> = run
        .stdout
        .lines()
        .map(|line| {
            let mut event: Value = serde_json::from_str(line).unwrap();
            is_over |= event["type"] == "turn_ended";
            event["at"] = if is_over {
                "2026-11-17T08:00:12.300Z"
            } else {
                "2026-11-17T08:00:00.000Z"
            }
            .into();
            event.to_string()
        })
        .collect();
    let file = rig.file("events.jsonl", &format!("\n{}\n", lines.join("\n")));
    let human = replay(&rig, &file, &[]);
    assert_eq!((human.code, human.stdout.as_str()), (Some(0), "hello\n"));
    assert!(human.stderr.contains("12.3s"), "{}", human.stderr);
    let report: Value = serde_json::from_str(&replay(&rig, &file, &["--json"]).stdout).unwrap();
    assert_eq!(
        (&report["duration_ms"], &report["started_at"]),
        (&12_300.into(), &"2026-11-17T08:00:00.000Z".into())
    );
    // A truncated recording.
    let file = rig.file("cut.jsonl", &(lines[..4].join("\n") + "\n"));
    let cut = replay(&rig, &file, &[]);
    assert!(
        cut.code == Some(1) && cut.stderr.contains("the recording is incomplete"),
        "{:?}: {}",
        cut.code,
        cut.stderr
    );
    // An invalid line is reported with its number.
    let file = rig.file("broken.jsonl", &(lines[0].clone() + "\nhello\n"));
    let broken = replay(&rig, &file, &["--output", "text"]);
    assert!(
        broken.code == Some(2) && broken.stderr.contains("broken.jsonl:2: not an event"),
        "{}",
        broken.stderr
    );
}

#[test]
fn a_file_that_is_not_a_recording_is_refused() {
    let rig = Rig::new();
    let text = rig.file("notes.txt", "root:x:0:0\nhello\n");
    let json = rig.file(
        "package.json",
        "{\n  \"name\": \"x\",\n  \"type\": \"module\"\n}\n",
    );
    let binary = rig.path("binary");
    std::fs::write(&binary, [0u8, 159, 146, 150, 10, 0, 255]).unwrap();
    for file in [&text, &json, &binary] {
        let done = replay(&rig, file, &[]);
        assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""));
        assert!(
            done.stderr.contains("is not a recording of a known agent"),
            "{}",
            done.stderr
        );
        assert!(
            done.stderr.contains("--raw-log") && done.stderr.contains("--agent NAME"),
            "{}",
            done.stderr
        );
        let named = replay(&rig, file, &["--agent", "claude"]);
        assert!(
            named.code == Some(2) && named.stderr.contains("is not a recording of claude"),
            "{}",
            named.stderr
        );
    }
    let other = replay(
        &rig,
        &fixture("codex/hello/stdout.jsonl"),
        &["--agent", "claude"],
    );
    assert!(
        other.code == Some(2) && other.stderr.contains("looks like a recording of codex"),
        "{}",
        other.stderr
    );
    let empty = replay(&rig, &rig.file("empty", ""), &[]);
    assert!(
        empty.code == Some(2) && empty.stderr.contains("is empty"),
        "{}",
        empty.stderr
    );
}

/// A recording that starts in the middle of a session can be read if its agent is named.
#[test]
fn partial_recording_can_be_replayed() {
    let rig = Rig::new();
    let text = std::fs::read_to_string(fixture("codex/hello/stdout.jsonl")).unwrap();
    let rest: Vec<&str> = text.lines().skip(1).collect();
    let file = rig.file("rest", &rest.join("\n"));
    assert_eq!(replay(&rig, &file, &[]).code, Some(2));
    let named = replay(&rig, &file, &["--agent", "codex", "--output", "events"]);
    assert!(
        named.events().iter().any(|event| event["type"] == "text"),
        "{}",
        named.stderr
    );
}
