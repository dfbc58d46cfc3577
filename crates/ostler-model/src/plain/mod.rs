//! Any agent as a plain model: messages become one prompt, and tool calls are returned as a JSON
//! block in the answer.
//!
//! The convention: each message has a label such as `[User]`, the tools are listed, and one fenced
//! JSON block calls them. [`write_reply`] writes that format and [`read_reply`] parses it.

mod gate;
mod prompt;
mod read;
mod tolerant;

pub use gate::Gate;
pub use prompt::{tool_preamble, write_messages, write_reply};
pub use read::{ParsedReply, read_reply};

#[cfg(test)]
mod tests;
