//! The commands that a model may run: their rules, and what confines them.
