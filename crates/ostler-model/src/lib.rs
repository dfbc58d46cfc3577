//! The parts that make a model an agent: messages and replies, the tool loop, the context window
//! and the accounting. All of it is pure.
//!
//! The loop decides; a runner outside this crate calls the model and runs the tools. The two
//! communicate through [`runner_protocol`]. The wire types of OpenAI's API are our own rather than
//! a client library's: a missing `index` or an unknown `finish_reason` must not lose an answer
//! (pitfall P63; docs/design/decisions.md).

mod calls;
mod config;
mod context;
mod conversation;
mod history;
mod message;
mod part;
mod prices;
mod rebuild;
mod reply;
mod request;
mod structured;
mod system;
mod tool_schema;
mod tool_use;
mod usage;

pub mod openai;
pub mod plain;
pub mod runner_protocol;

pub use calls::Call;
pub use config::{LoopAgent, LoopConfig};
pub use conversation::ModelConversation;
pub use history::History;
pub use message::{Content, Message, ModelError, Reply, Stop, ToolRequest};
pub use part::{Finish, Part};
pub use prices::Price;
pub use rebuild::AWAITING_APPROVAL;
pub use reply::PartialReply;
pub use request::ModelRequest;
pub use structured::{SchemaError, check_schema};
pub use tool_schema::adapt;
pub use tool_use::tool_use;
