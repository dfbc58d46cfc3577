//! The loop that is gone on with: its model, and what it waits for.

use ostler::{Cause, Event, EventKind, Log};
use ostler_store::{Filter, SessionRow, Standing, Store};

use crate::fault::Fault;
use crate::spec::LOOP;
use crate::store::fault;

/// How many events are read at once.
const PAGE: usize = 1000;

/// What is known of an earlier loop.
#[derive(Debug, Default)]
pub(super) struct Before {
    pub(super) model: Option<String>,
    /// Whether calls of it wait for approval. Whoever says no must not find them made by the next answer.
    pub(super) is_approving: bool,
}

/// Looks up the loop that is gone on with, if there is one. What is wrong with another agent's session is told elsewhere.
pub(super) fn look(
    resume: Option<&str>,
    kept: Option<&Store>,
    is_copied: bool,
) -> Result<Before, Fault> {
    let (Some(id), Some(kept)) = (resume, kept) else {
        return Ok(Before::default());
    };
    let row = kept.look_up(id).map_err(|error| fault(&error))?;
    let Some(row) = row.filter(|row| row.agent == LOOP) else {
        return Ok(Before::default());
    };
    let mut is_approving = false;
    if row.standing == Standing::Ended(Cause::NeedsInput) {
        if !is_copied {
            answered(kept, &row)?;
        }
        is_approving = waits_for_approval(kept, &row.session)?;
    }
    Ok(Before {
        model: row.model,
        is_approving,
    })
}

/// A question is answered once: a call that was approved would be made again.
fn answered(kept: &Store, asked: &SessionRow) -> Result<(), Fault> {
    let filter = Filter {
        agent: Some(LOOP.to_owned()),
        ..Filter::default()
    };
    let mut rows = kept
        .sessions(&filter)
        .map_err(|error| fault(&error))?
        .into_iter();
    let Some(next) = rows.find(|row| row.continues.as_deref() == Some(&asked.session)) else {
        return Ok(());
    };
    let hint = format!(
        "--resume {} goes on from there; --fork answers in a copy.",
        next.session
    );
    let message = format!(
        "what session {} asked was answered, in session {}",
        asked.session, next.session
    );
    Err(Fault::usage(message).hint(hint))
}

fn waits_for_approval(kept: &Store, session: &str) -> Result<bool, Fault> {
    let (mut next, mut last) = (1, None);
    loop {
        let page: Vec<Event> = kept.read(session, next, PAGE).map_err(Fault::internal)?;
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
