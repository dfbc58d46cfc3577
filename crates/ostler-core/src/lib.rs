//! Types and pure state machines shared by every Ostler crate.
//!
//! Nothing here spawns a process, opens a file, reads a clock or knows an agent by name. Bytes and
//! times are arguments, and decisions are return values, so everything can be tested with tables
//! and random input.
//!
//! Reading order: [`lines`] splits bytes into lines, a [`dialect`] translates each line into
//! [`event`]s, and the [`machine`] decides what they mean for the session. [`outcome`] and
//! [`usage`] describe how a turn ended and what it cost.

pub mod names;
pub mod near;
pub mod raw_json;
pub mod rotation;
pub mod lines;
pub mod lenient;
pub mod surrogates;
pub mod clip;
mod codes;
pub mod outcome;
pub mod http_status;
pub mod breaker;
pub mod usage;
pub mod display;
pub mod event;
pub mod log;
pub mod export;
pub mod matching;
pub mod permission;
pub mod change;
pub mod size;
pub mod spec;
pub mod dialect;
pub mod machine;
pub mod request;
