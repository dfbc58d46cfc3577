//! Sums of tokens and costs over turns, by agent, model, day or directory.

use ostler_core::event::Timestamp;
use ostler_core::usage::{Scope, Usage};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result, Row};

use crate::index::unsigned;
use crate::rows;

/// What to group turns by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageKey {
    /// The agent's name in Ostler.
    Agent,
    /// The model, as the agent names it.
    Model,
    /// The day (UTC) on which the turn started, such as `2026-11-17`.
    Day,
    /// The directory that the agent works in.
    Dir,
}

/// Which turns to sum up, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageQuery {
    /// Only turns that started at or after this time.
    pub since: Option<Timestamp>,
    /// What to group by.
    pub by: UsageKey,
}

/// Tokens and cost of a group of turns.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageGroup {
    /// The agent, model, day or directory. `None` if unknown, and for the total.
    pub key: Option<String>,
    /// Number of sessions with a turn in this group.
    pub sessions: u64,
    /// Number of turns.
    pub turns: u64,
    /// Tokens and cost.
    pub usage: Usage,
}

/// Tokens and cost of turns by group.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageReport {
    /// The groups: days in order, others by number of tokens, largest first.
    pub groups: Vec<UsageGroup>,
    /// The sum of all groups.
    pub total: UsageGroup,
}

/// The usage of every turn: by model if known, otherwise its total. Turns of agents that never
/// started are left out.
const PARTS: &str = "WITH parts AS (
    SELECT part.session, part.turn, nullif(part.model, '') AS model, turns.began_at, part.input, part.cache_read,
        part.cache_write, part.output, part.reasoning, part.cost_usd, part.cost_source
    FROM model_usage AS part JOIN turns ON turns.session = part.session AND turns.turn = part.turn
    UNION ALL
    SELECT session, turn, NULL, began_at, input, cache_read, cache_write, output, reasoning, cost_usd, cost_source
    FROM turns WHERE ended_at IS NOT NULL
        AND (cost_source IS NOT NULL
            OR EXISTS (SELECT 1 FROM events WHERE events.session = turns.session AND type = 'started'))
        AND NOT EXISTS (SELECT 1 FROM model_usage AS part WHERE part.session = turns.session AND part.turn = turns.turn)
)";

/// The columns that [`group`] reads after the key.
const SUMS: &str = "count(DISTINCT parts.session), count(DISTINCT parts.session || '/' || parts.turn),
    sum(input), sum(cache_read), sum(cache_write), sum(output), sum(reasoning), sum(parts.cost_usd),
    CASE WHEN count(parts.cost_usd) = 0 THEN 'unknown'
         WHEN count(*) > count(parts.cost_usd) OR sum(parts.cost_source = 'partial') > 0 THEN 'partial'
         WHEN sum(parts.cost_source = 'estimated') > 0 THEN 'estimated' ELSE 'reported' END";

/// Sums up usage by group.
pub(crate) fn report(db: &Connection, query: &UsageQuery) -> Result<UsageReport> {
    let key = match query.by {
        UsageKey::Agent => "sessions.agent",
        UsageKey::Model => "coalesce(parts.model, sessions.model)",
        UsageKey::Day => "date(parts.began_at / 1000, 'unixepoch')",
        UsageKey::Dir => "sessions.dir",
    };
    let order = match query.by {
        UsageKey::Day => "1",
        UsageKey::Agent | UsageKey::Model | UsageKey::Dir => {
            "total(input) + total(cache_read) + total(cache_write) + total(output) DESC, 1"
        }
    };
    let from = "FROM parts JOIN sessions ON sessions.key = parts.session WHERE ?1 IS NULL OR parts.began_at >= ?1";
    let since = query.since.map(|at| at.0);
    let mut groups = db.prepare_cached(&format!(
        "{PARTS} SELECT {key}, {SUMS} {from} GROUP BY 1 ORDER BY {order}"
    ))?;
    let groups = groups.query_map([since], group)?.collect::<Result<_>>()?;
    let total = db
        .prepare_cached(&format!("{PARTS} SELECT NULL, {SUMS} {from}"))?
        .query_row([since], group)?;
    Ok(UsageReport { groups, total })
}

fn group(row: &Row<'_>) -> Result<UsageGroup> {
    let key = match row.get_ref(0)? {
        ValueRef::Null => None,
        value => Some(rows::dir(value).to_string_lossy().into_owned()),
    };
    let count = |column| {
        row.get::<_, Option<i64>>(column)
            .map(|number| number.map(unsigned))
    };
    let source: String = row.get(9)?;
    let usage = Usage {
        input: count(3)?,
        cache_read: count(4)?,
        cache_write: count(5)?,
        output: count(6)?,
        reasoning: count(7)?,
        cost_usd: row.get(8)?,
        cost_source: rows::cost_source(Some(&source)),
        ..Usage::unknown(Scope::Session)
    };
    Ok(UsageGroup {
        key,
        sessions: unsigned(row.get(1)?),
        turns: unsigned(row.get(2)?),
        usage,
    })
}
