//! Adds a custom agent: any program that prints lines can implement the same contract.
//!
//! ```text
//! cargo run -p ostler --example own_agent
//! ```
//!
//! A dialect defines which program to start and how to interpret its lines. Ostler handles the
//! rest: the process and its cleanup, limits, and events.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example reads the environment and prints"
)]

use std::sync::Arc;

use ostler::agent::ProcessAgent;
use ostler::dialect::{
    About, Action, Arg, Capabilities, Conversation, Dialect, Exit, Inherits, Launch, Launching,
    Outbox, ToAgent, TurnResult,
};
use ostler::event::{Text, TextKind};
use ostler::{Agents, Host, Outcome, Spec, SpecError};

/// An agent backed by `sed`, which repeats each line in capital letters.
struct Shouter;

impl Dialect for Shouter {
    fn about(&self) -> About {
        About {
            capabilities: Capabilities {
                many_turns: true,
                ..Capabilities::default()
            },
            ..About::new("shouter")
        }
    }

    fn launch(&self, _: &Launching<'_>) -> Result<Launch, SpecError> {
        let args = ["-u", "s/.*/\\U&/"]
            .map(|arg| Arg::Plain(arg.to_owned()))
            .to_vec();
        Ok(Launch {
            program: "sed",
            natives: &[],
            args,
            env: Vec::new(),
            inherits: Inherits::default(),
            needs: &[],
            state: &[],
        })
    }

    fn converse(&self, _: &Launching<'_>) -> Box<dyn Conversation> {
        Box::new(ShouterConversation)
    }
}

struct ShouterConversation;

impl Conversation for ShouterConversation {
    fn on_start(&mut self, _: &mut Outbox) {}

    fn send(&mut self, message: ToAgent, out: &mut Outbox) {
        if let ToAgent::Prompt(prompt) = message {
            out.push(Action::Write(
                format!("{}\n", prompt.replace('\n', " ")).into_bytes(),
            ));
        }
    }

    fn on_line(&mut self, line: &str, out: &mut Outbox) {
        let text = line.to_owned();
        out.event(Text {
            kind: TextKind::Reply,
            text,
            delta: false,
            message: None,
            parent: None,
        });
        out.push(TurnResult::new(Outcome::completed()));
    }

    fn on_exit(&mut self, _: &Exit, _: &mut Outbox) {}
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::new(std::env::vars_os());
    let mut agents = Agents::builtin();
    agents.add(Arc::new(ProcessAgent::new(&Shouter)));
    let agent = agents.get("shouter").ok_or("the agent was not added")?;
    let run = agent.start(&host, Spec::new("hello there"))?.wait().await;
    println!("{} ({})", run.text(), run.outcome().cause);
    Ok(())
}
