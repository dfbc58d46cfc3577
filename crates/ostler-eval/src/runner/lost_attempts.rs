//! Attempts whose process was killed: what their agents had reported is booked from the logs.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use ostler::Usage;
use ostler::event::EventKind;
use ostler::testing::Replay;
use ostler_store::{AttemptKey, AttemptRow, AttemptState, Booking, Ledger, Store, StoreError};

use super::{Runner, artifacts_dir};
use crate::adapter::log_dir;
use crate::embedder::{AgentRequest, PreparedAgent};
use crate::identity;
use crate::run_trial::TrialRequest;

/// Kinds of events with usage, the most complete first. A trial has one turn.
const KINDS: [&str; 3] = ["turn_ended", "ended", "usage"];

/// Books what the lost attempts before this one had spent. The agent's raw output is stored before
/// anything is made of it, and a session before its usage is booked: the process may have been
/// killed in between. Returns the numbers of the attempts whose raw output is complete.
pub(super) async fn book(
    runner: &Runner,
    key: AttemptKey<'_>,
    request: &TrialRequest,
) -> Result<Vec<u64>, StoreError> {
    let ledger = Ledger::new(&runner.store);
    let mut complete = Vec::new();
    let Some(trial) = ledger.trial(key.run, key.position)? else {
        return Ok(complete);
    };
    let mut lost = trial.attempts;
    lost.retain(|attempt| is_before(attempt, key.fence));
    if lost.is_empty() {
        return Ok(complete);
    }
    let wanted = AgentRequest {
        contender: request.contender.clone(),
        prompt: identity::prompt(&request.case, &request.contender),
        dir: runner.artifacts.clone(),
        limits: request.case.limits.clone(),
    };
    // Without its agent, the output cannot be read.
    let agent = runner.services.embedder.prepare(&wanted).await.ok();
    for attempt in lost {
        let artifacts = artifacts_dir(&runner.artifacts, &trial.name, attempt.fence);
        let output = agent.as_ref().and_then(|agent| replay(&artifacts, agent));
        if output.as_ref().is_some_and(|output| output.has_ended) {
            complete.push(attempt.fence);
        }
        let stored = match &attempt.session {
            Some(session) => usage(&runner.store, session)?,
            None => None,
        };
        // Bookings never shrink, so that the higher one counts.
        for usage in [stored, output.and_then(|output| output.usage)] {
            let booking = Booking {
                usage,
                ..Booking::default()
            };
            let fence = attempt.fence;
            ledger.heartbeat(AttemptKey { fence, ..key }, runner.now(), &booking)?;
        }
    }
    Ok(complete)
}

/// What the raw output of an attempt says.
struct RawOutput {
    usage: Option<Usage>,
    /// Whether the turn ended.
    has_ended: bool,
}

/// Reads the raw output of an attempt; `None` if there is none on this machine.
fn replay(artifacts: &Path, agent: &PreparedAgent) -> Option<RawOutput> {
    let mut logs = fs::read_dir(log_dir(agent.agent.about().name, artifacts)).ok()?;
    let mut file = File::open(logs.next()?.ok()?.path()).ok()?;
    let mut replay = Replay::new(agent.agent.dialect(), &agent.spec);
    let (mut chunk, mut has_ended) = (vec![0; 64 * 1024], false);
    loop {
        let events = match file.read(&mut chunk).ok()? {
            0 => break,
            count => replay.push(&chunk[..count]),
        };
        has_ended |= events
            .iter()
            .any(|event| matches!(event.kind, EventKind::TurnEnded(_)));
    }
    let usage = replay
        .finish()
        .into_iter()
        .find_map(|event| match event.kind {
            EventKind::Ended(ended) => ended.usage,
            _ => None,
        });
    Some(RawOutput { usage, has_ended })
}

/// Returns the numbers of lost attempts whose turn did not end, neither in the store nor among
/// those whose output is `complete`: they may have spent more than what is booked.
pub(super) fn unmetered(
    store: &Store,
    attempts: &[AttemptRow],
    fence: u64,
    complete: &[u64],
) -> Result<Vec<u64>, StoreError> {
    let mut found = Vec::new();
    for attempt in attempts.iter().filter(|it| is_before(it, fence)) {
        let is_metered = match &attempt.session {
            _ if complete.contains(&attempt.fence) => true,
            Some(session) => store.last_event(session, KINDS[0])?.is_some(),
            None => false,
        };
        if !is_metered {
            found.push(attempt.fence);
        }
    }
    Ok(found)
}

fn is_before(attempt: &AttemptRow, fence: u64) -> bool {
    attempt.state == AttemptState::Lost && attempt.fence < fence
}

/// Returns the last usage in the log of a session.
fn usage(store: &Store, session: &str) -> Result<Option<Usage>, StoreError> {
    for kind in KINDS {
        let event = store.last_event(session, kind)?;
        let usage = event.and_then(|text| {
            let event: serde_json::Value = serde_json::from_str(&text).ok()?;
            serde_json::from_value::<Usage>(event["usage"].clone()).ok()
        });
        if usage.is_some() {
            return Ok(usage);
        }
    }
    Ok(None)
}
