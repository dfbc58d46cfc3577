//! `ostler sessions rm`: removes sessions after a confirmation.

use ostler::Attendance;
use ostler::display::short_id;
use ostler_store::{SessionRow, SessionStatus, Store, StoreError};
use serde_json::json;

use super::size;
use crate::args::SessionsRmArgs;
use crate::exit::{self, Code};
use crate::fault::Fault;
use crate::output::{eprint_line, name, one_line, print_line};
use crate::store::{fault, resolve};
use crate::{ask, trust_review};

/// Removes the sessions if all of them can be removed and the user confirms.
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
    if !args.yes && !confirmed(&rows)? {
        eprint_line("Nothing removed.");
        return Ok(exit::FAILED);
    }
    let mut bytes = 0;
    for row in &rows {
        bytes += store.remove(&row.session).map_err(|error| fault(&error))?;
    }
    if args.json {
        let sessions: Vec<&str> = rows.iter().map(|row| &*row.session).collect();
        print_line(&format!(
            "{:#}",
            json!({ "sessions": sessions, "bytes": bytes })
        ));
    } else {
        let sessions: Vec<String> = rows
            .iter()
            .map(|row| name(short_id(&row.session)))
            .collect();
        eprint_line(&format!("Removed {}, {}", sessions.join(", "), size(bytes)));
    }
    Ok(exit::OK)
}

fn confirmed(rows: &[SessionRow]) -> Result<bool, Fault> {
    if ask::attendance() == Attendance::Unattended {
        return Err(
            Fault::usage("cannot ask for confirmation: stdin or stderr is not a terminal")
                .hint("use `--yes` to remove without asking"),
        );
    }
    for row in rows {
        let task = one_line(row.prompt.as_deref().unwrap_or_default(), 60);
        eprint_line(&format!(
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
