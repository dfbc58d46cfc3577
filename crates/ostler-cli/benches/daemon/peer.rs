//! sandbox-agent, driven over its HTTP API: one agent of the Agent Client Protocol per server id.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{Process, Server};

#[derive(Clone)]
pub(crate) struct SandboxAgent {
    port: u16,
}

/// Starts a server that finds its agents in `agents`.
pub(crate) fn start(program: &Path, agents: &Path) -> (Process, SandboxAgent) {
    let home = tempfile::tempdir().unwrap();
    let port = free_port();
    let child = Command::new(program)
        .args(["server", "--no-token", "--no-telemetry", "--port"])
        .arg(port.to_string())
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", agents.display()))
        .env("HOME", home.path())
        .env("SANDBOX_AGENT_REQUIRE_PREINSTALL", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    (Process { child, _home: home }, SandboxAgent { port })
}

/// Returns a free port below those that the kernel chooses for clients: a client that connects to
/// one of its own would be its own server.
fn free_port() -> u16 {
    let first = 20_000 + u16::try_from(std::process::id() % 8_000).unwrap();
    (first..)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap()
}

impl SandboxAgent {
    async fn connect(&self) -> std::io::Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        Ok(BufReader::new(stream))
    }

    /// Sends a JSON-RPC request, and returns the response.
    async fn post(&self, path: &str, body: &str) -> String {
        let mut stream = self.connect().await.unwrap();
        let head = format!(
            "POST /v1/acp/{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + body).as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        response
    }
}

impl Server for SandboxAgent {
    type Reader = BufReader<TcpStream>;

    async fn wait_until_ready(&self) {
        while self.connect().await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn create(&self, number: usize) -> String {
        let session = format!("session-{number}");
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#;
        self.post(&format!("{session}?agent=claude"), initialize)
            .await;
        let new = r#"{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/tmp","mcpServers":[]}}"#;
        self.post(&session, new).await;
        session
    }

    async fn read(&self, session: &str) -> BufReader<TcpStream> {
        let mut stream = self.connect().await.unwrap();
        let head = format!("GET /v1/acp/{session} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).await.unwrap();
        }
        stream
    }

    /// Does not wait for the response, which the server sends at the end of the turn.
    async fn prompt(&self, session: &str) {
        let (server, session) = (self.clone(), session.to_owned());
        let prompt = r#"{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"hello"}]}}"#;
        tokio::task::spawn_local(async move { server.post(&session, prompt).await });
    }

    /// Every event is a chunk of its own, so its fields begin lines.
    async fn read_turn(mut stream: BufReader<TcpStream>) -> usize {
        let (mut count, mut line) = (0, String::new());
        while stream.read_line(&mut line).await.unwrap() > 0 {
            if line.starts_with("data: ") {
                count += usize::from(line.contains("session/update"));
                if line.contains("\"stopReason\"") {
                    break;
                }
            }
            line.clear();
        }
        count
    }
}
