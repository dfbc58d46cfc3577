//! `ostler serve`, driven by its client.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ostler_daemon::api::CreateSession;
use ostler_daemon::client::{Client, EventStream};

use super::{Process, Server};

#[derive(Clone)]
pub(crate) struct Ostler {
    client: Client,
    agent: &'static str,
    dir: PathBuf,
}

/// Starts a daemon that finds its agents in `agents`.
pub(crate) fn start(program: &Path, agents: &Path, agent: &str) -> (Process, Ostler) {
    let home = tempfile::tempdir().unwrap();
    let mut child = Command::new(program)
        .arg("serve")
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", agents.display()))
        .env("HOME", home.path())
        .env("XDG_RUNTIME_DIR", home.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let server = Ostler {
        client: Client::new(line.trim()),
        agent: agent.to_owned().leak(),
        dir: home.path().to_owned(),
    };
    (Process { child, _home: home }, server)
}

impl Server for Ostler {
    type Reader = EventStream;

    async fn wait_until_ready(&self) {
        while !self.client.is_running().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn create(&self, _: usize) -> String {
        let request = CreateSession {
            agent: Some(self.agent.to_owned()),
            dir: self.dir.clone(),
            prompt: Some("hello".to_owned()),
            ..CreateSession::default()
        };
        self.client.create(&request).await.unwrap().id
    }

    async fn read(&self, session: &str) -> EventStream {
        self.client.events(session, 0).await.unwrap()
    }

    async fn prompt(&self, _: &str) {}

    async fn read_turn(mut stream: EventStream) -> usize {
        let mut count = 0;
        while let Some(frame) = stream.next().await.unwrap() {
            if frame.event == "message" {
                count += 1;
                if frame.data.contains("\"type\":\"turn_ended\"") {
                    assert!(frame.data.contains("\"completed\""), "{}", frame.data);
                    break;
                }
            }
        }
        count
    }
}
