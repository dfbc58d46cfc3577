//! One turn: what is open in it, what limits it, and how it is closed.

use std::time::Duration;

use crate::clip::Capped;
use crate::dialect::{Exit, TurnOver};
use crate::event::{Decision, Level, Notice, TextKind, ToolResult, TurnEnded, What};
use crate::outcome::{Cause, Outcome};
use crate::spec::Limits;
use crate::usage::{Scope, Usage};

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

/// A turn that is under way.
#[derive(Debug)]
pub(super) struct Turn {
    began: Duration,
    /// Whether the agent was heard at all; before that, the startup limit watches.
    pub(super) awake: bool,
    /// When the agent was last heard.
    activity: Duration,
    /// Tool calls without a result: id and name.
    tools: Vec<(String, String)>,
    /// Permissions that were asked and not decided.
    asked: Vec<String>,
    text: Capped,
    message: Option<String>,
    pub(super) pending: Option<Pending>,
}

impl Turn {
    pub(super) fn new(now: Duration, output_cap: usize) -> Self {
        Self {
            began: now,
            awake: false,
            activity: now,
            tools: Vec::new(),
            asked: Vec::new(),
            text: Capped::new(output_cap),
            message: None,
            pending: None,
        }
    }

    pub(super) fn touch(&mut self, now: Duration) {
        self.activity = now;
    }

    /// Takes note of what the agent said; `None` when the caller has heard it already.
    pub(super) fn note(&mut self, now: Duration, mut what: What) -> Option<What> {
        self.activity = now;
        match &mut what {
            What::Text(text) if text.kind == TextKind::Reply && text.parent.is_none() => {
                if text.message != self.message && !self.text.is_empty() {
                    self.text.push("\n\n");
                }
                self.message.clone_from(&text.message);
                self.text.push(&text.text);
            }
            What::ToolCall(call) => {
                if self.tools.iter().any(|(id, _)| *id == call.id) {
                    return None;
                }
                self.tools.push((call.id.clone(), call.name.clone()));
            }
            What::ToolResult(result) => {
                if let Some(at) = self.tools.iter().position(|(id, _)| *id == result.id) {
                    let (_, name) = self.tools.remove(at);
                    result.name.get_or_insert(name);
                }
            }
            What::Permission(permission) => match permission.decision {
                Decision::Asked => self.asked.push(permission.id.clone()),
                Decision::Allowed | Decision::Denied => self.asked.retain(|id| *id != permission.id),
            },
            _ => {}
        }
        Some(what)
    }

    /// The next moment at which something is due.
    pub(super) fn deadline(&self, limits: &Limits) -> Option<Duration> {
        match &self.pending {
            Some(Pending::Interrupt(until) | Pending::Stop(until) | Pending::Limit((_, until))) => Some(*until),
            None => [self.wall(limits), self.idle(limits)].into_iter().flatten().min(),
        }
    }

    fn wall(&self, limits: &Limits) -> Option<Duration> {
        Some(self.began + limits.wall?)
    }

    /// Silence counts only while the model is the one to speak: not while a tool runs or somebody is asked.
    fn idle(&self, limits: &Limits) -> Option<Duration> {
        let models_turn = self.awake && self.tools.is_empty() && self.asked.is_empty();
        models_turn.then_some(self.activity + limits.idle?)
    }

    /// What is due now.
    pub(super) fn due(&self, now: Duration, limits: &Limits) -> Option<Due> {
        match &self.pending {
            Some(pending) => {
                let (Pending::Interrupt(until) | Pending::Stop(until) | Pending::Limit((_, until))) = pending;
                (*until <= now).then(|| Due::NoAnswer(interrupted(false)))
            }
            None if self.wall(limits).is_some_and(|d| d <= now) => Some(Due::Limit(wall_limit(limits))),
            None if self.idle(limits).is_some_and(|d| d <= now) => Some(Due::Limit(idle_limit(limits))),
            None => None,
        }
    }

    /// Ends the turn: pairs what is open, and settles between what the agent says and what was asked of it.
    pub(super) fn close(self, over: TurnOver, mut emit: impl FnMut(What)) -> (TurnEnded, Vec<Usage>, Option<Pending>) {
        for (id, name) in self.tools {
            let output = "no result: the turn ended".to_owned();
            emit(ToolResult { id, name: Some(name), ok: false, output, denied: false, content: None }.into());
        }
        let outcome = match &self.pending {
            Some(Pending::Limit((outcome, _))) => (**outcome).clone(),
            // It finished before it could be stopped: that is what happened.
            _ if over.outcome.is_success() => over.outcome,
            Some(Pending::Interrupt(_)) => {
                interrupted(over.outcome.cause == Cause::Interrupted && acknowledged(&over.outcome))
            }
            Some(Pending::Stop(_)) => {
                Outcome::new(Cause::Stopped, "The turn was cut short because the session was stopped.")
            }
            None => over.outcome,
        };
        let mut sum: Option<Usage> = None;
        for part in &over.usage {
            emit(part.clone().into());
            sum.get_or_insert_with(|| Usage::unknown(Scope::Turn)).add(part);
        }
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
        let ended = TurnEnded { outcome, text: text.into_text(), structured: over.structured, usage: sum };
        (ended, over.usage, self.pending)
    }
}

fn acknowledged(outcome: &Outcome) -> bool {
    outcome.detail.as_ref().and_then(|d| d.acknowledged).unwrap_or(true)
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
    Outcome::new(Cause::Interrupted, "The agent's background tasks were interrupted.")
}

fn limit(cause: Cause, limit: Option<Duration>, message: &str) -> Outcome {
    let limit = limit.unwrap_or_default();
    let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    Outcome::new(cause, message.replace("{}", &format!("{limit:?}"))).with(|d| d.limit_ms = Some(millis))
}

fn wall_limit(limits: &Limits) -> Outcome {
    limit(Cause::WallLimit, limits.wall, "The turn took longer than {}.")
        .hint("Give it more time (--timeout), or a smaller task.")
}

fn idle_limit(limits: &Limits) -> Outcome {
    limit(Cause::IdleLimit, limits.idle, "The agent said nothing for {} while no tool was running.")
        .hint("The model's service may hang; try again, or allow more silence (--idle-timeout).")
}

pub(super) fn startup_limit(limits: &Limits) -> Outcome {
    limit(Cause::StartupLimit, limits.startup, "The agent said nothing within {} after it was started.")
        .hint("Start the agent by hand once, to see what it waits for.")
}

/// The process is gone and nothing explains it.
pub(super) fn died(exit: &Exit) -> Outcome {
    let how = match (exit.code, exit.signal) {
        (_, Some(signal)) => format!("was killed by signal {signal}"),
        (Some(code), None) => format!("ended with exit code {code}"),
        (None, None) => "is gone".to_owned(),
    };
    Outcome::new(Cause::AgentDied, format!("The agent's process {how} before the turn was over.")).with(|d| {
        d.exit_code = exit.code;
        d.signal = exit.signal;
        d.stderr = (!exit.stderr.is_empty()).then(|| exit.stderr.clone());
    })
}
