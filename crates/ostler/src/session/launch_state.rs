//! What a session changes about its spec, for the next process of its agent.

use std::borrow::Cow;
use std::sync::Arc;

use ostler_core::dialect::{Bridge, Change, Launching};
use ostler_core::event::Event;
use ostler_core::spec::Spec;

/// Changes since the session started. The caller's spec stays as it is.
#[derive(Debug, Default)]
pub(super) struct LaunchState {
    model: Option<String>,
    permission_mode: Option<String>,
    native: Option<NativeSession>,
    /// How the next process reaches the caller's tools.
    pub(super) bridge: Option<Bridge>,
    /// Events so far, for an agent that keeps no sessions itself.
    pub(super) past: Arc<[Event]>,
}

/// The agent's session in its next process.
#[derive(Debug)]
enum NativeSession {
    /// The one with this id is resumed.
    Resumed(String),
    /// A new one gets this id.
    Assigned(String),
    /// A new one starts, and the agent chooses its id.
    Fresh,
}

impl LaunchState {
    /// Creates the state of a session that resumes these events.
    pub(super) fn new(past: Arc<[Event]>) -> Self {
        Self {
            past,
            ..Self::default()
        }
    }

    /// Stores a change that the agent made during the session.
    pub(super) fn adopt(&mut self, change: Change) {
        match change {
            Change::Model(model) => self.model = Some(model),
            Change::PermissionMode(mode) => self.permission_mode = Some(mode),
        }
    }

    /// Resumes the session with this id.
    pub(super) fn resume(&mut self, native: String) {
        self.native = Some(NativeSession::Resumed(native));
    }

    /// Starts a new session with this id.
    pub(super) fn assign_id(&mut self, id: String) {
        self.native = Some(NativeSession::Assigned(id));
    }

    /// Starts a new session.
    pub(super) fn start_over(&mut self) {
        self.native = Some(NativeSession::Fresh);
    }

    /// Returns what the next process is launched with.
    pub(super) fn launching<'a>(&'a self, spec: &'a Spec) -> Launching<'a> {
        Launching {
            spec,
            bridge: self.bridge.as_ref(),
            past: &self.past,
        }
    }

    /// Returns the spec for the next process.
    pub(super) fn spec<'a>(&self, given: &'a Spec) -> Cow<'a, Spec> {
        if self.model.is_none() && self.permission_mode.is_none() && self.native.is_none() {
            return Cow::Borrowed(given);
        }
        let mut spec = given.clone();
        if self.model.is_some() {
            spec.model.clone_from(&self.model);
        }
        if self.permission_mode.is_some() {
            spec.permission_mode.clone_from(&self.permission_mode);
        }
        if let Some(native) = &self.native {
            (spec.resume, spec.session_id, spec.fork) = match native {
                NativeSession::Resumed(id) => (Some(id.clone()), None, false),
                NativeSession::Assigned(id) => (None, Some(id.clone()), false),
                NativeSession::Fresh => (None, None, false),
            };
        }
        Cow::Owned(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_differs_from_the_spec() {
        let mut given = Spec::new("x")
            .model("a")
            .resume("1")
            .permission_mode("plan");
        given.fork = true;
        let mut state = LaunchState::default();
        let ids = |spec: &Spec| {
            let id = |id: &Option<String>| id.clone().unwrap_or_default();
            (id(&spec.resume), id(&spec.session_id), spec.fork)
        };
        assert_eq!(ids(&state.spec(&given)), ("1".into(), String::new(), true));
        state.adopt(Change::Model("b".into()));
        let spec = state.spec(&given);
        assert_eq!(
            (spec.model.as_deref(), spec.permission_mode.as_deref()),
            (Some("b"), Some("plan"))
        );
        state.resume("2".into());
        assert_eq!(ids(&state.spec(&given)), ("2".into(), String::new(), false));
        state.assign_id("3".into());
        assert_eq!(ids(&state.spec(&given)), (String::new(), "3".into(), false));
        state.start_over();
        assert_eq!(
            ids(&state.spec(&given)),
            (String::new(), String::new(), false)
        );
    }
}
