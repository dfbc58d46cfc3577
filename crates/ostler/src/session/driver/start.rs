//! Starting the agent: for the first time, and again when its process went before the session did.

use ostler_core::dialect::{Exit, ToAgent, TurnOver};
use ostler_core::event::{Level, Notice};
use ostler_core::machine::Input;
use ostler_core::outcome::Outcome;
use ostler_core::spec::keys;

use super::Driver;
use crate::process::Child;
use crate::resume;
use crate::session::child::{ChildState, RunningChild, StartingChild};
use crate::session::{Body, LaunchedChild, SessionSetup};

/// How many events are read at once.
const PAGE: usize = 1000;

impl Driver {
    /// Starts the agent: for the first time as the spec says, and later so that it goes on where it was.
    pub(super) fn start(&mut self) {
        if self.starts > 0 {
            self.go_on();
        }
        self.starts += 1;
        if self.starts == 1 {
            let notices = self.setup.host.notices().to_vec();
            notices
                .into_iter()
                .for_each(|notice| self.engine.handle(Input::Remark(notice)));
        }
        self.open_aside();
        let SessionSetup {
            spec,
            breaker,
            launch,
            dialect,
            ..
        } = &mut self.setup;
        let is_named = [keys::RESUME, keys::SESSION_ID]
            .iter()
            .any(|key| spec.settings.get(key).is_some());
        if dialect.names_sessions() && !is_named {
            spec.settings
                .set(keys::SESSION_ID, uuid::Uuid::new_v4().to_string());
        }
        let mut launched = breaker.admit(spec).and_then(|()| launch(*dialect, spec));
        if self.starts > 1 && launched.as_ref().is_err_and(is_unknown_session) {
            // It went before it had written anything down. It is told, and better than no agent at all.
            spec.settings.remove(keys::RESUME);
            launched = launch(*dialect, spec);
            self.begins_anew("it had not written down what was said");
        }
        match launched {
            Ok(LaunchedChild {
                body,
                notices,
                written_by,
            }) => {
                self.engine.written_by = written_by;
                notices
                    .into_iter()
                    .for_each(|notice| self.engine.handle(Input::Remark(notice)));
                match body {
                    Body::Process(prepared, wait) => {
                        let patience = self.setup.spec.limits.startup;
                        self.child = ChildState::StartingChild(StartingChild::new(
                            *prepared, wait, patience,
                        ));
                    }
                    Body::Inner(child) => self.awake(child),
                }
            }
            Err(outcome) => self.not_started(outcome),
        }
    }

    pub(super) fn begins_anew(&mut self, why: &str) {
        let message =
            format!("The agent begins anew and knows nothing of what was said before: {why}.");
        self.engine.handle(Input::Remark(Notice::new(
            Level::Warning,
            "fresh_start",
            message,
        )));
    }

    /// The settings with which the agent goes on with what it was doing.
    pub(super) fn go_on(&mut self) {
        if self.setup.dialect.goes_on_from_events() {
            return self.remember();
        }
        let settings = &mut self.setup.spec.settings;
        let dialect = self.setup.dialect;
        let native = self.engine.native.clone();
        match native.filter(|_| dialect.capabilities().resume) {
            Some(native) => {
                settings.set(keys::RESUME, native);
                settings.remove(keys::SESSION_ID);
                settings.remove(keys::FORK);
            }
            // It was cut off before it had said anything: what it was to go on with is still there.
            None if settings.get(keys::RESUME).is_some() => {}
            // The id that it was given names what it may have written down before it said a word, or else a new session.
            None if dialect.names_sessions() && settings.get(keys::SESSION_ID).is_some() => {}
            None => self.begins_anew("it had not said yet how its session is called"),
        }
    }

    /// All that was said so far, for an agent that has no memory of its own.
    fn remember(&mut self) {
        let mut events = self.past.to_vec();
        let mut next = 1;
        loop {
            match self.caller.shared.backlog.fetch(next, PAGE) {
                Ok(page) => {
                    let Some(last) = page.last() else { break };
                    next = last.seq + 1;
                    events.extend(page);
                }
                Err(error) => {
                    events.clear();
                    self.begins_anew(&format!("what was said cannot be read ({error})"));
                    break;
                }
            }
        }
        let on_its_way = self.keeping.iter().flat_map(|(_, batch, _)| batch.iter());
        events.extend(on_its_way.map(|entry| entry.event.clone()));
        events.extend(self.engine.out.waiting().cloned());
        self.setup.spec.past = events.into();
    }

    pub(super) fn not_started(&mut self, outcome: Outcome) {
        self.bridge.close();
        // A second language is tried in the place of the first while the machine takes the agent for started.
        match self.again.take() {
            Some(_) => self.engine.handle(Input::Exited(
                Exit::default(),
                Some(TurnOver::bare(outcome)),
            )),
            None => self.engine.handle(Input::SpawnFailed(outcome)),
        }
    }

    /// The agent went before its first word. Whether another language is tried with it instead.
    pub(super) fn tries_another(&mut self, exit: &Exit) -> bool {
        let first_word = self.starts > 1 || self.raw != (0, 0) || self.again.is_some();
        let other = if first_word {
            None
        } else {
            self.setup.dialect.fallback_transport(exit)
        };
        let Some(other) = other.filter(|_| {
            self.engine.machine.goes_on()
                && (self.engine.in_turn() || !self.engine.machine.ends_with_process())
        }) else {
            return false;
        };
        self.setup.dialect = other;
        self.engine.speaks(other);
        let message =
            "The agent does not know the language that it was started for; another one is tried.";
        self.engine.handle(Input::Remark(Notice::new(
            Level::Info,
            "other_transport",
            message,
        )));
        self.again = Some(self.engine.first.take());
        self.starts = 0;
        self.start();
        true
    }

    pub(super) fn awake(&mut self, mut child: Child) {
        self.caller.shared.set_pid(child.pid.unwrap_or(0));
        if let Some(remark) = child.remark.take() {
            self.engine.handle(Input::Remark(remark));
        }
        let stdin = child.stdin.take();
        let was = std::mem::replace(
            &mut self.child,
            ChildState::Running(RunningChild::new(child)),
        );
        self.engine
            .converse(self.setup.dialect.converse(&self.setup.spec));
        self.engine.open(stdin);
        // What was said in the first language, or while the second was being started.
        if let Some(prompt) = self
            .again
            .take()
            .and_then(|said| said.or_else(|| self.engine.first.take()))
        {
            self.engine.say(ToAgent::Prompt(prompt));
        }
        if matches!(was, ChildState::StartingChild(starting) if starting.interrupted) {
            self.engine.handle(Input::Interrupt);
        }
    }
}

fn is_unknown_session(outcome: &Outcome) -> bool {
    outcome
        .detail
        .as_ref()
        .and_then(|detail| detail.native.as_deref())
        == Some(resume::UNKNOWN_SESSION)
}
