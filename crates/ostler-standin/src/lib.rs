//! A scripted stand-in for a model provider: real agents talk to it over loopback and get the answers a test wrote.
//!
//! `script` decides which answer a request gets, one file per provider (`anthropic`, `openai`, `gemini`) renders it on the wire,
//! `server` is the HTTP around them. Another provider joins as a sibling of `openai`.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    reason = "it serves tests and trials: what cannot be served is a failure of those, and its clock only waits"
)]

mod anthropic;
mod answer;
mod chat_calls;
mod gemini;
mod ids;
mod manner;
mod openai;
mod request;
mod script;
mod server;
mod wire;

pub use answer::{Answer, Block, Ending, Failure, Usage};
pub use manner::{Delivery, Framing, Manner, Reasoning, Shape, Tokens};
pub use request::{Request, ToolResult};
pub use script::{Rule, Script, When};
pub use server::ModelServer;
