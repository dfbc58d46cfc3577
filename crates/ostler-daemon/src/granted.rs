//! Granted permissions: what a session may do, fixed when it is created.

use std::collections::BTreeMap;
use std::path::PathBuf;

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
    #[serde(default)]
    program: Option<PathBuf>,
    #[serde(default)]
    extra_args: Vec<String>,
}

impl Granted {
    /// Returns the permissions of a spec.
    pub(crate) fn of(spec: &Spec) -> Self {
        let settings = spec.to_settings();
        let settings = settings
            .iter()
            .filter(|(key, _)| !PER_SESSION.contains(key))
            .map(|(key, values)| (key.to_owned(), values.to_vec()));
        Self {
            settings: settings.collect(),
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
