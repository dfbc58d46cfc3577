//! One turn: its state, its limits, and how it is closed.

use std::time::Duration;

use crate::clip::Capped;
use crate::dialect::{Exit, TurnResult};
use crate::event::{Decision, EventKind, Level, Notice, NoticeCode, Origin, TextKind, TurnEnded};
use crate::outcome::{Cause, Outcome};
use crate::spec::Limits;

use super::account::UsageByModel;
use super::request::CallerRequest;

/// Number of characters of an unreadable line that an outcome quotes.
const PREVIEW: usize = 200;

/// A request to the agent to end the turn.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) reason: EndReason,
    /// Until when the agent may reply.
    until: Duration,
}

impl Pending {
    pub(super) fn new(reason: EndReason, until: Duration) -> Self {
        Self { reason, until }
    }

    /// Returns true if the session ends with the turn.
    pub(super) fn ends_session(&self) -> bool {
        matches!(self.reason, EndReason::Stop | EndReason::Limit(_))
    }
}

/// Why the agent was asked to end a turn.
#[derive(Debug)]
pub(super) enum EndReason {
    /// The caller interrupted it.
    Interrupt,
    /// The caller is stopping the session.
    Stop,
    /// A limit was reached.
    Limit(Box<Outcome>),
}

/// Meaning of a deadline that has passed.
pub(super) enum Due {
    /// A limit was reached: ask the agent to end the turn.
    Limit(Outcome),
    /// The agent was asked to end the turn and did not.
    NoAnswer(Outcome),
}

/// A turn that is over.
pub(super) struct ClosedTurn {
    pub(super) ended: TurnEnded,
    pub(super) used: UsageByModel,
    /// Whether the agent reported the usage of the turn. Otherwise it is the sum of what was
    /// reported along the way.
    pub(super) has_usage_report: bool,
    pub(super) pending: Option<Pending>,
    pub(super) interrupts: Vec<CallerRequest>,
    pub(super) origin: Origin,
}

/// A turn in progress.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) origin: Origin,
    /// Start of its wall-clock time: of the turn, or of the task the turn belongs to.
    since: Duration,
    /// Whether the agent has printed anything; until then, the startup limit applies.
    pub(super) awake: bool,
    /// When the agent last printed something.
    activity: Duration,
    /// Permission requests without a decision.
    asked: Vec<String>,
    /// Number of unreadable lines since the agent last made progress, and the beginning of the
    /// first.
    unreadable: Option<(u32, String)>,
    /// Usage reported so far: all that is known if the turn ends without a final report.
    pub(super) used: UsageByModel,
    text: Capped,
    message: Option<String>,
    pub(super) pending: Option<Pending>,
    /// The caller's interrupts, which end with the turn.
    pub(super) interrupts: Vec<CallerRequest>,
}

impl Turn {
    pub(super) fn new(origin: Origin, now: Duration, since: Duration, output_cap: usize) -> Self {
        Self {
            origin,
            since,
            awake: false,
            activity: now,
            asked: Vec::new(),
            unreadable: None,
            used: UsageByModel::default(),
            text: Capped::new(output_cap),
            message: None,
            pending: None,
            interrupts: Vec::new(),
        }
    }

    /// Returns when the agent last printed something, or when it was prompted if it has not.
    pub(super) fn last_heard(&self) -> Duration {
        self.activity
    }

    pub(super) fn touch(&mut self, now: Duration) {
        self.activity = now;
    }

    /// Shifts all times, because the time the agent was suspended does not count.
    pub(super) fn shift(&mut self, by: Duration) {
        self.since = self.since.saturating_add(by);
        self.activity = self.activity.saturating_add(by);
        if let Some(pending) = &mut self.pending {
            pending.until = pending.until.saturating_add(by);
        }
    }

    /// Records an event from the agent.
    pub(super) fn record(&mut self, now: Duration, kind: &EventKind) {
        self.activity = now;
        if matches!(
            kind,
            EventKind::Text(_) | EventKind::ToolCall(_) | EventKind::ToolResult(_)
        ) {
            self.unreadable = None; // only stray lines: the agent speaks its protocol
        }
        match kind {
            EventKind::Text(text) if text.kind == TextKind::Reply && text.parent.is_none() => {
                if text.message != self.message && !self.text.is_empty() {
                    self.text.push("\n\n");
                }
                self.message.clone_from(&text.message);
                self.text.push(&text.text);
            }
            EventKind::Permission(permission) => match permission.decision {
                Decision::Asked => self.asked.push(permission.id.clone()),
                Decision::Allowed | Decision::Denied => {
                    self.asked.retain(|id| *id != permission.id);
                }
            },
            EventKind::Usage(usage) => self.used.record(usage),
            EventKind::Unreadable(line) => {
                let (count, _) = self
                    .unreadable
                    .get_or_insert_with(|| (0, line.raw.chars().take(PREVIEW).collect()));
                *count = count.saturating_add(1);
            }
            _ => {}
        }
    }

    /// Returns the outcome of a turn whose process exited without a result that the dialect could
    /// explain.
    pub(super) fn exit_outcome(&self, exit: &Exit) -> Outcome {
        match &self.unreadable {
            Some((count, first)) if exit.code == Some(0) => invalid_response(*count, first, exit),
            _ => agent_died(exit),
        }
    }

    /// Returns when the next action is due.
    pub(super) fn deadline(&self, limits: &Limits, may_be_silent: bool) -> Option<Duration> {
        match &self.pending {
            Some(pending) => Some(pending.until),
            None => [self.wall(limits), self.idle(limits, may_be_silent)]
                .into_iter()
                .flatten()
                .min(),
        }
    }

    fn wall(&self, limits: &Limits) -> Option<Duration> {
        self.since.checked_add(limits.wall?)
    }

    /// Returns when the silence becomes too long. Silence counts only while the model is expected
    /// to write: not while a tool runs, a permission request is open, or the agent prints nothing
    /// until it is done.
    fn idle(&self, limits: &Limits, may_be_silent: bool) -> Option<Duration> {
        let is_models_turn = self.awake && !may_be_silent && self.asked.is_empty();
        self.activity
            .checked_add(limits.idle?)
            .filter(|_| is_models_turn)
    }

    /// Returns what is due now.
    pub(super) fn due(&self, now: Duration, limits: &Limits, may_be_silent: bool) -> Option<Due> {
        match &self.pending {
            Some(pending) => (pending.until <= now).then(|| Due::NoAnswer(interrupted(false))),
            None if self.wall(limits).is_some_and(|d| d <= now) => {
                Some(Due::Limit(wall_limit(limits)))
            }
            None if self.idle(limits, may_be_silent).is_some_and(|d| d <= now) => {
                Some(Due::Limit(idle_limit(limits)))
            }
            None => None,
        }
    }

    /// Ends the turn, and reconciles what the agent reported with what it was asked to do.
    pub(super) fn close(self, result: TurnResult, mut emit: impl FnMut(EventKind)) -> ClosedTurn {
        let outcome = match self.pending.as_ref().map(|pending| &pending.reason) {
            Some(EndReason::Limit(outcome)) => (**outcome).clone(),
            // It finished before it could be stopped.
            _ if result.outcome.is_success() => result.outcome,
            Some(EndReason::Interrupt) => interrupted(
                result.outcome.cause == Cause::Interrupted && acknowledged(&result.outcome),
            ),
            Some(EndReason::Stop) => Outcome::new(
                Cause::Stopped,
                "The turn was cut short because the session was stopped.",
            ),
            None => result.outcome,
        };
        for part in &result.usage {
            emit(part.clone().into());
        }
        let has_usage_report = !result.usage.is_empty();
        let used = if has_usage_report {
            result.usage.into_iter().collect()
        } else {
            self.used
        };
        let cap = self.text.cap();
        let text = match result.text {
            Some(whole) => {
                let mut text = Capped::new(cap);
                text.push(&whole);
                text
            }
            None => self.text,
        };
        if text.truncated() {
            let message = format!("The answer is longer than {cap} bytes; the rest was truncated.");
            emit(Notice::new(Level::Warning, NoticeCode::OutputTruncated, message).into());
        }
        let ended = TurnEnded {
            outcome,
            text: text.into_text(),
            structured: result.structured,
            usage: used.sum(),
        };
        ClosedTurn {
            ended,
            used,
            has_usage_report,
            pending: self.pending,
            interrupts: self.interrupts,
            origin: self.origin,
        }
    }
}

fn acknowledged(outcome: &Outcome) -> bool {
    outcome
        .detail
        .as_ref()
        .and_then(|d| d.acknowledged)
        .unwrap_or(true)
}

fn interrupted(acknowledged: bool) -> Outcome {
    let message = if acknowledged {
        "The turn was interrupted."
    } else {
        "The turn was interrupted; the agent did not acknowledge it and was terminated."
    };
    Outcome::new(Cause::Interrupted, message).with(|d| d.acknowledged = Some(acknowledged))
}

/// Returns the outcome of an interrupt after the turn, when only background tasks were left.
pub(super) fn background_interrupted() -> Outcome {
    Outcome::new(
        Cause::Interrupted,
        "The agent's background tasks were interrupted.",
    )
}

/// Returns the outcome of a stop after the turn, when only background tasks were left.
pub(super) fn background_stopped() -> Outcome {
    Outcome::new(
        Cause::Stopped,
        "The session was stopped while the agent's background tasks were running.",
    )
}

fn limit(cause: Cause, limit: Option<Duration>, message: &str) -> Outcome {
    let limit = limit.unwrap_or_default();
    let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    Outcome::new(cause, message.replace("{}", &format!("{limit:?}")))
        .with(|d| d.limit_ms = Some(millis))
}

fn wall_limit(limits: &Limits) -> Outcome {
    limit(
        Cause::WallLimit,
        limits.wall,
        "The time limit of {} was reached.",
    )
    .hint("Allow more time (--timeout), or choose a smaller task.")
}

fn idle_limit(limits: &Limits) -> Outcome {
    limit(
        Cause::IdleLimit,
        limits.idle,
        "The agent printed nothing for {} while no tool was running.",
    )
    .hint("The model's service may be stuck; try again, or raise --idle-timeout.")
}

pub(super) fn startup_limit(limits: &Limits) -> Outcome {
    limit(
        Cause::StartupLimit,
        limits.startup,
        "The agent printed nothing within {} of its start.",
    )
    .hint("Start the agent by hand to see what it is waiting for.")
}

/// Returns the outcome of a process that exited without an explanation.
pub(super) fn agent_died(exit: &Exit) -> Outcome {
    let how = match (exit.code, exit.signal) {
        (_, Some(signal)) => format!("was killed by signal {signal}"),
        (Some(code), None) => format!("exited with code {code}"),
        (None, None) => "exited".to_owned(),
    };
    Outcome::new(
        Cause::AgentDied,
        format!("The agent's process {how} before the turn ended."),
    )
    .with(|d| {
        d.exit_code = exit.code;
        d.signal = exit.signal;
        d.stderr = (!exit.stderr.is_empty()).then(|| exit.stderr.clone());
    })
}

/// Returns the outcome of a process that exited successfully, but whose output is not in its
/// protocol.
fn invalid_response(count: u32, first: &str, exit: &Exit) -> Outcome {
    let lines = if count == 1 {
        "1 line of its output is"
    } else {
        &format!("{count} lines of its output are")
    };
    let message = format!(
        "The agent exited without a result, and {lines} not in its protocol, starting with \
         {first:?}."
    );
    Outcome::new(Cause::Protocol, message)
        .hint(
            "Check that the program is this agent (--program), and that nothing else prints to \
             its stdout.",
        )
        .with(|d| {
            d.exit_code = exit.code;
            d.stderr = (!exit.stderr.is_empty()).then(|| exit.stderr.clone());
        })
}
