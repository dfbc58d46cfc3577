//! Streams a session's events, and prints its text and tool calls as they arrive.
//!
//! ```text
//! cargo run -p ostler --example stream
//! ```

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example reads the environment and prints"
)]

use ostler::event::TextKind;
use ostler::{Agents, EventKind, Host, Spec};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::new(std::env::vars_os());
    let agent = Agents::builtin().get("scripted").ok_or("no such agent")?;
    let mut session = agent.start(&host, Spec::new("show me"))?;
    while let Some(event) = session.next().await {
        match event.kind {
            EventKind::Text(text) if text.kind == TextKind::Reply => print!("{}", text.text),
            EventKind::ToolCall(call) => println!("-> {} {}", call.name, call.input.get()),
            EventKind::ToolResult(result) => {
                println!("<- {}", if result.ok { "ok" } else { "failed" });
            }
            EventKind::Ended(ended) => println!("\n{}", ended.outcome.message),
            _ => {}
        }
    }
    Ok(())
}
