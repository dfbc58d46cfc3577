//! Spawning the agent: the first time, and again when its process exited before the session ended.

use ostler_core::dialect::{Exit, ToAgent, TurnResult};
use ostler_core::event::Level;
use ostler_core::machine::Input;
use ostler_core::outcome::Outcome;
use ostler_core::spec::keys;

use super::Driver;
use crate::process::Child;
use crate::resume;
use crate::session::child::{ChildState, RunningChild, StartingChild};
use crate::session::{ChildSource, LaunchedChild, SessionSetup};

/// Maximum number of events per page when the history is loaded.
const PAGE: usize = 1000;

impl Driver {
    /// Spawns the agent: the first time as the spec says, later so that it resumes its session.
    pub(super) fn spawn(&mut self) {
        if self.spawns > 0 {
            self.prepare_resume();
        }
        self.spawns += 1;
        if self.spawns == 1 {
            for notice in self.setup.host.notices().to_vec() {
                self.engine.handle(Input::Notice(notice));
            }
        }
        self.open_bridge();
        let SessionSetup {
            spec,
            breaker,
            launch,
            dialect,
            ..
        } = &mut self.setup;
        let has_session_id = [keys::RESUME, keys::SESSION_ID]
            .iter()
            .any(|key| spec.settings.get(key).is_some());
        if dialect.needs_session_id() && !has_session_id {
            spec.settings
                .set(keys::SESSION_ID, uuid::Uuid::new_v4().to_string());
        }
        let mut launched = breaker.admit(spec).and_then(|()| launch(*dialect, spec));
        if self.spawns > 1 && launched.as_ref().is_err_and(is_unknown_session) {
            // It exited before it saved anything. A fresh start, reported, beats no agent at all.
            spec.settings.remove(keys::RESUME);
            launched = launch(*dialect, spec);
            self.warn_fresh_start("it had not saved the conversation yet");
        }
        match launched {
            Ok(LaunchedChild {
                source,
                notices,
                written_by,
            }) => {
                self.engine.written_by = written_by;
                for notice in notices {
                    self.engine.handle(Input::Notice(notice));
                }
                match source {
                    ChildSource::Process(prepared, delay) => {
                        let timeout = self.setup.spec.limits.startup;
                        let starting = StartingChild::new(*prepared, delay, timeout);
                        self.child = ChildState::Starting(starting);
                    }
                    ChildSource::InProcess(child) => self.on_spawned(child),
                }
            }
            Err(outcome) => self.on_spawn_failed(outcome),
        }
    }

    fn warn_fresh_start(&mut self, why: &str) {
        let message = format!("The agent starts over, without the conversation so far: {why}.");
        self.notice(Level::Warning, "fresh_start", message);
    }

    /// Changes the settings so that the next process resumes the agent's session.
    fn prepare_resume(&mut self) {
        if self.setup.dialect.resumes_from_events() {
            return self.load_history();
        }
        let settings = &mut self.setup.spec.settings;
        let dialect = self.setup.dialect;
        let native = self.engine.native_session.clone();
        match native.filter(|_| dialect.capabilities().resume) {
            Some(native) => {
                settings.set(keys::RESUME, native);
                settings.remove(keys::SESSION_ID);
                settings.remove(keys::FORK);
            }
            // Cut off before its first line: the session it was to resume is still in the settings.
            None if settings.get(keys::RESUME).is_some() => {}
            // The assigned id names what it may have saved already, or a new session.
            None if dialect.needs_session_id() && settings.get(keys::SESSION_ID).is_some() => {}
            None => self.warn_fresh_start("it had not reported its session id yet"),
        }
    }

    /// Collects all events of the session so far, for an agent that keeps no sessions itself.
    fn load_history(&mut self) {
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
                    self.warn_fresh_start(&format!("its events cannot be read ({error})"));
                    break;
                }
            }
        }
        let appending = self.appending.iter().flat_map(|append| append.batch.iter());
        events.extend(appending.map(|entry| entry.event.clone()));
        events.extend(self.engine.events.queued().cloned());
        self.setup.spec.past = events.into();
    }

    pub(super) fn on_spawn_failed(&mut self, outcome: Outcome) {
        self.bridge.close();
        // For the machine, a fallback transport belongs to the process that already started.
        match self.fallback.take() {
            Some(_) => {
                let result = TurnResult::new(outcome);
                self.engine
                    .handle(Input::Exited(Exit::default(), Some(result)));
            }
            None => self.engine.handle(Input::SpawnFailed(outcome)),
        }
    }

    /// Restarts the agent with its fallback transport if it exited before its first line because it
    /// does not know the first one. Returns false if it does not apply.
    pub(super) fn try_fallback_transport(&mut self, exit: &Exit) -> bool {
        let too_late = self.spawns > 1 || self.raw_bytes != (0, 0) || self.fallback.is_some();
        let other = if too_late {
            None
        } else {
            self.setup.dialect.fallback_transport(exit)
        };
        let Some(other) = other.filter(|_| {
            self.engine.machine.is_undisturbed()
                && (self.engine.in_turn() || !self.engine.machine.ends_on_exit())
        }) else {
            return false;
        };
        self.setup.dialect = other;
        self.engine.set_dialect(other);
        let message =
            "The agent does not support the protocol it was started with; trying another one.";
        self.notice(Level::Info, "other_transport", message);
        self.fallback = Some(self.engine.first_prompt.take());
        self.spawns = 0;
        self.spawn();
        true
    }

    pub(super) fn on_spawned(&mut self, mut child: Child) {
        self.caller.shared.set_pid(child.pid.unwrap_or(0));
        if let Some(notice) = child.notice.take() {
            self.engine.handle(Input::Notice(notice));
        }
        let stdin = child.stdin.take();
        let previous = std::mem::replace(
            &mut self.child,
            ChildState::Running(RunningChild::new(child)),
        );
        let conversation = self.setup.dialect.converse(&self.setup.spec);
        self.engine.set_conversation(conversation);
        self.engine.on_spawned(stdin);
        // Repeat the prompt that the first transport was sent, or that came during the restart.
        if let Some(prompt) = self
            .fallback
            .take()
            .and_then(|sent| sent.or_else(|| self.engine.first_prompt.take()))
        {
            self.engine.send(ToAgent::Prompt(prompt));
        }
        if matches!(previous, ChildState::Starting(starting) if starting.interrupted) {
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
