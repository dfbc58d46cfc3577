//! Hooks of an agent loop: a check of the result, middleware between rounds, and a person to ask.
//!
//! ```
//! use ostler::Loop;
//! use ostler::adapter::ApiModel;
//! use ostler::testing::Script;
//!
//! let script = Script::parse("[[reply]]\ntext = 'The answer is 42.'").unwrap();
//! let agent = Loop::new(ApiModel::scripted("scripted", script)).verify(
//!     |answer: String| async move {
//!         if answer.contains("42") { Ok(()) } else { Err("There is no number in it.".into()) }
//!     },
//! );
//! ```

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use ostler_core::spec::ToolOffer;
use ostler_model::runner_protocol::When;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tools;

pub use ostler_model::runner_protocol::Flow;

/// The reason why the work is not done, for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotVerified(pub String);

impl<T: Into<String>> From<T> for NotVerified {
    fn from(reason: T) -> Self {
        Self(reason.into())
    }
}

/// A future that resolves to the result of a check.
pub type VerifyFuture<'a> = BoxFuture<'a, Result<(), NotVerified>>;

/// Checks the result of a loop before it is accepted. On failure, the reason is sent to the model
/// and the loop continues.
pub trait Verify: Send + Sync {
    /// Checks whether the work is done; `answer` is the model's final message.
    fn verify<'a>(&'a self, answer: &'a str) -> VerifyFuture<'a>;
}

impl<F, R> Verify for F
where
    F: Fn(String) -> R + Send + Sync,
    R: Future<Output = Result<(), NotVerified>> + Send + 'static,
{
    fn verify<'a>(&'a self, answer: &'a str) -> VerifyFuture<'a> {
        Box::pin(self(answer.to_owned()))
    }
}

/// A future that resolves to the decision of a hook.
pub type FlowFuture<'a> = BoxFuture<'a, Flow>;

/// Runs before and after each round of a loop. Rounds are counted from 1 in each turn.
pub trait Middleware: Send + Sync {
    /// Runs before the model is called.
    fn before(&self, _iteration: u64) -> FlowFuture<'_> {
        Box::pin(async { Flow::Go })
    }

    /// Runs after the model has answered and its tools have run.
    fn after(&self, _iteration: u64) -> FlowFuture<'_> {
        Box::pin(async { Flow::Go })
    }
}

/// A future that resolves to a person's answer, or `None` if there is none.
pub type PersonFuture<'a> = BoxFuture<'a, Option<String>>;

/// Answers questions of the model.
pub trait Person: Send + Sync {
    /// Returns the answer, or `None`, which ends the turn with cause `needs_input`.
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

/// All hooks of an agent loop.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) verify: Option<Arc<dyn Verify>>,
    pub(crate) middleware: Vec<Arc<dyn Middleware>>,
    /// Whether the model may ask a person.
    pub(crate) asks: bool,
    pub(crate) person: Option<Arc<dyn Person>>,
    pub(crate) tool_timeout: Option<Duration>,
}

/// Name of the tool with which a model asks a person.
pub const ASK_PERSON: &str = "ask_person";

/// Arguments of [`ASK_PERSON`].
#[derive(Deserialize, JsonSchema)]
struct AskPersonArgs {
    /// What you want to know, as one question.
    question: String,
}

impl Hooks {
    /// Returns the description of [`ASK_PERSON`] for the model, if it may ask.
    pub(crate) fn offer(&self) -> Option<ToolOffer> {
        let description = "Asks the person you work for a question, and gives the answer. \
                           Only for what you cannot find out or decide yourself.";
        let ask = tools::tool(ASK_PERSON, description, |AskPersonArgs { .. }| async {
            Ok(String::new())
        });
        self.asks.then(|| tools::offer(&ask))
    }

    /// Extracts the question from the arguments of [`ASK_PERSON`].
    pub(crate) fn question(input: &str) -> Result<String, serde_json::Error> {
        serde_json::from_str(input).map(|AskPersonArgs { question }| question)
    }

    /// Runs all middleware. The first that stops the loop wins; otherwise their messages are
    /// joined.
    pub(crate) async fn run_middleware(&self, when: When, iteration: u64) -> Flow {
        let mut messages = Vec::new();
        for hook in &self.middleware {
            let flow = match when {
                When::Before => hook.before(iteration).await,
                When::After => hook.after(iteration).await,
            };
            match flow {
                Flow::Go => {}
                Flow::Say(text) => messages.push(text),
                stop @ Flow::Stop(_) => return stop,
            }
        }
        if messages.is_empty() {
            Flow::Go
        } else {
            Flow::Say(messages.join("\n\n"))
        }
    }
}
