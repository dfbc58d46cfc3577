//! `ostler sessions rm`: removes sessions after a confirmation.

use ostler::spec::Attendance;
use ostler_store::{SessionRow, SessionStatus, Store, StoreError};
use serde_json::json;

use super::{short_id, size};
use crate::args::SessionsRmArgs;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::{eprint_line, name, one_line, print_json};
use crate::store::resolve;
use crate::{ask, trust_review};

/// Removes the sessions if all of them can be removed and the user confirms.
pub(super) fn run(store: &Store, args: &SessionsRmArgs) -> Result<Code> {
    let mut rows: Vec<SessionRow> = Vec::new();
    for id in &args.ids {
        let row = resolve(store, id)?;
        if let SessionStatus::Live(pid) = row.status {
            let running = StoreError::Running {
                session: row.session,
                pid,
            };
            return Err(running.into());
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
        bytes += store.remove(&row.session)?;
    }
    if args.json {
        let sessions: Vec<&str> = rows.iter().map(|row| &*row.session).collect();
        print_json(&json!({ "sessions": sessions, "bytes": bytes }));
    } else {
        let sessions: Vec<String> = rows.iter().map(|row| short_id(&row.session)).collect();
        errln!("Removed {}, {}", sessions.join(", "), size(bytes));
    }
    Ok(exit::OK)
}

fn confirmed(rows: &[SessionRow]) -> Result<bool> {
    if ask::attendance() == Attendance::Unattended {
        return Err(
            Fault::usage("cannot ask for confirmation: stdin or stderr is not a terminal")
                .hint("use `--yes` to remove without asking"),
        );
    }
    for row in rows {
        let task = one_line(row.prompt.as_deref().unwrap_or_default(), 60);
        errln!("  {}  {}  {task}", short_id(&row.session), name(&row.agent));
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
