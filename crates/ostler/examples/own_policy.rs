//! Restricts what a model may do with a custom policy.
//!
//! ```text
//! cargo run -p ostler --example own_policy
//! ```
//!
//! The model follows a script that tries forbidden actions. A real model gets the same results.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example reads the environment and prints"
)]

use ostler::agent::ApiAgent;
use ostler::sandbox::SandboxPolicy;
use ostler::spec::Denials;
use ostler::testing::Script;
use ostler::{Agent, EventKind, Host, Spec};

/// A policy in the format of `.ostler/sandbox.toml`. It replaces that file in the workspace.
const POLICY: &str = r#"
[files]
deny = ["private/**"]
read_only = ["vendor/**"]

[[command]]
name = "ls"
examples = { allow = ["ls -l"] }
"#;

const SCRIPT: &str = r#"
[[reply]]
calls = [
    { tool = "read_file", input = { path = "private/diary.txt" } },
    { tool = "write_file", input = { path = "vendor/lib.c", content = "" } },
    { tool = "run_command", input = { command = "rm", args = ["-rf", "."] } },
    { tool = "run_command", input = { command = "ls" } },
]

[[reply]]
text = "Only the last one was allowed."
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workspace = tempfile::tempdir()?;
    std::fs::create_dir(workspace.path().join("private"))?;
    std::fs::write(workspace.path().join("private/diary.txt"), "dear diary")?;
    let host = Host::new(std::env::vars_os());
    let agent = ApiAgent::playing(Script::parse(SCRIPT)?).policy(POLICY.parse::<SandboxPolicy>()?);
    let spec = Spec::new("Try it.")
        .dir(workspace.path())
        .denials(Denials::Tolerate); // otherwise the turn ends with cause `denied`
    let mut session = agent.start(&host, spec)?;
    while let Some(event) = session.next().await {
        match event.kind {
            EventKind::ToolResult(result) => {
                let first = result.output.lines().next().unwrap_or_default();
                println!(
                    "{} {}: {first}",
                    if result.ok { "✓" } else { "✗" },
                    result.name.unwrap_or_default()
                );
            }
            EventKind::TurnEnded(turn) => println!("{} ({})", turn.text, turn.outcome.cause),
            _ => {}
        }
    }
    Ok(())
}
