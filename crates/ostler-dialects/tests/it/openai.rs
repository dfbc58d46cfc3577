//! The tool loop of the model agents.

mod any_order;
mod permissions;
mod context;
mod rebuild;
mod harness;
mod steering;
mod turns;
