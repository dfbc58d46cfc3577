//! Calls any model with a tool that the caller runs.
//!
//! ```text
//! cargo run -p ostler --example calculator -- MODEL "What is 6 * 7?"
//! ```
//!
//! MODEL is `scripted` (the default, which runs offline), `claude-cli`, `claude-cli:sonnet`,
//! `codex-cli`, `openai:gpt-5-mini`, or any other name that `Models` knows.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example reads the environment and prints"
)]

use std::sync::Arc;

use ostler::adapter::{ApiModel, Message, ModelAdapter, Models, offer};
use ostler::testing::Script;
use ostler::tools::{Code, ToolError};
use ostler::{Agents, Host, Tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Calculation {
    /// Numbers with + - * / between them.
    expression: String,
}

const SCRIPT: &str = r#"
[[reply]]
text = "Let me calculate that."
calls = [{ tool = "calculator", input = { expression = "6 * 7" } }]

[[reply]]
when = { result = "42" }
text = "6 * 7 is 42."
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_else(|| "scripted".into());
    let question = args.next().unwrap_or_else(|| "What is 6 * 7?".into());
    let model: Arc<dyn ModelAdapter> = match &*name {
        "scripted" => Arc::new(ApiModel::scripted("scripted", Script::parse(SCRIPT)?)),
        name => Models::new(Host::new(std::env::vars_os()), Agents::builtin()).get(name)?,
    };
    let calculator = ostler::tool(
        "calculator",
        "Evaluates a math expression.",
        |input: Calculation| async move {
            let invalid = || {
                ToolError::new(
                    Code::BadArguments,
                    "expected numbers with + - * / between them",
                )
            };
            evaluate(&input.expression)
                .map(|value| value.to_string())
                .ok_or_else(invalid)
        },
    );
    // Returns a new adapter; the original does not know the tool.
    let model = model.bind_tools(vec![offer(&calculator)]);
    let mut messages = vec![
        Message::system("Use the calculator."),
        Message::user(question),
    ];
    for _ in 0..10 {
        let reply = model.invoke(&messages).await?;
        println!("{}: {}", model.name(), reply.content);
        if reply.tool_calls.is_empty() {
            break;
        }
        messages.push(reply.to_message());
        for call in reply.tool_calls {
            // Errors go back to the model, which can correct its call.
            let result = calculator
                .call(call.args.get())
                .await
                .unwrap_or_else(|error| error.to_string());
            println!("{} {} = {result}", call.name, call.args.get());
            messages.push(Message::tool(call.id, result));
        }
    }
    Ok(())
}

/// Evaluates an expression without parentheses, splitting at the last operator that binds weakest.
fn evaluate(text: &str) -> Option<f64> {
    for operators in [['+', '-'], ['*', '/']] {
        if let Some(at) = text.rfind(operators).filter(|at| *at > 0) {
            let (left, right) = (evaluate(&text[..at])?, evaluate(&text[at + 1..])?);
            return Some(match text.as_bytes()[at] {
                b'+' => left + right,
                b'-' => left - right,
                b'*' => left * right,
                _ => left / right,
            });
        }
    }
    text.trim().parse().ok()
}
