//! State of a turn: when it is over, and how it ended.
//!
//! pi's own `turn` is one model call. A turn in Ostler begins with a prompt and is over when pi is
//! idle, which no line reports. After `agent_end`, pi may retry a failed call, or compact the
//! conversation and continue. It announces either one before it answers the next request. Ostler
//! therefore requests pi's state after `agent_end`, and that state decides.

use super::blame::Stop;
use super::usage::UsageTracker;
use super::wire::State;

/// State of the current turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    phase: Phase,
    /// Whether the caller interrupted the turn.
    pub(super) interrupted: bool,
    /// The model's last answer.
    pub(super) answer: Option<String>,
    /// How the last model call ended.
    pub(super) stop: Option<Stop>,
    pub(super) usage: UsageTracker,
    /// Number of the caller's messages that pi has passed to the model, including the prompt.
    delivered: u32,
    /// Whether a message after the prompt has no answer yet.
    unanswered: bool,
}

/// Phase of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    /// There is no turn.
    #[default]
    None,
    /// The prompt was sent or is held, and pi has not accepted it yet.
    Sent,
    /// pi is working: from `agent_start` to `agent_end`.
    Working,
    /// pi is waiting before it calls the model again.
    Retrying,
    /// pi is compacting the conversation.
    Compacting,
    /// pi has compacted the conversation, and continues by itself if messages are pending.
    Compacted,
    /// pi will continue by itself.
    Continuing,
    /// pi may be idle; the requested state decides.
    AwaitingState,
}

impl Turn {
    /// Creates a turn whose prompt was sent, or is held until pi has started.
    pub(super) fn sent() -> Self {
        Self {
            phase: Phase::Sent,
            ..Self::default()
        }
    }

    /// Returns true if a turn is in progress.
    pub(super) fn is_open(&self) -> bool {
        self.phase != Phase::None
    }

    /// Returns true if pi accepts an interrupt now. Before `agent_start`, it ignores interrupts.
    pub(super) fn is_interruptible(&self) -> bool {
        matches!(self.phase, Phase::Working | Phase::Retrying)
    }

    /// Returns true if pi would pass a new message to the model in this turn.
    pub(super) fn is_steerable(&self) -> bool {
        self.phase == Phase::Working
    }

    /// Records that pi passed one of the caller's messages to the model.
    pub(super) fn on_user_message(&mut self) {
        self.delivered += 1;
        self.unanswered = self.delivered > 1;
    }

    /// Records how a model call ended.
    pub(super) fn on_stop(&mut self, stop: Stop) {
        self.unanswered &= stop.is_incomplete();
        self.stop = Some(stop);
    }

    /// Returns true if one of the caller's messages is left over for the next turn.
    pub(super) fn has_leftover_message(&self, state: &State<'_>) -> bool {
        self.unanswered
            || state
                .pending_message_count
                .count()
                .is_some_and(|count| count > 0)
    }

    /// Handles `agent_start`.
    pub(super) fn on_agent_start(&mut self) {
        self.phase = Phase::Working;
    }

    /// Handles `agent_end`, or an `auto_retry_end` without success. The caller must then request
    /// pi's state.
    pub(super) fn await_state(&mut self) {
        if self.is_open() {
            self.phase = Phase::AwaitingState;
        }
    }

    /// Handles an accepted prompt. Returns true if pi has not started to work on it.
    pub(super) fn on_accepted(&mut self) -> bool {
        let is_sent = self.phase == Phase::Sent;
        if is_sent {
            self.phase = Phase::AwaitingState;
        }
        is_sent
    }

    /// Handles `auto_retry_start`.
    pub(super) fn on_retry(&mut self) {
        if self.is_open() {
            self.phase = Phase::Retrying;
        }
    }

    /// Handles `compaction_start`. pi may also compact before it accepts a prompt; the phase then
    /// stays `Sent`.
    pub(super) fn on_compaction(&mut self) {
        if self.phase == Phase::AwaitingState {
            self.phase = Phase::Compacting;
        }
    }

    /// Handles `compaction_end`. Returns true if pi's state must be requested to decide whether the
    /// turn is over.
    pub(super) fn on_compacted(&mut self, will_retry: bool) -> bool {
        if self.phase != Phase::Compacting && self.phase != Phase::AwaitingState {
            return false;
        }
        self.phase = if will_retry {
            Phase::Continuing
        } else {
            Phase::Compacted
        };
        !will_retry
    }

    /// Returns true if the turn is over, according to pi's state.
    pub(super) fn is_over(&self, state: &State<'_>) -> bool {
        let is_busy = state.is_streaming.is_true() || state.is_compacting.is_true();
        match self.phase {
            Phase::AwaitingState => !is_busy,
            Phase::Compacted => !is_busy && state.pending_message_count.count() == Some(0),
            _ => false,
        }
    }
}
