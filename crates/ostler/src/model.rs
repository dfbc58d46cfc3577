//! A model: a request goes in, the payloads of a streamed answer come out. Over HTTP, or from a script.

pub(crate) mod account;
#[cfg(feature = "api")]
mod http;
#[cfg(any(test, not(feature = "api")))]
#[cfg_attr(feature = "api", expect(dead_code, reason = "compiled for its test"))]
mod http_absent;
mod script;

use std::future::Future;
use std::pin::Pin;

use futures_util::Stream;
use ostler_dialects::openai::runner_protocol::Failed;

#[cfg(feature = "api")]
pub(crate) use http::Http;
#[cfg(not(feature = "api"))]
pub(crate) use http_absent::Http;
pub use script::Script;
pub(crate) use script::Scripted;

/// The payloads of an answer, as they come.
pub(crate) type Answer = Pin<Box<dyn Stream<Item = Result<Piece, Failed>> + Send>>;

/// One piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A payload: one line of JSON, or `[DONE]`.
    Payload(String),
    /// The connection lives; nothing was said.
    Alive,
}

/// Where answers come from.
pub(crate) trait Model: Send + Sync {
    /// Asks for an answer. Dropping the future, or the answer, calls it off.
    fn call<'a>(
        &'a self,
        request: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Answer, Failed>> + Send + 'a>>;

    /// The name of the model that is asked.
    fn name<'a>(&'a self) -> Pin<Box<dyn Future<Output = Result<String, Failed>> + Send + 'a>>;

    /// Whether it can be expected to count tokens.
    fn counts(&self) -> bool {
        true
    }

    /// Whether it is OpenAI's own server.
    fn is_official(&self) -> bool {
        false
    }
}
