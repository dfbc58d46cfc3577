//! Any agent as a plain model: messages become one prompt, and tool calls come back as a block of JSON in its answer.
//!
//! Document 000 describes the convention: labels such as `[User]` before each message, the tools as a list, and one fenced
//! block of JSON as the way to call them. What is written here is read back here ([`write_reply`], [`read_reply`]).

mod gate;
mod message;
mod prompt;
mod read;
mod tolerant;

pub use gate::Gate;
pub use message::{Content, Message, Reply, Stop, ToolRequest};
pub use prompt::{tool_preamble, write_messages, write_reply};
pub use read::{Said, read_reply};

#[cfg(test)]
mod tests;
