//! Streams: whatever an agent prints becomes events in order, each turn ends once, and nothing is
//! lost.

mod control;
mod limits;
mod lines;
mod raw_log;
mod reader;
mod recordings;
mod results;
mod mock;
mod scripted;
mod volume;
