//! Life cycle of a session: each state carries what is true only in it.

use std::time::Duration;

use super::ending::{AfterExit, Escalation};
use super::turn::Turn;

/// How far the session is in its life.
#[derive(Debug)]
pub(super) enum Life {
    /// Not started.
    Created,
    /// The agent's process is being started.
    Starting {
        /// Whether there was a process before.
        is_restart: bool,
        /// Whether the agent has identified itself. One inside this program may do so first.
        is_ready: bool,
    },
    /// The agent's process is running.
    Running(Process),
    /// The agent's process exited. The next message starts another.
    Asleep,
    /// Nothing follows.
    Ended,
}

/// The agent's process.
#[derive(Debug)]
pub(super) struct Process {
    /// When it was started.
    pub(super) since: Duration,
    /// Whether the agent has identified itself.
    pub(super) is_ready: bool,
    pub(super) work: Work,
    /// Number of the agent's background tasks.
    pub(super) background_tasks: usize,
    /// Since when it is suspended.
    pub(super) frozen_since: Option<Duration>,
    /// How far it has been asked to end.
    pub(super) escalation: Option<Escalation>,
}

/// What the agent's process is doing.
#[derive(Debug)]
pub(super) enum Work {
    /// It waits for a message.
    Idle,
    /// A turn is in progress.
    Turn(Box<Turn>),
    /// Its work is done; only background tasks hold the session open.
    Lingering,
}

impl Life {
    pub(super) fn process(&self) -> Option<&Process> {
        if let Self::Running(process) = self {
            Some(process)
        } else {
            None
        }
    }

    pub(super) fn process_mut(&mut self) -> Option<&mut Process> {
        if let Self::Running(process) = self {
            Some(process)
        } else {
            None
        }
    }

    /// Returns the current turn.
    pub(super) fn turn(&self) -> Option<&Turn> {
        match &self.process()?.work {
            Work::Turn(turn) => Some(turn),
            Work::Idle | Work::Lingering => None,
        }
    }

    pub(super) fn turn_mut(&mut self) -> Option<&mut Turn> {
        match &mut self.process_mut()?.work {
            Work::Turn(turn) => Some(turn),
            Work::Idle | Work::Lingering => None,
        }
    }

    /// Removes the current turn.
    pub(super) fn take_turn(&mut self) -> Option<Box<Turn>> {
        let work = &mut self.process_mut()?.work;
        match std::mem::replace(work, Work::Idle) {
            Work::Turn(turn) => Some(turn),
            other => {
                *work = other;
                None
            }
        }
    }

    pub(super) fn escalation(&self) -> Option<Escalation> {
        self.process()?.escalation
    }

    /// Returns true if the process, if there is one, was not asked to end.
    pub(super) fn is_unescalated(&self) -> bool {
        self.escalation().is_none()
    }

    /// Returns true if a process is running that was not asked to end.
    pub(super) fn is_available(&self) -> bool {
        self.process()
            .is_some_and(|process| process.escalation.is_none())
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.process()
            .is_some_and(|process| process.frozen_since.is_some())
    }

    /// Returns true if the agent has identified itself, or need not because it is not starting.
    pub(super) fn is_ready(&self) -> bool {
        match self {
            Self::Starting { is_ready, .. } | Self::Running(Process { is_ready, .. }) => *is_ready,
            Self::Created | Self::Asleep | Self::Ended => true,
        }
    }

    pub(super) fn set_ready(&mut self) {
        if let Self::Starting { is_ready, .. } | Self::Running(Process { is_ready, .. }) = self {
            *is_ready = true;
        }
    }

    /// Returns true if the session is to end with the process.
    pub(super) fn ends_with_process(&self) -> bool {
        self.escalation()
            .is_some_and(|escalation| escalation.after_exit == AfterExit::EndSession)
    }

    /// Returns true if only the agent's background tasks hold the session open.
    pub(super) fn waits_for_background(&self) -> bool {
        self.process().is_some_and(|process| {
            matches!(process.work, Work::Lingering) && process.escalation.is_none()
        })
    }
}
