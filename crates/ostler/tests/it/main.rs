//! The library against the scripted fake agent (its misbehaviour on command) and against the real Claude Code.

mod processes;
mod real;
mod slow;
mod streams;
