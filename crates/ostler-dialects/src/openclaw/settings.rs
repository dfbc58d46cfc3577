//! Settings of OpenClaw, as one flat table.

use ostler_core::spec::{ValueKind, keys};

use crate::settings::Row;

/// The setting that selects the transport.
pub(super) const TRANSPORT: &str = "transport";

/// Its value for the Agent Client Protocol.
pub(super) const ACP: &str = "acp";

/// Fallback models.
pub(super) const FALLBACK: &str = "fallback";

/// The setting for a configuration file, and the one to use none.
pub(super) const CONFIG: &str = "config";
pub(super) const ISOLATED: &str = "isolated";

/// How a setting becomes arguments. Values are always passed as `--flag=value`, so that none is
/// mistaken for a flag.
pub(super) enum Pass {
    /// `--flag=value` for each value.
    Each(&'static str),
    /// The flag, if the switch is on.
    Switch(&'static str),
    /// Not passed to the program.
    Ours,
}

macro_rules! rows {
    ($($key:expr, $kind:expr, $pass:expr, $help:literal;)*) => {
        &[$(Row { key: $key, kind: $kind, rule: None, secret: false, pass: $pass, help: $help },)*]
    };
}

/// The table. Arguments are passed in this order.
pub(super) const TABLE: &[Row<Pass>] = rows! {
    TRANSPORT, ValueKind::OneOf(&["exec", ACP]), Pass::Ours, "Protocol between Ostler and the agent: exec (one process per turn, one document at the end) or acp (default: exec). acp needs a running gateway (openclaw gateway run).";
    keys::MODEL, ValueKind::Word, Pass::Each("--model"), "Model to use, as provider/model.";
    FALLBACK, ValueKind::List, Pass::Each("--fallback"), "Fallback model if the first one fails. Repeatable.";
    "thinking", ValueKind::Word, Pass::Each("--thinking"), "Reasoning effort of the model.";
    "timeout", ValueKind::Count, Pass::Each("--timeout"), "OpenClaw's own time limit for a turn, in seconds.";
    CONFIG, ValueKind::Text(4096), Pass::Each("--config"), "OpenClaw configuration file.";
    ISOLATED, ValueKind::Switch, Pass::Switch("--isolated"), "Ignore the user's configuration and state.";
    "state_dir", ValueKind::Text(4096), Pass::Each("--state-dir"), "Directory for OpenClaw's state.";
};
