//! Spawning the agent: at the start of the session, and again if its process exited before the
//! session ended.

use ostler_core::dialect::{Exit, ToAgent, TurnResult};
use ostler_core::event::{Level, NoticeCode};
use ostler_core::machine::{Completion, Input, Interruption};
use ostler_core::outcome::{Outcome, Reason};

use super::{Driver, RawBytes};
use crate::process::Child;
use crate::session::child::{ChildState, RunningChild, StartingChild};
use crate::session::stdin::StdinQueue;
use crate::session::{ChildSource, LaunchedChild};

/// Maximum number of events per page when the history is loaded.
const HISTORY_PAGE: usize = 1000;

impl Driver {
    /// Spawns the agent: the first time as the spec says, later to resume its session.
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
        let spec = self.state.spec(&self.setup.spec);
        let assigns = self.setup.dialect.about().capabilities.assigned_session_id;
        if assigns && spec.resume.is_none() && spec.session_id.is_none() {
            self.state.assign_id(uuid::Uuid::new_v4().to_string());
        }
        let admitted = self.setup.breaker.admit(&spec);
        let mut launched = admitted.and_then(|()| self.launch());
        if self.spawns > 1 && launched.as_ref().is_err_and(is_unknown_session) {
            // The agent exited before it saved anything. Starting over is better than failing.
            self.state.start_over();
            launched = self.launch();
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
                        let starting = StartingChild::new(prepared, delay, timeout);
                        self.child = ChildState::Starting(starting);
                    }
                    ChildSource::InProcess(child) => self.on_spawned(child),
                }
            }
            Err(outcome) => self.on_spawn_failed(outcome),
        }
    }

    /// Prepares the next process.
    fn launch(&mut self) -> Result<LaunchedChild, Outcome> {
        let spec = self.state.spec(&self.setup.spec);
        let launching = self.state.launching(&spec);
        (self.setup.launch)(self.setup.dialect, &launching)
    }

    fn warn_fresh_start(&mut self, why: &str) {
        let message = format!("The agent starts over, without the conversation so far: {why}.");
        self.notice(Level::Warning, NoticeCode::FreshStart, message);
    }

    /// Makes the next process resume the agent's session.
    fn prepare_resume(&mut self) {
        if self.setup.dialect.about().capabilities.resumes_from_events {
            return self.load_history();
        }
        let capabilities = self.setup.dialect.about().capabilities;
        let spec = self.state.spec(&self.setup.spec);
        let native = self.engine.native_session.clone();
        match native.filter(|_| capabilities.resume) {
            Some(native) => self.state.resume(native),
            // The agent exited before its first line, so the session to resume is the same.
            None if spec.resume.is_some() => {}
            // With the assigned id, the agent resumes the session if it saved one, or creates it.
            None if capabilities.assigned_session_id && spec.session_id.is_some() => {}
            None => self.warn_fresh_start("it had not reported its session id yet"),
        }
    }

    /// Collects all events of the session so far, for an agent that does not store sessions itself.
    fn load_history(&mut self) {
        let mut events = self.setup.past.to_vec();
        let mut next = 1;
        loop {
            match self.caller.shared.backlog.fetch(next, HISTORY_PAGE) {
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
        events.extend(self.appending.unpublished().cloned());
        events.extend(self.engine.events.queued().cloned());
        self.state.past = events.into();
    }

    pub(super) fn on_spawn_failed(&mut self, outcome: Outcome) {
        self.bridge.close();
        let previous = std::mem::replace(&mut self.child, ChildState::NotRunning);
        let interruption = Interruption::of(&outcome);
        // To the machine, the fallback is still the process that started with the first transport.
        match self.fallback.take() {
            Some(_) => {
                let result = TurnResult::new(outcome);
                self.engine
                    .handle(Input::Exited(Exit::default(), Some(result)));
            }
            None => self.engine.handle(Input::SpawnFailed(outcome)),
        }
        for request in previous.into_interrupts() {
            self.engine
                .complete(request, Completion::Interrupted(interruption));
        }
    }

    /// Restarts the agent with its fallback transport if it exited before its first line because it
    /// does not support the first transport. Returns false if no fallback applies.
    pub(super) fn try_fallback_transport(&mut self, exit: &Exit) -> bool {
        let has_output = self.raw_bytes != RawBytes::default();
        let too_late = self.spawns > 1 || has_output || self.fallback.is_some();
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
        self.notice(Level::Info, NoticeCode::OtherTransport, message);
        self.fallback = Some(self.engine.first_prompt.take());
        self.spawns = 0;
        self.spawn();
        true
    }

    pub(super) fn on_spawned(&mut self, mut child: Child) {
        self.caller.shared.set_pid(child.pid.unwrap_or(0));
        self.engine.events.trace.pid = child.pid;
        if let Some(notice) = child.notice.take() {
            self.engine.handle(Input::Notice(notice));
        }
        self.stdin = StdinQueue::new(child.stdin.take());
        let previous = std::mem::replace(
            &mut self.child,
            ChildState::Running(RunningChild::new(child)),
        );
        let spec = self.state.spec(&self.setup.spec);
        let launching = self.state.launching(&spec);
        let conversation = self.setup.dialect.converse(&launching);
        self.engine.set_conversation(conversation);
        self.engine.on_spawned();
        // Resend the prompt from the first transport, or send one that arrived during the restart.
        if let Some(prompt) = self
            .fallback
            .take()
            .and_then(|sent| sent.or_else(|| self.engine.first_prompt.take()))
        {
            self.engine.send(ToAgent::Prompt(prompt));
        }
        for request in previous.into_interrupts() {
            self.engine.handle(Input::Interrupt(request));
        }
    }
}

fn is_unknown_session(outcome: &Outcome) -> bool {
    outcome.reason() == Some(&Reason::UnknownSession)
}
