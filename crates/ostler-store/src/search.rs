//! Full-text search in prompts, replies and the arguments of tool calls.

use ostler_core::event::{Event, EventKind, Timestamp};
use rusqlite::{Connection, Result, params};

use crate::index::dir_value;
use crate::rows::{self, Filter, SessionRow, SessionStatus};

/// Maximum number of characters of an excerpt before and after the match.
const CONTEXT: usize = 60;

/// A session that contains the search text.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// The session.
    pub session: SessionRow,
    /// The turn of the first match.
    pub turn: u32,
    /// Time of the event.
    pub at: Timestamp,
    /// Whose text it is.
    pub speaker: Speaker,
    /// The first match with its context.
    pub excerpt: String,
}

/// Author of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The caller, in a prompt.
    User,
    /// The agent, in a reply.
    Agent,
    /// The agent, in a tool call.
    Tool,
}

impl Speaker {
    /// Returns its name on the wire: `user`, `agent` or `tool`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Agent => "agent",
            Self::Tool => "tool",
        }
    }
}

/// Searches session by session, the newest first, until the filter's limit is reached.
pub(crate) fn run(db: &Connection, text: &str, filter: &Filter) -> Result<Vec<SearchHit>> {
    let wanted = fold(text);
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let dir = filter
        .dir
        .as_deref()
        .map_or(rusqlite::types::Value::Null, dir_value);
    // Ids only: the rows of all sessions may need too much memory.
    let mut keys = db.prepare_cached(
        "SELECT key, session FROM sessions WHERE (?1 IS NULL OR agent = ?1) AND (?2 IS NULL OR dir = ?2)
         AND (NOT ?3 OR cause IS NULL) ORDER BY began_at DESC, key DESC",
    )?;
    let mut keys = keys.query(params![filter.agent, dir, filter.live])?;
    let mut hits = Vec::new();
    while let Some(row) = keys.next()? {
        if hits.len() >= filter.limit.unwrap_or(usize::MAX) {
            break;
        }
        let (key, id): (i64, String) = (row.get(0)?, row.get(1)?);
        let Some((event, speaker, excerpt)) = first_match(db, key, &wanted)? else {
            continue;
        };
        let Some(session) = rows::session(db, &id)? else {
            continue;
        };
        if !filter.live || matches!(session.status, SessionStatus::Live(_)) {
            hits.push(SearchHit {
                session,
                turn: event.turn,
                at: event.at,
                speaker,
                excerpt,
            });
        }
    }
    Ok(hits)
}

/// Returns the first event of a session that contains the text.
fn first_match(
    db: &Connection,
    key: i64,
    wanted: &[char],
) -> Result<Option<(Event, Speaker, String)>> {
    let sql = "SELECT json FROM events
        WHERE session = ?1 AND type IN ('turn_started', 'turn_ended', 'tool_call') ORDER BY seq";
    let mut query = db.prepare_cached(sql)?;
    let mut rows = query.query([key])?;
    while let Some(row) = rows.next()? {
        // An event that only a later Ostler can parse is skipped.
        let Ok(event) = Event::from_json(row.get_ref(0)?.as_str()?) else {
            continue;
        };
        let (speaker, text) = match &event.kind {
            EventKind::TurnStarted(turn) => {
                (Speaker::User, turn.prompt.as_deref().unwrap_or_default())
            }
            EventKind::TurnEnded(turn) => (Speaker::Agent, &*turn.text),
            EventKind::ToolCall(call) => (Speaker::Tool, call.input.get()),
            _ => continue,
        };
        if let Some(at) = find(text, wanted) {
            let excerpt = excerpt(text, at, wanted.len());
            return Ok(Some((event, speaker, excerpt)));
        }
    }
    Ok(None)
}

/// Folds the case of a text for comparison.
fn fold(text: &str) -> Vec<char> {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Returns the byte offset of the first match.
fn find(text: &str, wanted: &[char]) -> Option<usize> {
    let starts = |rest: &str| {
        let mut folded = rest.chars().flat_map(char::to_lowercase);
        wanted.iter().all(|c| folded.next() == Some(*c))
    };
    text.char_indices()
        .map(|(at, _)| at)
        .find(|at| starts(&text[*at..]))
}

fn excerpt(text: &str, at: usize, length: usize) -> String {
    let (before, after) = text.split_at(at);
    let from = before
        .char_indices()
        .rev()
        .take(CONTEXT)
        .last()
        .map_or(at, |(at, _)| at);
    let to = after
        .char_indices()
        .nth(length + CONTEXT)
        .map_or(text.len(), |(more, _)| at + more);
    let (begin, end) = (
        if from > 0 { "…" } else { "" },
        if to < text.len() { "…" } else { "" },
    );
    format!("{begin}{}{end}", &text[from..to])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_cut_between_characters() {
        let said = format!("{}Ärger{}", "é".repeat(100), "😀".repeat(100));
        let wanted = fold("äRGER");
        let at = find(&said, &wanted).unwrap();
        let got = excerpt(&said, at, wanted.len());
        assert_eq!(got, format!("…{}Ärger{}…", "é".repeat(60), "😀".repeat(60)));
        assert_eq!(excerpt("abc", 1, 1), "abc");
        assert_eq!(
            (find("abc", &fold("bd")), find("", &fold("a"))),
            (None, None)
        );
    }
}
