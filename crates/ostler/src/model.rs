//! Models: a request goes in, the parts of a reply come out. There are three: a server, a script,
//! and an adapter around an agent or anything else ([`crate::adapter`]).

pub(crate) mod account;
#[cfg(feature = "api")]
mod http;
#[cfg(any(test, not(feature = "api")))]
#[cfg_attr(feature = "api", expect(dead_code, reason = "compiled for its test"))]
mod http_absent;
mod script;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use ostler_model::runner_protocol::{Failed, FailedKind};
use ostler_model::{ModelRequest, Part};

#[cfg(feature = "api")]
pub(crate) use http::Http;
#[cfg(not(feature = "api"))]
pub(crate) use http_absent::Http;
pub(crate) use script::Scripted;
pub use script::{Script, ScriptError};

/// A reply as it arrives.
pub(crate) type ReplyStream = BoxStream<'static, Result<ReplyItem, Failed>>;

/// A future that resolves to the answer of a model, or its failure.
pub(crate) type ModelFuture<'a, T> = BoxFuture<'a, Result<T, Failed>>;

/// One item of a reply's stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReplyItem {
    /// A payload of an OpenAI-compatible server: one line of JSON, or `[DONE]`. Recordings contain
    /// it verbatim; [`openai::decode`](ostler_model::openai::decode) returns its parts.
    #[cfg_attr(
        not(feature = "api"),
        expect(dead_code, reason = "only a server sends it")
    )]
    Chunk(String),
    /// Parts of the reply.
    Parts(Vec<Part>),
    /// A sign of life without data.
    Alive,
}

/// A source of replies.
pub(crate) trait Model: Send + Sync {
    /// Requests a reply. Dropping the future or the reply cancels the request.
    fn call<'a>(&'a self, request: &'a ModelRequest) -> ModelFuture<'a, ReplyStream>;

    /// Returns the name of the model.
    fn name(&self) -> ModelFuture<'_, String>;

    /// Whether the model can be expected to report token counts.
    fn reports_usage(&self) -> bool {
        true
    }

    /// Whether this is OpenAI's own server.
    fn is_official(&self) -> bool {
        false
    }
}

/// Creates a failure of this kind.
pub(crate) fn failure(kind: FailedKind, message: impl Into<String>) -> Failed {
    Failed {
        kind,
        message: message.into(),
        ..Failed::default()
    }
}
