//! Tokens and cost by group, as they are on the wire.

use ostler_core::usage::Usage;
use ostler_store::{UsageGroup, UsageReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tokens and cost of turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageSums {
    /// The agent, model, day or directory; null if unknown, and for the total.
    pub key: Option<String>,
    /// Number of sessions with a turn in this group.
    pub sessions: u64,
    /// Number of turns.
    pub turns: u64,
    /// Tokens and cost.
    pub usage: Usage,
    /// The group by the second key. A session or turn can be in several parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<UsageSums>>,
}

impl UsageSums {
    fn of(group: UsageGroup, is_split: bool) -> Self {
        let parts = group.parts.into_iter().map(|part| Self::of(part, false));
        Self {
            key: group.key,
            sessions: group.sessions,
            turns: group.turns,
            usage: group.usage,
            parts: is_split.then(|| parts.collect()),
        }
    }
}

/// Tokens and cost by group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageTable {
    /// The key: `agent`, `model`, `day` or `dir`.
    pub by: String,
    /// The second key, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// The groups: days in order, others by number of tokens, largest first.
    pub groups: Vec<UsageSums>,
    /// The sum of all groups.
    pub total: UsageSums,
}

impl UsageTable {
    /// Returns a report by the names of its keys.
    #[must_use]
    pub fn of(report: UsageReport, by: &str, split: Option<&str>) -> Self {
        let groups = report.groups.into_iter();
        Self {
            by: by.to_owned(),
            split: split.map(str::to_owned),
            groups: groups
                .map(|it| UsageSums::of(it, split.is_some()))
                .collect(),
            total: UsageSums::of(report.total, false),
        }
    }
}
