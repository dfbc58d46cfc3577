//! `ostler chat` on a terminal: input, screen output, and what is left after the exit.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use insta::assert_snapshot;
use ostler_testkit::processes::{alive, wait_until};
use ostler_testkit::{fake, pty::Pty};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::rig::{PATIENCE, Rig, finish_with};

/// Answers two messages, each with its number.
const ANSWERS: &str = "pid-file agent\nread-user\ninit\ntext One.\nresult One.\nread-user\ninit\ntext Two.\nresult Two.\nread-until-eof";

/// Builds `ostler chat` with the fake agent playing `script` as Claude.
fn chat(rig: &Rig, script: &str) -> Command {
    fake_agent(rig, "chat", script)
}

fn fake_agent(rig: &Rig, verb: &str, script: &str) -> Command {
    let mut command = rig.ostler(&[verb, "--agent", "claude", "--grace", "500ms", "--env"]);
    command.arg(format!(
        "{}={}",
        fake::SCRIPT,
        fake::script(rig.dir(), script).display()
    ));
    command.arg("--program").arg(fake::program());
    command
}

/// Creates a pipe that the agent's script blocks on until the test writes to it.
fn create_gate(rig: &Rig, name: &str) {
    mknodat(
        CWD,
        rig.path(name),
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
}

/// Returns the agent's recorded stdin.
fn agent_stdin(rig: &Rig) -> String {
    let read = || std::fs::read_to_string(rig.path("stdin")).unwrap_or_default();
    assert!(
        wait_until(PATIENCE, || read().ends_with('\n')),
        "{}",
        read()
    );
    read()
}

/// Replaces text on the screen that differs from run to run.
macro_rules! assert_seen {
    ($rig:expr, $seen:expr, @$want:literal) => {
        let dir = $rig.dir().canonicalize().unwrap();
        insta::with_settings!({filters => vec![
            (r"\b\d[\d.]*m?s\b", "TIME"),
            (dir.to_str().unwrap(), "DIR"),
            (r"(session|--resume) [0-9a-f]{8}\b", "$1 SHORT-ID"),
        ]}, {
            assert_snapshot!($seen, @$want);
        });
    };
}

#[test]
fn two_turns_and_exit() {
    let rig = Rig::new();
    let mut pty = Pty::start(&chat(&rig, ANSWERS));
    pty.until_seen("›", 1);
    pty.keys("hello\r");
    pty.until_seen("✓ completed", 1);
    pty.until_seen("›", 2);
    pty.keys("more\\\rof it\r");
    pty.until_seen("✓ completed", 2);
    pty.keys("/quit\r");
    assert_eq!(pty.end(), Some(0));
    assert_seen!(rig, pty.seen(), @r#"
    claude in DIR · /help for commands, Ctrl-D to quit
    › hello
    One.
    ✓ completed · 118 tokens in, 25 out · $0.0009 · TIME · session SHORT-ID

    › more\
    of it
    Two.
    ✓ completed · 118 tokens in, 25 out · $0.0009 · TIME · session SHORT-ID

    › /quit
    session SHORT-ID · 2 turns · 236 tokens in, 50 out · $0.0019
      resume with: ostler chat --resume SHORT-ID
    "#);
    assert!(pty.echoes(), "the terminal is left as it was found");
    assert!(!alive(rig.number("agent")));
}

// S3-8
#[test]
fn conversation_continues_after_ctrl_c() {
    let rig = Rig::new();
    let script = "read-user\ninit\ndelta Working on\nanswer-interrupt\nread-user\ninit\ntext Back.\nresult Back.\nread-until-eof";
    let mut pty = Pty::start(chat(&rig, script).arg("hello"));
    pty.until_seen("Working on", 1);
    pty.keys("\x03");
    pty.until_seen("acknowledged the interrupt", 1);
    pty.until_seen("›", 1);
    pty.keys("again\r");
    pty.until_seen("Back.", 1);
    pty.keys("\x04");
    assert_eq!(pty.end(), Some(0));
}

#[test]
fn ctrl_c_twice_exits_and_leaves_no_process() {
    let rig = Rig::new();
    let mut pty = Pty::start(
        chat(
            &rig,
            "pid-file agent\nread-user\ninit\ndelta Working\nspawn-child child\nhang",
        )
        .arg("hello"),
    );
    pty.until_seen("Working", 1);
    let (agent, child) = (rig.number("agent"), rig.number("child"));
    pty.keys("\x03");
    pty.until_seen("interrupting; press Ctrl-C again to quit", 1);
    pty.keys("\x03");
    assert_eq!(pty.end(), Some(130));
    assert!(!alive(agent) && !alive(child) && pty.echoes());
    // At the prompt it is not a failure.
    let mut pty = Pty::start(&chat(&rig, "read-until-eof"));
    pty.until_seen("›", 1);
    pty.keys("\x03");
    pty.until_seen("press Ctrl-C again or Ctrl-D to quit", 1);
    pty.until_seen("›", 2);
    pty.keys("\x03");
    assert_eq!(pty.end(), Some(0));
}

// Two presses in a row exit. Keys in between reset the count, and the draft survives.
#[test]
fn a_draft_survives_ctrl_c() {
    let rig = Rig::new();
    let mut pty = Pty::start(&chat(
        &rig,
        &ANSWERS.replace("text One.", "dump-stdin stdin\ntext One."),
    ));
    pty.until_seen("›", 1);
    pty.keys("\x03");
    pty.until_seen("press Ctrl-C again or Ctrl-D to quit", 1);
    pty.until_seen("›", 2);
    pty.keys("a few");
    pty.until_seen("› a few", 1);
    pty.keys("\x03");
    pty.until("the prompt with its draft", |seen| {
        seen.matches("› a few").count() == 2 && seen.ends_with("› a few")
    });
    pty.keys(" keys");
    pty.until_seen("› a few keys", 1);
    pty.keys("\x03");
    pty.until("the draft again", |seen| {
        seen.matches("› a few keys").count() == 2 && seen.ends_with("› a few keys")
    });
    pty.keys("\r");
    pty.until_seen("One.", 1);
    assert!(agent_stdin(&rig).contains("a few keys"));
    pty.keys("\x04");
    assert_eq!(pty.end(), Some(0));
}

// Text typed ahead waits at the next prompt. It is not sent automatically, because the turn it was
// meant to follow was interrupted.
#[test]
fn text_typed_ahead_survives_an_interrupt() {
    let rig = Rig::new();
    let script = "read-user\ninit\ndelta Working on\nanswer-interrupt\nread-user\ndump-stdin stdin\ninit\ntext Back.\nresult Back.\nread-until-eof";
    let mut pty = Pty::start(chat(&rig, script).arg("hello"));
    pty.until_seen("Working on", 1);
    pty.keys("tehx\x7f\x7f\x7fhe next\r\x03");
    pty.until_seen("acknowledged the interrupt", 1);
    pty.until("the prompt with what was typed", |seen| {
        seen.ends_with("› the next")
    });
    pty.keys(" one\r");
    pty.until_seen("Back.", 1);
    assert!(agent_stdin(&rig).contains("the next one"));
    pty.keys("\x04");
    assert_eq!(pty.end(), Some(0));
}

#[test]
fn keys_between_two_interrupts_prevent_the_exit() {
    let rig = Rig::new();
    create_gate(&rig, "go");
    let script = "read-user\ninit\ndelta Working on\nfile go\nresult Done.\nread-until-eof";
    let mut command = rig.ostler(&["chat", "--agent", "claude", "--grace", "60s", "--env"]);
    command.arg(format!(
        "{}={}",
        fake::SCRIPT,
        fake::script(rig.dir(), script).display()
    ));
    let mut pty = Pty::start(command.arg("--program").arg(fake::program()).arg("hello"));
    pty.until_seen("Working on", 1);
    pty.keys("\x03");
    pty.until_seen("press Ctrl-C again to quit", 1);
    pty.keys("draft\x03");
    pty.until_seen("press Ctrl-C again to quit", 2);
    std::fs::write(rig.path("go"), "").unwrap();
    pty.until("the prompt with what was typed", |seen| {
        seen.ends_with("› draft")
    });
}

#[test]
fn permission_requests_are_answered_in_order() {
    let rig = Rig::new();
    let ask = |n: u32, input: &str| {
        format!(
            "tool-use t{n} Bash {input}\ncontrol-request q{n} Bash {input}\nread\ntool-result t{n} ok\n"
        )
    };
    let ls = r#"{"command":"ls"}"#;
    let edit = r#"{"file_path":"a.rs","old_string":"one","new_string":"two"}"#;
    let script = format!(
        "read-user\ninit\n{}{}{}tool-use t4 Edit {edit}\ncontrol-request q4 Edit {edit}\nread\nresult Done.\ndump-stdin stdin\nread-until-eof",
        ask(1, r#"{"command":"cargo test"}"#),
        ask(2, ls),
        ask(3, ls)
    );
    let mut pty = Pty::start(chat(&rig, &script).arg("hello"));
    pty.until_seen("  > ".trim_end(), 1);
    pty.keys("sure\r");
    pty.until("the question again", |seen| {
        seen.contains("y, n or a") && seen.ends_with('>')
    });
    pty.keys("y\r");
    pty.until_seen("$ ls", 1);
    pty.keys("a\r");
    pty.until_seen("+ two", 1);
    pty.keys("n not this file\r");
    pty.until_seen("✓ completed", 1);
    pty.until_seen("›", 1);
    assert_seen!(rig, pty.seen(), @r#"
    claude in DIR · /help for commands, Ctrl-D to quit
    ? Bash (execute) wants to run
      $ cargo test
      [y]es  [n]o  [a]lways this session (this tool with these arguments)  > sure
    ! answer y, n or a; a reason may follow n
      [y]es  [n]o  [a]lways this session (this tool with these arguments)  > y
    ✓ Bash cargo test TIME
    ? Bash (execute) wants to run
      $ ls
      [y]es  [n]o  [a]lways this session (this tool with these arguments)  > a
    ✓ Bash ls TIME
    ✓ Bash ls TIME
    ? Edit (edit) wants to run
      a.rs
      - one
      + two
      [y]es  [n]o  [a]lways this session (this tool with these arguments)  > n not this file
    ✗ Edit a.rs TIME failed
      no result: the turn ended
    Done.
    ✓ completed · 118 tokens in, 25 out · $0.0009 · TIME · session SHORT-ID

    ›
    "#);
    let stdin = agent_stdin(&rig);
    assert_eq!(stdin.matches(r#""behavior":"allow""#).count(), 3, "{stdin}");
    assert!(stdin.contains("not this file"), "{stdin}");
    pty.keys("\x04");
    assert_eq!(pty.end(), Some(0));
}

// A partial answer to a withdrawn request answers nothing.
#[test]
fn withdrawn_request_disappears_with_its_partial_answer() {
    let rig = Rig::new();
    create_gate(&rig, "withdrawn");
    let script = "read-user\ninit\ncontrol-request q1 Bash {\"command\":\"one\"}\nfile withdrawn\n\
                  control-request q2 Bash {\"command\":\"two\"}\nread\nresult Done.\ndump-stdin stdin\nread-until-eof";
    let mut pty = Pty::start(chat(&rig, script).arg("hello"));
    pty.until("the first question", |seen| {
        seen.contains("$ one") && seen.ends_with('>')
    });
    pty.keys("y");
    pty.until("what is typed", |seen| seen.ends_with("> y"));
    std::fs::write(
        rig.path("withdrawn"),
        "{\"type\":\"control_cancel_request\",\"request_id\":\"q1\"}\n",
    )
    .unwrap();
    pty.until("the second question", |seen| {
        seen.contains("withdrew") && seen.contains("$ two") && seen.ends_with('>')
    });
    pty.keys("\r");
    pty.until_seen("y, n or a", 1);
    pty.keys("n\r");
    pty.until("an empty prompt", |seen| {
        seen.contains("✓ completed") && seen.ends_with("\n›")
    });
    let stdin = agent_stdin(&rig);
    assert!(
        !stdin.contains(r#""behavior":"allow""#) && stdin.contains(r#""behavior":"deny""#),
        "{stdin}"
    );
}

#[test]
fn text_typed_ahead_is_the_next_message() {
    let rig = Rig::new();
    create_gate(&rig, "go");
    let script = "read-user\ninit\ndelta Working\nfile go\nresult One.\nread-user\ndump-stdin stdin\ninit\ntext Two.\nresult Two.\nread-until-eof";
    let mut pty = Pty::start(chat(&rig, script).arg("hello"));
    pty.until_seen("Working", 1);
    pty.keys("the next one\r\x04"); // then exits
    std::fs::write(rig.path("go"), "").unwrap();
    assert_eq!(pty.end(), Some(0));
    assert!(pty.seen().contains("Two."), "{}", pty.seen());
    assert!(agent_stdin(&rig).contains("the next one"));
}

#[test]
fn message_history_is_recalled_and_private() {
    let rig = Rig::new();
    let mut pty = Pty::start(&chat(&rig, ANSWERS));
    pty.until_seen("›", 1);
    pty.keys("remember me\r");
    pty.until_seen("One.", 1);
    pty.until_seen("›", 2);
    pty.keys("/hlep\r");
    pty.until_seen("did you mean /help?", 1);
    pty.until_seen("›", 3);
    pty.keys("\x04");
    assert_eq!(pty.end(), Some(0));
    let history = rig.path(".local/state/ostler/chat_history");
    assert_eq!(
        std::fs::metadata(history).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let mut pty = Pty::start(&chat(&rig, ANSWERS));
    pty.until_seen("›", 1);
    pty.keys("\x1b[A\x1b[A");
    pty.until_seen("› remember me", 1);
}

#[test]
fn signal_at_the_prompt_exits_cleanly() {
    let rig = Rig::new();
    let mut pty = Pty::start(&chat(&rig, ANSWERS));
    pty.until_seen("›", 1);
    pty.keys("hello\r");
    pty.until_seen("One.", 1);
    pty.until_seen("›", 2);
    let pid = rustix::process::Pid::from_raw(i32::try_from(pty.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(pty.end(), Some(143));
    assert!(pty.echoes() && !alive(rig.number("agent")));
}

// The next message restarts an agent that exited. Notices meanwhile do not disturb the line being
// typed.
#[test]
fn dead_agent_is_restarted() {
    let rig = Rig::new();
    create_gate(&rig, "go");
    let script = "read-user\ninit\ntext Here.\nresult Here.\nfile go\nexit 0";
    let mut pty = Pty::start(chat(&rig, script).arg("hello"));
    pty.until_seen("›", 1);
    pty.keys("aga");
    pty.until_seen("› aga", 1);
    std::fs::write(rig.path("go"), "").unwrap();
    pty.until("the notice above the prompt", |seen| {
        seen.contains("it will be restarted with the next message") && seen.ends_with("\n› aga")
    });
    pty.keys("in\r");
    pty.until_seen("Here.", 2);
    pty.keys("\x04");
    assert_eq!(pty.end(), Some(0));
}

#[test]
fn without_a_terminal_each_line_is_a_message() {
    let rig = Rig::new();
    let done = finish_with(
        &mut chat(&rig, ANSWERS),
        "hello\n\n/usage\nand more\\\nof it\n",
    );
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "One.\nTwo.\n"),
        "{}",
        done.stderr
    );
    assert_seen!(rig, done.stderr, @r#"
    › hello
    ✓ completed · 118 tokens in, 25 out · $0.0009 · TIME · session SHORT-ID

      last turn  118 tokens in, 25 out · $0.0009
                 input 100 · cache read 11 · cache write 7 · output 25
      session    118 tokens in, 25 out · $0.0009
                 input 100 · cache read 11 · cache write 7 · output 25
    › and more of it
    ✓ completed · 118 tokens in, 25 out · $0.0009 · TIME · session SHORT-ID

    session SHORT-ID · 2 turns · 236 tokens in, 50 out · $0.0019
      resume with: ostler chat --resume SHORT-ID
    "#);
    let failing = "read-user\ninit\ntext One.\nresult One.\nread-user\nresult-error error_max_turns too many\nread-until-eof";
    assert_eq!(
        finish_with(&mut chat(&rig, failing), "hello\nmore\n").code,
        Some(6),
        "expected the exit code of the last turn"
    );
    assert_eq!(finish_with(&mut chat(&rig, ANSWERS), "").code, Some(0));
    // Unattended: requests are denied.
    let asking = "read-user\ninit\ncontrol-request q1 Bash {\"command\":\"ls\"}\nread\ndump-stdin stdin\nresult Done.\nread-until-eof";
    finish_with(&mut chat(&rig, asking), "hello\n");
    assert!(agent_stdin(&rig).contains(r#""behavior":"deny""#));
}

#[test]
fn invalid_utf8_is_replaced_and_reported() {
    let rig = Rig::new();
    let done = finish_with(
        &mut chat(&rig, &ANSWERS.replace("read-until-eof", "dump-stdin stdin")),
        b"caf\xe9\nmore\n",
    );
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "One.\nTwo.\n"),
        "{}",
        done.stderr
    );
    assert_eq!(
        done.stderr.matches("is not valid UTF-8").count(),
        1,
        "{}",
        done.stderr
    );
    assert!(agent_stdin(&rig).contains("caf\u{fffd}"));
}

#[test]
fn no_store_leaves_no_file() {
    let rig = Rig::new();
    let mut pty = Pty::start(chat(&rig, ANSWERS).arg("--no-store"));
    pty.until_seen("›", 1);
    pty.keys("hello\r");
    pty.until_seen("One.", 1);
    pty.until_seen("›", 2);
    pty.keys("\x04");
    assert_eq!(pty.end(), Some(0));
    assert!(!rig.path(".local").exists());
}

#[test]
fn permission_request_is_redrawn_after_a_stop() {
    let rig = Rig::new();
    let script = "read-user\ninit\ncontrol-request q1 Bash {\"command\":\"ls\"}\nread\nresult Done.\nread-until-eof";
    for verb in ["chat", "run"] {
        let mut pty = Pty::start(fake_agent(&rig, verb, script).arg("hello"));
        pty.until("the question", |seen| {
            seen.contains("$ ls") && seen.ends_with('>')
        });
        let pid = rustix::process::Pid::from_raw(i32::try_from(pty.id()).unwrap()).unwrap();
        for signal in [rustix::process::Signal::STOP, rustix::process::Signal::CONT] {
            rustix::process::kill_process(pid, signal).unwrap();
        }
        pty.until("the question again", |seen| {
            seen.matches("$ ls").count() == 2 && seen.ends_with('>')
        });
        pty.keys("y\r");
        pty.until_seen("✓ completed", 1);
    }
}

#[test]
fn permission_request_hides_nothing() {
    let rig = Rig::new();
    let input = r#"{"file_path":"a\u202eb","content":"one\u001b]0;touch x\u0007two"}"#;
    let script = format!(
        "read-user\ninit\ncontrol-request q1 Write {input}\nread\nresult Done.\nread-until-eof"
    );
    let mut pty = Pty::start(chat(&rig, &script).arg("hello"));
    pty.until("the question", |seen| seen.ends_with('>'));
    let seen = pty.seen();
    assert!(
        seen.contains(r"a\u{202e}b") && seen.contains(r"+ one\x1b]0;touch x\x07two"),
        "{seen}"
    );
    pty.keys("n\r");
    pty.until_seen("✓ completed", 1);
}

// `ostler run` asks on a terminal, too.
#[test]
fn a_run_on_a_terminal_asks() {
    let rig = Rig::new();
    let script = "read-user\ninit\ncontrol-request q1 Bash {\"command\":\"ls\"}\nread\nresult Done.\nread-until-eof";
    let mut pty = Pty::start(fake_agent(&rig, "run", script).arg("hello"));
    pty.until("the question", |seen| {
        seen.contains("$ ls") && seen.ends_with('>')
    });
    pty.keys("y\r");
    assert_eq!(pty.end(), Some(0));
    assert_seen!(rig, pty.seen(), @r#"
    ? Bash (execute) wants to run
      $ ls
      [y]es  [n]o  [a]lways this session (this tool with these arguments)  > y
    Done.
    ✓ completed · 118 tokens in, 25 out · $0.0009 · TIME · session SHORT-ID
      resume with: ostler run --resume SHORT-ID "…"
    "#);
}

#[test]
fn resume_switches_to_another_session() {
    let rig = Rig::new();
    assert_eq!(
        finish_with(&mut chat(&rig, ANSWERS), "the first one\n").code,
        Some(0)
    );
    // The file that the real agent would have stored.
    std::fs::create_dir_all(rig.path(".claude/projects/here")).unwrap();
    rig.file(
        ".claude/projects/here/00000000-0000-4000-8000-00000000fa4e.jsonl",
        "{}\n",
    );
    let script = format!("dump-args args\n{ANSWERS}");
    // An unknown session changes nothing.
    let mut pty = Pty::start(&chat(&rig, ANSWERS));
    pty.until_seen("›", 1);
    pty.keys("/resume 00000000-0000-4000-8000-000000000000\r");
    pty.until_seen(": claude has no session", 1);
    pty.until_seen("›", 2);
    pty.keys("hello\r");
    pty.until_seen("One.", 1);
    pty.keys("\x04");
    assert_eq!(pty.end(), Some(0));
    let mut pty = Pty::start(&chat(&rig, &script));
    pty.until_seen("›", 1);
    // The agent that starts with the chat must not write its arguments after the one that resumes.
    assert!(wait_until(PATIENCE, || rig.path("args").exists()));
    pty.keys("/resume\r");
    pty.until_seen("1 turn the first one", 1);
    let seen = pty.seen();
    let id = seen
        .lines()
        .find(|line| line.ends_with("the first one"))
        .unwrap()
        .trim()[..8]
        .to_owned();
    pty.until_seen("›", 2);
    pty.keys(&format!("/resume {id}\r"));
    pty.until_seen("resuming", 1);
    pty.until_seen("›", 3);
    pty.keys("hello\r");
    // Each of its turns ends with its last line and its end line.
    pty.until_seen("One.\n✓ completed", 1);
    pty.until_seen("›", 4);
    pty.keys("more\r");
    pty.until_seen("Two.\n✓ completed", 1);
    pty.until_seen("›", 5);
    assert!(
        std::fs::read_to_string(rig.path("args"))
            .unwrap()
            .contains("00000000-0000-4000-8000-00000000fa4e")
    );
    pty.keys("\x04");
    assert_eq!(pty.end(), Some(0));
}

// An id that no session can have is refused immediately, without asking the agent.
#[test]
fn unknown_id_is_refused_before_leaving_the_session() {
    for store in [&[][..], &["--no-store"]] {
        let rig = Rig::new();
        let mut pty = Pty::start(chat(&rig, ANSWERS).args(store));
        pty.until_seen("›", 1);
        let agent = rig.number("agent");
        pty.keys("/resume BAD\r");
        pty.until_seen("no session BAD", 1);
        pty.until_seen("›", 2);
        pty.keys("hello\r");
        pty.until_seen("One.\n✓ completed", 1);
        assert_eq!(rig.number("agent"), agent);
        pty.until_seen("›", 3);
        pty.keys("\x04");
        assert_eq!(pty.end(), Some(0));
    }
}

/// An agent that runs but has no session counts as ended: the working session is not abandoned for
/// it.
#[test]
fn session_whose_handshake_fails_is_not_resumed() {
    let rig = Rig::new();
    let recording = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/conformance/opencode/text.jsonl");
    let program = rig.file(
        "agent",
        &format!(
            "#!/bin/sh\nif mkdir {}; then exec {} play {}; fi\nread line\n\
             echo '{{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{{\"code\":-32603,\"message\":\"out of order\"}}}}'\ncat\n",
            rig.path("once").display(),
            fake::program().display(),
            recording.canonicalize().unwrap().display()
        ),
    );
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::create_dir_all(rig.path(".config/ostler")).unwrap();
    rig.file(
        ".config/ostler/ostler.toml",
        &format!(
            "[agents.mine]\nacp = [{:?}]\n",
            program.display().to_string()
        ),
    );
    let mut pty = Pty::start(&rig.ostler(&["chat", "--agent", "mine", "--grace", "500ms"]));
    pty.until_seen("›", 1);
    assert!(wait_until(PATIENCE, || rig.path("once").exists()));
    pty.keys("/resume another\r");
    pty.until_seen("cannot resume another: mine could not open a session", 1);
    pty.until_seen("›", 2);
    pty.keys("PROMPT\r");
    pty.until_seen("Hello, world.", 1);
    pty.keys("\x04");
    assert_eq!(pty.end(), Some(0));
}

// A session started without Ostler: only the agent knows whether it exists.
#[test]
fn session_known_only_to_the_agent_is_resumed() {
    let rig = Rig::new();
    let recordings =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/conformance/opencode");
    let all = std::fs::read_to_string(recordings.join("resume.jsonl")).unwrap();
    // The second process of the recording resumes the first one's session.
    let second = all.split("{\"start\"").nth(2).unwrap();
    let second = rig.file("second.jsonl", &format!("{{\"start\"{second}"));
    let id = resumed_session(&all);
    let program = rig.file(
        "agent",
        &format!(
            "#!/bin/sh\nif mkdir {0}; then exec {1} play {2}; fi\nexec {1} play {3}\n",
            rig.path("once").display(),
            fake::program().display(),
            recordings
                .join("text.jsonl")
                .canonicalize()
                .unwrap()
                .display(),
            second.display()
        ),
    );
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::create_dir_all(rig.path(".config/ostler")).unwrap();
    rig.file(
        ".config/ostler/ostler.toml",
        &format!(
            "[agents.mine]\nacp = [{:?}]\n",
            program.display().to_string()
        ),
    );
    let mut pty = Pty::start(&rig.ostler(&["chat", "--agent", "mine", "--grace", "500ms"]));
    pty.until_seen("›", 1);
    assert!(wait_until(PATIENCE, || rig.path("once").exists()));
    pty.keys(&format!("/resume {id}\r"));
    pty.until_seen("resuming", 1);
    pty.until_seen("›", 2);
    pty.keys("Which word?\r");
    pty.until_seen("✓ completed", 1);
    pty.keys("\x04");
    assert_eq!(pty.end(), Some(0));
}

/// Returns the id of the session that a recording resumes.
fn resumed_session(recording: &str) -> String {
    let line = recording
        .lines()
        .find(|line| line.contains("session/resume"))
        .unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    line["in"]["params"]["sessionId"]
        .as_str()
        .unwrap()
        .to_owned()
}
