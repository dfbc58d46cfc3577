//! `ostler sessions rm`: removes sessions, after a question on a terminal.

use ostler::Attendance;
use ostler::brief::short_id;
use ostler_store::{SessionRow, SessionStatus, Store, StoreError};
use serde_json::json;

use super::size;
use crate::args::SessionsRmArgs;
use crate::exit::{self, Code};
use crate::fault::Fault;
use crate::output::{name, say, tell, word};
use crate::store::{fault, resolve};
use crate::{ask, trust_review};

/// Removes the sessions if all of them can be, and the user agrees.
pub(super) fn run(store: &Store, args: &SessionsRmArgs) -> Result<Code, Fault> {
    let mut rows: Vec<SessionRow> = Vec::new();
    for id in &args.ids {
        let row = resolve(store, id)?;
        if let SessionStatus::Live(pid) = row.status {
            return Err(fault(&StoreError::Running {
                session: row.session,
                pid,
            }));
        }
        if rows.iter().all(|other| other.session != row.session) {
            rows.push(row);
        }
    }
    if !args.yes && !agreed(&rows)? {
        tell("Nothing was removed.");
        return Ok(exit::FAILED);
    }
    let mut bytes = 0;
    for row in &rows {
        bytes += store.remove(&row.session).map_err(|error| fault(&error))?;
    }
    if args.json {
        let sessions: Vec<&str> = rows.iter().map(|row| &*row.session).collect();
        say(&format!(
            "{:#}",
            json!({ "sessions": sessions, "bytes": bytes })
        ));
    } else {
        let sessions: Vec<String> = rows
            .iter()
            .map(|row| name(short_id(&row.session)))
            .collect();
        tell(&format!("Removed {}, {}", sessions.join(", "), size(bytes)));
    }
    Ok(exit::OK)
}

fn agreed(rows: &[SessionRow]) -> Result<bool, Fault> {
    if ask::attendance() == Attendance::Unattended {
        return Err(Fault::usage(
            "stdin and stderr are not a terminal, so nobody can confirm the removal",
        )
        .hint("--yes removes without asking"));
    }
    for row in rows {
        let task = word(row.prompt.as_deref().unwrap_or_default(), 60);
        tell(&format!(
            "  {}  {}  {task}",
            name(short_id(&row.session)),
            name(&row.agent)
        ));
    }
    let kind = if rows.len() == 1 {
        "this session".to_owned()
    } else {
        format!("these {} sessions", rows.len())
    };
    Ok(trust_review::confirm(&format!(
        "Remove {kind}? This cannot be undone. [y/N] "
    )))
}
