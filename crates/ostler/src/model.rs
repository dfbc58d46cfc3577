//! Models: a request goes in, a stream of payloads comes out, over HTTP or from a script.

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

/// The payloads of an answer as they arrive.
pub(crate) type AnswerStream = Pin<Box<dyn Stream<Item = Result<AnswerPiece, Failed>> + Send>>;

/// One item of an answer's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AnswerPiece {
    /// A payload: one line of JSON, or `[DONE]`.
    Payload(String),
    /// A sign of life without data.
    Alive,
}

/// A source of answers.
pub(crate) trait Model: Send + Sync {
    /// Requests an answer. Dropping the future or the answer cancels the request.
    fn call<'a>(
        &'a self,
        request: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<AnswerStream, Failed>> + Send + 'a>>;

    /// Returns the name of the model.
    fn name<'a>(&'a self) -> Pin<Box<dyn Future<Output = Result<String, Failed>> + Send + 'a>>;

    /// Whether the model can be expected to report token counts.
    fn reports_usage(&self) -> bool {
        true
    }

    /// Whether this is OpenAI's own server.
    fn is_official(&self) -> bool {
        false
    }
}
