//! Recording an agent with the fake agent, and replaying the recording.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use ostler_testkit::processes::wait_until;
use ostler_testkit::scenario::{Signal, signal};
use ostler_testkit::transcript::{self, TranscriptEntry};

use crate::{FAKE_AGENT, finish};

/// An agent that replies to each line, writes to stderr, and exits with 3.
const ANSWERS: &str = r#"read -r line; echo "{\"type\":\"answer\",\"n\":1.50}"; read -r line; echo "plain words";
    cat > /dev/null; echo complaint >&2; exit 3"#;
const INPUT: &str = "{\"type\":\"user\",\"text\":\"one\"}\n{\"type\":\"user\",\"text\":\"two\"}\n";

fn recorded(dir: &Path, script: &str, input: &str) -> (PathBuf, Output) {
    let file = dir.join("transcript.jsonl");
    let mut command = Command::new(FAKE_AGENT);
    command
        .arg("record")
        .arg(&file)
        .args(["--", "sh", "-c", script]);
    (file, finish(piped(command).spawn().unwrap(), input))
}

fn played(file: &Path, input: &str) -> Output {
    let mut command = Command::new(FAKE_AGENT);
    command.arg("play").arg(file);
    finish(piped(command).spawn().unwrap(), input)
}

fn piped(mut command: Command) -> Command {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn utf8(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn recording_is_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let (file, output) = recorded(dir.path(), ANSWERS, INPUT);
    let expected = "{\"type\":\"answer\",\"n\":1.50}\nplain words\n";
    assert_eq!(
        (utf8(&output.stdout), utf8(&output.stderr)),
        (expected, "complaint\n")
    );
    assert_eq!(output.status.code(), Some(3));
    let text = std::fs::read_to_string(&file).unwrap();
    let entries = transcript::parse(&text).unwrap().concat();
    assert_eq!(
        entries
            .iter()
            .filter(|entry| matches!(entry, TranscriptEntry::In(_)))
            .count(),
        2,
        "{text}"
    );
    for entry in [
        TranscriptEntry::InEnd,
        TranscriptEntry::Stderr("complaint\n".into()),
        TranscriptEntry::Exit(3),
    ] {
        assert!(entries.contains(&entry), "no {entry:?} in {text}");
    }
    // Another text of the same kind is accepted.
    let again = played(&file, &INPUT.replace("one", "something else"));
    assert_eq!(
        (utf8(&again.stdout), utf8(&again.stderr)),
        (expected, "complaint\n")
    );
    assert_eq!(again.status.code(), Some(3));
}

#[test]
fn unexpected_input_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (file, _) = recorded(dir.path(), ANSWERS, INPUT);
    let cases = [
        (
            "{\"method\":\"session/new\",\"id\":1}\n",
            "expected user as recorded, got session/new",
        ),
        (
            "{\"type\":\"user\"}\n",
            "the input ended; the recording continues with user",
        ),
        (
            &format!("{INPUT}{{\"type\":\"control_request\"}}\n"),
            "expected end of input as recorded, got control_request",
        ),
    ];
    for (input, why) in cases {
        let output = played(&file, input);
        assert_eq!(output.status.code(), Some(65), "{why}");
        assert!(
            utf8(&output.stderr).contains(why),
            "{why}: {}",
            utf8(&output.stderr)
        );
    }
}

/// The recorded entry when the agent is ready.
const READY: &str = "{\"out_text\":\"ready\"}";

#[test]
fn signals_are_forwarded_and_exit_status_is_returned() {
    for (end, number) in [("kill -9 $$", 9), ("trap - TERM; kill -TERM $$", 15)] {
        let dir = tempfile::tempdir().unwrap();
        let script =
            format!("trap 'echo signaled; {end}' TERM; echo ready; while :; do sleep 0.05; done");
        let file = dir.path().join("transcript.jsonl");
        let mut command = Command::new(FAKE_AGENT);
        command
            .arg("record")
            .arg(&file)
            .args(["--", "sh", "-c", &script]);
        let child = piped(command).spawn().unwrap();
        let recorded = || std::fs::read_to_string(&file).unwrap_or_default();
        assert!(wait_until(Duration::from_secs(60), || recorded().contains(READY)));
        signal(child.id(), Signal::TERM);
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.signal(), utf8(&output.stdout)),
            (Some(number), "ready\nsignaled\n")
        );
        assert!(
            recorded().contains(&format!("{{\"signal\":{number}}}")),
            "{}",
            recorded()
        );
    }
}
