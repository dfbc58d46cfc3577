//! Ostler's web page: embedded assets, transcripts as safe HTML, and self-contained documents.
//!
//! Everything here is pure: events come in, and values that serialize to JSON, or HTML, go out. The
//! daemon serves them, `ostler sessions export` writes them, and reports embed them.
//!
//! Texts of agents, models and tools are untrusted. They become HTML only in [`markdown`].

pub mod assets;
pub mod bundle;
pub mod changes;
pub mod diff;
pub mod export;
pub mod item;
pub mod markdown;
pub mod page;
pub mod timeline;
pub mod tools;
pub mod transcript;
