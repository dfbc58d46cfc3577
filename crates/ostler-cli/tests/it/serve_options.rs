//! `ostler serve` with options: sandbox, commands, units; and what it does when something fails.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use ostler_daemon::api::CreateSession;
use ostler_daemon::client::ClientError;
use ostler_testkit::fake;
use ostler_testkit::machine::{Need, can_run};
use ostler_testkit::processes::wait_until;
use serde_json::Value;

use crate::rig::{PATIENCE, Rig, collect, finish};
use crate::serve::{Served, block_on, check_log, command, create, events_until};

fn program(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

const TALK: &str = "read\ninit\ntext hi\nresult hi\nread-until-eof";

/// Tries to reach the daemon, and writes down what worked.
fn attacker(rig: &Rig, served: &Served) {
    let (dir, fake) = (rig.dir().display(), fake::program());
    let (fake, socket) = (fake.display(), served.client.socket().display());
    let script = format!(
        "#!/bin/bash\n\
         cat {dir}/ostler/token > /dev/null 2>&1 && echo token >> reached\n\
         cat {dir}/.local/state/ostler/sessions.db > /dev/null 2>&1 && echo store >> reached\n\
         {fake} request {socket} GET /v1/sessions $PWD/answer > /dev/null 2>&1\n\
         grep -q '^[0-9]' answer && echo socket >> reached\n\
         touch tried\n\
         exec -a \"$0\" {fake} \"$@\"\n"
    );
    program(&rig.path("claude"), &script);
    rig.file("claude.script", TALK);
}

fn in_work(rig: &Rig, sandbox: Option<&str>) -> CreateSession {
    CreateSession {
        agent: Some("claude".to_owned()),
        dir: rig.path("work"),
        prompt: Some("go".to_owned()),
        sandbox: sandbox.map(str::to_owned),
        ..CreateSession::default()
    }
}

fn notice(events: &[Value]) -> String {
    let notice = events.iter().find(|event| event["code"] == "sandbox");
    let message = notice.and_then(|notice| notice["message"].as_str());
    message.unwrap_or_default().to_owned()
}

// An agent in a sandbox finds neither the socket nor the token nor the store.
#[test]
fn a_sandboxed_agent_cannot_reach_its_daemon() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("work")).unwrap();
    let flags = ["serve", "--listen=127.0.0.1:0", "--sandbox=workspace-write"];
    let served = Served::spawn(&mut command(&rig, &flags));
    attacker(&rig, &served);
    let run = |sandbox: Option<&str>| {
        let _ = std::fs::remove_file(rig.path("work/reached"));
        let _ = std::fs::remove_file(rig.path("work/tried"));
        let session = block_on(served.client.create(&in_work(&rig, sandbox))).unwrap();
        let events = block_on(events_until(&served.client, &session.id, "turn_ended"));
        let reached = std::fs::read_to_string(rig.path("work/reached"));
        (events, reached.unwrap_or_default())
    };
    let (events, reached) = run(None);
    let message = notice(&events);
    let need = Need::of(!message.contains("Not enforced"), || message.clone());
    if !can_run("a_sandboxed_agent_cannot_reach_its_daemon", &need) {
        return;
    }
    assert!(message.contains("workspace-write"), "{events:#?}");
    assert!(rig.path("work/tried").exists());
    assert_eq!(reached, "", "it reached something");
    // Without the sandbox, the same agent finds everything, and the daemon refuses it.
    let (events, reached) = run(Some("off"));
    assert_eq!(notice(&events), "");
    assert_eq!(reached, "token\nstore\nsocket\n");
    assert_eq!(rig.number("work/answer"), 403);
    let (events, _) = run(Some("read-only"));
    assert!(notice(&events).contains("read-only"), "{events:#?}");
    assert!(!rig.path("work/tried").exists());

    let wrong = block_on(served.client.create(&in_work(&rig, Some("none"))));
    assert!(matches!(wrong, Err(ClientError::Problem(it)) if it.cause == "bad_request"));
    // The flag of `ostler run` gets there, too.
    let args = ["run", "--daemon", "--agent=claude", "--sandbox=read-only"];
    let mut run = command(&rig, &args);
    let done = finish(run.args(["--dir=work", "--output=events", "go"]));
    assert!(
        notice(&done.events()).contains("read-only"),
        "{}",
        done.stdout
    );
    served.stop();
}

#[test]
fn a_command_of_the_configuration_is_notified() {
    let rig = Rig::new();
    let _ = fake::install_as(rig.dir(), "claude", TALK);
    let note = "#!/bin/sh\ncat > \"$1.$$\"\nmv \"$1.$$\" \"$1\"\n";
    program(&rig.path("note"), note);
    std::fs::create_dir_all(rig.path(".config/ostler")).unwrap();
    let noted = rig.path("noted");
    let config = format!("notify = ['~/note', '{}']\n", noted.display());
    rig.file(".config/ostler/ostler.toml", &config);
    let served = Served::start(&rig);
    let session = create(&rig, &served);
    assert!(wait_until(PATIENCE, || noted.exists()));
    let text = std::fs::read_to_string(&noted).unwrap();
    let note: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(note["session"]["id"], session.id.as_str());
    assert_eq!(note["occasion"], "turn_ended");
    served.stop();
}

#[test]
fn a_unit_has_the_flags_of_the_daemon() {
    let rig = Rig::new();
    let unit = |args: &[&str]| {
        let mut all = vec!["serve", "--print-unit"];
        all.extend(args);
        let done = finish(&mut command(&rig, &all));
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        done.stdout
    };
    let plain = unit(&["systemd"]);
    assert!(plain.contains("ostler\" \"serve\"\n"), "{plain}");
    let flags = [
        "--listen=127.0.0.1:7070",
        "--notify=note \"a b\" 100% $HOME <&>",
        "--max-sessions=9",
        "--drain=5s",
        "--sandbox=read-only",
        "--permissions=ask",
        "--policy=p.toml",
        "--no-config",
    ];
    let systemd = unit(&[&["systemd"][..], &flags].concat());
    let policy = rig.dir().canonicalize().unwrap().join("p.toml");
    let expected = format!(
        "\"serve\" \"--listen=127.0.0.1:7070\" \"--notify=note \\\"a b\\\" 100%% $$HOME <&>\" \
         \"--max-sessions=9\" \"--drain=5s\" \"--sandbox=read-only\" \"--permissions=ask\" \
         \"--policy={}\" \"--no-config\"\n",
        policy.display()
    );
    assert!(systemd.contains(&expected), "{systemd}");
    let launchd = unit(&[&["launchd"][..], &flags].concat());
    let expected = "<string>--notify=note \"a b\" 100% $HOME &lt;&amp;></string>";
    assert!(launchd.contains(expected), "{launchd}");
}

// The reason is reported as soon as the daemon has exited.
#[test]
fn a_daemon_that_exits_at_once_is_reported() {
    let rig = Rig::new();
    let done = finish(&mut command(&rig, &["serve", "--detach", "--notify='"]));
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    let expected = "the daemon did not start: error: --notify";
    assert!(done.stderr.contains(expected), "{}", done.stderr);
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

// S2-30: keys of providers come from the daemon's environment, and are written nowhere.
#[test]
fn keys_of_the_daemon_are_not_stored() {
    let rig = Rig::new();
    let script = format!("dump-env {}/env\n{TALK}", rig.dir().display());
    let _ = fake::install_as(rig.dir(), "claude", &script);
    let key = "sk-ant-0123456789-the-key";
    let mut serve = command(&rig, &["serve", "--log=debug"]);
    let log = rig.path("log.txt");
    serve.env("ANTHROPIC_API_KEY", key);
    serve.stderr(std::fs::File::create(&log).unwrap());
    let served = Served::spawn(&mut serve);
    let session = create(&rig, &served);
    block_on(events_until(&served.client, &session.id, "turn_ended"));
    let env = std::fs::read_to_string(rig.path("env")).unwrap();
    assert!(env.contains(key), "the agent has it: {env}");
    served.stop();
    let mut all = files(&rig.path(".local/state/ostler"));
    assert!(all.iter().any(|path| path.ends_with("sessions.db")));
    all.push(log);
    for path in all {
        let bytes = std::fs::read(&path).unwrap();
        let is_in = bytes.windows(key.len()).any(|part| part == key.as_bytes());
        assert!(!is_in, "{}", path.display());
    }
}

/// Sends a request over the socket and returns the body of the response.
fn get(served: &Served, path: &str) -> Value {
    serde_json::from_str(&text(served, path)).unwrap()
}

/// Sends a request over the socket and returns the text of the response.
pub(crate) fn text(served: &Served, path: &str) -> String {
    let mut socket = UnixStream::connect(served.client.socket()).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    body.to_owned()
}

// An agent of `ostler run` is an agent too. Its log has one writer, so the daemon counts it.
#[test]
fn an_agent_of_another_process_is_refused_and_counted() {
    let rig = Rig::new();
    let flags = ["--log=warn", "serve"];
    let served = Served::spawn(&mut command(&rig, &flags));
    let (fake, socket) = (fake::program(), served.client.socket().display());
    let script = format!(
        "#!/bin/bash\n{fake} request {socket} GET /v1/sessions {dir}/answer\n\
         exec -a \"$0\" {fake} \"$@\"\n",
        fake = fake.display(),
        dir = rig.dir().display(),
    );
    program(&rig.path("claude"), &script);
    rig.file("claude.script", TALK);
    let done = finish(&mut command(
        &rig,
        &["run", "--agent=claude", "--json", "go"],
    ));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let answer = std::fs::read_to_string(rig.path("answer")).unwrap();
    assert_eq!(answer, "403");
    let metrics = text(&served, "/metrics");
    let counted = metrics.contains("\nostler_requests_denied_total{agent_of=\"other\"} 1\n");
    assert!(counted, "{metrics}");
    let result: Value = serde_json::from_str(&done.stdout).unwrap();
    let id = result["session"].as_str().unwrap();
    let log = served.stop();
    let line = log
        .lines()
        .find(|line| line.contains("agent of another process"));
    assert!(line.is_some_and(|line| line.contains(&id[..8])), "{log}");
}

#[test]
fn agents_are_listed_with_what_they_can_do() {
    let rig = Rig::new();
    program(
        &rig.path("claude"),
        "#!/bin/sh\necho '9.8.7 (Claude Code)'\n",
    );
    let served = Served::start(&rig);
    let body = get(&served, "/v1/agents");
    let agents = body["agents"].as_array().unwrap();
    let agent = |name: &str| agents.iter().find(|it| it["name"] == name).unwrap();
    let claude = agent("claude");
    assert_eq!(claude["version"], "9.8.7", "{claude:#}");
    assert!(claude["models"].is_array(), "{claude:#}");
    let steer = &claude["capabilities"]["steer"];
    assert!(steer.is_boolean(), "{claude:#}");
    let codex = agent("codex");
    assert_eq!(codex["ready"], false);
    assert!(!codex["reason"].as_str().unwrap().is_empty(), "{codex:#}");
    served.stop();
}

// P65, S3-33: a loop of real processes trips the breaker that all of them share.
#[test]
fn a_shell_loop_trips_the_breaker() {
    let rig = Rig::new();
    let agent = fake::install_as(rig.dir(), "broken", "die-by 9");
    let codes: Vec<_> = (0..4)
        .map(|_| {
            let args = ["run", "--agent=claude", "--output=json", "--program"];
            let done = finish(command(&rig, &args).arg(&agent).arg("go"));
            (done.code, done.stdout)
        })
        .collect();
    let (first, last) = (&codes[0], &codes[3]);
    assert!(
        codes[..3].iter().all(|(code, _)| *code == first.0),
        "{codes:?}"
    );
    assert_eq!(last.0, Some(3), "{codes:?}");
    assert!(last.1.contains("3 failures in a row"), "{codes:?}");
}

// A disk that is full is a cause of its own, and the daemon goes on answering.
#[test]
fn a_full_disk_is_a_named_cause() {
    let rig = Rig::new();
    let _ = fake::install_as(rig.dir(), "claude", TALK);
    let own = command(&rig, &["serve"]);
    let mut limited = std::process::Command::new("/bin/bash");
    // No file may grow beyond 2 MiB, and a write that would is an error.
    let line = "trap '' XFSZ; ulimit -f 2048; exec \"$0\" serve";
    limited.args(["-c", line]).arg(own.get_program());
    limited.env_clear().current_dir(rig.dir());
    let env = own.get_envs();
    limited.envs(env.filter_map(|(name, value)| Some((name, value?))));
    limited.stdout(std::process::Stdio::piped());
    limited.stderr(std::process::Stdio::piped());
    let served = Served::spawn(&mut limited);
    let request = CreateSession {
        agent: Some("claude".to_owned()),
        dir: rig.dir().to_owned(),
        prompt: Some("x".repeat(200_000)),
        ..CreateSession::default()
    };
    let mut accepted = Vec::new();
    let refused = loop {
        match block_on(served.client.create(&request)) {
            Ok(session) => accepted.push(session.id),
            Err(error) => break error,
        }
        assert!(accepted.len() < 100, "not refused");
    };
    match refused {
        ClientError::Problem(problem) => {
            let found = (problem.status, problem.cause.as_str());
            assert_eq!(found, (507, "store_failed"), "{}", problem.detail);
        }
        other => panic!("not refused: {other:?}"),
    }
    assert!(block_on(served.client.is_running()));
    served.kill();
    // With space again, nothing that was accepted is lost, and every log is complete.
    let served = Served::start(&rig);
    assert!(!accepted.is_empty());
    for id in &accepted {
        block_on(served.client.stop(id)).unwrap();
        check_log(&block_on(events_until(&served.client, id, "ended")));
    }
    let page = block_on(served.client.sessions("all=true&limit=500")).unwrap();
    assert_eq!(
        page.sessions.len(),
        accepted.len(),
        "and nothing else was stored"
    );
    served.stop();
}

/// Fails to start a daemon, and returns why.
fn start_error(rig: &Rig, flags: &[&str]) -> String {
    let mut child = command(rig, &[&["serve"], flags].concat()).spawn().unwrap();
    let mut line = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    if !line.is_empty() {
        child.kill().unwrap();
        panic!("it listens: {flags:?}");
    }
    let done = collect(child);
    assert!(!matches!(done.code, Some(0) | None), "{}", done.stderr);
    done.stderr
}

// A listener is never opened with less protection than was asked for.
#[test]
fn a_listener_fails_closed() {
    let rig = Rig::new();
    let everywhere = start_error(&rig, &["--listen=0.0.0.0:1"]);
    assert!(everywhere.contains("loopback"), "{everywhere}");
    let listen = ["--listen=127.0.0.1:0"];
    let token = rig.path("ostler/token");
    let mode = |mode| std::fs::set_permissions(&token, std::fs::Permissions::from_mode(mode));
    std::fs::write(&token, "").unwrap();
    mode(0o600).unwrap();
    let empty = start_error(&rig, &listen);
    assert!(empty.contains("has no token"), "{empty}");
    std::fs::write(&token, "x".repeat(64)).unwrap();
    mode(0o644).unwrap();
    let readable = start_error(&rig, &listen);
    assert!(readable.contains("can be read by others"), "{readable}");
    std::fs::remove_file(&token).unwrap();
    let served = Served::start_with(&rig, &listen);
    let printed = finish(&mut command(&rig, &["serve", "--print-token"])).stdout;
    assert_eq!(printed.trim().len(), 64);
    assert_eq!(std::fs::read_to_string(&token).unwrap(), printed);
    assert_eq!(
        token.metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
    served.stop();
}

#[test]
fn a_damaged_database_is_a_named_cause() {
    let rig = Rig::new();
    Served::start(&rig).stop();
    let database = rig.path(".local/state/ostler/sessions.db");
    for log in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(rig.path(&format!(".local/state/ostler/sessions.db{log}")));
    }
    std::fs::write(&database, "this is not a database".repeat(1000)).unwrap();
    let done = finish(&mut command(&rig, &["serve"]));
    assert!(!matches!(done.code, Some(0) | None), "{}", done.stderr);
    let expected = "sessions.db: file is not a database";
    assert!(done.stderr.contains(expected), "{}", done.stderr);
}
