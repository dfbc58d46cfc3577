//! The whole program: what it prints, how it exits, what it leaves behind; with the fake agent and with the real one.

mod guard;
mod real;
mod shown;
mod slow;
mod usage;
