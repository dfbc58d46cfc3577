//! Lookup of the loop to resume: its model, and whether it waits for approval.

use ostler::{Cause, Event, EventKind, Log};
use ostler_store::{Filter, SessionRow, SessionStatus, Store};

use crate::fault::Fault;
use crate::spec::LOOP;
use crate::store::fault;

/// Number of events to read at once.
const PAGE: usize = 1000;

/// The loop to resume.
#[derive(Debug, Default)]
pub(super) struct PreviousLoop {
    pub(super) model: Option<String>,
    /// Whether tool calls wait for approval. The resumed loop then keeps asking: calls that the
    /// user rejects must not run after the next reply.
    pub(super) is_approving: bool,
}

/// Looks up the loop to resume, if any. Sessions of other agents are rejected elsewhere.
pub(super) fn find_previous(
    resume: Option<&str>,
    store: Option<&Store>,
    is_fork: bool,
) -> Result<PreviousLoop, Fault> {
    let (Some(id), Some(store)) = (resume, store) else {
        return Ok(PreviousLoop::default());
    };
    let row = store.look_up(id).map_err(|error| fault(&error))?;
    let Some(row) = row.filter(|row| row.agent == LOOP) else {
        return Ok(PreviousLoop::default());
    };
    let mut is_approving = false;
    if row.status == SessionStatus::Ended(Cause::NeedsInput) {
        if !is_fork {
            check_unanswered(store, &row)?;
        }
        is_approving = waits_for_approval(store, &row.session)?;
    }
    Ok(PreviousLoop {
        model: row.model,
        is_approving,
    })
}

/// Returns an error if the question was already answered: an approved call would run again.
fn check_unanswered(store: &Store, asked: &SessionRow) -> Result<(), Fault> {
    let filter = Filter {
        agent: Some(LOOP.to_owned()),
        ..Filter::default()
    };
    let mut rows = store
        .sessions(&filter)
        .map_err(|error| fault(&error))?
        .into_iter();
    let Some(next) = rows.find(|row| row.continues.as_deref() == Some(&asked.session)) else {
        return Ok(());
    };
    let hint = format!(
        "resume that session with `--resume {}`, or answer again in a copy with `--fork`",
        next.session
    );
    let message = format!(
        "the question of session {} was already answered in session {}",
        asked.session, next.session
    );
    Err(Fault::usage(message).hint(hint))
}

fn waits_for_approval(store: &Store, session: &str) -> Result<bool, Fault> {
    let (mut next, mut last) = (1, None);
    loop {
        let page: Vec<Event> = store.read(session, next, PAGE).map_err(Fault::internal)?;
        let Some(end) = page.last() else { break };
        next = end.seq + 1;
        let turn = |event: Event| {
            if let EventKind::TurnEnded(turn) = event.kind {
                Some(turn)
            } else {
                None
            }
        };
        last = page.into_iter().rev().find_map(turn).or(last);
    }
    let native = last
        .and_then(|turn| turn.outcome.detail)
        .and_then(|detail| detail.native);
    Ok(native.as_deref() == Some("approval"))
}
