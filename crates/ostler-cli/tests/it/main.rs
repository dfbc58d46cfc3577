//! The whole program: what it prints, how it exits, what it leaves behind; with the fake agent and with the real one.

#![expect(clippy::disallowed_methods, reason = "tests start the program and watch the clock")]

mod guard;
mod real;
mod rig;
mod shown;
mod slow;
mod usage;
