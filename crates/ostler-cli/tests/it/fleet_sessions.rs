//! `ostler serve --fleet`, `ostler run --fleet` and `ostler sessions fetch`, with a real server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ostler_daemon::api::{
    Answer, AnswerDecision, CreateSession, FleetPlacement, SendMessage, SessionView, WhenBusy,
};
use ostler_daemon::client::Client;
use ostler_testkit::{fake, nats};
use rustix::process::Signal;

use crate::fleet::Fleet;
use crate::rig::{Rig, collect, finish, signal};
use crate::serve::{Served, block_on_patiently as block_on, command};

const ALLOW: Answer = Answer {
    decision: AnswerDecision::Allow,
    message: None,
    always: false,
};

fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=u", "-c", "user.email=u@localhost"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Creates a repository, and an agent that changes it after a permission request.
fn prepare(rig: &Rig) {
    let repo = rig.path("repo");
    fs::create_dir_all(repo.join("sub")).unwrap();
    fs::write(repo.join("sub/file.txt"), "one\n").unwrap();
    git(&repo, &["init", "-q", "-b", "main"]);
    git(&repo, &["add", "-A"]);
    git(&repo, &["commit", "-q", "-m", "base"]);
    let script = fake::script(
        rig.dir(),
        "read-user\ninit\ncontrol-request q1 Bash {\"command\":\"rm x\"}\nwait-control\n\
         text first\nresult first\nloop 100\nread-user\ninit\ntext more\nresult more\nend",
    );
    let program = fake::program();
    let text = format!(
        "#!/bin/sh\ncase \"$1\" in --version|auth) exec {0} \"$@\";; esac\n\
         echo changed >> file.txt\nFAKE_AGENT_SCRIPT={1} exec {0} \"$@\"\n",
        program.display(),
        script.display()
    );
    fs::write(rig.path("claude"), text).unwrap();
    fs::set_permissions(rig.path("claude"), PermissionsExt::from_mode(0o755)).unwrap();
}

/// Waits until a session looks as it should.
async fn until(client: &Client, id: &str, holds: impl Fn(&SessionView) -> bool) -> SessionView {
    loop {
        let session = client.session(id).await.unwrap();
        if holds(&session) {
            return session;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits for a permission request and allows it.
async fn allow(client: &Client) {
    loop {
        let pending = client.pending_approvals().await.unwrap().approvals;
        if let Some(approval) = pending.first() {
            client.answer(&approval.id, &ALLOW).await.unwrap();
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_task_in_a_fleet_is_approved_here_and_its_branch_is_fetched() {
    let test = "a_task_in_a_fleet_is_approved_here_and_its_branch_is_fetched";
    if !ostler_testkit::machine::can_run(test, &nats::need()) {
        return;
    }
    let fleet = Fleet::new();
    let rig = &fleet.rig;
    prepare(rig);
    let worker = fleet.worker_with("w1", &["--agents", "claude", "--label", "big"], command);
    let owner = rig.path("owner.toml");
    let daemon = Served::start_with(rig, &["--fleet", "--member", owner.to_str().unwrap()]);
    let dir = rig.path("repo/sub");
    let dir = dir.to_str().unwrap();
    let run = ["run", "--detach", "--fleet", "--needs-label", "big"];
    let run = [&run[..], &["--agent", "claude", "-C", dir, "go"]].concat();
    let started = finish(&mut command(rig, &run));
    assert_eq!(started.code, Some(0), "{}", started.stderr);
    let id = started.stdout.trim().to_owned();
    let early = finish(&mut command(rig, &["sessions", "fetch", &id]));
    assert_eq!(early.code, Some(3), "{}", early.stderr);
    block_on(allow(&daemon.client));
    let ended = block_on(until(&daemon.client, &id, |it| it.outcome.is_some()));
    let outcome = serde_json::to_value(&ended.outcome).unwrap();
    assert_eq!(outcome["cause"], "completed", "{}", fleet.log("w1"));
    let shown = finish(&mut command(
        rig,
        &["sessions", "export", &id, "--format", "jsonl"],
    ));
    assert!(
        shown.stdout.contains("runs on the worker w1"),
        "{}",
        shown.stdout
    );

    // The user's own change stays, and the branch has only that of the agent.
    fs::write(rig.path("repo/sub/file.txt"), "mine\n").unwrap();
    for _ in 0..2 {
        let fetched = finish(&mut command(rig, &["sessions", "fetch", &id]));
        assert_eq!(fetched.code, Some(0), "{}", fetched.stderr);
        assert_eq!(fetched.stdout.trim(), format!("ostler/{}", &id[..8]));
    }
    let repo = rig.path("repo");
    let file = git(
        &repo,
        &["show", &format!("ostler/{}:sub/file.txt", &id[..8])],
    );
    assert_eq!(file, "one\nchanged\n");
    assert_eq!(
        fs::read_to_string(repo.join("sub/file.txt")).unwrap(),
        "mine\n"
    );
    assert_eq!(git(&repo, &["rev-parse", "--abbrev-ref", "HEAD"]), "main\n");

    // A branch with other commits is left alone.
    let branch = format!("ostler/{}", &id[..8]);
    git(&repo, &["branch", "-f", &branch, "main"]);
    git(&repo, &["stash", "-q"]);
    git(&repo, &["checkout", "-q", &branch]);
    git(&repo, &["commit", "-q", "--allow-empty", "-m", "other"]);
    git(&repo, &["checkout", "-q", "main"]);
    let refused = finish(&mut command(rig, &["sessions", "fetch", &id]));
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert_eq!(
        git(&repo, &["log", "-1", "--format=%s", &branch]),
        "other\n"
    );
    daemon.stop();
    signal(&worker, Signal::TERM);
    assert_eq!(collect(worker).code, Some(0));
}

#[test]
fn a_session_in_a_fleet_takes_messages_and_is_stopped() {
    let test = "a_session_in_a_fleet_takes_messages_and_is_stopped";
    if !ostler_testkit::machine::can_run(test, &nats::need()) {
        return;
    }
    let fleet = Fleet::new();
    let rig = &fleet.rig;
    prepare(rig);
    let worker = fleet.worker_with("w1", &["--agents", "claude"], command);
    let owner = rig.path("owner.toml");
    let serve = ["--fleet", "--member", owner.to_str().unwrap()];
    let daemon = Served::start_with(rig, &serve);
    let request = CreateSession {
        agent: Some("claude".to_owned()),
        dir: rig.path("repo/sub"),
        prompt: Some("go".to_owned()),
        fleet: Some(FleetPlacement::default()),
        ..CreateSession::default()
    };
    let message = SendMessage {
        text: "and more".to_owned(),
        when_busy: WhenBusy::Queue,
    };
    let is_idle = |turns| {
        move |it: &SessionView| it.turns == turns && it.state == ostler::event::SessionState::Idle
    };
    let client = &daemon.client;
    let session = block_on(async {
        let session = client.create(&request).await.unwrap();
        allow(client).await;
        until(client, &session.id, is_idle(1)).await;
        client.send(&session.id, &message).await.unwrap();
        until(client, &session.id, is_idle(2)).await;
        session
    });
    // A daemon that is killed loses nothing: the next one follows the session again.
    daemon.kill();
    let daemon = Served::start_with(rig, &serve);
    let client = &daemon.client;
    block_on(async {
        let id = &session.id;
        client.send(id, &message).await.unwrap();
        until(client, id, is_idle(3)).await;
        client.stop(id).await.unwrap();
        until(client, id, |it| it.outcome.is_some()).await;
        // Its workspace is gone, so that it cannot be continued.
        let again = client.control(id, "resume").await.unwrap_err();
        assert!(again.to_string().contains("cannot be resumed"), "{again}");
    });
    daemon.stop();
    let plain = Served::start(rig);
    let refused = block_on(plain.client.create(&request)).unwrap_err();
    assert!(
        refused.to_string().contains("does not belong to a fleet"),
        "{refused}"
    );
    plain.stop();
    signal(&worker, Signal::TERM);
    assert_eq!(collect(worker).code, Some(0));
}
