//! Scripted stand-in for model providers: real agents connect to it over loopback and get the
//! answers of a script.
//!
//! `script` selects the answer to a request. One module per provider (`anthropic`, `openai`,
//! `responses`, `gemini`) renders it, and `server` serves it over HTTP. `side_calls` answers
//! requests that are not part of a script. A new provider is a sibling of `openai`.

#![expect(
    clippy::expect_used,
    reason = "serves tests and trials, which a panic fails"
)]

mod anthropic;
mod answer;
mod side_calls;
mod chat_calls;
mod gemini;
mod ids;
mod server_style;
mod openai;
mod request;
mod responses;
mod script;
mod server;
mod wire;

pub use answer::{Answer, Block, Ending, Failure, Usage};
pub use request::{Request, ToolResult};
pub use script::{Rule, Script, ScriptError, When};
pub use server::ModelServer;
pub use server_style::{Delivery, Framing, Reasoning, ServerStyle, Shape, Tokens};
