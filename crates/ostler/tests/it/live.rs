//! Multi-turn sessions: their readers, their lifecycle, and the requests they accept.

mod attacks;
mod bounds;
mod changes;
mod documents;
mod fallback;
mod log;
mod pause;
mod per_turn;
mod permissions;
mod provider;
mod readers;
mod restart;
