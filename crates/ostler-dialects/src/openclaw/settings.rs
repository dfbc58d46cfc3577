//! Settings of OpenClaw, as one flat table.

use ostler_core::dialect::Setting;
use ostler_core::spec::keys;

use crate::settings::rows;

/// The setting that selects the transport.
pub(super) const TRANSPORT: &str = "transport";

/// Its value for the Agent Client Protocol.
pub(super) const ACP: &str = "acp";

/// Fallback models.
pub(super) const FALLBACK: &str = "fallback";

/// The setting for a configuration file, and the one to use none.
pub(super) const CONFIG: &str = "config";
pub(super) const ISOLATED: &str = "isolated";

/// The table. Arguments are passed in this order, as `--flag=value`, so that none is mistaken for
/// a flag.
pub(super) const TABLE: &[Setting] = &rows! {
    TRANSPORT, OneOf(&["exec", ACP]), "Protocol between Ostler and the agent: exec (one process per turn, one document at the end) or acp (default: exec). acp needs a running gateway (openclaw gateway run).";
    keys::MODEL, Word => Value("--model="), "Model to use, as provider/model.";
    FALLBACK, List => Value("--fallback="), "Fallback model if the first one fails. Repeatable.";
    "thinking", Word => Value("--thinking="), "Reasoning effort of the model.";
    "timeout", Count => Value("--timeout="), "OpenClaw's own time limit for a turn, in seconds.";
    CONFIG, Text(4096) => Value("--config="), "OpenClaw configuration file.";
    ISOLATED, Switch => Switch("--isolated"), "Ignore the user's configuration and state.";
    "state_dir", Text(4096) => Value("--state-dir="), "Directory for OpenClaw's state.";
};
