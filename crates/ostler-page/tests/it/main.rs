//! The page as a whole: its files, its documents, and what hostile text becomes on it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "errors fail the test"
)]

mod documents;
mod files;
mod hostile;
mod html;
