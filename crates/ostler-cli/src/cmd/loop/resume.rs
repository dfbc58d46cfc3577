//! Lookup of the loop to resume: its model, and the calls that wait for approval.

use ostler::{Cause, EventKind};
use ostler_store::{Filter, SessionRow, SessionStatus, Store};

use crate::fault::Result;
use crate::spec::LOOP;
use crate::store::pages;

/// The loop to resume.
#[derive(Debug, Default)]
pub(super) struct PreviousLoop {
    pub(super) model: Option<String>,
    /// Ids of tool calls that wait for approval. The resumed loop then keeps asking: calls that
    /// the user rejects must not run after the next reply.
    pub(super) pending_calls: Vec<String>,
}

/// Returns true if a user's message approves the calls that wait.
pub(super) fn is_approval(message: &str) -> bool {
    let reply = message.trim().trim_end_matches(['.', '!']).to_lowercase();
    ["approve", "approved", "yes", "y", "ok", "allow"].contains(&&*reply)
}

/// Looks up the loop to resume, if any. Sessions of other agents are rejected elsewhere.
pub(super) fn find_previous(
    resume: Option<&str>,
    store: Option<&Store>,
    is_fork: bool,
) -> Result<PreviousLoop> {
    let (Some(id), Some(store)) = (resume, store) else {
        return Ok(PreviousLoop::default());
    };
    let row = store.look_up(id)?;
    let Some(row) = row.filter(|row| row.agent == LOOP) else {
        return Ok(PreviousLoop::default());
    };
    let mut pending_calls = Vec::new();
    if row.status == SessionStatus::Ended(Cause::NeedsInput) {
        if !is_fork {
            check_unanswered(store, &row)?;
        }
        pending_calls = find_pending_calls(store, &row.session)?;
    }
    Ok(PreviousLoop {
        model: row.model,
        pending_calls,
    })
}

/// Returns an error if the question was already answered: an approved call would run again.
fn check_unanswered(store: &Store, asked: &SessionRow) -> Result<()> {
    let filter = Filter {
        agent: Some(LOOP.to_owned()),
        ..Filter::default()
    };
    let mut rows = store.sessions(&filter)?.into_iter();
    let Some(next) = rows.find(|row| row.continues.as_deref() == Some(&asked.session)) else {
        return Ok(());
    };
    let (asked, next) = (&asked.session, next.session);
    let hint = format!(
        "resume that session with `--resume {next}`, or answer again in a copy with `--fork`"
    );
    Err(usage!("the question of session {asked} was already answered in session {next}").hint(hint))
}

fn find_pending_calls(store: &Store, session: &str) -> Result<Vec<String>> {
    let mut detail = None;
    for page in pages(store, session) {
        for event in page? {
            if let EventKind::TurnEnded(turn) = event.kind {
                detail = turn.outcome.detail;
            }
        }
    }
    Ok(detail.map_or_else(Vec::new, |detail| detail.pending_calls))
}
