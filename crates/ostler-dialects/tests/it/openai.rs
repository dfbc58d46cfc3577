//! The tool loop of the model agents.

mod any_order;
mod asking;
mod context;
mod rebuild;
mod stage;
mod steering;
mod turns;
