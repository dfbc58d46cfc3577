//! Granted permissions: what a session may do, fixed when it is created.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ostler::Spec;
use ostler::permission::Policy;
use ostler::spec::{ProjectSettings, Sandbox, keys};
use serde::{Deserialize, Serialize};

/// Settings that belong to one session, and say nothing about its permissions.
const PER_SESSION: &[&str] = &[keys::MODEL, keys::RESUME, keys::FORK, keys::SESSION_ID];

/// The permissions of a session. A resumed, restarted or forked session gets these, whatever the
/// configuration says by then.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Granted {
    policy: Option<Policy>,
    trusts_project: bool,
    sandbox: String,
    settings: BTreeMap<String, Vec<String>>,
    /// Limits of the session, which bound those of its children.
    #[serde(default)]
    pub(crate) limits: Option<Allowance>,
    #[serde(default)]
    program: Option<PathBuf>,
    #[serde(default)]
    extra_args: Vec<String>,
}

/// Limits of a session, and of everything that its agent starts. `None` for no limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Allowance {
    wall_ms: Option<u64>,
    idle_ms: Option<u64>,
    startup_ms: Option<u64>,
    grace_ms: Option<u64>,
    pub(crate) budget_usd: Option<f64>,
    pub(crate) budget_tokens: Option<u64>,
    budget_turns: Option<u32>,
    budget_wall_ms: Option<u64>,
    event_bytes: Option<u64>,
    raw_bytes: Option<u64>,
}

/// What a session and its children have used.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) cost_usd: f64,
    pub(crate) tokens: u64,
    pub(crate) time_ms: u64,
}

impl Allowance {
    /// Returns the limits of a spec.
    pub(crate) fn of(spec: &Spec) -> Self {
        let limits = &spec.limits;
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
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
            raw_bytes: limits.raw_bytes,
        }
    }

    /// Returns what is left for another session; `None` if nothing is.
    pub(crate) fn left(&self, spent: &Spent) -> Option<Self> {
        let left = Self {
            budget_usd: self.budget_usd.map(|budget| budget - spent.cost_usd),
            budget_tokens: self
                .budget_tokens
                .map(|most| most.saturating_sub(spent.tokens)),
            budget_wall_ms: self
                .budget_wall_ms
                .map(|most| most.saturating_sub(spent.time_ms)),
            ..self.clone()
        };
        let is_used_up = left.budget_usd.is_some_and(|budget| budget <= 0.0)
            || left.budget_tokens == Some(0)
            || left.budget_wall_ms == Some(0);
        (!is_used_up).then_some(left)
    }

    /// Lowers the limits of a spec to these. `requested` is the budget that was asked for.
    fn apply(&self, spec: &mut Spec, requested: Option<f64>) {
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
        limits.budget_tokens = lower(limits.budget_tokens, self.budget_tokens);
        limits.budget_turns = lower(limits.budget_turns, self.budget_turns);
        limits.event_bytes = lower(limits.event_bytes, self.event_bytes);
        limits.raw_bytes = lower(limits.raw_bytes, self.raw_bytes);
        let budget = lower(requested, self.budget_usd);
        // An agent that enforces the budget itself gets it too.
        if spec.max_budget_usd.is_some() {
            spec.max_budget_usd = budget;
        }
        spec.limits.budget_usd = budget;
    }
}

/// Returns the lower one of two limits.
fn lower<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b < a { b } else { a }),
        (a, b) => a.or(b),
    }
}

impl Granted {
    /// Returns the permissions with the limits of this spec.
    pub(crate) fn with_limits(self, spec: &Spec) -> Self {
        Self {
            limits: Some(Allowance::of(spec)),
            ..self
        }
    }

    /// Like [`Granted::apply`], and lowers the limits of the spec to these.
    pub(crate) fn apply_all(&self, spec: &mut Spec) -> Result<(), ostler::SpecError> {
        let requested = spec.limits.budget_usd.or(spec.max_budget_usd);
        self.apply(spec)?;
        if let Some(limits) = &self.limits {
            limits.apply(spec, requested);
        }
        Ok(())
    }

    /// Returns the permissions of a spec.
    pub(crate) fn of(spec: &Spec) -> Self {
        let settings = spec.to_settings();
        let settings = settings
            .iter()
            .filter(|(key, _)| !PER_SESSION.contains(key))
            .map(|(key, values)| (key.to_owned(), values.to_vec()));
        Self {
            settings: settings.collect(),
            limits: Some(Allowance::of(spec)),
            program: spec.program.clone(),
            extra_args: spec.extra_args.clone(),
            policy: spec.policy.clone(),
            trusts_project: spec.project_settings == ProjectSettings::Trusted,
            sandbox: spec.sandbox.as_str().to_owned(),
        }
    }

    /// Replaces the permissions of a spec by these. Trust in the project that was withdrawn since
    /// stays withdrawn.
    pub(crate) fn apply(&self, spec: &mut Spec) -> Result<(), ostler::SpecError> {
        spec.policy.clone_from(&self.policy);
        if !self.trusts_project {
            spec.project_settings = ProjectSettings::Untrusted;
        }
        let known = [
            Sandbox::Usual,
            Sandbox::WorkspaceWrite,
            Sandbox::ReadOnly,
            Sandbox::Off,
        ];
        // One that only a later Ostler knows is replaced by the strictest.
        spec.sandbox = known
            .into_iter()
            .find(|mode| mode.as_str() == self.sandbox)
            .unwrap_or(Sandbox::ReadOnly);
        spec.program.clone_from(&self.program);
        spec.extra_args.clone_from(&self.extra_args);
        let now = spec.to_settings();
        for (key, _) in now.iter().filter(|(key, _)| !PER_SESSION.contains(key)) {
            spec.unset(key);
        }
        for (key, values) in &self.settings {
            spec.set(key, values)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ostler::permission::{Preset, ToolKind, ToolUse};

    use super::*;

    // A child never has more than its parent has left, whatever it asks for.
    #[test]
    fn limits_of_a_child_are_those_of_its_parent_at_most() {
        let mut parent = Spec::new("x");
        parent.max_budget_usd = Some(2.0);
        parent.limits = parent
            .limits
            .wall(Duration::from_secs(60))
            .budget_tokens(1_000)
            .budget_wall(Duration::from_secs(100));
        let granted = Granted::of(&parent);
        let spent = Spent {
            cost_usd: 0.5,
            tokens: 400,
            time_ms: 30_000,
        };
        let left = granted.limits.clone().unwrap().left(&spent).unwrap();
        let granted = Granted {
            limits: Some(left),
            ..granted
        };
        let child = |spec: Spec| {
            let mut spec = spec;
            granted.apply_all(&mut spec).unwrap();
            spec
        };
        let mut greedy = Spec::new("y");
        greedy.max_budget_usd = Some(100.0);
        greedy.limits = greedy.limits.wall(None).budget_tokens(5_000);
        for spec in [child(greedy), child(Spec::new("y"))] {
            assert_eq!(spec.limits.budget_usd, Some(1.5));
            assert_eq!(spec.max_budget_usd, Some(1.5));
            assert_eq!(spec.limits.wall, Some(Duration::from_secs(60)));
            assert_eq!(spec.limits.budget_tokens, Some(600));
            assert_eq!(spec.limits.budget_wall, Some(Duration::from_secs(70)));
        }
        let mut modest = Spec::new("y");
        modest.max_budget_usd = Some(0.25);
        modest.limits = modest.limits.wall(Duration::from_secs(5)).budget_tokens(10);
        let modest = child(modest);
        assert_eq!(modest.limits.budget_usd, Some(0.25));
        assert_eq!(modest.limits.wall, Some(Duration::from_secs(5)));
        assert_eq!(modest.limits.budget_tokens, Some(10));
        for used_up in [
            Spent {
                cost_usd: 2.0,
                ..Spent::default()
            },
            Spent {
                tokens: 1_000,
                ..Spent::default()
            },
            Spent {
                time_ms: 100_000,
                ..Spent::default()
            },
        ] {
            let limits = Granted::of(&parent).limits.unwrap();
            assert_eq!(limits.left(&used_up), None, "{used_up:?}");
        }
    }

    // P49: a session that is woken up by a program has the permissions that it was created with.
    #[test]
    fn stored_permissions_replace_those_of_the_configuration() {
        let mut spec = Spec::new("x").policy(Policy::preset(Preset::ReadOnly));
        spec.permission_mode = Some("plan".into());
        spec.allowed_tools = vec!["Read".into()];
        let stored = serde_json::to_string(&Granted::of(&spec)).unwrap();

        let mut wider = Spec::new("y")
            .policy(Policy::preset(Preset::All))
            .sandbox(Sandbox::Off)
            .project_settings(ProjectSettings::Trusted)
            .permission_mode("bypassPermissions");
        wider.add_dirs = vec!["/".into()];
        wider.extra_args = vec!["--dangerously-skip-permissions".into()];
        wider.set("mcp_config", ["/servers.json"]).unwrap();
        wider.model = Some("another".into());
        let granted: Granted = serde_json::from_str(&stored).unwrap();
        granted.apply(&mut wider).unwrap();

        assert_eq!(wider.permission_mode.as_deref(), Some("plan"));
        assert_eq!(wider.allowed_tools, ["Read"]);
        assert!(wider.add_dirs.is_empty() && wider.extra_args.is_empty());
        assert_eq!(wider.value("mcp_config"), None);
        assert_eq!(wider.model.as_deref(), Some("another"));
        assert_eq!(wider.sandbox, Sandbox::Usual);
        assert_eq!(wider.project_settings, ProjectSettings::Untrusted);
        let wants = ToolUse::new("Edit", ToolKind::Edit);
        assert_eq!(
            wider.policy.unwrap().decide(&wants, "/w"),
            spec.policy.unwrap().decide(&wants, "/w")
        );
        assert_eq!(wider.prompt, "y");
    }
}
