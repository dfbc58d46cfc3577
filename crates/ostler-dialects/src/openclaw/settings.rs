//! Every setting of OpenClaw: one flat table.

use ostler_core::spec::{Kind, keys};

use crate::settings::Row;

/// The setting that chooses the language.
pub(super) const TRANSPORT: &str = "transport";

/// The Agent Client Protocol, in that setting.
pub(super) const ACP: &str = "acp";

/// Models for when the first fails.
pub(super) const FALLBACK: &str = "fallback";

/// A configuration of the program's own, and the absence of any.
pub(super) const CONFIG: &str = "config";
pub(super) const ISOLATED: &str = "isolated";

/// How a setting becomes arguments. Values always go as `--flag=value`, so that none is taken for a flag.
pub(super) enum Pass {
    /// `--flag=value` for each value.
    Each(&'static str),
    /// The flag when the switch is on.
    Switch(&'static str),
    /// Not for the program.
    Ours,
}

macro_rules! rows {
    ($($key:expr, $kind:expr, $pass:expr, $help:literal;)*) => {
        &[$(Row { key: $key, kind: $kind, rule: None, secret: false, pass: $pass, help: $help },)*]
    };
}

/// The table. Arguments come in its order.
pub(super) const TABLE: &[Row<Pass>] = rows! {
    TRANSPORT, Kind::OneOf(&["exec", ACP]), Pass::Ours, "How Ostler talks to the agent: exec (a process per turn, one document at its end) or acp. Without it: exec. acp needs a gateway that runs (openclaw gateway run).";
    keys::MODEL, Kind::Word, Pass::Each("--model"), "The model, as provider/model.";
    FALLBACK, Kind::List, Pass::Each("--fallback"), "A model to use when the first fails; repeatable.";
    "thinking", Kind::Word, Pass::Each("--thinking"), "How hard the model thinks.";
    "timeout", Kind::Count, Pass::Each("--timeout"), "OpenClaw's own limit on the time of a turn, in seconds.";
    CONFIG, Kind::Text(4096), Pass::Each("--config"), "A file with OpenClaw's configuration.";
    ISOLATED, Kind::Switch, Pass::Switch("--isolated"), "Without the user's configuration and state.";
    "state_dir", Kind::Text(4096), Pass::Each("--state-dir"), "The directory that OpenClaw keeps its state in.";
};
