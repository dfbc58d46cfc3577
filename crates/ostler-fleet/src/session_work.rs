//! Sessions as work: everything that a worker needs to run one, without secrets.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use ostler::Spec;
use ostler::permission::Policy;
use ostler::spec::Sandbox;
use ostler_eval::case::Source;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::attachment::Attachment;

/// A live session. Its directory is a checkout of the source on the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionWork {
    /// Ostler's id of the session.
    pub session: String,
    /// The agent, by its name on the worker.
    pub agent: String,
    /// The model.
    pub model: Option<String>,
    /// Settings of the agent.
    pub settings: BTreeMap<String, Value>,
    /// The first message; empty for a session that waits for one.
    pub prompt: String,
    /// The caller's labels.
    pub labels: BTreeMap<String, String>,
    /// Whether permission requests are answered.
    pub is_attended: bool,
    /// Whether the session ends after its first turn.
    pub ends_after_turn: bool,
    /// The owner's policy. Rules of the worker that deny come first.
    pub policy: Option<Value>,
    /// Restrictions on the agent's process, by their name on the command line.
    pub sandbox: String,
    /// Limits. Lower ones of the worker count.
    pub limits: SessionLimits,
    /// What the agent works on.
    pub source: Source,
    /// The session's directory in it.
    pub subdir: PathBuf,
    /// Whether the owner has the base commit, so that the result omits it.
    pub has_base: bool,
    /// The owner's seed, if the source lies on its machine.
    pub attachments: Vec<Attachment>,
}

/// Limits of a session. `None` for no limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionLimits {
    wall_ms: Option<u64>,
    idle_ms: Option<u64>,
    startup_ms: Option<u64>,
    grace_ms: Option<u64>,
    budget_usd: Option<f64>,
    budget_tokens: Option<u64>,
    budget_turns: Option<u32>,
    budget_wall_ms: Option<u64>,
    event_bytes: Option<u64>,
}

/// A session that cannot be prepared as its owner wants it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionWorkError {
    /// The policy cannot be read.
    #[error("the owner's policy cannot be read: {0}")]
    Policy(String),
    /// The directory lies elsewhere.
    #[error("{} is not a directory of the source", .0.display())]
    Subdir(PathBuf),
}

impl SessionWork {
    /// Returns what the session may cost in US dollars, if it is limited.
    #[must_use]
    pub fn max_usd(&self) -> Option<f64> {
        self.limits.budget_usd
    }

    /// Returns the session's directory below its checkout.
    ///
    /// # Errors
    /// If it would lie elsewhere.
    pub fn dir(&self, workspace: &Path) -> Result<PathBuf, SessionWorkError> {
        let is_below = |part: Component<'_>| matches!(part, Component::Normal(_));
        let dir = workspace.join(&self.subdir);
        match self.subdir.components().all(is_below) && dir.is_dir() {
            true => Ok(dir),
            false => Err(SessionWorkError::Subdir(self.subdir.clone())),
        }
    }

    /// Applies the owner's policy, sandbox and limits to a spec of the worker. What the worker
    /// forbids stays forbidden.
    ///
    /// # Errors
    /// If the policy cannot be read.
    pub fn restrict(&self, spec: &mut Spec) -> Result<(), SessionWorkError> {
        if let Some(policy) = &self.policy {
            let policy = serde_json::from_value::<Policy>(policy.clone());
            let policy = policy.map_err(|error| SessionWorkError::Policy(error.to_string()))?;
            spec.policy = Some(match &spec.policy {
                Some(own) => own.denials().then(policy),
                None => policy,
            });
        }
        // Of two modes, the stricter one counts. One that only a later Ostler knows is replaced by
        // the strictest.
        let by_strictness = [
            Sandbox::Off,
            Sandbox::Usual,
            Sandbox::WorkspaceWrite,
            Sandbox::ReadOnly,
        ];
        let of_owner = by_strictness
            .iter()
            .position(|mode| mode.as_str() == self.sandbox);
        let of_worker = by_strictness.iter().position(|mode| *mode == spec.sandbox);
        spec.sandbox = match (of_owner, of_worker) {
            (Some(owner), Some(worker)) => by_strictness[owner.max(worker)],
            _ => Sandbox::ReadOnly,
        };
        self.limits.apply(spec);
        Ok(())
    }
}

impl SessionLimits {
    /// Returns the limits of a spec.
    #[must_use]
    pub fn of(spec: &Spec) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let limits = &spec.limits;
        Self {
            wall_ms: limits.wall.map(ms),
            idle_ms: limits.idle.map(ms),
            startup_ms: limits.startup.map(ms),
            grace_ms: Some(ms(limits.grace)),
            budget_usd: limits.budget_usd.or(spec.max_budget_usd),
            budget_tokens: limits.budget_tokens,
            budget_turns: limits.budget_turns,
            budget_wall_ms: limits.budget_wall.map(ms),
            event_bytes: limits.event_bytes,
        }
    }

    /// Lowers the limits of a spec to these.
    fn apply(&self, spec: &mut Spec) {
        let time = |own: &mut Option<Duration>, most: Option<u64>| {
            *own = lower(*own, most.map(Duration::from_millis));
        };
        let limits = &mut spec.limits;
        time(&mut limits.wall, self.wall_ms);
        time(&mut limits.idle, self.idle_ms);
        time(&mut limits.startup, self.startup_ms);
        time(&mut limits.budget_wall, self.budget_wall_ms);
        let grace = lower(Some(limits.grace), self.grace_ms.map(Duration::from_millis));
        limits.grace = grace.unwrap_or(limits.grace);
        limits.budget_usd = lower(limits.budget_usd, self.budget_usd);
        limits.budget_tokens = lower(limits.budget_tokens, self.budget_tokens);
        limits.budget_turns = lower(limits.budget_turns, self.budget_turns);
        limits.event_bytes = lower(limits.event_bytes, self.event_bytes);
    }
}

/// Returns the lower one of two limits.
fn lower<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b < a { b } else { a }),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use ostler::permission::{PolicyAction, Preset, ToolKind, ToolUse};

    use super::*;

    fn work() -> SessionWork {
        SessionWork {
            session: String::new(),
            agent: "claude".to_owned(),
            model: None,
            settings: BTreeMap::new(),
            prompt: String::new(),
            labels: BTreeMap::new(),
            is_attended: true,
            ends_after_turn: false,
            policy: None,
            sandbox: "usual".to_owned(),
            limits: SessionLimits::default(),
            source: Source::Empty,
            subdir: PathBuf::new(),
            has_base: true,
            attachments: Vec::new(),
        }
    }

    #[test]
    fn the_owner_cannot_allow_what_the_worker_denies() {
        let policy = |preset: Preset| Policy::preset(preset);
        let mut session = work();
        session.policy = Some(serde_json::to_value(policy(Preset::All)).unwrap());
        let mut spec = Spec::new("x").policy(policy(Preset::ReadOnly));
        session.restrict(&mut spec).unwrap();
        let edit = ToolUse {
            tool: "Edit".to_owned(),
            kind: ToolKind::Edit,
            command: None,
            paths: vec!["/w/a.txt".to_owned()],
        };
        let decided = spec.policy.unwrap().decide(&edit, "/w");
        assert!(
            matches!(decided.action, PolicyAction::Deny(_)),
            "{decided:?}"
        );
        session.policy = Some(Value::from(7));
        assert!(session.restrict(&mut Spec::new("x")).is_err());
        session.sandbox = "of a later version".to_owned();
        session.policy = None;
        let mut spec = Spec::new("x");
        session.restrict(&mut spec).unwrap();
        assert_eq!(spec.sandbox, Sandbox::ReadOnly);
        for (owner, worker, result) in [
            (Sandbox::Off, Sandbox::Usual, Sandbox::Usual),
            (
                Sandbox::Off,
                Sandbox::WorkspaceWrite,
                Sandbox::WorkspaceWrite,
            ),
            (Sandbox::ReadOnly, Sandbox::Usual, Sandbox::ReadOnly),
        ] {
            session.sandbox = owner.as_str().to_owned();
            let mut spec = Spec::new("x").sandbox(worker);
            session.restrict(&mut spec).unwrap();
            assert_eq!(spec.sandbox, result);
        }
    }

    #[test]
    fn lower_limits_count() {
        let mut session = work();
        let wanted = ostler::spec::Limits::default().budget_tokens(Some(10));
        session.limits = SessionLimits::of(&Spec::new("x").limits(wanted));
        let mut spec = Spec::new("x");
        spec.limits.budget_tokens = Some(5);
        session.restrict(&mut spec).unwrap();
        assert_eq!(spec.limits.budget_tokens, Some(5));
        spec.limits.budget_tokens = None;
        session.restrict(&mut spec).unwrap();
        assert_eq!(spec.limits.budget_tokens, Some(10));
    }

    #[test]
    fn the_directory_lies_in_the_checkout() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("a")).unwrap();
        let mut session = work();
        for (subdir, is_fine) in [("", true), ("a", true), ("b", false), ("../x", false)] {
            session.subdir = subdir.into();
            assert_eq!(session.dir(root.path()).is_ok(), is_fine, "{subdir}");
        }
        session.subdir = "/".into();
        assert!(session.dir(root.path()).is_err());
    }
}
