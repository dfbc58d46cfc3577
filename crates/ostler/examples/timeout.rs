//! Sets a time limit and branches on the outcome's cause.
//!
//! ```text
//! cargo run -p ostler --example timeout
//! ```

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example reads the environment and prints"
)]

use std::sync::Arc;
use std::time::Duration;

use ostler::spec::Limits;
use ostler::testing::{Events, MockAgent, Step};
use ostler::{Agent, Cause, Host, Spec};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::new(std::env::vars_os());
    // A mock agent that prints some text and then hangs. Real agents come from `Agents`.
    let text = ostler::EventKind::from_json(
        r#"{"type":"text","kind":"reply","text":"Let me think about it …","delta":true,"message":null}"#,
    )?;
    let agent: Arc<dyn Agent> = Arc::new(MockAgent::playing(Events::new(vec![
        Step::Say(Box::new(text)),
        Step::Hang,
    ])));
    let limits = Limits::default().wall(Duration::from_millis(300));
    let run = agent
        .start(&host, Spec::new("hello").limits(limits))?
        .wait()
        .await;
    match run.outcome().cause {
        Cause::WallLimit => println!("Timed out. Text so far: {}", run.text()),
        cause => println!("Ended with cause {cause}"),
    }
    Ok(())
}
