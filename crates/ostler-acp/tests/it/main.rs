//! Tests of the server with an in-process agent and editor. The program's tests check the protocol.

#![expect(clippy::unwrap_used, reason = "tests panic on errors")]

use std::io::{BufRead, BufReader, PipeWriter, Write, pipe};
use std::path::Path;
use std::sync::{Arc, Mutex};

use ostler::spec::{AfterTurn, Attendance};
use ostler::testing::{Events, MockAgent, Step};
use ostler::{Agent, EventKind, Host, Spec};
use ostler_acp::{Embedder, Pipes, PrepareError, PreparedSession, ServeEnd, Service};
use serde_json::{Value, json};

/// A program that collects warnings.
#[derive(Default)]
struct Program {
    warnings: Mutex<Vec<String>>,
}

impl Embedder for Program {
    fn prepare(&self, dir: &Path) -> Result<PreparedSession, PrepareError> {
        if dir.ends_with("refused") {
            return Err(PrepareError {
                message: "not here".into(),
                hint: Some("go elsewhere".into()),
            });
        }
        let spec = Spec::default()
            .dir(dir)
            .after_turn(AfterTurn::Wait)
            .attendance(Attendance::Attended);
        let host = Host::default();
        Ok(PreparedSession { host, spec })
    }

    fn warn(&self, warning: &str) {
        self.warnings.lock().unwrap().push(warning.to_owned());
    }
}

/// The editor's side of the connection.
struct Editor<R> {
    input: PipeWriter,
    output: R,
}

impl<R: BufRead> Editor<R> {
    /// Sends a request and returns its response.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
        writeln!(self.input, "{request}").unwrap();
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == method {
                return message;
            }
        }
    }
}

/// Serves an agent that plays `steps` for each prompt, while `conversation` runs.
fn serve<T>(
    steps: Vec<Step>,
    conversation: impl FnOnce(&mut Editor<BufReader<std::io::PipeReader>>) -> T,
) -> (T, Arc<Program>) {
    let program = Arc::new(Program::default());
    let (input, to_server) = pipe().unwrap();
    let (from_server, output) = pipe().unwrap();
    let embedder = program.clone();
    let server = std::thread::spawn(move || {
        let agent: Arc<dyn Agent> = Arc::new(MockAgent::playing(Events::new(steps)));
        let service = Service {
            dialect: agent.dialect(),
            agent,
            host: Host::default(),
            store: None,
            settings_hint: String::new(),
            embedder,
        };
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(ostler_acp::serve(
                service,
                Pipes { input, output },
                std::future::pending,
            ))
    });
    let mut editor = Editor {
        input: to_server,
        output: BufReader::new(from_server),
    };
    let result = conversation(&mut editor);
    drop(editor);
    assert_eq!(server.join().unwrap().unwrap(), ServeEnd::Disconnected);
    (result, program)
}

fn say(event: &Value) -> Step {
    Step::Say(Box::new(EventKind::from_json(&event.to_string()).unwrap()))
}

fn turn_end() -> Step {
    let outcome = json!({"status": "success", "cause": "completed", "message": "done"});
    say(&json!({"type": "turn_ended", "outcome": outcome, "text": ""}))
}

/// A warning of the agent reaches the program once, with the session it belongs to.
#[test]
fn warning_is_shown_once() {
    let notice = json!({
        "type": "notice", "level": "warning", "code": "odd", "message": "something is odd",
    });
    let steps = vec![say(&notice), turn_end()];
    let dir = tempfile::tempdir().unwrap();
    let (session, program) = serve(steps, |editor| {
        let opened = editor.call("session/new", &json!({"cwd": dir.path(), "mcpServers": []}));
        let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
        let prompt = [json!({"type": "text", "text": "hello"})];
        let params = json!({"sessionId": session, "prompt": prompt});
        let answer = editor.call("session/prompt", &params);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        session
    });
    assert_eq!(
        *program.warnings.lock().unwrap(),
        [format!("{session}: something is odd")]
    );
}

/// An error of the program reaches the editor, with its hint.
#[test]
fn session_that_cannot_be_prepared_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = dir.path().join("refused");
    std::fs::create_dir(&refused).unwrap();
    let (answer, _) = serve(vec![turn_end()], |editor| {
        editor.call("session/new", &json!({"cwd": refused, "mcpServers": []}))
    });
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!(answer["error"]["message"], "Invalid params: not here");
    assert_eq!(answer["error"]["data"]["hint"], "go elsewhere");
}
