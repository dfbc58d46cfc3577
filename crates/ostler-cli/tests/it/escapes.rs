//! Escape sequences in agent output: no cursor movement, clipboard write or faked line reaches a
//! terminal, only Ostler's own colours.

use std::process::{Command, Stdio};

use crate::rig::{Finished, Rig, finish};

/// Events with escape sequences in every field.
const HOSTILE: &str = r#"
{"type":"started","agent":"scr\u001b[2Jipted","agent_version":"1","native_session":"abc\u001b]52;c;x\u0007; rm -rf ~","model":"m\u001b[1m1","cwd":null,"tools":[]}
{"type":"text","kind":"thinking","text":"Hm\u001b[2J.","delta":false,"message":"m"}
{"type":"tool_call","id":"1","name":"Ba\u001b[2J\u001b]52;c;x\u0007sh","input":{"command":"ls\u202e\u001b[2J"},"parent":null}
{"type":"permission","id":"p","tool":"Wr\u001b[2Jite","input":null,"decision":"asked","by":"person"}
{"type":"tool_result","id":"1","name":"Ba\u001b[2J\u001b]52;c;x\u0007sh\nfake line","ok":false,"output":"no\u001b[2J","denied":false}
{"type":"refused","request":"se\u001b[2Jnd","why":"be\u001b[2Jcause"}
{"type":"unreadable","raw":"{\u001b[2J","why":"wh\u001b[2Jy","length":1,"lossy":false}
{"type":"notice","level":"warning","code":"x","message":"careful \u001b[2J"}
{"type":"text","kind":"reply","text":"Do\u001b[2Jne.\u009b2J","delta":false,"message":"n"}
{"type":"turn_ended","outcome":{"status":"failed","cause":"refused","message":"no\u001b[2J","hint":"try\u001b]0;t\u0007"},"text":"Do\u001b[2Jne.","structured":null,"usage":null}
"#;

fn run(rig: &Rig, script: &str, output: &str) -> Command {
    let script = format!("script={}", rig.file("script.jsonl", script).display());
    let mut command = rig.ostler(&[
        "run", "--agent", "mock", "--set", &script, "--output", output, "hi",
    ]);
    command.env("CLICOLOR_FORCE", "1");
    command
}

/// Strips Ostler's own colours from a text.
fn without_colours(text: &str) -> String {
    let mut pieces = text.split("\u{1b}[");
    let mut left = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let end = piece
            .find(|c: char| !(c.is_ascii_digit() || c == ';'))
            .unwrap_or(piece.len());
        match piece[end..].strip_prefix('m') {
            Some(rest) => left.push_str(rest),
            None => left.push_str(&format!("\u{1b}[{piece}")),
        }
    }
    left
}

fn assert_harmless(kind: &str, text: &str) {
    let left = without_colours(text);
    let bad = left
        .chars()
        .find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
    assert!(bad.is_none(), "{kind}: {bad:?} in {left:?}");
}

#[test]
fn human_output_has_only_our_escapes() {
    let rig = Rig::new();
    let Finished { stdout, stderr, .. } = finish(&mut run(&rig, HOSTILE, "human"));
    assert!(stderr.contains("\u{1b}["), "colours are on");
    assert_harmless("stdout", &stdout);
    assert_harmless("stderr", &stderr);
    assert!(
        stderr.contains("Bash") && stderr.contains("ls\\u{202e}") && stdout.contains("Done."),
        "{stderr}"
    );
    assert!(
        !stderr.lines().any(|l| l.starts_with("fake line")),
        "a name must not start a new line: {stderr}"
    );
    let offered = without_colours(&stderr)
        .split_once("--resume ")
        .map(|(_, rest)| rest[..8].to_owned())
        .unwrap();
    assert!(
        offered.chars().all(|c| c.is_ascii_hexdigit()),
        "expected Ostler's id, not the agent's: {offered:?}"
    );
    let Finished { stderr, .. } = finish(run(&rig, HOSTILE, "human").arg("--no-store"));
    assert_harmless("stderr", &stderr);
    assert!(
        !stderr.contains("--resume"),
        "a hostile id must not be offered to a shell: {stderr}"
    );
}

#[test]
fn text_shows_no_escape_on_stderr() {
    let rig = Rig::new();
    let done = finish(&mut run(&rig, HOSTILE, "text"));
    assert_harmless("stderr", &done.stderr);
    assert!(done.stderr.contains("\nrefused: no"), "{}", done.stderr);
    assert_eq!(
        done.stdout, "Do\u{1b}[2Jne.\n",
        "a file gets the raw answer"
    );
}

#[test]
fn store_failure_is_reported_in_every_output() {
    let script = r#"{"type":"notice","level":"warning","code":"store_failed","message":"Not stored:\nthe disk is full."}
{"type":"turn_ended","outcome":{"status":"success","cause":"completed","message":"ok"},"text":"x"}
"#;
    for output in ["text", "json"] {
        let done = finish(&mut run(&Rig::new(), script, output));
        assert_eq!(
            (done.code, done.stderr.as_str()),
            (Some(0), "warning: Not stored: the disk is full.\n"),
            "{output}"
        );
    }
}

// `script` gives the program a terminal.
#[test]
fn a_terminal_gets_no_escape_in_any_output() {
    for output in ["human", "text"] {
        let rig = Rig::new();
        let inner = run(&rig, HOSTILE, output);
        let quoted: Vec<String> = std::iter::once(inner.get_program())
            .chain(inner.get_args())
            .map(|a| format!("'{}'", a.to_str().unwrap()))
            .collect();
        let mut script = Command::new("/usr/bin/script");
        script
            .args(["-qec", &quoted.join(" "), "/dev/null"])
            .current_dir(rig.dir());
        script
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", rig.dir())
            .env("CI", "1")
            .env("TERM", "xterm");
        let done = finish(
            script
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let shown = done.stdout.replace("\r\n", "\n");
        assert!(shown.contains("Done."), "{shown}");
        assert_harmless(output, &shown);
    }
}

#[test]
fn long_names_are_cut() {
    let rig = Rig::new();
    let name = "N".repeat(5000);
    let script = format!(
        "{{\"type\":\"started\",\"agent\":\"mock\",\"native_session\":\"{name}\",\"tools\":[]}}\n\
         {{\"type\":\"tool_call\",\"id\":\"1\",\"name\":\"{name}\",\"input\":{{}},\"parent\":null}}\n\
         {{\"type\":\"tool_result\",\"id\":\"1\",\"name\":\"{name}\",\"ok\":true,\"output\":\"\",\"denied\":false}}\n\
         {{\"type\":\"turn_ended\",\"outcome\":{{\"status\":\"success\",\"cause\":\"completed\",\"message\":\"ok\"}},\"text\":\"x\"}}\n"
    );
    let done = finish(&mut run(&rig, &script, "human"));
    assert!(
        done.stderr.contains("NNN") && done.stderr.lines().all(|l| l.len() < 400),
        "{} bytes",
        done.stderr.len()
    );
}
