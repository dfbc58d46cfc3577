//! The program as a client of the daemon: runs, attach, messages, approvals and the live table.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command};

use ostler_daemon::api::{CreateSession, SessionView};
use ostler_daemon::client::{Client, ClientError};
use ostler_testkit::processes::wait_until;
use ostler_testkit::pty::Pty;
use rustix::process::Signal;
use serde_json::Value;

use crate::rig::{Finished, PATIENCE, Rig, collect, finish, finish_with, kinds, signal};

const SCRIPT: &str = r#"
[[reply]]
when = { prompt = "write" }
text = "I will write it. "
calls = [{ tool = "write_file", input = { path = "made.txt", content = "made\n" } }]

[[reply]]
when = { result_of = "write_file" }
text = "So be it."

[[reply]]
when = { prompt = "write" }
text = "Once more. "
calls = [{ tool = "write_file", input = { path = "made.txt", content = "made\n" } }]

[[reply]]
when = { result_of = "write_file" }
text = "So be it."

[[reply]]
when = { prompt = "hang" }
text = "Wait "
hang = true

[[reply]]
when = { prompt = "fail" }
text = "No. "
ending = { cause = "refused", message = "I will not." }

[[reply]]
repeat = true
text = "You said {prompt}."
"#;

/// A daemon that asks for everything, and its clients.
struct Served {
    rig: Rig,
    daemon: Child,
    socket: PathBuf,
}

impl Served {
    fn start() -> Self {
        let rig = Rig::new();
        rig.file("script.toml", SCRIPT);
        std::fs::create_dir(rig.path("runtime")).unwrap();
        let mut daemon = client(&rig, &["serve", "--permissions", "ask"])
            .spawn()
            .unwrap();
        let mut socket = String::new();
        let stdout = daemon.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut socket).unwrap();
        let socket = PathBuf::from(socket.trim());
        Self {
            rig,
            daemon,
            socket,
        }
    }

    fn ostler(&self, args: &[&str]) -> Command {
        client(&self.rig, args)
    }

    fn run(&self, args: &[&str]) -> Finished {
        finish(&mut self.ostler(args))
    }

    /// Runs a client that is expected to succeed, and returns its stdout.
    fn ok(&self, args: &[&str]) -> String {
        let done = self.run(args);
        assert_eq!(done.code, Some(0), "{args:?}: {}", done.stderr);
        done.stdout.trim_end().to_owned()
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(args)).unwrap()
    }

    /// Builds `ostler run` with the scripted agent.
    fn task(&self, args: &[&str]) -> Command {
        let script = format!("script={}", self.rig.path("script.toml").display());
        let mut command = self.ostler(&["run", "--agent", "scripted", "--set", &script]);
        command.args(args);
        command
    }

    /// Starts a task in the daemon and returns the session's id.
    fn detached(&self, prompt: &str) -> String {
        let done = finish(&mut self.task(&["--detach", prompt]));
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        let id = done.stdout.trim().to_owned();
        let hint = format!("  follow it with: ostler attach {}\n", &id[..8]);
        assert_eq!(done.stderr, hint);
        id
    }

    fn call<T>(&self, call: impl AsyncFnOnce(Client) -> Result<T, ClientError>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(call(Client::new(&self.socket))).unwrap()
    }

    /// Creates a session that waits for messages.
    fn idle(&self) -> SessionView {
        let script = self.rig.path("script.toml");
        let settings = [("script".to_owned(), Value::from(script.to_str().unwrap()))];
        let request = CreateSession {
            agent: Some("scripted".to_owned()),
            dir: self.rig.dir().to_owned(),
            settings: settings.into_iter().collect(),
            ..CreateSession::default()
        };
        self.call(async move |client| client.create(&request).await)
    }

    fn view(&self, id: &str) -> SessionView {
        self.call(async |client| client.session(id).await)
    }

    /// Waits for the end of the current turn, and returns its text.
    fn text(&self, id: &str) -> String {
        self.call(async |client| client.result(id, PATIENCE).await)
            .text
    }

    fn wait_for_turn(&self, id: &str, turn: u32) {
        let is_working = || {
            let view = self.view(id);
            view.turns == turn && view.state.as_str() == "working"
        };
        assert!(wait_until(PATIENCE, is_working), "{:?}", self.view(id));
    }

    /// Waits for the only permission request, and returns its id.
    fn request(&self) -> String {
        let pending = || {
            let list = self.json(&["approvals", "--json"]);
            list["approvals"][0]["id"].as_str().map(str::to_owned)
        };
        assert!(wait_until(PATIENCE, || pending().is_some()));
        pending().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn client(rig: &Rig, args: &[&str]) -> Command {
    let mut command = rig.ostler(args);
    command.env("XDG_RUNTIME_DIR", rig.path("runtime"));
    command
}

#[test]
fn every_verb_says_how_to_start_a_daemon() {
    let rig = Rig::new();
    for args in [
        &["run", "--detach", "go"][..],
        &["run", "--daemon", "go"],
        &["run", "--daemon", "--attended", "go"],
        &["attach"],
        &["attach", "abc"],
        &["send", "abc", "hi"],
        &["interrupt", "abc"],
        &["stop", "abc"],
        &["pause", "abc"],
        &["resume", "abc"],
        &["restart", "abc"],
        &["fork", "abc"],
        &["approvals"],
        &["approvals", "answer", "abc", "yes"],
        &["sessions", "--watch"],
    ] {
        let done = finish(&mut rig.ostler(args));
        assert_eq!((done.code, &*done.stdout), (Some(3), ""), "{args:?}");
        let wanted = "error: no daemon is running\n  hint: start it with `ostler serve --detach`\n";
        assert_eq!(done.stderr, wanted, "{args:?}");
    }
}

#[test]
fn an_attached_client_gets_the_stored_events() {
    let served = Served::start();
    let id = served.detached("hello");
    let live = served.run(&["attach", &id[..8], "--output", "events"]);
    assert_eq!(live.code, Some(0), "{}", live.stderr);
    assert_eq!(kinds(&live.events()).last(), Some(&"ended"));
    let stored = served.ok(&["sessions", "show", &id, "--output", "events"]);
    assert_eq!(live.stdout.trim_end(), stored);
    let text = served.ok(&["attach", &id, "--output", "text"]);
    assert_eq!(text, "You said hello.");
    let human = served.run(&["attach", &id]);
    assert_eq!(human.stdout, "› hello\nYou said hello.\n");
    assert!(human.stderr.contains(" · ended\n"), "{}", human.stderr);
    // Nothing is running any more.
    let done = served.run(&["attach"]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(
        done.stderr.contains("no session is running in the daemon"),
        "{}",
        done.stderr
    );
}

#[test]
fn only_the_last_turn_is_shown_unless_all_are_requested() {
    let served = Served::start();
    let SessionView { id, .. } = served.idle();
    for message in ["one", "two"] {
        served.ok(&["send", &id, message]);
        assert_eq!(served.text(&id), format!("You said {message}."));
    }
    served.ok(&["stop", &id]);
    assert!(wait_until(PATIENCE, || served.view(&id).state.as_str() == "ended"));
    let last = served.run(&["attach", &id]);
    assert_eq!(last.stdout, "› two\nYou said two.\n");
    let skipped = "· 1 earlier turn not shown; `--all` shows them";
    assert!(last.stderr.contains(skipped), "{}", last.stderr);
    let all = served.run(&["attach", &id, "--all"]);
    assert_eq!(all.stdout, "› one\nYou said one.\n\n› two\nYou said two.\n");
    assert!(!all.stderr.contains("not shown"), "{}", all.stderr);
}

#[test]
fn a_session_takes_messages_interrupts_and_a_stop() {
    let served = Served::start();
    let SessionView { id, name, .. } = served.idle();
    let short = &id[..8];
    assert_eq!(
        served.ok(&["send", short, "one"]),
        format!("sent to {name}")
    );
    assert_eq!(served.text(&id), "You said one.");
    let piped = finish_with(&mut served.ostler(&["send", short, "-"]), "two");
    assert_eq!(piped.code, Some(0), "{}", piped.stderr);
    assert_eq!(served.text(&id), "You said two.");

    assert_eq!(served.json(&["send", short, "hang", "--json"])["id"], *id);
    served.wait_for_turn(&id, 3);
    assert_eq!(
        served.ok(&["interrupt", short]),
        format!("interrupted {name}")
    );
    assert_eq!(served.text(&id), "Wait ");
    let none = format!("{name} has no turn to interrupt");
    assert_eq!(served.ok(&["interrupt", short]), none);
    assert_eq!(
        served.json(&["interrupt", short, "--json"])["interrupted"],
        false
    );

    // The agent may have ended by the time of the answer.
    let stopped = served.ok(&["stop", short]);
    let ended = format!("{name} has ended");
    assert!(
        [format!("stopping {name}"), ended.clone()].contains(&stopped),
        "{stopped}"
    );
    // The outcome of a session that is stopped between turns is that of its last turn.
    let shown = served.run(&["attach", short, "--output", "events"]);
    assert_eq!(shown.code, Some(130));
    assert_eq!(served.ok(&["stop", short]), ended);
    let late = served.run(&["send", short, "three"]);
    assert_eq!(late.code, Some(2));
    let wanted = format!(
        "error: session {id} has ended\n  hint: continue it with `ostler run --resume ID \"…\"`\n"
    );
    assert_eq!(late.stderr, wanted);
}

#[test]
fn an_approval_is_answered_once() {
    let served = Served::start();
    let id = served.detached("write");
    let request = served.request();
    let table = served.ok(&["approvals"]);
    let row: Vec<&str> = table.lines().nth(1).unwrap().split("  ").collect();
    let name = format!("scripted-{}", &id[..8]);
    assert_eq!(
        row[..5],
        [&request[..8], &name, "scripted", "write_file", "made.txt"]
    );

    let allowed = served.ok(&["approvals", "answer", &request[..8], "yes"]);
    assert_eq!(
        allowed,
        format!("allowed write_file in session {}", &id[..8])
    );
    let again = served.run(&["approvals", "answer", &request[..8], "no"]);
    assert_eq!(again.code, Some(2));
    let wanted = "error: the request was answered before: allowed\n";
    assert!(again.stderr.starts_with(wanted), "{}", again.stderr);
    assert_eq!(served.ok(&["attach", &id, "--output", "text"]), "So be it.");
    assert!(served.rig.path("made.txt").exists());
    assert_eq!(
        served.json(&["approvals", "--json"])["approvals"],
        serde_json::json!([])
    );
}

#[test]
fn a_denied_call_does_not_run() {
    let served = Served::start();
    let id = served.detached("write");
    let request = served.request();
    let answer = [
        "approvals",
        "answer",
        &request,
        "no",
        "--message",
        "not here",
        "--json",
    ];
    let denied = served.json(&answer);
    assert_eq!(
        (&denied["state"], &denied["message"]),
        (&"denied".into(), &"not here".into())
    );
    let done = served.run(&["attach", &id, "--output", "events"]);
    assert_eq!(done.code, Some(7), "{}", done.stdout);
    let events = done.events();
    let result = events
        .iter()
        .find(|event| event["type"] == "tool_result")
        .unwrap();
    assert!(
        result["output"].as_str().unwrap().contains("not here"),
        "{result}"
    );
    assert!(!served.rig.path("made.txt").exists());
    let unknown = served.run(&["approvals", "answer", "zz", "yes"]);
    assert_eq!(unknown.code, Some(2));
    assert!(
        unknown.stderr.starts_with("error: no approval \"zz\"\n"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn a_run_in_the_daemon_exits_like_any_run() {
    let served = Served::start();
    let done = finish(&mut served.task(&["--daemon", "--output", "text", "hello"]));
    assert_eq!(
        (done.code, &*done.stdout),
        (Some(0), "You said hello.\n"),
        "{}",
        done.stderr
    );
    let done = finish(&mut served.task(&["--daemon", "--json", "fail"]));
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(report["outcome"]["cause"], "refused", "{report}");
    let done = finish(&mut served.task(&["--daemon", "--set", "nonsense=1", "hello"]));
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    let done = finish(&mut served.task(&["--daemon", "--env", "A=b", "hello"]));
    assert_eq!(done.code, Some(2));
    assert!(
        done.stderr
            .starts_with("error: `--env` cannot be used with `--daemon`\n"),
        "{}",
        done.stderr
    );
}

// Progress and errors look the same, whoever runs the session.
#[test]
fn a_run_in_the_daemon_looks_like_any_run() {
    let served = Served::start();
    let shown = |args: &[&str], prompt: &str| {
        let done = finish(served.task(args).arg(prompt));
        let is_time =
            |word: &&str| word.ends_with('s') && word.starts_with(|c: char| c.is_ascii_digit());
        let is_id = |word: &&str| word.len() == 8 && word.chars().all(|c| c.is_ascii_hexdigit());
        let lines = done.stderr.lines().map(|line| {
            let words = line.split(' ').map(|word| match word {
                word if is_time(&word) => "TIME",
                word if is_id(&word) => "ID",
                word => word,
            });
            words.collect::<Vec<&str>>().join(" ")
        });
        (done.code, done.stdout, lines.collect::<Vec<String>>())
    };
    for format in ["human", "text", "json"] {
        for prompt in ["hello", "write", "fail"] {
            let output = ["--permissions", "ask", "--output", format];
            let here = shown(&output, prompt);
            let there = shown(&[&output[..], &["--daemon"]].concat(), prompt);
            if format == "json" {
                assert_eq!(
                    (&here.0, &here.2),
                    (&there.0, &there.2),
                    "{format} {prompt}"
                );
            } else {
                assert_eq!(here, there, "{format} {prompt}");
            }
        }
    }
}

#[test]
fn a_signal_interrupts_the_turn_or_leaves_the_session() {
    let served = Served::start();
    let hang = ["--daemon", "--output", "events", "hang"];
    let start = || {
        let mut child = served.task(&hang).spawn().unwrap();
        let mut events = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_text = |line: &String| line.contains("\"type\":\"text\"");
        let text = events.by_ref().map(Result::unwrap).find(is_text).unwrap();
        let text: Value = serde_json::from_str(&text).unwrap();
        (child, events, text["session"].as_str().unwrap().to_owned())
    };
    let (child, events, id) = start();
    signal(&child, Signal::INT);
    let last = events.map(Result::unwrap).last().unwrap();
    assert!(last.contains("\"cause\":\"interrupted\""), "{last}");
    assert_eq!(collect(child).code, Some(130));
    assert_eq!(served.view(&id).state.as_str(), "ended");

    let (child, events, id) = start();
    signal(&child, Signal::TERM);
    // A reader that goes away ends the run, too.
    let done = collect(child);
    drop(events);
    assert_eq!(done.code, Some(143));
    let again = format!("attach again with: ostler attach {}", &id[..8]);
    assert!(done.stderr.contains(&again), "{}", done.stderr);
    assert_eq!(served.view(&id).state.as_str(), "working");
}

#[test]
fn a_terminal_shows_a_session_and_writes_to_it() {
    let served = Served::start();
    let SessionView { id, .. } = served.idle();
    let mut terminal = Pty::start(&served.ostler(&["attach"]));
    terminal.until_seen("›", 1);
    terminal.keys("write\r");
    let prompt = "[y]es  [n]o  [a]lways this session";
    terminal.until_seen(prompt, 1);
    terminal.keys("perhaps\r");
    terminal.until_seen("answer y, n or a", 1);
    terminal.until_seen(prompt, 2);
    terminal.keys("a\r");
    terminal.until_seen("So be it.", 1);
    // The same call is not asked about again.
    terminal.keys("write\r");
    terminal.until_seen("So be it.", 2);
    // Another client's message appears too.
    served.ok(&["send", &id, "from elsewhere"]);
    terminal.until_seen("You said from elsewhere.", 1);
    terminal.keys("/nothing\r");
    terminal.until_seen("unknown command /nothing", 1);
    terminal.keys("/quit\r");
    assert_eq!(terminal.end(), Some(0));
    let seen = terminal.seen();
    let again = format!("attach again with: ostler attach {}", &id[..8]);
    assert!(seen.contains("detached; the session continues"), "{seen}");
    assert!(seen.contains(&again), "{seen}");
    assert_eq!(seen.matches("› write").count(), 2, "{seen}");
    assert_eq!(seen.matches(prompt).count(), 2, "{seen}");
    assert_eq!(served.view(&id).state.as_str(), "idle");
}

#[test]
fn the_list_is_watched_line_by_line() {
    let served = Served::start();
    let id = served.detached("write");
    served.request();
    let mut watch = served.ostler(&["sessions", "--watch"]).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let name = format!("scripted-{}", &id[..8]);
    let line = |state: &str| format!("{}  {name}  {state}  1 turn  write", &id[..8]);
    assert_eq!(lines.next().unwrap(), line("approval"));
    let request = served.request();
    served.ok(&["approvals", "answer", &request, "yes"]);
    assert!(lines.any(|shown| shown == line("completed")));
    signal(&watch, Signal::INT);
    assert_eq!(collect(watch).code, Some(0));
}

#[test]
fn a_terminal_shows_the_watched_sessions_in_place() {
    let served = Served::start();
    let id = served.detached("write");
    let mut terminal = Pty::start(&served.ostler(&["sessions", "--watch"]));
    terminal.until_seen("1 waits for approval", 1);
    let request = served.request();
    served.ok(&["approvals", "answer", &request, "yes"]);
    terminal.until_seen("completed", 1);
    let seen = terminal.seen();
    assert_eq!(seen.matches(&id[..8]).count(), 1, "{seen}");
    assert!(seen.contains("0 running sessions"), "{seen}");
    terminal.keys("\u{3}");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn a_label_reaches_the_agent_without_a_daemon() {
    let rig = Rig::new();
    let script = "dump-env env\nread\ninit\nresult ok\nread-until-eof";
    let done = finish(&mut rig.fake_run(script, &["--label", "team=core", "go"]));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let env = std::fs::read_to_string(rig.path("env")).unwrap();
    assert!(env.contains("OSTLER_LABEL_TEAM=core"), "{env}");
}

#[test]
fn configured_runs_use_a_running_daemon() {
    let mut served = Served::start();
    std::fs::create_dir_all(served.rig.path(".config/ostler")).unwrap();
    served
        .rig
        .file(".config/ostler/ostler.toml", "daemon = true\n");
    let said = |served: &Served, flags: &[&str]| {
        let done = finish(served.task(&["--output", "text", "it"]).args(flags));
        assert_eq!(
            (done.code, done.stdout.trim()),
            (Some(0), "You said it."),
            "{}",
            done.stderr
        );
    };
    let managed = |served: &Served| {
        let page = served.call(async |client| client.sessions("all=true").await);
        let managed = page.sessions.iter().map(|session| session.managed);
        managed.collect::<Vec<bool>>()
    };
    said(&served, &[]);
    assert_eq!(managed(&served), [true]);
    said(&served, &["--no-daemon"]);
    // What the daemon has no counterpart for runs here.
    said(&served, &["--env", "A=b"]);
    assert_eq!(managed(&served), [false, false, true]);
    served.daemon.kill().unwrap();
    served.daemon.wait().unwrap();
    said(&served, &[]);
    // A project's file does not decide that.
    served.rig.file(".config/ostler/ostler.toml", "");
    served.rig.file("ostler.toml", "daemon = true\n");
    said(&served, &[]);
}

// A script would wait for an answer that nobody knows of.
#[test]
fn a_script_is_unattended_in_the_daemon() {
    let served = Served::start();
    let done = finish(&mut served.task(&["--daemon", "--json", "write"]));
    assert_eq!(done.code, Some(7), "{} {}", done.stdout, done.stderr);
    assert!(!served.rig.path("made.txt").exists());
    let waiting = served
        .task(&["--daemon", "--attended", "--json", "write"])
        .spawn()
        .unwrap();
    let request = served.request();
    served.ok(&["approvals", "answer", &request, "yes"]);
    let done = collect(waiting);
    assert_eq!(done.code, Some(0), "{} {}", done.stdout, done.stderr);
    assert!(served.rig.path("made.txt").exists());
    let alone = finish(&mut served.task(&["--attended", "it"]));
    assert_eq!(alone.code, Some(2));
    assert!(
        alone.stderr.contains("`--attended` needs the daemon"),
        "{}",
        alone.stderr
    );
}

#[test]
fn a_chat_in_the_daemon_continues_without_its_terminal() {
    let served = Served::start();
    let script = format!("script={}", served.rig.path("script.toml").display());
    let chat = [
        "chat", "--daemon", "--agent", "scripted", "--set", &script, "hello",
    ];
    let mut terminal = Pty::start(&served.ostler(&chat));
    terminal.until_seen("You said hello.", 1);
    terminal.until_seen("›", 2);
    terminal.keys("more\r");
    terminal.until_seen("You said more.", 1);
    terminal.keys("\u{3}");
    assert_eq!(terminal.end(), Some(0));
    let page = served.call(async |client| client.sessions("limit=10").await);
    let states: Vec<&str> = page.sessions.iter().map(|it| it.state.as_str()).collect();
    assert_eq!(states, ["idle"]);
    let piped = served.run(&chat);
    assert_eq!(piped.code, Some(2));
    assert!(
        piped.stderr.contains("needs a terminal"),
        "{}",
        piped.stderr
    );
}

/// Forwards connections to the daemon. The first stream of events is cut off after some bytes.
fn cutting_proxy(
    path: &std::path::Path,
    daemon: PathBuf,
) -> std::sync::Arc<std::sync::atomic::AtomicUsize> {
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::atomic::Ordering;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let listener = UnixListener::bind(path).unwrap();
    let streams = std::sync::Arc::<std::sync::atomic::AtomicUsize>::default();
    let count = streams.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) = (client.unwrap(), UnixStream::connect(&daemon).unwrap());
            let count = count.clone();
            std::thread::spawn(move || {
                let mut head = [0; 4096];
                let length = client.read(&mut head).unwrap();
                server.write_all(&head[..length]).unwrap();
                let is_stream = String::from_utf8_lossy(&head[..length]).contains("/events");
                let is_first = is_stream && count.fetch_add(1, Ordering::Relaxed) == 0;
                let most = if is_first { 700 } else { u64::MAX };
                let _ = std::io::copy(&mut server.take(most), &mut client);
            });
        }
    });
    streams
}

// An answer that does not arrive is reported, and can be given in another way.
#[test]
fn an_answer_that_fails_is_reported() {
    let served = Served::start();
    let id = served.detached("write");
    served.request();
    let runtime = served.rig.path("proxied");
    let mut print = served.ostler(&["serve", "--print-socket"]);
    let path = finish(print.env("XDG_RUNTIME_DIR", &runtime)).stdout;
    let path = PathBuf::from(path.trim());
    cutting_proxy(&path, served.socket.clone());
    let mut attach = served.ostler(&["attach", &id]);
    let mut terminal = Pty::start(attach.env("XDG_RUNTIME_DIR", runtime));
    terminal.until_seen("[y]es  [n]o  [a]lways this session", 1);
    std::fs::remove_file(path).unwrap();
    terminal.keys("y\r");
    let failed = "your answer did not reach the session: no daemon is running";
    terminal.until_seen(failed, 1);
    let request = served.request();
    served.ok(&["approvals", "answer", &request, "yes"]);
    terminal.until_seen("So be it.", 1);
    assert_eq!(terminal.end(), Some(0));
}

// The client continues after the last event that it got.
#[test]
fn a_broken_connection_is_made_again() {
    let served = Served::start();
    let id = served.detached("it");
    served.text(&id);
    let wanted = served.ok(&["attach", &id, "--output", "events"]);
    let print = ["serve", "--print-socket"];
    let proxied = |args: &[&str]| {
        let mut command = served.ostler(args);
        command.env("XDG_RUNTIME_DIR", served.rig.path("proxied"));
        finish(&mut command)
    };
    let path = PathBuf::from(proxied(&print).stdout.trim());
    let streams = cutting_proxy(&path, served.socket.clone());
    let done = proxied(&["attach", &id, "--output", "events"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(done.stdout.trim_end(), wanted);
    assert!(streams.load(std::sync::atomic::Ordering::Relaxed) >= 2);
}
