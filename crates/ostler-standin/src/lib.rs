//! A scripted stand-in for a model provider: real agents talk to it over loopback and get the answers a test wrote.
//!
//! `script` decides which answer a request gets, one file per provider (`anthropic`, `openai`, `responses`, `gemini`) renders
//! it on the wire, `server` is the HTTP around them, `asides` knows what no script is about, `offline` says how each agent is made to talk to it. Another provider
//! joins as a sibling of `openai`.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "it serves tests and trials: what cannot be served is a failure of those, and its clock only waits"
)]

mod anthropic;
mod answer;
mod asides;
mod chat_calls;
mod gemini;
mod ids;
mod server_style;
mod offline;
mod openai;
mod request;
mod responses;
mod script;
mod server;
mod wire;

pub use answer::{Answer, Block, Ending, Failure, Usage};
pub use offline::{KEY, MODEL, Offline};
pub use request::{Request, ToolResult};
pub use script::{Rule, Script, When};
pub use server::ModelServer;
pub use server_style::{Delivery, Framing, Manner, Reasoning, Shape, Tokens};
