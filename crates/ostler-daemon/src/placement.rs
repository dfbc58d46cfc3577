//! Placement of a session: on this machine, or on a worker of a fleet.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Runs a session on a worker of the fleet that the daemon belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetPlacement {
    /// Labels that the worker must have.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// URL of a Git repository that workers can reach. Without one, the repository of `dir` is
    /// sent, without changes that are not committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The commit to begin with; that of the repository's `HEAD` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}
