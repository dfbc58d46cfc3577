//! Model adapters: any agent or server as a plain model. Messages go in, one reply comes out, and
//! the caller runs the tools.
//!
//! ```
//! use ostler::adapter::{Message, ModelAdapter, Models};
//! use ostler::{Agents, Host};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let models = Models::new(Host::new(std::env::vars_os()), Agents::builtin());
//! // or claude-cli:sonnet, codex-cli, openai:gpt-5-mini, …
//! let model = models.get("scripted").expect("a built-in model");
//! let reply = model.invoke(&[Message::user("hello")]).await.expect("the script has an answer");
//! println!("{}", reply.content);
//! # });
//! ```
//!
//! A [`ModelAdapter`] wraps an agent ([`AgentModel`]), a server or a script ([`Models`]), or
//! anything that implements the trait. [`ModelAdapter::bind_tools`] returns a new adapter and
//! leaves the original unchanged. Two tasks can therefore bind different tools to the same model.

mod adapter_model;
mod agent;
mod api;
mod choice;
mod reply_session;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use ostler_core::event::{Text, TextKind};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::ToolOffer;

pub(crate) use adapter_model::AdapterModel;
pub use agent::{AgentModel, Calling, ModelOptions};
pub use api::ApiModel;
pub use choice::{ModelChoice, Models, UnknownModel};
pub use ostler_model::{Content, Message, ModelError, Reply, Stop, ToolRequest};

pub use crate::tools::offer;

/// A future that resolves to the model's reply.
pub type ReplyFuture<'a> = BoxFuture<'a, Result<Reply, ModelError>>;

/// A model: messages go in, a reply comes out. An adapter keeps no state between calls that a
/// caller has to know about.
pub trait ModelAdapter: Send + Sync {
    /// Returns the adapter's name, such as `claude-cli:sonnet`.
    fn name(&self) -> &str;

    /// Requests a reply to a conversation. Dropping the future cancels the request.
    fn invoke<'a>(&'a self, messages: &'a [Message]) -> ReplyFuture<'a> {
        self.invoke_with_updates(messages, Updates::none())
    }

    /// Requests a reply, and passes on its text as it is generated.
    fn invoke_with_updates<'a>(
        &'a self,
        messages: &'a [Message],
        updates: Updates,
    ) -> ReplyFuture<'a>;

    /// Returns a model that can call these tools, instead of any bound before. `self` is unchanged.
    fn bind_tools(&self, tools: Vec<ToolOffer>) -> Arc<dyn ModelAdapter>;

    /// Whether the usage of several replies is reported with the last one. An agent that waits for
    /// tool results in the middle of its turn reports usage at the end of it.
    fn reports_usage_late(&self) -> bool {
        false
    }

    /// Whether the model can be expected to report token counts.
    fn reports_usage(&self) -> bool {
        true
    }

    /// Returns the same model in a mode that reports usage with every reply, if it has one.
    fn with_usage_per_reply(&self) -> Option<Arc<dyn ModelAdapter>> {
        None
    }
}

/// Receiver of a reply's text while it is generated.
#[derive(Clone)]
pub struct Updates(Option<Arc<OnUpdate>>);

type OnUpdate = dyn Fn(&Update) + Send + Sync;

/// A part of a reply, passed on as it is generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Update {
    /// A piece of the reply. JSON blocks that call tools are left out.
    Text(String),
    /// A piece of the model's reasoning.
    Thinking(String),
    /// A sign of life without text.
    Alive,
}

impl Updates {
    /// Discards all updates.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Passes updates to a function. The model waits for it, so it must return quickly.
    pub fn to(on_update: impl Fn(&Update) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(on_update)))
    }

    /// Passes on one update.
    pub fn send(&self, update: &Update) {
        if let Some(on_update) = &self.0 {
            on_update(update);
        }
    }

    fn text(&self, text: Text) {
        self.send(&match text.kind {
            TextKind::Reply => Update::Text(text.text),
            TextKind::Thinking => Update::Thinking(text.text),
        });
    }
}

/// Returns the error of a reply that failed for this cause.
fn model_error(cause: Cause, message: impl Into<String>) -> ModelError {
    ModelError::new(Outcome::new(cause, message))
}

/// Returns the error of a request without messages.
fn no_messages() -> ModelError {
    model_error(Cause::BadRequest, "There are no messages to reply to.")
}

/// Returns the error of a reply that timed out.
fn reply_timed_out(time: Duration) -> ModelError {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let message = format!("The model did not reply within {time:?}.");
    let outcome = Outcome::new(Cause::WallLimit, message)
        .hint("Allow more time (--reply-timeout; ModelOptions::timeout).")
        .with(|detail| detail.limit_ms = Some(millis));
    ModelError::new(outcome)
}
