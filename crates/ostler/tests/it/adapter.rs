//! Agents, servers and scripts as plain models: the demands of source S0, with a fake agent that
//! plays two real ones.

mod choice;
mod invoke;
mod native;
pub(crate) mod scenes;
mod server;
mod tool_blocks;

use std::sync::{Arc, Mutex};

use ostler::Agents;
use ostler::adapter::{
    AgentModel, Calling, Message, ModelAdapter, ModelError, ModelOptions, Reply, Update, Updates,
};
use ostler::event::RawJson;
use ostler::spec::ToolOffer;
use serde_json::{Value, json};

use crate::rig::{LONG, Rig};

/// The real agent that the fake agent imitates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Claude,
    Codex,
}

impl Part {
    const BOTH: [Self; 2] = [Self::Claude, Self::Codex];

    fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }

    /// Script up to the point where the agent has read its prompt.
    fn opening(self) -> String {
        let dumps = "dump-args $DIR/args\ndump-cwd $DIR/cwd\npid-file $DIR/pid";
        match self {
            Self::Claude => format!("{dumps}\nread-user\ndump-stdin $DIR/stdin\ninit\n"),
            Self::Codex => {
                let hello = json!({"id": "initialize", "result": {"userAgent": "ostler/0.166.0"}});
                let thread = json!({"id": "thread", "result": {"thread": {"id": "t1"}, "model": "gpt-5.5", "cwd": "/"}});
                let turn = json!({"id": "turn-1", "result": {"turn": {"id": "u1", "status": "inProgress", "items": []}}});
                let begun = json!({"method": "turn/started", "params": {"threadId": "t1", "turn": {"id": "u1"}}});
                format!(
                    "{dumps}\nread\nprint {hello}\nread\nread\nprint {thread}\nread\ndump-stdin $DIR/stdin\nprint {turn}\nprint {begun}\n"
                )
            }
        }
    }

    /// Prints this text as one whole message.
    fn text(self, text: &str) -> String {
        match self {
            Self::Claude => format!("text {}\n", text.replace('\\', "\\\\").replace('\n', "\\n")),
            Self::Codex => self.item(
                "item/completed",
                &json!({"type": "agentMessage", "id": "m1", "text": text}),
            ),
        }
    }

    fn item(self, method: &str, item: &Value) -> String {
        let note =
            json!({"method": method, "params": {"item": item, "threadId": "t1", "turnId": "u1"}});
        format!("print {note}\n")
    }

    /// Ends the turn with this answer.
    fn end_turn(self, text: &str) -> String {
        match self {
            Self::Claude => format!(
                "result {}\n",
                text.replace('\\', "\\\\").replace('\n', "\\n")
            ),
            Self::Codex => {
                let usage = json!({"totalTokens": 143, "inputTokens": 118, "cachedInputTokens": 11, "cacheWriteInputTokens": 7,
                    "outputTokens": 25, "reasoningOutputTokens": 4});
                let spent = json!({"method": "thread/tokenUsage/updated", "params": {"threadId": "t1", "turnId": "u1",
                    "tokenUsage": {"total": usage, "last": usage}}});
                let turn = json!({"id": "u1", "status": "completed", "items": [], "error": null});
                let end_turn =
                    json!({"method": "turn/completed", "params": {"threadId": "t1", "turn": turn}});
                format!("print {spent}\nprint {end_turn}\n")
            }
        }
    }

    /// Prints this answer and ends the turn.
    fn answers(self, text: &str) -> String {
        self.text(text) + &self.end_turn(text)
    }

    /// Uses one of the agent's built-in tools.
    fn own_tool(self) -> String {
        match self {
            Self::Claude => "tool-use t1 Bash {\"command\":\"ls\"}\n".to_owned(),
            Self::Codex => self.item(
                "item/started",
                &json!({"type": "commandExecution", "id": "c1", "command": "ls", "cwd": "/", "status": "inProgress"}),
            ),
        }
    }

    /// Calls the bound calculator.
    fn calls(self, id: &str, number: usize) -> String {
        let args = json!({"expression": "17 + 25"});
        let request = match self {
            Self::Claude => {
                let params = json!({"name": "calculator", "arguments": args, "_meta": {"claudecode/toolUseId": id}});
                let message = json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params});
                let request =
                    json!({"subtype": "mcp_message", "server_name": "ostler", "message": message});
                json!({"type": "control_request", "request_id": format!("r{number}"), "request": request})
            }
            Self::Codex => json!({"method": "item/tool/call", "id": number, "params":
                {"threadId": "t1", "turnId": "u1", "callId": id, "tool": "calculator", "arguments": args}}),
        };
        format!("print {request}\n")
    }

    /// Announces the call before making it.
    fn announce_call(self, id: &str) -> String {
        let args = json!({"expression": "17 + 25"});
        match self {
            Self::Claude => format!("tool-use {id} mcp__ostler__calculator {args}\n"),
            Self::Codex => self.item(
                "item/started",
                &json!({"type": "dynamicToolCall", "id": id, "tool": "calculator", "arguments": args, "status": "inProgress"}),
            ),
        }
    }

    /// Waits for the result and reports it.
    fn has_result(self, id: &str) -> String {
        match self {
            Self::Claude => format!("wait-control\ntool-result {id} 42\n"),
            Self::Codex => {
                let given = json!([{"type": "inputText", "text": "42"}]);
                let item = json!({"type": "dynamicToolCall", "id": id, "tool": "calculator", "status": "completed",
                    "contentItems": given, "success": true});
                format!("read\n{}", self.item("item/completed", &item))
            }
        }
    }
}

/// A fake agent and the options it is invoked with.
struct Stage {
    part: Part,
    rig: Rig,
    options: ModelOptions,
}

impl Stage {
    /// Creates an agent that runs `body` once it has read its prompt.
    fn new(part: Part, body: &str) -> Self {
        let rig = Rig::new(format!("{}{body}read-until-eof\nexit 0", part.opening()));
        let (program, env) = (rig.spec.program.clone(), rig.spec.env.clone());
        let options = ModelOptions {
            program,
            env,
            calling: Calling::Prompt,
            ..ModelOptions::default()
        };
        Self { part, rig, options }
    }

    fn answering(part: Part, text: &str) -> Self {
        Self::new(part, &part.answers(text))
    }

    fn model(&self) -> AgentModel {
        let agent = Agents::builtin().get(self.part.name()).unwrap();
        AgentModel::new(agent, self.rig.host.clone(), self.options.clone())
    }

    /// Returns the arguments the agent was started with.
    fn args(&self) -> Vec<String> {
        serde_json::from_str(&self.rig.text("args")).unwrap()
    }

    /// Returns the prompt the agent was given.
    fn prompt(&self) -> String {
        let stdin = self.rig.text("stdin");
        let lines = stdin
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let text = |line: Value| match self.part {
            Part::Claude if line["type"] == "user" => match &line["message"]["content"] {
                Value::String(text) => Some(text.clone()),
                blocks => Some(blocks[0]["text"].as_str().unwrap().to_owned()),
            },
            Part::Codex if line["method"] == "turn/start" => Some(
                line["params"]["input"][0]["text"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            ),
            _ => None,
        };
        lines
            .filter_map(text)
            .next()
            .expect("it was given a prompt")
    }

    /// Asserts that the process and its private directory no longer exist.
    fn assert_nothing_left(&self) {
        use ostler_testkit::processes::{alive, wait_until};
        let pid = self.rig.pid("pid");
        assert!(
            wait_until(LONG, || !alive(pid)),
            "{} is still there",
            self.part.name()
        );
        let cwd = self.rig.text("cwd");
        assert!(cwd.contains("ostler-model-"), "{cwd}");
        assert!(
            wait_until(LONG, || !std::path::Path::new(&cwd).exists()),
            "{cwd} is still there"
        );
    }
}

/// The calculator tool of source S0.
fn calculator() -> ToolOffer {
    ToolOffer {
        name: "calculator".into(),
        description: "Evaluates an arithmetic expression.".into(),
        parameters: RawJson::parse(
            r#"{"type":"object","properties":{"expression":{"type":"string"}},"required":["expression"]}"#,
        )
        .unwrap(),
    }
}

/// Formats a block of calculator calls, one for each id.
fn block(ids: &[&str]) -> String {
    let calls: Vec<Value> = ids
        .iter()
        .map(|id| json!({"name": "calculator", "id": id, "args": {"expression": "17 + 25"}}))
        .collect();
    format!("```json\n{}\n```", json!({ "tool_calls": calls }))
}

async fn ask(model: &dyn ModelAdapter, messages: &[Message]) -> Result<Reply, ModelError> {
    tokio::time::timeout(LONG, model.invoke(messages))
        .await
        .expect("no reply for a long time")
}

/// Returns the reply and the text updates that preceded it.
async fn ask_listening(model: &dyn ModelAdapter, messages: &[Message]) -> (Reply, Vec<String>) {
    let streamed = Arc::new(Mutex::new(Vec::new()));
    let keep = streamed.clone();
    let updates = Updates::to(move |update| {
        if let Update::Text(text) = update {
            keep.lock().unwrap().push(text.clone());
        }
    });
    let reply = tokio::time::timeout(LONG, model.invoke_with_updates(messages, updates))
        .await
        .unwrap()
        .unwrap();
    let streamed = streamed.lock().unwrap().clone();
    (reply, streamed)
}

fn hello() -> [Message; 1] {
    [Message::user("What is 17 + 25?")]
}
