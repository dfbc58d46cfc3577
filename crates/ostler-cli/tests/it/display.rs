//! Human output of an agent's work: diffs, the tail of failed commands, rendered Markdown, the end
//! line.

use std::path::Path;
use std::process::Command;

use ostler_testkit::fake;
use ostler_testkit::pty::Pty;

use crate::rig::{Rig, finish};

/// Creates files to edit, and returns a script that edits one, writes two others, fails a command
/// and reports it.
fn edit_script(rig: &Rig) -> String {
    let dir = rig.dir().canonicalize().unwrap();
    rig.file("a.rs", "one\ntwo\nthree\n");
    rig.file("b.rs", "old\nsame\n");
    let at = |name: &str| dir.join(name).display().to_string();
    let edit = serde_json::json!({"file_path": at("a.rs"), "old_string": "two", "new_string": "2"});
    let write = serde_json::json!({"file_path": at("b.rs"), "content": "new\nsame\n"});
    let create = serde_json::json!({"file_path": at("c.rs"), "content": "x\ny\n"});
    let lines: Vec<String> = (1..=14).map(|n| format!("line {n}")).collect();
    let failed = serde_json::json!({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result",
        "tool_use_id": "t4", "content": lines.join("\n"), "is_error": true}]}, "parent_tool_use_id": null});
    let prose = "words that wrap ".repeat(10);
    let answer = format!("# Result\\n\\nI changed **three files**:\\n- `a.rs`\\n\\n{prose}");
    format!(
        "read-user\ninit\nthinking Hm.\ntool-use t1 Edit {edit}\ntool-result t1 Updated.\n\
         tool-use t2 Write {write}\ntool-result t2 Written.\ntool-use t3 Write {create}\ntool-result t3 Created.\n\
         tool-use t4 Bash {{\"command\":\"make\"}}\nprint {failed}\ntext {answer}\nresult Done.\nread-until-eof"
    )
}

fn fake_command(rig: &Rig, verb: &str, args: &[&str]) -> Command {
    let script = fake::script(rig.dir(), &edit_script(rig));
    let mut command = rig.ostler(&[verb, "--agent", "claude", "--env"]);
    command
        .arg(format!("{}={}", fake::SCRIPT, script.display()))
        .arg("--program")
        .arg(fake::program());
    command.args(args).arg("hi");
    command
}

/// Replaces times and ids on the screen with placeholders.
fn normalize(seen: &str) -> String {
    let mut steady = String::new();
    for line in seen.lines() {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        for at in 0..words.len() {
            let word = words[at].trim_end_matches("ms").trim_end_matches('s');
            if word.len() < words[at].len() && word.parse::<f64>().is_ok() {
                words[at] = "TIME".to_owned();
            }
            if at > 0 && words[at - 1] == "session" {
                words[at] = "SHORT".to_owned();
            }
        }
        steady.push_str(words.join(" ").trim_end());
        steady.push('\n');
    }
    steady
}

const SEEN: &str = "\
Hm.
✓ Edit a.rs +1 −1 TIME
  -two
  +2
✓ Write b.rs +1 −1 TIME
  -old
  +new
   same
✓ Write c.rs +2 −0 TIME
  +x
  +y
✗ Bash make TIME failed
  ⋯ 4 more lines before (-v to show all)
  │ line 5
  │ line 6
  │ line 7
  │ line 8
  │ line 9
  │ line 10
  │ line 11
  │ line 12
  │ line 13
  │ line 14
Result

I changed three files:
• a.rs

words that wrap words that wrap words that wrap words that wrap words that wrap words that wrap
words that wrap words that wrap words that wrap words that wrap
✓ completed · 3 files +4 −2 · 118 tokens in, 25 out · $0.0009 · TIME · session SHORT
";

#[test]
fn a_run_shows_what_changed() {
    let rig = Rig::new();
    let mut pty = Pty::start(&fake_command(&rig, "run", &[]));
    assert_eq!(pty.end(), Some(0));
    let written = String::from_utf8(pty.written()).unwrap();
    let seen = normalize(&pty.seen());
    assert!(seen.starts_with(SEEN), "{seen}");
    for coloured in [
        "\u{1b}[31m-two\u{1b}[0m",
        "\u{1b}[32m+2\u{1b}[0m",
        "\u{1b}[1mResult\u{1b}[0m",
    ] {
        assert!(written.contains(coloured), "{coloured:?} in {written:?}");
    }
}

#[test]
fn a_chat_shows_what_changed_in_each_turn() {
    let rig = Rig::new();
    let mut pty = Pty::start(&fake_command(&rig, "chat", &[]));
    pty.until_seen("✓ completed", 1);
    pty.until_seen("›", 1);
    pty.keys("\x04");
    assert_eq!(pty.end(), Some(0));
    pty.written(); // drains the output
    let seen = normalize(&pty.seen());
    assert!(seen.contains(SEEN), "{seen}");
    let end = "session SHORT · 1 turn · 3 files +4 −2 · 118 tokens in, 25 out · $0.0009\n";
    assert!(seen.contains(end), "{seen}");
}

#[test]
fn verbosity_flags_choose_the_detail() {
    let rig = Rig::new();
    let mut pty = Pty::start(&fake_command(&rig, "run", &["-v"]));
    assert_eq!(pty.end(), Some(0));
    pty.written();
    let seen = pty.seen();
    for line in ["  │ Updated.", "  │ line 1", "  │ line 14", "  +2"] {
        assert_eq!(
            seen.lines().filter(|seen| *seen == line).count(),
            1,
            "{line} in\n{seen}"
        );
    }
    for verb in ["run", "chat"] {
        let mut pty = Pty::start(&fake_command(&rig, verb, &["-q"]));
        pty.until_seen("✓ completed · 3 files +4 −2", 1);
        pty.keys("\x04");
        assert_eq!(pty.end(), Some(0));
        let seen = pty.seen();
        for hidden in ["Hm.", "Edit", "+2\n", "line 14"] {
            assert!(!seen.contains(hidden), "{hidden} in\n{seen}");
        }
    }
    assert_eq!(
        finish(&mut fake_command(&rig, "run", &["-q", "-v"])).code,
        Some(2),
        "-q and -v conflict"
    );
}

// A pipe gets the answer exactly as the model wrote it.
#[test]
fn pipe_gets_unrendered_markdown() {
    let rig = Rig::new();
    let done = finish(&mut fake_command(&rig, "run", &[]));
    assert!(
        done.stdout
            .starts_with("# Result\n\nI changed **three files**:\n- `a.rs`\n\nwords that wrap"),
        "{}",
        done.stdout
    );
    assert!(
        done.stdout.lines().last().unwrap().len() > 110,
        "{}",
        done.stdout
    );
    assert!(done.stderr.contains("  -two\n  +2\n"), "{}", done.stderr);
}

// The recording of a real agent.
#[test]
fn a_recording_shows_diffs() {
    let rig = Rig::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let done = finish(
        rig.ostler(&["replay", "--agent", "codex"])
            .arg(fixtures.join("codex/patch/stdout.jsonl")),
    );
    let want = "✓ apply_patch a.txt +1 −0\n  +hello\n"; // no times are recorded
    assert!(normalize(&done.stderr).contains(want), "{}", done.stderr);
}
