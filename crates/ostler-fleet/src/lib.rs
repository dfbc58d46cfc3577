//! Fleet: trials and sessions on other machines, over NATS JetStream.
//!
//! An *owner* publishes signed work items; a *worker* pulls those that it can run, asks the owner
//! for a lease, and sends events, usage and the result back. The owner's store stays the truth: the
//! server carries messages, and can lose work but not run code.
//!
//! Reading order: `subject`, `item` and `message` are the pure part of the protocol, `seal` and
//! `key` its signatures, `policy` what a worker agrees to run. `nats` is the only door to the
//! client library. `worker` and `owner` are the two sides; `setup` writes the files of a fleet, and
//! `permission` says what its members may do on the server.

mod archive;
mod attachment;
mod clock;
pub mod item;
pub mod key;
pub mod member;
pub mod message;
pub mod nats;
pub mod owner;
pub mod permission;
pub mod policy;
pub mod seal;
pub mod session_work;
pub mod setup;
mod spool;
pub mod status;
pub mod subject;
pub mod worker;
