//! The nouns and the pure machines of Ostler.
//!
//! Nothing here starts a process, opens a file, reads a clock or knows the name of an agent: bytes and times come in
//! as arguments, decisions go out as data. That is why all of it can be tested with tables and with random input.
//!
//! Reading order: [`lines`] cuts bytes into lines, a [`dialect`] turns a line into [`event`]s and turn endings, the
//! [`machine`] decides what they mean for the session, and [`outcome`] and [`usage`] say how it went and what it cost.

pub mod raw_json;
pub mod rotation;
pub mod lines;
pub mod clip;
pub mod outcome;
pub mod breaker;
pub mod usage;
pub mod brief;
pub mod event;
pub mod log;
pub mod export;
pub mod permission;
pub mod change;
pub mod size;
pub mod spec;
pub mod dialect;
pub mod machine;
