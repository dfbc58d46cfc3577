//! Real agents through the daemon: the same scenarios as through the program.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::Mutex;

use ostler_daemon::api::CreateSession;
use ostler_daemon::client::Client;
use ostler_testkit::fake;
use ostler_testkit::scenario::{
    CLAUDE, CODEX, COPILOT, Driver, GEMINI, OPENCODE, Observed, PI, Progress, Running, Signal,
    Subject, Task, TestEnv, signal,
};
use serde_json::Value;

use crate::driver::{check_schema, ostler};
use crate::rig::{Rig, finish};
use crate::serve::{Served, block_on_patiently as block_on};

/// The daemon with the agent under test.
struct Daemon(&'static Subject);

struct Handle<'a> {
    client: &'a Client,
    session: &'a Mutex<String>,
    progress: &'a Progress,
}

impl Running for Handle<'_> {
    fn interrupt(&self) {
        let id = self.session.lock().unwrap().clone();
        block_on(self.client.interrupt(&id)).unwrap();
    }

    fn stop(&self) {
        let id = self.session.lock().unwrap().clone();
        block_on(self.client.stop(&id)).unwrap();
    }

    fn wait_for(&self, kind: &str) {
        self.progress.wait_for(kind);
    }
}

/// Starts the daemon with the agent's program in its configuration.
fn serve(test_env: &TestEnv) -> (Child, Client) {
    let home = tempfile::tempdir().unwrap().keep();
    if let Some(program) = test_env.program() {
        let text = format!(
            "[agents.{}]\ncommand = {program:?}\n",
            test_env.subject.name
        );
        std::fs::write(home.join("ostler.toml"), text).unwrap();
    }
    let mut command = ostler(test_env);
    command
        .arg("serve")
        .env("OSTLER_CONFIG_DIR", &home)
        .env("OSTLER_STATE_DIR", home.join("state"))
        .env("XDG_RUNTIME_DIR", &home);
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    (child, Client::new(line.trim()))
}

impl Driver for Daemon {
    fn subject(&self) -> &'static Subject {
        self.0
    }

    fn run(
        &self,
        test_env: &TestEnv,
        task: &Task,
        meanwhile: &(dyn Fn(&dyn Running) + Sync),
    ) -> Observed {
        let (mut child, client) = serve(test_env);
        let settings = task.settings_for(self.0).into_iter();
        let request = CreateSession {
            agent: Some(self.0.name.to_owned()),
            dir: test_env.work(),
            prompt: Some(task.prompt.clone()),
            settings: settings
                .map(|(key, value)| (key.to_owned(), value.into()))
                .collect(),
            once: true,
            attended: Some(false),
            ..CreateSession::default()
        };
        let session = Mutex::new(block_on(client.create(&request)).unwrap().id);
        let progress = Progress::default();
        let handle = Handle {
            client: &client,
            session: &session,
            progress: &progress,
        };
        let events: Vec<Value> = std::thread::scope(|scope| {
            scope.spawn(|| meanwhile(&handle));
            let id = session.lock().unwrap().clone();
            block_on(async {
                let mut stream = client.events(&id, 0).await.unwrap();
                let mut events = Vec::new();
                while let Some(frame) = stream.next().await.unwrap() {
                    if frame.event == "message" {
                        let event: Value = serde_json::from_str(&frame.data).unwrap();
                        progress.record(event["type"].as_str().unwrap());
                        events.push(event);
                    }
                }
                events
            })
        });
        check_schema(&events);
        signal(child.id(), Signal::TERM);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        let is_success = events.last().unwrap()["outcome"]["status"] == "success";
        Observed {
            subject: self.0,
            events,
            exit: Some(i32::from(!is_success)),
            served: test_env.server.served(),
        }
    }
}

macro_rules! agents {
    ($($name:ident $subject:ident;)*) => {$(
        mod $name {
            use super::*;

            ostler_testkit::tests_of_scenarios! {
                Daemon(&$subject); output::text tools::tool_allowed
            }
        }
    )*};
}

agents! {
    claude CLAUDE;
    codex CODEX;
    copilot COPILOT;
    gemini GEMINI;
    opencode OPENCODE;
    pi PI;
}

/// Returns the first block of code in this language on the daemon's page.
fn example(language: &str) -> String {
    let page = include_str!("../../../../../docs/daemon.md");
    let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_examples_of_the_documentation_work() {
    let rig = Rig::new();
    let script = "read-user\ninit\ntext A test.\nresult A test.\nread-until-eof";
    let _ = fake::install_as(rig.dir(), "claude", script);
    let program = env!("CARGO_BIN_EXE_ostler");
    std::fs::create_dir(rig.path("bin")).unwrap();
    std::os::unix::fs::symlink(program, rig.path("bin/ostler")).unwrap();
    rig.file("example.py", &example("python"));
    // The daemon of the first line is started by the test, so that it can be stopped.
    let shell = example("sh").replace("ostler serve &\n", "");
    rig.file("example.sh", &shell);
    let served = Served::start(&rig);
    let run = |program: &str, file: &str| {
        let mut command = std::process::Command::new(program);
        command
            .arg(rig.path(file))
            .env_clear()
            .env("PATH", format!("{}/bin:/usr/bin:/bin", rig.dir().display()))
            .env("HOME", rig.dir())
            .env("XDG_RUNTIME_DIR", rig.dir())
            .current_dir(rig.dir())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        finish(&mut command)
    };
    let python = run("python3", "example.py");
    assert_eq!(python.stdout, "A test.\n", "{}", python.stderr);
    let curl = run("bash", "example.sh");
    let session: Value = serde_json::from_str(&curl.stdout).expect(&curl.stderr);
    assert_eq!(session["agent"], "claude");
    served.stop();
}
