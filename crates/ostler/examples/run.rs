//! Runs one task and prints its outcome.
//!
//! ```text
//! cargo run -p ostler --example run -- "your task"
//! ```

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example reads the environment and prints"
)]

use ostler::{Agents, Host, Spec};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let prompt = std::env::args().nth(1).unwrap_or_else(|| "hello".into());
    let host = Host::new(std::env::vars_os());
    let agent = Agents::builtin()
        .choose(&host)
        .await
        .ok_or("no agent is ready")?;
    let run = agent.start(&host, Spec::new(prompt))?.wait().await;
    println!("{} ({})", run.text(), run.outcome().cause);
    Ok(())
}
