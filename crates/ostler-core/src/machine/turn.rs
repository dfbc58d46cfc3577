//! One turn: what is open in it, what limits it, and how it is closed.

use std::time::Duration;

use crate::clip::Capped;
use crate::dialect::{Exit, TurnResult};
use crate::event::{Decision, EventKind, Level, Notice, Origin, TextKind, TurnEnded};
use crate::outcome::{Cause, Outcome};
use crate::spec::Limits;

use super::account::PerModel;

/// Number of characters of an unreadable line that an outcome quotes.
const PREVIEW: usize = 200;

/// What the agent was asked to end the turn for, and until when its answer is awaited.
#[derive(Debug)]
pub(super) enum Pending {
    /// The caller interrupted it.
    Interrupt(Duration),
    /// The caller ends the session.
    Stop(Duration),
    /// A limit was reached.
    Limit((Box<Outcome>, Duration)),
}

/// What a passed deadline means.
pub(super) enum Due {
    /// A limit was reached: ask the agent to end the turn.
    Limit(Outcome),
    /// The agent was asked and did not answer.
    NoAnswer(Outcome),
}

/// A turn that is over.
pub(super) struct Closed {
    pub(super) ended: TurnEnded,
    pub(super) used: PerModel,
    /// Whether the agent gave its account of what was used; else it is what was heard on the way.
    pub(super) accounted: bool,
    pub(super) pending: Option<Pending>,
    pub(super) origin: Origin,
}

/// A turn that is under way.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) origin: Origin,
    /// Since when its wall time counts: the turn's beginning, or the task's when the turn is a part of one.
    since: Duration,
    /// Whether the agent was heard at all; before that, the startup limit watches.
    pub(super) awake: bool,
    /// When the agent was last heard.
    activity: Duration,
    /// Permissions that were asked and not decided.
    asked: Vec<String>,
    /// Number of output lines since the agent last worked that could not be read, and the beginning of the first.
    unreadable: Option<(u32, String)>,
    /// What it has used, as heard while it runs: all that is known when it ends without an account.
    pub(super) used: PerModel,
    text: Capped,
    message: Option<String>,
    pub(super) pending: Option<Pending>,
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
            used: PerModel::default(),
            text: Capped::new(output_cap),
            message: None,
            pending: None,
        }
    }

    /// When the agent was last heard; before its first word, when it was asked.
    pub(super) fn last_heard(&self) -> Duration {
        self.activity
    }

    pub(super) fn touch(&mut self, now: Duration) {
        self.activity = now;
    }

    /// The time that it stood still does not count.
    pub(super) fn shift(&mut self, by: Duration) {
        self.since = self.since.saturating_add(by);
        self.activity = self.activity.saturating_add(by);
        if let Some(Pending::Interrupt(until) | Pending::Stop(until) | Pending::Limit((_, until))) =
            &mut self.pending
        {
            *until = until.saturating_add(by);
        }
    }

    /// Takes note of what the agent said.
    pub(super) fn note(&mut self, now: Duration, kind: &EventKind) {
        self.activity = now;
        if matches!(
            kind,
            EventKind::Text(_) | EventKind::ToolCall(_) | EventKind::ToolResult(_)
        ) {
            self.unreadable = None; // a stray line among others: the agent speaks its protocol
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
                    self.asked.retain(|id| *id != permission.id)
                }
            },
            EventKind::Usage(usage) => self.used.note(usage),
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
    pub(super) fn cut_off(&self, exit: &Exit) -> Outcome {
        match &self.unreadable {
            Some((count, first)) if exit.code == Some(0) => invalid_response(*count, first, exit),
            _ => died(exit),
        }
    }

    /// The next moment at which something is due.
    pub(super) fn deadline(&self, limits: &Limits, may_be_silent: bool) -> Option<Duration> {
        match &self.pending {
            Some(Pending::Interrupt(until) | Pending::Stop(until) | Pending::Limit((_, until))) => {
                Some(*until)
            }
            None => [self.wall(limits), self.idle(limits, may_be_silent)]
                .into_iter()
                .flatten()
                .min(),
        }
    }

    fn wall(&self, limits: &Limits) -> Option<Duration> {
        self.since.checked_add(limits.wall?)
    }

    /// Silence counts only while the model is the one to speak: not while a tool runs, somebody is asked, or the agent is one
    /// that says nothing until it is done.
    fn idle(&self, limits: &Limits, may_be_silent: bool) -> Option<Duration> {
        let models_turn = self.awake && !may_be_silent && self.asked.is_empty();
        self.activity
            .checked_add(limits.idle?)
            .filter(|_| models_turn)
    }

    /// What is due now.
    pub(super) fn due(&self, now: Duration, limits: &Limits, may_be_silent: bool) -> Option<Due> {
        match &self.pending {
            Some(pending) => {
                let (Pending::Interrupt(until) | Pending::Stop(until) | Pending::Limit((_, until))) =
                    pending;
                (*until <= now).then(|| Due::NoAnswer(interrupted(false)))
            }
            None if self.wall(limits).is_some_and(|d| d <= now) => {
                Some(Due::Limit(wall_limit(limits)))
            }
            None if self.idle(limits, may_be_silent).is_some_and(|d| d <= now) => {
                Some(Due::Limit(idle_limit(limits)))
            }
            None => None,
        }
    }

    /// Ends the turn: settles between what the agent says and what was asked of it.
    pub(super) fn close(self, over: TurnResult, mut emit: impl FnMut(EventKind)) -> Closed {
        let outcome = match &self.pending {
            Some(Pending::Limit((outcome, _))) => (**outcome).clone(),
            // It finished before it could be stopped: that is what happened.
            _ if over.outcome.is_success() => over.outcome,
            Some(Pending::Interrupt(_)) => {
                interrupted(over.outcome.cause == Cause::Interrupted && acknowledged(&over.outcome))
            }
            Some(Pending::Stop(_)) => Outcome::new(
                Cause::Stopped,
                "The turn was cut short because the session was stopped.",
            ),
            None => over.outcome,
        };
        for part in &over.usage {
            emit(part.clone().into());
        }
        let accounted = !over.usage.is_empty();
        let used = if accounted {
            over.usage.into_iter().collect()
        } else {
            self.used
        };
        let cap = self.text.cap();
        let text = match over.text {
            Some(whole) => {
                let mut text = Capped::new(cap);
                text.push(&whole);
                text
            }
            None => self.text,
        };
        if text.truncated() {
            let message = format!("The answer is longer than {cap} bytes; the rest was left out.");
            emit(Notice::new(Level::Warning, "output_truncated", message).into());
        }
        let ended = TurnEnded {
            outcome,
            text: text.into_text(),
            structured: over.structured,
            usage: used.sum(),
        };
        Closed {
            ended,
            used,
            accounted,
            pending: self.pending,
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
        "The turn was interrupted; the agent did not acknowledge it and was ended."
    };
    Outcome::new(Cause::Interrupted, message).with(|d| d.acknowledged = Some(acknowledged))
}

/// The turn was over, and only background tasks were left to interrupt.
pub(super) fn background_interrupted() -> Outcome {
    Outcome::new(
        Cause::Interrupted,
        "The agent's background tasks were interrupted.",
    )
}

/// The turn was over, and only background tasks were left to stop.
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
    limit(Cause::WallLimit, limits.wall, "It took longer than {}.")
        .hint("Give it more time (--timeout), or a smaller task.")
}

fn idle_limit(limits: &Limits) -> Outcome {
    limit(
        Cause::IdleLimit,
        limits.idle,
        "The agent said nothing for {} while no tool was running.",
    )
    .hint("The model's service may hang; try again, or allow more silence (--idle-timeout).")
}

pub(super) fn startup_limit(limits: &Limits) -> Outcome {
    limit(
        Cause::StartupLimit,
        limits.startup,
        "The agent said nothing within {} after it was started.",
    )
    .hint("Start the agent by hand once, to see what it waits for.")
}

/// The process is gone and nothing explains it.
pub(super) fn died(exit: &Exit) -> Outcome {
    let how = match (exit.code, exit.signal) {
        (_, Some(signal)) => format!("was killed by signal {signal}"),
        (Some(code), None) => format!("ended with exit code {code}"),
        (None, None) => "is gone".to_owned(),
    };
    Outcome::new(
        Cause::AgentDied,
        format!("The agent's process {how} before the turn was over."),
    )
    .with(|d| {
        d.exit_code = exit.code;
        d.signal = exit.signal;
        d.stderr = (!exit.stderr.is_empty()).then(|| exit.stderr.clone());
    })
}

/// The process exited as if all were well, but what it printed is not in its protocol.
fn invalid_response(count: u32, first: &str, exit: &Exit) -> Outcome {
    let lines = if count == 1 {
        "1 line of its output is"
    } else {
        &format!("{count} lines of its output are")
    };
    let message = format!(
        "The agent exited without a result, and {lines} not in its protocol, beginning with {first:?}."
    );
    Outcome::new(Cause::Protocol, message)
        .hint("Check that the program is this agent (--program), and that nothing else prints to its standard output.")
        .with(|d| {
            d.exit_code = exit.code;
            d.stderr = (!exit.stderr.is_empty()).then(|| exit.stderr.clone());
        })
}
