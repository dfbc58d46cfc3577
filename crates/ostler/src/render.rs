//! Rendering of events for people: file changes as diffs, tool calls as one line, whole sessions as
//! Markdown. The crate `ostler-page` renders sessions as HTML.
//!
//! ```
//! use ostler::render::clip;
//!
//! // What an agent says cannot move the cursor or reverse a line.
//! assert_eq!(clip::sanitize("safe\u{1b}[2J"), "safe");
//! ```

pub use ostler_core::export::{Export, ExportFormat};
pub use ostler_core::{change, clip, display};
