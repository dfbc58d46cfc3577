//! Verbs that pause, resume, restart and fork a session of the daemon.

use ostler_daemon::api::SessionView;
use ostler_testkit::fake;
use ostler_testkit::processes::wait_until;
use serde_json::Value;

use crate::rig::{Finished, PATIENCE, Rig, finish};
use crate::serve::{ECHO, Served, block_on, command, create, transcript};

fn run(rig: &Rig, args: &[&str]) -> Finished {
    finish(&mut command(rig, args))
}

/// Runs a client that is expected to succeed, and returns its stdout.
fn ok(rig: &Rig, args: &[&str]) -> String {
    let done = run(rig, args);
    assert_eq!(done.code, Some(0), "{args:?}: {}", done.stderr);
    done.stdout.trim_end().to_owned()
}

/// Starts a daemon whose agent answers every message with `hi` and can be resumed, and a session.
fn started() -> (Rig, Served, SessionView) {
    let rig = Rig::new();
    let _ = fake::install_as(rig.dir(), "claude", ECHO);
    transcript(&rig);
    let served = Served::start(&rig);
    let session = create(&rig, &served);
    assert_eq!(text(&served, &session.id), "hi");
    (rig, served, session)
}

/// Waits for the end of the last turn, and returns its text.
fn text(served: &Served, id: &str) -> String {
    block_on(served.client.result(id, PATIENCE)).unwrap().text
}

fn view(served: &Served, id: &str) -> SessionView {
    block_on(served.client.session(id)).unwrap()
}

/// Returns the newest session, which is not the given one.
fn newest(served: &Served, earlier: &str) -> SessionView {
    let page = block_on(served.client.sessions("all=true")).unwrap();
    let session = page.sessions.into_iter().next().unwrap();
    assert_eq!(session.continues.as_deref(), Some(earlier));
    session
}

#[test]
fn a_paused_session_is_resumed() {
    let (rig, served, SessionView { id, name, .. }) = started();
    let short = &id[..8];
    ok(&rig, &["pause", short]);
    ok(&rig, &["send", short, "more"]);
    assert_eq!(view(&served, &id).turns, 1);
    let json: Value = serde_json::from_str(&ok(&rig, &["pause", short, "--json"])).unwrap();
    assert_eq!(
        (&json["id"], &json["state"]),
        (&id.into(), &"paused".into())
    );
    let id = json["id"].as_str().unwrap();
    assert_eq!(ok(&rig, &["resume", &id[..8]]), format!("resumed {name}"));
    assert_eq!(text(&served, id), "hi");
    assert_eq!(view(&served, id).turns, 2);
}

#[test]
fn a_turn_continues_after_a_pause() {
    let rig = Rig::new();
    let wait = format!("read-user\ninit\nwait-file {}\n", rig.path("go").display());
    let script = format!("{wait}text hi\nresult hi\nread-until-eof");
    let _ = fake::install_as(rig.dir(), "claude", &script);
    let served = Served::start(&rig);
    let SessionView { id, name, .. } = create(&rig, &served);
    assert!(wait_until(PATIENCE, || view(&served, &id).turns == 1));
    let said = ok(&rig, &["pause", &id]);
    // It may take effect after the response.
    let accepted = [format!("paused {name}"), format!("pausing {name}")];
    assert!(accepted.contains(&said), "{said}");
    rig.file("go", "");
    assert_eq!(text(&served, &id), "hi");
}

#[test]
fn a_session_is_forked_restarted_and_resumed() {
    let (rig, served, SessionView { id, name, .. }) = started();
    let done = run(&rig, &["fork", &id[..8]]);
    let fork = newest(&served, &id);
    let short = &fork.id[..8];
    assert_eq!(done.stdout, format!("forked {name} as {}\n", fork.name));
    let hint = format!("  follow it with: ostler attach {short}\n");
    assert_eq!((done.code, done.stderr), (Some(0), hint));
    assert_eq!(view(&served, &id).state.as_str(), "idle");

    assert_eq!(
        ok(&rig, &["send", short, "go"]),
        format!("sent to {}", fork.name)
    );
    assert_eq!(text(&served, &fork.id), "hi");
    let said = ok(&rig, &["restart", short]);
    let again = newest(&served, &fork.id);
    assert_eq!(said, format!("restarted {} as {}", fork.name, again.name));
    assert_eq!(view(&served, &fork.id).state.as_str(), "ended");

    let said = ok(&rig, &["resume", short]);
    let resumed = newest(&served, &fork.id);
    assert_ne!(resumed.id, again.id);
    assert_eq!(said, format!("resumed {} as {}", fork.name, resumed.name));
    let json: Value = serde_json::from_str(&ok(&rig, &["fork", &id, "--json"])).unwrap();
    assert_eq!(json["continues"], *id);
}

#[test]
fn an_unknown_session_is_a_usage_error() {
    let (rig, _served, _) = started();
    for verb in ["pause", "resume", "restart", "fork"] {
        let done = run(&rig, &[verb, "nothing"]);
        assert_eq!((done.code, &*done.stdout), (Some(2), ""), "{verb}");
        assert!(
            done.stderr.starts_with("error: no session"),
            "{}",
            done.stderr
        );
    }
}

// The agent gets the message during its turn, and answers it in that turn.
#[test]
fn a_steered_message_reaches_the_running_turn() {
    let rig = Rig::new();
    let script = "read-user\ninit\ndelta Working\nread-user\ntext Faster it is.\n\
                  result Faster it is.\nread-until-eof";
    let _ = fake::install_as(rig.dir(), "claude", script);
    let served = Served::start(&rig);
    let SessionView { id, .. } = create(&rig, &served);
    block_on(crate::serve::events_until(&served.client, &id, "text"));
    ok(&rig, &["send", "--steer", &id[..8], "faster"]);
    assert_eq!(text(&served, &id), "Faster it is.");
    let shown = ok(&rig, &["sessions", "show", &id, "--output", "events"]);
    let count = |text: &str| shown.lines().filter(|line| line.contains(text)).count();
    assert_eq!(count("\"code\":\"steered\""), 1, "{shown}");
    assert_eq!(count("\"type\":\"turn_started\""), 1, "{shown}");
    assert_eq!(count("\"type\":\"refused\""), 0, "{shown}");
    served.stop();
}
