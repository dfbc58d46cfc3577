//! What a caller puts around a loop: a check of its result, hooks between its rounds, a person it may ask.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ostler_core::spec::ToolOffer;
use ostler_dialects::openai::runner_protocol::When;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tool;

pub use ostler_dialects::openai::runner_protocol::Flow;

/// What a check came to: nothing to say, or why the work is not done.
pub type VerifyFuture<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// Checks the result of a loop before it counts. The reason goes back to the model, and the loop goes on.
pub trait Verify: Send + Sync {
    /// Whether the work is done; `answer` is what the model says about it.
    fn verify<'a>(&'a self, answer: &'a str) -> VerifyFuture<'a>;
}

impl<F, R> Verify for F
where
    F: Fn(String) -> R + Send + Sync,
    R: Future<Output = Result<(), String>> + Send + 'static,
{
    fn verify<'a>(&'a self, answer: &'a str) -> VerifyFuture<'a> {
        Box::pin(self(answer.to_owned()))
    }
}

/// What a hook says, some day.
pub type FlowFuture<'a> = Pin<Box<dyn Future<Output = Flow> + Send + 'a>>;

/// Has its say before and after each round of a loop. Rounds are counted from 1, anew in each turn.
pub trait Middleware: Send + Sync {
    /// Before the model is asked.
    fn before(&self, _iteration: u64) -> FlowFuture<'_> {
        Box::pin(async { Flow::Go })
    }

    /// When its answer is there and its tools are through.
    fn after(&self, _iteration: u64) -> FlowFuture<'_> {
        Box::pin(async { Flow::Go })
    }
}

/// What a person says, some day; none when nobody is there.
pub type PersonFuture<'a> = Pin<Box<dyn Future<Output = Option<String>> + Send + 'a>>;

/// Answers questions of the model's.
pub trait Person: Send + Sync {
    /// The answer; none when nobody is there, which ends the turn with cause `needs_input`.
    fn answer<'a>(&'a self, question: &'a str) -> PersonFuture<'a>;
}

impl<F, R> Person for F
where
    F: Fn(String) -> R + Send + Sync,
    R: Future<Output = Option<String>> + Send + 'static,
{
    fn answer<'a>(&'a self, question: &'a str) -> PersonFuture<'a> {
        Box::pin(self(question.to_owned()))
    }
}

/// All of it.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) verify: Option<Arc<dyn Verify>>,
    pub(crate) hooks: Vec<Arc<dyn Middleware>>,
    /// Whether the model may ask a person, and who that is.
    pub(crate) asks: bool,
    pub(crate) person: Option<Arc<dyn Person>>,
    pub(crate) tool_timeout: Option<Duration>,
}

/// The tool by which a model asks a person.
pub const ASK_PERSON: &str = "ask_person";

/// What the tool takes.
#[derive(Deserialize, JsonSchema)]
struct Question {
    /// What you want to know, as one question.
    question: String,
}

impl Hooks {
    /// What the model is told about the tool by which it asks a person.
    pub(crate) fn offer(&self) -> Option<ToolOffer> {
        let description = "Asks the person you work for a question, and gives the answer. Only for what you cannot find out or \
                           decide yourself.";
        let ask = tool::tool(ASK_PERSON, description, |Question { .. }| async {
            Ok(String::new())
        });
        self.asks.then(|| tool::offer(&ask))
    }

    /// The question in a call of that tool.
    pub(crate) fn question(input: &str) -> Result<String, String> {
        serde_json::from_str(input)
            .map(|Question { question }| question)
            .map_err(|error| error.to_string())
    }

    /// What the hooks say, all of them: the first that stops the loop ends it, and everything that is said is told.
    pub(crate) async fn flow(&self, when: When, iteration: u64) -> Flow {
        let mut said = Vec::new();
        for hook in &self.hooks {
            let flow = match when {
                When::Before => hook.before(iteration).await,
                When::After => hook.after(iteration).await,
            };
            match flow {
                Flow::Go => {}
                Flow::Say(text) => said.push(text),
                stop @ Flow::Stop(_) => return stop,
            }
        }
        if said.is_empty() {
            Flow::Go
        } else {
            Flow::Say(said.join("\n\n"))
        }
    }
}
