//! Adds a custom tool to the built-in workspace tools.
//!
//! ```text
//! cargo run -p ostler --example custom_tool
//! ```
//!
//! The model follows a script, so no API key is needed. Use `ApiAgent::openai()` for a real model.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example reads the environment and prints"
)]

use ostler::agent::ApiAgent;
use ostler::testing::Script;
use ostler::tools::{Code, ToolError, ToolFuture};
use ostler::{Agent, EventKind, Host, Spec, Tool};
use serde::Deserialize;

/// Adds numbers.
struct Calculator;

#[derive(Deserialize)]
struct Numbers {
    numbers: Vec<f64>,
}

impl Tool for Calculator {
    fn name(&self) -> &str {
        "add"
    }

    fn description(&self) -> &str {
        "Adds numbers and returns the sum."
    }

    fn schema(&self) -> String {
        r#"{"type":"object","properties":{"numbers":{"type":"array","items":{"type":"number"}}},"required":["numbers"]}"#.into()
    }

    fn only_reads(&self) -> bool {
        true // read-only calls may run in parallel
    }

    fn call<'a>(&'a self, input: &'a str) -> ToolFuture<'a> {
        Box::pin(async move {
            // Errors go back to the model, which can correct its call.
            let invalid =
                |error: serde_json::Error| ToolError::new(Code::BadArguments, error.to_string());
            let Numbers { numbers } = serde_json::from_str(input).map_err(invalid)?;
            Ok(numbers.iter().sum::<f64>().to_string())
        })
    }
}

const SCRIPT: &str = r#"
[[reply]]
calls = [{ tool = "add", input = { numbers = [17, 25] } }]

[[reply]]
when = { result = "42" }
text = "17 + 25 is 42."
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::new(std::env::vars_os());
    let agent = ApiAgent::playing(Script::parse(SCRIPT)?).tool(Calculator);
    let mut session = agent.start(&host, Spec::new("What is 17 + 25?"))?;
    while let Some(event) = session.next().await {
        match event.kind {
            EventKind::ToolCall(call) => println!("-> {} {}", call.name, call.input.get()),
            EventKind::ToolResult(result) => println!("<- {}", result.output),
            EventKind::TurnEnded(turn) => println!("{} ({})", turn.text, turn.outcome.cause),
            _ => {}
        }
    }
    Ok(())
}
