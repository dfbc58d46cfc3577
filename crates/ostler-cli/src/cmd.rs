//! Verbs of the program, one module each: `ostler run` is `cmd::run`.

pub(crate) mod acp;
pub(crate) mod approvals;
pub(crate) mod attach;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod eval;
pub(crate) mod fleet;
pub(crate) mod interrupt;
pub(crate) mod r#loop;
pub(crate) mod man;
pub(crate) mod open;
pub(crate) mod policy;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod sandbox;
pub(crate) mod schema;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod stop;
pub(crate) mod trust;
pub(crate) mod usage;
pub(crate) mod version;
pub(crate) mod worker;
