//! The earlier session that a spec resumes: its record and its events in the log.

use std::sync::Arc;

use ostler_core::event::Event;
use ostler_core::log::{Log, LogError, SessionRecord};
use ostler_core::spec::{Spec, SpecError, keys};

use crate::host::Host;
use crate::resume::ResumeProblem;

/// Maximum number of events per page.
const PAGE: usize = 1000;

/// Maximum number of sessions in a chain of continuations.
const MAX_CHAIN: usize = 100;

/// Returns the log's record of the session that the spec resumes, or `None` if there is none.
pub(super) fn find(
    host: &Host,
    spec: &Spec,
    agent: &str,
) -> Result<Option<SessionRecord>, SpecError> {
    let (Some(id), Some(log)) = (spec.resume.as_deref(), host.log()) else {
        return Ok(None);
    };
    let known = log
        .find(id)
        .map_err(|error| SpecError::new(keys::RESUME, id, error.to_string()))?;
    match known {
        Some(known) if known.agent != agent => {
            let why = format!(
                "that is a session of the agent {0}; resume it with --agent {0}",
                known.agent
            );
            Err(SpecError::new(keys::RESUME, id, why))
        }
        known => Ok(known),
    }
}

/// Replaces Ostler's session id in the spec by the agent's own.
pub(super) fn translate(spec: &mut Spec, known: &SessionRecord) -> Result<(), SpecError> {
    let Some(id) = spec.resume.as_deref() else {
        return Ok(());
    };
    if known.native_session.as_deref() == Some(id) {
        return Ok(());
    }
    let Some(native) = known.native_session.clone() else {
        let why =
            "that session ended before the agent reported its session id; it cannot be resumed";
        return Err(SpecError::new(keys::RESUME, id, why));
    };
    spec.resume = Some(native);
    Ok(())
}

/// Returns the events of the session and of those it continues, for an agent that resumes from
/// events.
pub(super) fn past(
    host: &Host,
    spec: &Spec,
    known: Option<&SessionRecord>,
) -> Result<Arc<[Event]>, SpecError> {
    let Some(id) = spec.resume.as_deref() else {
        return Ok(Arc::default());
    };
    let invalid = |why: String| SpecError::new(keys::RESUME, id, why);
    let (Some(known), Some(log)) = (known, host.log()) else {
        return Err(invalid(
            "there is no such session (run `ostler sessions` for a list)".into(),
        ));
    };
    if let Some(pid) = known.held_by.filter(|_| !spec.fork) {
        let problem = ResumeProblem::InUse {
            id: id.to_owned(),
            pid,
            session: Some(known.session.clone()),
        };
        let outcome = problem.outcome();
        return Err(invalid(format!(
            "{} {}",
            outcome.message,
            outcome.hint.unwrap_or_default()
        )));
    }
    chain(&**log, known)
        .map(Into::into)
        .map_err(|error| invalid(error.to_string()))
}

fn chain(log: &dyn Log, known: &SessionRecord) -> Result<Vec<Event>, LogError> {
    let mut sessions = vec![known.session.clone()];
    let mut before = known.continues.clone();
    while let Some(id) = before.filter(|id| !sessions.contains(id) && sessions.len() < MAX_CHAIN) {
        before = log.find(&id)?.and_then(|known| known.continues);
        sessions.push(id);
    }
    let mut events = Vec::new();
    for session in sessions.iter().rev() {
        let mut next = 1;
        loop {
            let page = log.read(session, next, PAGE)?;
            let Some(last) = page.last() else { break };
            next = last.seq + 1;
            events.extend(page);
        }
    }
    Ok(events)
}
