//! Sums of tokens and costs over turns, by agent, model, day or directory.

use std::collections::HashMap;

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
    /// The day on which the turn started, such as `2026-11-17`.
    Day,
    /// The directory that the agent works in.
    Dir,
}

/// Which turns to sum up, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageQuery {
    /// Only turns that started at or after this time.
    pub since: Option<Timestamp>,
    /// Only turns that started before this time.
    pub until: Option<Timestamp>,
    /// What to group by.
    pub by: UsageKey,
    /// What to group the turns of each group by.
    pub split: Option<UsageKey>,
    /// Where days begin.
    pub offset: UtcOffset,
}

impl UsageQuery {
    /// Returns the query for all turns, with days in UTC.
    #[must_use]
    pub fn by(key: UsageKey) -> Self {
        Self {
            since: None,
            until: None,
            by: key,
            split: None,
            offset: UtcOffset::default(),
        }
    }
}

/// Difference between local time and UTC: `Z`, `+02:00` or `-03:30`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UtcOffset {
    minutes: i32,
}

/// The text is not an offset from UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an offset from UTC, such as Z, +02:00 or -03:30")]
pub struct InvalidOffset;

impl std::str::FromStr for UtcOffset {
    type Err = InvalidOffset;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let number = |text: &str, most: i32| {
            let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            let number: i32 = text.parse().map_err(|_| InvalidOffset)?;
            (is_number && number <= most)
                .then_some(number)
                .ok_or(InvalidOffset)
        };
        let (sign, rest) = match text.split_at_checked(1) {
            Some(("Z", "")) => return Ok(Self::default()),
            Some(("+", rest)) => (1, rest),
            Some(("-", rest)) => (-1, rest),
            _ => return Err(InvalidOffset),
        };
        let (hours, minutes) = rest.split_once(':').ok_or(InvalidOffset)?;
        let minutes = number(hours, 23)? * 60 + number(minutes, 59)?;
        Ok(Self {
            minutes: sign * minutes,
        })
    }
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
    /// The group by [`UsageQuery::split`], in the same order as groups. A session or turn can be in
    /// several parts.
    pub parts: Vec<UsageGroup>,
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
    let mut groups = sums(db, query, &[query.by], 0)?;
    if let Some(split) = query.split {
        let mut parts: HashMap<Option<String>, Vec<UsageGroup>> = HashMap::new();
        for (key, part) in sums(db, query, &[query.by, split], 1)? {
            parts.entry(key).or_default().push(part);
        }
        for (key, group) in &mut groups {
            group.parts = parts.remove(key).unwrap_or_default();
        }
    }
    let total = sums(db, query, &[], 0)?.pop();
    let total = total.map(|(_, total)| total);
    Ok(UsageReport {
        groups: groups.into_iter().map(|(_, group)| group).collect(),
        total: total.unwrap_or_else(UsageGroup::empty),
    })
}

/// Returns the first key and the sums of each combination of keys, with the key at `own` as that of
/// the group. Without a key, returns the sum of all.
fn sums(
    db: &Connection,
    query: &UsageQuery,
    keys: &[UsageKey],
    own: usize,
) -> Result<Vec<(Option<String>, UsageGroup)>> {
    let column = |key: &UsageKey| match key {
        UsageKey::Agent => "sessions.agent",
        UsageKey::Model => "coalesce(parts.model, sessions.model)",
        UsageKey::Day => "date((parts.began_at + ?3) / 1000, 'unixepoch')",
        UsageKey::Dir => "sessions.dir",
    };
    let columns: String = keys
        .iter()
        .map(|key| format!("{}, ", column(key)))
        .collect();
    let group_by = match keys.len() {
        0 => "",
        1 => "GROUP BY 1",
        _ => "GROUP BY 1, 2",
    };
    let order = match keys.get(own) {
        None => String::new(),
        Some(UsageKey::Day) => format!("ORDER BY {}", own + 1),
        Some(UsageKey::Agent | UsageKey::Model | UsageKey::Dir) => format!(
            "ORDER BY total(input) + total(cache_read) + total(cache_write) + total(output) DESC, {}",
            own + 1
        ),
    };
    let sql = format!(
        "{PARTS} SELECT {columns}{SUMS} FROM parts JOIN sessions ON sessions.key = parts.session
         WHERE (?1 IS NULL OR parts.began_at >= ?1) AND (?2 IS NULL OR parts.began_at < ?2)
             AND ?3 IS NOT NULL {group_by} {order}"
    );
    let offset = i64::from(query.offset.minutes) * 60_000;
    let mut sums = db.prepare_cached(&sql)?;
    let (since, until) = (query.since.map(|at| at.0), query.until.map(|at| at.0));
    let sums = sums.query_map(rusqlite::params![since, until, offset], |row| {
        let key_at = |at: usize| -> Result<Option<String>> {
            Ok(match row.get_ref(at)? {
                _ if keys.is_empty() => None,
                ValueRef::Null => None,
                value => Some(rows::dir(value).to_string_lossy().into_owned()),
            })
        };
        Ok((key_at(0)?, group(row, key_at(own)?, keys.len())?))
    })?;
    sums.collect()
}

impl UsageGroup {
    fn empty() -> Self {
        Self {
            key: None,
            sessions: 0,
            turns: 0,
            usage: Usage::unknown(Scope::Session),
            parts: Vec::new(),
        }
    }
}

/// Reads the sums of a group, which begin at a column.
fn group(row: &Row<'_>, key: Option<String>, from: usize) -> Result<UsageGroup> {
    let count = |column| {
        row.get::<_, Option<i64>>(from + column)
            .map(|number| number.map(unsigned))
    };
    let source: String = row.get(from + 8)?;
    let usage = Usage {
        input: count(2)?,
        cache_read: count(3)?,
        cache_write: count(4)?,
        output: count(5)?,
        reasoning: count(6)?,
        cost_usd: row.get(from + 7)?,
        cost_source: rows::cost_source(Some(&source)),
        ..Usage::unknown(Scope::Session)
    };
    Ok(UsageGroup {
        key,
        sessions: unsigned(row.get(from)?),
        turns: unsigned(row.get(from + 1)?),
        usage,
        parts: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_hours_and_minutes() {
        for (text, minutes) in [
            ("Z", Some(0)),
            ("+00:00", Some(0)),
            ("+05:30", Some(330)),
            ("-03:30", Some(-210)),
            ("+23:59", Some(1439)),
            ("+24:00", None),
            ("+2:00", None),
            ("+02:60", None),
            ("+-2:00", None),
            ("+02", None),
            ("02:00", None),
            ("é", None),
            ("", None),
        ] {
            let parsed = text.parse::<UtcOffset>().ok();
            assert_eq!(parsed.map(|it| it.minutes), minutes, "{text}");
        }
    }
}
