//! Events: what an agent says and does, as one typed stream.
//!
//! Every [`Event`] has a sequence number, a time and a [kind](EventKind). Events are serialized as
//! one line of JSON each; `docs/events.md` describes every kind.
//!
//! ```
//! use ostler::EventKind;
//!
//! // A line of `ostler run --output jsonl`.
//! let line = r#"{"seq":7,"type":"notice","level":"info","code":"verified","message":"Done."}"#;
//! let kind = EventKind::from_json(line)?;
//! assert!(matches!(kind, EventKind::Notice(notice) if notice.message == "Done."));
//! # Ok::<(), serde_json::Error>(())
//! ```

pub use ostler_core::event::*;
pub use ostler_core::raw_json::RawJson;
pub use ostler_core::usage::{CostSource, Scope, Usage};
