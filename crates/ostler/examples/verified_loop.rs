//! Runs an agent loop until a custom check passes.
//!
//! ```text
//! cargo run -p ostler --example verified_loop
//! ```
//!
//! The model follows a script that claims to be done too early. Use
//! `Models::get("claude-cli:sonnet")` for a real model.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example reads the environment and prints"
)]

use ostler::adapter::ApiModel;
use ostler::agent_loop::{CommandCheck, Ending, Loop};
use ostler::event::NoticeCode;
use ostler::testing::Script;
use ostler::{Agent, EventKind, Host, Spec};

const SCRIPT: &str = r#"
[[reply]]
when = { prompt = "not done yet" }
text = "I see. "
calls = [{ tool = "write_file", input = { path = "answer.txt", content = "42\n" } }]

[[reply]]
when = { result_of = "write_file" }
text = "Now the answer is in answer.txt."

[[reply]]
text = "It is done."
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workspace = tempfile::tempdir()?;
    let host = Host::new(std::env::vars_os());
    // A command checks the result. A function works too:
    // `.verify(|answer: String| async move { … })`.
    let words = ["grep", "-q", "42", "answer.txt"]
        .map(str::to_owned)
        .to_vec();
    let check = CommandCheck::new(&host, words, workspace.path().to_owned());
    let agent = Loop::new(ApiModel::scripted("scripted", Script::parse(SCRIPT)?))
        .max_iterations(10)
        .verify(check);
    let spec = || Spec::new("Write the answer to a file.").dir(workspace.path());

    // Like any agent, a loop can be read event by event.
    let mut session = agent.start(&host, spec())?;
    while let Some(event) = session.next().await {
        match event.kind {
            EventKind::ToolResult(result) => {
                println!("{}: ok = {}", result.name.unwrap_or_default(), result.ok);
            }
            EventKind::Notice(notice)
                if matches!(notice.code, NoticeCode::Verified | NoticeCode::NotVerified) =>
            {
                println!("{}", notice.message);
            }
            EventKind::TurnEnded(turn) => println!("{} ({})", turn.text, turn.outcome.cause),
            _ => {}
        }
    }

    // Or run it to its end: the result has the text, the number of iterations and the conversation.
    let plain = Loop::new(ApiModel::scripted(
        "scripted",
        Script::parse("[[reply]]\ntext = \"42.\"")?,
    ))
    .bare();
    let result = plain.run(&host, "What is six times seven?").await?;
    assert!(matches!(result.ending, Ending::Completed));
    println!(
        "{} after {} iteration, {} messages",
        result.text,
        result.iterations,
        result.thread.len()
    );
    Ok(())
}
