//! Search in what was said: prompts, answers and the arguments of tool calls.

use ostler_core::event::{At, Event, EventKind};
use rusqlite::{Connection, Result, params};

use crate::index::dir_value;
use crate::rows::{self, Filter, SessionRow, Standing};

/// Maximum number of characters of an excerpt before and behind the match.
const AROUND: usize = 60;

/// A session in which a text was found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// The session.
    pub session: SessionRow,
    /// The turn of the first match.
    pub turn: u32,
    /// When it was said.
    pub at: At,
    /// Who said it.
    pub speaker: Speaker,
    /// The first match with the words around it.
    pub excerpt: String,
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The caller, in a prompt.
    User,
    /// The agent, in an answer.
    Agent,
    /// The agent, to a tool.
    Tool,
}

impl Speaker {
    /// Its name on the wire: `user`, `agent` or `tool`.
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
    // Numbers only: the rows of all sessions can be more than should be in memory at once.
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
        if !filter.live || matches!(session.standing, Standing::Live(_)) {
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

/// The first event of a session that holds the text.
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
        // An event that only a later Ostler can read is passed over.
        let Ok(event) = Event::from_json(row.get_ref(0)?.as_str()?) else {
            continue;
        };
        let (speaker, said) = match &event.kind {
            EventKind::TurnStarted(turn) => {
                (Speaker::User, turn.prompt.as_deref().unwrap_or_default())
            }
            EventKind::TurnEnded(turn) => (Speaker::Agent, &*turn.text),
            EventKind::ToolCall(call) => (Speaker::Tool, call.input.get()),
            _ => continue,
        };
        if let Some(at) = find(said, wanted) {
            let excerpt = excerpt(said, at, wanted.len());
            return Ok(Some((event, speaker, excerpt)));
        }
    }
    Ok(None)
}

/// Characters to compare without regard to case.
fn fold(text: &str) -> Vec<char> {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// The byte offset of the first match.
fn find(said: &str, wanted: &[char]) -> Option<usize> {
    let starts = |rest: &str| {
        let mut folded = rest.chars().flat_map(char::to_lowercase);
        wanted.iter().all(|c| folded.next() == Some(*c))
    };
    said.char_indices()
        .map(|(at, _)| at)
        .find(|at| starts(&said[*at..]))
}

fn excerpt(said: &str, at: usize, length: usize) -> String {
    let (before, behind) = said.split_at(at);
    let from = before
        .char_indices()
        .rev()
        .take(AROUND)
        .last()
        .map_or(at, |(at, _)| at);
    let to = behind
        .char_indices()
        .nth(length + AROUND)
        .map_or(said.len(), |(more, _)| at + more);
    let (begin, end) = (
        if from > 0 { "…" } else { "" },
        if to < said.len() { "…" } else { "" },
    );
    format!("{begin}{}{end}", &said[from..to])
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
