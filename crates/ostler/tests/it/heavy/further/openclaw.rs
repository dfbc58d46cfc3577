//! The real OpenClaw over its gateway's ACP: the gateway belongs to the user and runs separately
//! from Ostler.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ostler::Cause;
use ostler::event::{EventKind, ToolCall, ToolResult};
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::processes::wait_until;
use ostler_testkit::real;
use ostler_testkit::scenario::{self, OPENCLAW, OPENCLAW_ACP, Task, TestEnv};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::driver::Library;
use crate::sessions::{Scene, started};

/// Every setting of `openclaw agent exec`: a configuration file with two models replaces the user's
/// own.
#[test]
fn settings() {
    let place = TestEnv::new(&OPENCLAW, Script::always("Aye."));
    let config = fs::read_to_string(place.outside("home/.openclaw/openclaw.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    let models = config["models"]["providers"]["stand-in"]["models"]
        .as_array_mut()
        .unwrap();
    for name in ["first", "second"] {
        let mut model = models[0].clone();
        (model["id"], model["reasoning"]) = (json!(name), json!(true));
        models.push(model);
    }
    fs::write(place.outside("config.json"), config.to_string()).unwrap();
    fs::create_dir(place.outside("state")).unwrap();
    let path = |name: &str| place.outside(name).display().to_string();
    let task = Task::new("PROMPT")
        .set("model", "stand-in/first")
        .set("fallback", "stand-in/second");
    let task = task
        .set("thinking", "low")
        .set("timeout", "100")
        .set("config", path("config.json"));
    let seen = scenario::run(
        &Library(&OPENCLAW),
        &place,
        &task.set("state_dir", path("state")),
    );
    seen.assert_ended("completed", 0);
    assert_eq!(place.only_call().model(), "first");
    assert!(
        fs::read_dir(place.outside("state"))
            .unwrap()
            .next()
            .is_some(),
        "the agent stores its state there"
    );
}

/// `isolated`: the user's configuration is ignored, so the model's address is unknown.
#[test]
fn isolated() {
    let place = TestEnv::new(&OPENCLAW, Script::always("Aye."));
    let seen = scenario::run(
        &Library(&OPENCLAW),
        &place,
        &Task::new("PROMPT").set("isolated", "true"),
    );
    assert_ne!(seen.outcome()["cause"], "completed");
    assert!(place.server.requests().is_empty());
}

const TOKEN: &str = "a-token-of-the-test";

/// A gateway started by the test, with its own home directory; stopped on drop.
struct Gateway {
    child: Child,
    home: TempDir,
}

impl Gateway {
    /// Starts a gateway that uses the scene's model, and points the scene's OpenClaw to it.
    fn start(scene: &Scene) -> Self {
        let home = tempfile::tempdir().unwrap();
        // A port that was free a moment ago.
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let url = scene.place.server.base_url();
        let mut variables = OPENCLAW_ACP.host(home.path(), &url);
        let file = home.path().join(".openclaw/openclaw.json");
        let mut config: Value =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        config["agents"]["defaults"]["workspace"] = json!(home.path().join("workspace"));
        config["gateway"] = json!({"mode": "local", "port": port, "bind": "loopback", "auth": {"mode": "token", "token": TOKEN}});
        std::fs::write(&file, config.to_string()).unwrap();
        reach(scene, port);
        variables.push(("TMPDIR".to_owned(), home.path().display().to_string()));
        let log = std::fs::File::create(home.path().join("log")).unwrap();
        let child = Command::new(real::pinned("openclaw").program())
            .args(["gateway", "run"])
            .env_clear()
            .envs(variables)
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap();
        let gateway = Self { child, home };
        let is_up = wait_until(Duration::from_secs(180), || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        let log = || std::fs::read_to_string(gateway.home.path().join("log")).unwrap_or_default();
        assert!(is_up, "the gateway never listened: {}", log());
        gateway
    }

    /// Returns true if the agent has created this file in the gateway's workspace.
    fn has(&self, name: &str) -> bool {
        self.home.path().join("workspace").join(name).is_file()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Points the scene's OpenClaw to its gateway.
fn reach(scene: &Scene, port: u16) {
    let remote = json!({"mode": "remote", "remote": {"url": format!("ws://127.0.0.1:{port}"), "token": TOKEN}});
    let file = scene.place.outside("home/.openclaw/openclaw.json");
    std::fs::write(file, json!({"gateway": remote}).to_string()).unwrap();
}

fn scene(script: Script) -> Scene {
    let mut scene = Scene::new(&OPENCLAW_ACP, script, &Task::new("PROMPT"));
    // OpenClaw takes as long as a browser to start.
    scene.spec.limits.startup = Some(Duration::from_secs(180));
    scene
}

fn script() -> Script {
    let made = OPENCLAW_ACP.shell("echo $((40 + 2)) | tee made");
    Script::new()
        .rule(Rule::on_text("PROMPT").answer(Answer::text("One two three four.").deltas(4)))
        .rule(Rule::on_text("Remember").text("I will remember."))
        .rule(Rule::on_text("Which").text("Pelican."))
        .rule(Rule::on_text("WORK").answer(made))
        .rule(Rule::on_tool_result().text("It is {tool_result}."))
        .rule(
            Rule::on_text("SLOW")
                .answer(Answer::text("One two three four.").deltas(4).hang_after(2)),
        )
        .rule(Rule::on_text("AGAIN").text("Here."))
}

fn calls(seen: &crate::rig::Seen) -> Vec<&ToolCall> {
    seen.kinds()
        .filter_map(|kind| {
            if let EventKind::ToolCall(it) = kind {
                Some(it)
            } else {
                None
            }
        })
        .collect()
}

fn results(seen: &crate::rig::Seen) -> Vec<&ToolResult> {
    seen.kinds()
        .filter_map(|kind| {
            if let EventKind::ToolResult(it) = kind {
                Some(it)
            } else {
                None
            }
        })
        .collect()
}

/// Text in pieces, a tool with its arguments and result, an interrupt that the session survives,
/// its working directory, and another process that resumes the session.
#[tokio::test]
async fn through_its_gateway() {
    let mut scene = scene(script());
    let gateway = Gateway::start(&scene);
    let mut live = scene.start();
    let turn = live.turn().await;
    assert_eq!(
        (turn.outcome.cause, turn.text.as_str()),
        (Cause::Completed, "One two three four.")
    );
    let turn = live.ask("WORK").await;
    assert_eq!(
        (turn.outcome.cause, turn.text.trim()),
        (Cause::Completed, "It is 42.")
    );
    assert!(
        gateway.has("made"),
        "commands run in the gateway's own workspace"
    );
    assert!(!scene.place.work().join("made").exists());
    live.send("SLOW").unwrap();
    live.until(crate::sessions::is_text).await;
    live.interrupt();
    assert_eq!(live.turn().await.outcome.cause, Cause::Interrupted);
    assert_eq!(live.ask("AGAIN").await.text, "Here.");
    assert_eq!(
        live.ask("Remember the word pelican.").await.text,
        "I will remember."
    );
    let seen = live.end(&scene).await;
    assert_eq!(seen.notices("works_elsewhere").len(), 1);
    let (calls, results) = (calls(&seen), results(&seen));
    assert_eq!((calls.len(), results.len()), (1, 1));
    assert!(
        calls[0].input.get().contains("40 + 2")
            && results[0].ok
            && results[0].output.contains("42"),
        "{calls:?}"
    );
    let native = started(&seen)[0].native_session.clone().unwrap();
    scene.spec.resume = Some((*native).into());
    scene.spec.prompt = "Which word?".into();
    let mut live = scene.start();
    assert_eq!(live.turn().await.text, "Pelican.");
    let seen = live.end(&scene).await;
    assert_eq!(
        seen.replies().concat(),
        "Pelican.",
        "the earlier conversation is not repeated"
    );
    scene.knows(
        scene.place.server.requests().len() - 1,
        &["pelican", "Which word?"],
    );
}

/// A rejected API key is not a success, although the gateway ends the turn normally and without a
/// message.
#[tokio::test]
async fn a_rejected_key_behind_its_gateway() {
    let error = Answer::error(401, "authentication_error", "invalid x-api-key");
    let scene = scene(Script::new().rule(Rule::any().answer(error)));
    let _gateway = Gateway::start(&scene);
    let mut live = scene.start();
    let outcome = live.turn().await.outcome;
    assert_eq!(outcome.cause, Cause::Auth, "{outcome:?}");
    assert!(
        outcome
            .hint
            .as_deref()
            .is_some_and(|hint| hint.contains("openclaw configure")),
        "{outcome:?}"
    );
    live.end(&scene).await;
}

/// Without a listening gateway, the error says so and what to do.
#[tokio::test]
async fn no_gateway_at_all() {
    let scene = scene(script());
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    reach(&scene, port);
    let mut live = scene.start();
    let outcome = live.turn().await.outcome;
    assert_eq!(outcome.cause, Cause::Network, "{outcome:?}");
    assert!(
        outcome
            .hint
            .as_deref()
            .is_some_and(|hint| hint.contains("openclaw gateway run")),
        "{outcome:?}"
    );
    live.end(&scene).await;
}
