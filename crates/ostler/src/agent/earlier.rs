//! The earlier session that a spec goes on with: what the log knows of it, and what was said in it.

use std::sync::Arc;

use ostler_core::event::Event;
use ostler_core::log::{Log, LogError, SessionRecord};
use ostler_core::spec::{Spec, SpecError, keys};

use crate::host::Host;
use crate::resume::ResumeProblem;

/// How many events are read at once.
const PAGE: usize = 1000;

/// How many sessions are followed back, each the continuation of the one before.
const LONGEST_CHAIN: usize = 100;

/// What the log knows of the session that the spec wants to go on with; none when it knows nothing.
pub(super) fn find(
    host: &Host,
    spec: &Spec,
    agent: &str,
) -> Result<Option<SessionRecord>, SpecError> {
    let (Some(id), Some(log)) = (spec.settings.last(keys::RESUME), host.log()) else {
        return Ok(None);
    };
    let known = log
        .find(id)
        .map_err(|error| SpecError::new(keys::RESUME, id, error.to_string()))?;
    match known {
        Some(known) if known.agent != agent => {
            let why = format!(
                "that is a session of the agent {0}; go on with it by --agent {0}",
                known.agent
            );
            Err(SpecError::new(keys::RESUME, id, why))
        }
        known => Ok(known),
    }
}

/// Names the session as the agent does, where the caller gave Ostler's name of it.
pub(super) fn translate(spec: &mut Spec, known: &SessionRecord) -> Result<(), SpecError> {
    let Some(id) = spec.settings.last(keys::RESUME) else {
        return Ok(());
    };
    if known.native_session.as_deref() == Some(id) {
        return Ok(());
    }
    let Some(native) = known.native_session.clone() else {
        let why = "that session ended before the agent had said how it is called; there is nothing to go on with";
        return Err(SpecError::new(keys::RESUME, id, why));
    };
    spec.settings.set(keys::RESUME, native);
    Ok(())
}

/// What was said in the session, and in those that it went on with, for an agent whose memory is our log.
pub(super) fn past(
    host: &Host,
    spec: &Spec,
    known: Option<&SessionRecord>,
) -> Result<Arc<[Event]>, SpecError> {
    let Some(id) = spec.settings.last(keys::RESUME) else {
        return Ok(spec.past.clone());
    };
    if !spec.past.is_empty() {
        return Ok(spec.past.clone());
    }
    let wrong = |why: String| SpecError::new(keys::RESUME, id, why);
    let (Some(known), Some(log)) = (known, host.log()) else {
        return Err(wrong(
            "there is no such session in the log of sessions (ostler sessions lists it)".into(),
        ));
    };
    if let Some(pid) = known.held_by.filter(|_| !spec.settings.is_on(keys::FORK)) {
        let problem = ResumeProblem::InUse {
            id: id.to_owned(),
            pid,
            session: Some(known.session.clone()),
        };
        let outcome = problem.outcome();
        return Err(wrong(format!(
            "{} {}",
            outcome.message,
            outcome.hint.unwrap_or_default()
        )));
    }
    chain(&**log, known)
        .map(Into::into)
        .map_err(|error| wrong(error.to_string()))
}

fn chain(log: &dyn Log, known: &SessionRecord) -> Result<Vec<Event>, LogError> {
    let mut sessions = vec![known.session.clone()];
    let mut before = known.continues.clone();
    while let Some(id) =
        before.filter(|id| !sessions.contains(id) && sessions.len() < LONGEST_CHAIN)
    {
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
