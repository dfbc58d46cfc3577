//! Processes: how an agent is started, what it may see, how it is ended, and that nothing is left
//! behind.

mod environment;
mod leftovers;
mod probe;
mod spawn_errors;
mod start;
mod stop;
