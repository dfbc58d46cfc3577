//! OpenAI's chat-completions wire: requests, streamed responses and errors.
//!
//! The types are our own rather than a client library's: a missing `index` or an unknown
//! `finish_reason` must not lose an answer (pitfall P63; docs/design/decisions.md).

mod blame;
mod chunk;
mod decode;
mod encode;
mod sse;

pub use blame::with_reason;
pub use decode::decode;
pub use encode::RequestOptions;
pub use sse::{SseItem, SseParser};
