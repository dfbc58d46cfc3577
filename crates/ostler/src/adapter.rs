//! Any agent or server as a plain model: messages go in, one reply comes out, and whoever asked runs the tools.
//!
//! ```
//! use ostler::adapter::{Message, ModelAdapter, Models};
//! use ostler::{Agents, Host};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let models = Models::new(Host::new(std::env::vars_os()), Agents::builtin());
//! let model = models.get("scripted").expect("it is always there"); // or claude-cli:sonnet, codex-cli, openai:gpt-5-mini, …
//! let reply = model.invoke(&[Message::user("hello")]).await.expect("the script has an answer");
//! println!("{}", reply.content);
//! # });
//! ```
//!
//! A [`ModelAdapter`] is made from an agent ([`AgentModel`]), from a server or a script ([`Models`]), or by whoever
//! implements the trait. [`ModelAdapter::bind_tools`] gives an adapter that knows tools, and leaves the one it was called on as it
//! was: document 000 changes the adapter itself, so that whoever holds it has the tools too; here the one that is returned is
//! the one to use, and two tasks can bind different tools to one model.

mod agent;
mod api;
mod choice;
mod reply_session;
mod served;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ostler_core::event::{Text, TextKind};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::ToolOffer;
use ostler_core::usage::Usage;

pub use agent::{AgentModel, Calling, ModelOptions};
pub use api::ApiModel;
pub use choice::{ModelChoice, Models, UnknownModel};
pub use ostler_dialects::plain::{Content, Message, Reply, Stop, ToolRequest};
pub(crate) use served::Served;

/// What a model answers, some day.
pub type ReplyFuture<'a> = Pin<Box<dyn Future<Output = Result<Reply, ModelError>> + Send + 'a>>;

/// A model: messages go in, a reply comes out. It keeps nothing between two calls that the caller would have to know of.
pub trait ModelAdapter: Send + Sync {
    /// What it is called: `claude-cli:sonnet`, for example.
    fn name(&self) -> &str;

    /// Asks for a reply to a conversation. Dropping the future calls it off.
    fn invoke<'a>(&'a self, messages: &'a [Message]) -> ReplyFuture<'a> {
        self.invoke_with_updates(messages, Updates::nobody())
    }

    /// The same, and tells what is said while it is said.
    fn invoke_with_updates<'a>(
        &'a self,
        messages: &'a [Message],
        updates: Updates,
    ) -> ReplyFuture<'a>;

    /// A model that knows these tools, in place of those that this one knows. This one stays as it is.
    fn bind_tools(&self, tools: Vec<ToolOffer>) -> Arc<dyn ModelAdapter>;

    /// Whether what several replies have used is told with the last of them: an agent that waits for tools in the middle of
    /// its turn says it at the end.
    fn counts_at_the_end(&self) -> bool {
        false
    }

    /// Whether it can be expected to count tokens at all.
    fn counts(&self) -> bool {
        true
    }

    /// The same model without the costs and tokens told only at the end, where there is such a choice.
    fn counting_each_reply(&self) -> Option<Arc<dyn ModelAdapter>> {
        None
    }
}

/// Who is told what a model says, while it says it.
#[derive(Clone)]
pub struct Updates(Option<Arc<Tell>>);

type Tell = dyn Fn(&Update) + Send + Sync;

/// What a model says, while it says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Update {
    /// A piece of the reply. A block of JSON by which tools are called is not among the pieces.
    Text(String),
    /// A piece of its reasoning.
    Thinking(String),
    /// It lives.
    Alive,
}

impl Updates {
    /// Nobody is told.
    #[must_use]
    pub fn nobody() -> Self {
        Self(None)
    }

    /// This function is told. It must not take long: the model waits for it.
    pub fn to(tell: impl Fn(&Update) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    /// Tells it.
    pub fn tell(&self, update: &Update) {
        if let Some(tell) = &self.0 {
            tell(update);
        }
    }

    fn text(&self, text: Text) {
        self.tell(&match text.kind {
            TextKind::Reply => Update::Text(text.text),
            TextKind::Thinking => Update::Thinking(text.text),
        });
    }
}

/// There is no reply.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}", .outcome.message)]
pub struct ModelError {
    /// Why, with a cause that a program can branch on.
    pub outcome: Box<Outcome>,
    /// What was used all the same.
    pub usage: Vec<Usage>,
}

impl ModelError {
    /// An error with this outcome.
    #[must_use]
    pub fn new(outcome: Outcome) -> Self {
        Self {
            outcome: Box::new(outcome),
            usage: Vec::new(),
        }
    }

    /// Why.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.outcome.cause
    }
}

/// There is no reply, and the time is over.
fn too_late(time: Duration) -> Outcome {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Outcome::new(
        Cause::WallLimit,
        format!("There was no reply within {time:?}."),
    )
    .hint("Allow more time (--reply-timeout; ModelOptions::timeout).")
    .with(|detail| detail.limit_ms = Some(millis))
}

/// A tool, as a model is told about it.
#[must_use]
pub fn offer(tool: &dyn crate::Tool) -> ToolOffer {
    crate::tool::offer(tool)
}
