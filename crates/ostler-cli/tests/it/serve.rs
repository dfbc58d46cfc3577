//! `ostler serve`: one instance, and recovery after it was killed.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use ostler_daemon::api::{CreateSession, SendMessage, SessionView, WhenBusy};
use ostler_daemon::client::Client;
use ostler_testkit::fake;
use ostler_testkit::processes::{alive, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use crate::rig::{PATIENCE, Rig, collect, finish, signal};

/// A daemon in its own process.
pub(crate) struct Served {
    child: Option<Child>,
    pub(crate) client: Client,
}

impl Served {
    /// Starts a daemon in the rig's directory and waits until it listens.
    pub(crate) fn start(rig: &Rig) -> Self {
        Self::start_with(rig, &[])
    }

    /// Starts a daemon with more arguments.
    pub(crate) fn start_with(rig: &Rig, args: &[&str]) -> Self {
        Self::spawn(&mut command(rig, &[&["serve"], args].concat()))
    }

    /// Starts a daemon with this command and waits until it listens.
    pub(crate) fn spawn(command: &mut std::process::Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{}", collect(child).stderr);
        Self {
            client: Client::new(PathBuf::from(line.trim())),
            child: Some(child),
        }
    }

    /// Kills the daemon.
    pub(crate) fn kill(mut self) {
        let child = self.child.take().unwrap();
        signal(&child, Signal::KILL);
        let _ = collect(child);
    }

    /// Stops the daemon and returns what it printed to stderr.
    pub(crate) fn stop(mut self) -> String {
        let child = self.child.take().unwrap();
        signal(&child, Signal::TERM);
        let done = collect(child);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        done.stderr
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Builds a command with fake agents of the rig's directory on PATH.
pub(crate) fn command(rig: &Rig, args: &[&str]) -> std::process::Command {
    let mut command = rig.ostler(args);
    let path = format!("{}:/usr/bin:/bin", rig.dir().display());
    command.env("PATH", path).env("XDG_RUNTIME_DIR", rig.dir());
    command
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    block_on_for(PATIENCE, future)
}

/// Waits longer than [`block_on`], for a real agent.
pub(crate) fn block_on_patiently<T>(future: impl Future<Output = T>) -> T {
    block_on_for(5 * PATIENCE, future)
}

fn block_on_for<T>(time: Duration, future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let done = tokio::time::timeout(time, future).await;
        done.unwrap_or_else(|_| panic!("no answer of the daemon"))
    })
}

pub(crate) fn create(rig: &Rig, served: &Served) -> SessionView {
    let request = CreateSession {
        agent: Some("claude".to_owned()),
        dir: rig.dir().to_owned(),
        prompt: Some("go".to_owned()),
        ..CreateSession::default()
    };
    block_on(served.client.create(&request)).unwrap()
}

/// Reads the events of a session until one has this type, or to its end.
pub(crate) async fn events_until(client: &Client, id: &str, kind: &str) -> Vec<Value> {
    let mut stream = client.events(id, 0).await.unwrap();
    let mut events = Vec::new();
    while let Ok(Some(frame)) = stream.next().await {
        if frame.event == "message" {
            events.push(serde_json::from_str::<Value>(&frame.data).unwrap());
            if events.last().unwrap()["type"] == kind {
                break;
            }
        }
    }
    events
}

#[test]
fn one_daemon_serves_a_state_directory() {
    let rig = Rig::new();
    let served = Served::start(&rig);
    let printed = finish(&mut command(&rig, &["serve", "--print-socket"]));
    assert_eq!(
        printed.stdout.trim(),
        served.client.socket().to_str().unwrap()
    );
    let second = finish(&mut command(&rig, &["serve"]));
    assert_eq!(second.code, Some(3), "{}", second.stderr);
    assert!(
        second.stderr.contains("a daemon is running"),
        "{}",
        second.stderr
    );
    let stderr = served.stop();
    assert!(stderr.contains("stopping"), "{stderr}");
    // A lock file without its process is no obstacle.
    Served::start(&rig).kill();
    Served::start(&rig).stop();
}

#[test]
fn a_daemon_starts_in_the_background() {
    let rig = Rig::new();
    let started = finish(&mut command(&rig, &["serve", "--detach"]));
    assert_eq!(started.code, Some(0), "{}", started.stderr);
    let client = Client::new(started.stdout.trim());
    assert!(block_on(client.is_running()));
    let again = finish(&mut command(&rig, &["serve", "--detach"]));
    assert_eq!(again.code, Some(3), "{}", again.stderr);
    let lock = rig.path(".local/state/ostler/daemon.lock");
    let pid: u32 = std::fs::read_to_string(lock)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let id = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(id, Signal::TERM).unwrap();
    assert!(wait_until(PATIENCE, || !alive(pid)));
}

// An agent can read the daemon's log, so the code is never in it.
#[test]
fn the_approval_code_is_not_in_the_log() {
    use std::os::unix::fs::PermissionsExt;
    let rig = Rig::new();
    let args = ["serve", "--listen", "127.0.0.1:0"];
    let started = finish(command(&rig, &args).arg("--detach"));
    assert_eq!(started.code, Some(0), "{}", started.stderr);
    let code = finish(&mut command(&rig, &["serve", "--print-code"]));
    assert_eq!(code.stdout.trim().len(), 14, "{}", code.stderr);
    let log = rig.path(".local/state/ostler/daemon.log");
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(
        text.contains("listening on") && !text.contains(code.stdout.trim()),
        "{text}"
    );
    assert_eq!(log.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let lock = std::fs::read_to_string(rig.path(".local/state/ostler/daemon.lock")).unwrap();
    let pid = rustix::process::Pid::from_raw(lock.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
}

// An agent that the daemon does not run is still an agent, even without its environment.
#[test]
fn an_agent_of_another_run_cannot_control_the_daemon() {
    let rig = Rig::new();
    let served = Served::start(&rig);
    let (dir, fake) = (rig.dir().display(), fake::program());
    let attack = |how: &str, file: &str| {
        let socket = served.client.socket().display();
        format!(
            "{how} {} request {socket} GET /v1/sessions {dir}/{file}",
            fake.display()
        )
    };
    let script = format!(
        "#!/bin/bash\n{}\n{}\nexec -a \"$0\" {} \"$@\"\n",
        attack("", "plain"),
        attack("env -i setsid", "envless"),
        fake.display()
    );
    let agent = rig.file("agent", &script);
    std::fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    rig.file(
        "agent.script",
        "read\ninit\ntext hi\nresult hi\nread-until-eof",
    );
    let mut run = command(
        &rig,
        &["run", "--agent", "claude", "--output", "text", "--program"],
    );
    let done = finish(run.arg(&agent).arg("go"));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!((rig.number("plain"), rig.number("envless")), (403, 403));
    served.stop();
}

#[test]
fn units_start_this_program() {
    let rig = Rig::new();
    for (kind, line) in [
        ("systemd", "WantedBy=default.target"),
        ("launchd", "RunAtLoad"),
    ] {
        let unit = finish(&mut command(&rig, &["serve", "--print-unit", kind])).stdout;
        assert!(
            unit.contains(line) && unit.contains(env!("CARGO_BIN_EXE_ostler")),
            "{unit}"
        );
    }
}

/// A script that answers every message, until its input ends.
pub(crate) const ECHO: &str = "loop 1000\nread-user\ninit\ntext hi\nresult hi\nend";

fn message(text: &str) -> SendMessage {
    SendMessage {
        text: text.to_owned(),
        when_busy: WhenBusy::Queue,
    }
}

/// Writes the transcript that Claude Code has of a session, without which it cannot resume it.
pub(crate) fn transcript(rig: &Rig) {
    let dir = rig.dir().canonicalize().unwrap();
    let folder = dir.to_str().unwrap().replace(['/', '.', '_'], "-");
    let folder = rig.path(".claude/projects").join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("00000000-0000-4000-8000-00000000fa4e.jsonl");
    std::fs::write(file, "{}\n").unwrap();
}

// P5, S2-32: a killed daemon leaves no process, and the next one closes what was open.
#[test]
fn a_killed_daemon_is_recovered() {
    let rig = Rig::new();
    let script = format!(
        "pid-file {dir}/agent\nspawn-setsid {dir}/setsid\nread\ninit\nhang",
        dir = rig.dir().display()
    );
    let _ = fake::install_as(rig.dir(), "claude", &script);
    let served = Served::start(&rig);
    let session = create(&rig, &served);
    let pids = [rig.number("agent"), rig.number("setsid")];
    block_on(events_until(&served.client, &session.id, "started"));
    served.kill();
    assert!(wait_until(PATIENCE, || pids.iter().all(|pid| !alive(*pid))));

    transcript(&rig);
    rig.file("claude.script", ECHO);
    let served = Served::start(&rig);
    let events = block_on(events_until(&served.client, &session.id, "ended"));
    let ended = events.last().unwrap();
    assert_eq!(ended["outcome"]["detail"]["reason"], "daemon_restarted");
    check_log(&events);
    let view = block_on(served.client.session(&session.id)).unwrap();
    assert_eq!(view.status, "FAILED");
    // The session continues in a new one.
    let again = block_on(served.client.control(&session.id, "resume")).unwrap();
    assert_eq!(again.continues.as_deref(), Some(session.id.as_str()));
    block_on(served.client.send(&again.id, &message("more"))).unwrap();
    let result = block_on(served.client.result(&again.id, PATIENCE)).unwrap();
    assert_eq!((result.done, result.text.as_str()), (true, "hi"));
    let stderr = served.stop();
    assert!(
        stderr.contains("1 sessions of an earlier daemon were closed"),
        "{stderr}"
    );
}

// A message to a session that waits is not lost: the next daemon delivers it.
#[test]
fn a_killed_daemon_loses_no_message_that_waits() {
    let rig = Rig::new();
    let _ = fake::install_as(rig.dir(), "claude", "read\ninit\nhang");
    let flags = ["--max-sessions", "1"];
    let served = Served::start_with(&rig, &flags);
    let first = create(&rig, &served);
    block_on(events_until(&served.client, &first.id, "started"));
    let waiting = create(&rig, &served);
    for text in ["one", "two"] {
        let sent = finish(&mut command(&rig, &["send", &waiting.id[..8], text]));
        assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    }
    served.kill();

    rig.file("claude.script", ECHO);
    let served = Served::start_with(&rig, &flags);
    let result = block_on(served.client.result(&waiting.id, PATIENCE)).unwrap();
    assert_eq!((result.done, result.turn), (true, 3));
    block_on(served.client.stop(&waiting.id)).unwrap();
    let events = block_on(events_until(&served.client, &waiting.id, "ended"));
    let started = events
        .iter()
        .filter(|event| event["type"] == "turn_started");
    let prompts: Vec<&Value> = started.map(|turn| &turn["prompt"]).collect();
    assert_eq!(prompts, ["go", "one", "two"]);
    check_log(&events);
    served.stop();
}

/// Returns the states and parents of all processes.
fn children_of(parent: u32) -> Vec<char> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats
        .filter_map(|stat| {
            let mut fields = stat.rsplit_once(") ")?.1.split(' ');
            let state = fields.next()?.chars().next()?;
            (fields.next()?.parse() == Ok(parent)).then_some(state)
        })
        .collect()
}

// P11: in a container, the daemon inherits whatever loses its parent.
#[test]
fn pid_1_leaves_no_zombies() {
    use ostler_testkit::machine::{Need, can_run};
    let is_root = rustix::process::getuid().is_root();
    let need = Need::of(is_root, || "a PID namespace needs root".to_owned());
    let programs = ["unshare", "nsenter"].map(Need::program);
    if !(can_run("pid_1_leaves_no_zombies", &need)
        && programs
            .iter()
            .all(|it| can_run("pid_1_leaves_no_zombies", it)))
    {
        return;
    }
    let rig = Rig::new();
    let own = command(&rig, &["serve"]);
    let mut unshare = std::process::Command::new("unshare");
    unshare
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
        .arg(own.get_program())
        .arg("serve")
        .env_clear()
        .current_dir(rig.dir())
        .stdout(std::process::Stdio::piped());
    let env = own
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    unshare.envs(env);
    let mut child = unshare.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(!line.is_empty());
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let daemon = std::fs::read_to_string(children).unwrap();
    let daemon: u32 = daemon.trim().parse().unwrap();
    // Orphans of a process that is not the daemon's.
    let orphans = "for n in $(seq 500); do ( setsid sleep 0 & ); done";
    let entered = std::process::Command::new("nsenter")
        .args(["--pid", "--mount", "--target", &daemon.to_string(), "--"])
        .args(["/bin/sh", "-c", orphans])
        .status()
        .unwrap();
    assert!(entered.success());
    // Zombies are reaped at the second look only, seconds after the first.
    let has_zombies = || children_of(daemon).contains(&'Z');
    assert!(wait_until(PATIENCE, has_zombies), "it inherits the orphans");
    // Some may still be running; in the end, none is left in any state but those that serve.
    let is_clean = || {
        let states = children_of(daemon);
        states.len() <= 1 && !states.contains(&'Z')
    };
    assert!(wait_until(PATIENCE, is_clean), "{:?}", children_of(daemon));
    let pid = rustix::process::Pid::from_raw(i32::try_from(daemon).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Checks the invariants of a session that has ended: numbers without a gap, one end, and one end
/// of every turn.
pub(crate) fn check_log(events: &[Value]) {
    for (seq, event) in (1_u64..).zip(events) {
        assert_eq!(event["seq"], seq, "{event}");
    }
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(count("ended"), 1);
    assert_eq!(events.last().unwrap()["type"], "ended");
    assert_eq!(count("turn_started"), count("turn_ended"));
}
