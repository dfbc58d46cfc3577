//! Parameters of a session for the app-server, derived from the spec.

use std::path::{Path, PathBuf};

use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Denials, Spec, ToolOffer, keys};
use serde_json::{Map, Value, json};

use super::settings::{APPROVAL, EFFORT, EPHEMERAL};
use crate::json_lines::without_nulls;

/// Parameters of one session.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) dir: Option<String>,
    pub(super) denials: Denials,
    /// Whether a policy is set, which every call is checked against.
    pub(super) policy: bool,
    /// Whether the policy or a person decides.
    pub(super) attended: bool,
    pub(super) partial: bool,
    pub(super) schema: Option<RawJson>,
    /// The request that opens the thread, and its parameters.
    pub(super) method: &'static str,
    pub(super) thread: Value,
}

impl Plan {
    /// Returns the plan for a spec.
    pub(super) fn of(spec: &Spec) -> Self {
        let dir = spec.dir.as_ref().map(|dir| dir.display().to_string());
        let policy = spec.policy.is_some();
        let (method, thread) = match &spec.resume {
            None => ("thread/start", json!({})),
            Some(id) => (
                if spec.fork {
                    "thread/fork"
                } else {
                    "thread/resume"
                },
                json!({"threadId": id, "excludeTurns": true}),
            ),
        };
        let is_new = spec.resume.is_none();
        let untrusted = policy.then(|| "untrusted".to_owned());
        // Codex would ask for every command in a project that it does not trust.
        let usual = spec
            .ignores_project_settings()
            .then(|| "on-request".to_owned());
        let tools: Vec<Value> = spec.bound_tools.iter().map(tool).collect();
        let settings = json!({
            "cwd": dir,
            "model": spec.model,
            "sandbox": spec.permission_mode,
            "approvalPolicy": untrusted.or_else(|| spec.value(APPROVAL)).or(usual),
            "approvalsReviewer": "user",
            "baseInstructions": spec.system_prompt,
            "developerInstructions": spec.append_system_prompt,
            "config": Some(config(spec, dir.as_deref())).filter(|config| !config.is_empty()),
            "ephemeral": (is_new && spec.is_on(EPHEMERAL)).then_some(true),
            "dynamicTools": Some(tools).filter(|tools| is_new && !tools.is_empty()),
        });
        let members = [thread, settings]
            .into_iter()
            .filter_map(|part| match part {
                Value::Object(members) => Some(members),
                _ => None,
            });
        let thread = Value::Object(members.flatten().collect());
        Self {
            denials: spec.denials,
            policy,
            attended: spec.is_supervised(),
            partial: spec.include_partial != Some(false),
            schema: spec
                .json_schema
                .as_deref()
                .and_then(|schema| RawJson::parse(schema).ok()),
            method,
            thread: without_nulls(thread),
            dir,
        }
    }
}

fn tool(offer: &ToolOffer) -> Value {
    json!({
        "type": "function",
        "name": offer.name,
        "description": offer.description,
        "inputSchema": crate::mcp::adapt(&offer.parameters),
    })
}

/// Returns overrides of config.toml that have no parameters of their own. They are sent over stdin,
/// where no other user can read them.
fn config(spec: &Spec, dir: Option<&str>) -> Map<String, Value> {
    let mut config = Map::new();
    if let Some(effort) = spec.value(EFFORT) {
        config.insert("model_reasoning_effort".into(), json!(effort));
    }
    let roots = roots(spec, dir);
    if !roots.is_empty() {
        config.insert(
            "sandbox_workspace_write".into(),
            json!({ "writable_roots": roots }),
        );
    }
    if let (true, Some(dir)) = (spec.ignores_project_settings(), &spec.dir) {
        // Otherwise a writable sandbox makes Codex trust the project, in the user's settings.
        let untrusted = |dir: &Path| {
            let level = json!({ "trust_level": "untrusted" });
            (dir.display().to_string(), level)
        };
        let projects = dir.ancestors().map(untrusted).collect();
        config.insert("projects".into(), Value::Object(projects));
    }
    let mut all = Map::new();
    for value in spec.values(keys::MCP_CONFIG).unwrap_or_default() {
        all.extend(servers(&value).unwrap_or_default());
    }
    if spec.policy.is_some() {
        // Otherwise Codex trusts a tool that declares itself read-only, and does not ask.
        let fields = all.values_mut().filter_map(Value::as_object_mut);
        fields.for_each(|server| {
            drop(server.insert("default_tools_approval_mode".into(), json!("prompt")));
        });
    }
    if !all.is_empty() {
        config.insert("mcp_servers".into(), Value::Object(all));
    }
    config
}

/// Returns the additional directories as absolute paths, because Codex accepts no others.
pub(super) fn roots(spec: &Spec, dir: Option<&str>) -> Vec<String> {
    let absolute = |path: &PathBuf| match dir {
        Some(dir) => Path::new(dir).join(path).display().to_string(),
        None => path.display().to_string(),
    };
    spec.add_dirs.iter().map(absolute).collect()
}

/// Fields of an MCP server, by their usual names, with Codex's names.
const FIELDS: &[(&str, &str)] = &[
    ("command", "command"),
    ("args", "args"),
    ("env", "env"),
    ("cwd", "cwd"),
    ("url", "url"),
    ("headers", "http_headers"),
];

/// A text that does not describe MCP servers.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected JSON such as {{\"mcpServers\": {{\"files\": {{\"command\": \"…\", \"args\": []}}}}}}"
)]
pub(super) struct NoServers;

/// Parses MCP servers in the usual format.
///
/// # Errors
/// Returns an error if the text is not of that format.
pub(super) fn servers(value: &str) -> Result<Map<String, Value>, NoServers> {
    let read: Value = serde_json::from_str(value).map_err(|_| NoServers)?;
    let Some(Value::Object(servers)) = read.get("mcpServers") else {
        return Err(NoServers);
    };
    let server = |(name, server): (&String, &Value)| {
        let fields = server.as_object().ok_or(NoServers)?;
        let known = FIELDS
            .iter()
            .filter_map(|(theirs, ours)| Some(((*ours).to_owned(), fields.get(*theirs)?.clone())));
        Ok((name.clone(), Value::Object(known.collect())))
    };
    servers.iter().map(server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(settings: &[(&str, &str)]) -> Spec {
        let mut spec = Spec::default().dir("/work");
        spec.apply(&settings.iter().copied().collect()).unwrap();
        spec
    }

    fn request(settings: &[(&str, &str)]) -> (&'static str, Value) {
        let plan = Plan::of(&spec(settings));
        (plan.method, plan.thread)
    }

    #[test]
    fn settings_become_parameters() {
        let (method, params) = request(&[
            ("model", "gpt-x"),
            ("permission_mode", "workspace-write"),
            ("approval_policy", "on-request"),
            ("system_prompt", "Be."),
            ("append_system_prompt", "More."),
            ("effort", "low"),
            ("add_dir", "other"),
            ("add_dir", "/abs"),
            (
                "mcp_config",
                r#"{"mcpServers":{"x":{"type":"stdio","command":"p","headers":{"a":"b"}}}}"#,
            ),
            ("ephemeral", "true"),
        ]);
        assert_eq!(method, "thread/start");
        assert_eq!(
            params,
            json!({"cwd": "/work", "model": "gpt-x", "sandbox": "workspace-write", "approvalPolicy": "on-request",
                "approvalsReviewer": "user", "baseInstructions": "Be.", "developerInstructions": "More.",
                "ephemeral": true, "config": {"model_reasoning_effort": "low",
                "sandbox_workspace_write": {"writable_roots": ["/work/other", "/abs"]},
                "mcp_servers": {"x": {"command": "p", "http_headers": {"a": "b"}}}}})
        );
        assert_eq!(
            request(&[]).1,
            json!({"cwd": "/work", "approvalsReviewer": "user"})
        );
    }

    #[test]
    fn existing_thread_is_resumed_or_forked() {
        let resumed = json!({"threadId": "t", "excludeTurns": true, "cwd": "/work", "approvalsReviewer": "user"});
        assert_eq!(
            request(&[("resume", "t")]),
            ("thread/resume", resumed.clone())
        );
        assert_eq!(
            request(&[("resume", "t"), ("fork", "true")]),
            ("thread/fork", resumed)
        );
    }

    #[test]
    fn policy_requires_approval_of_every_call() {
        let mut spec = spec(&[(
            "mcp_config",
            r#"{"mcpServers":{"x":{"command":"p"},"y":{"url":"u"}}}"#,
        )]);
        spec.policy = Some(ostler_core::permission::Policy::default());
        let params = Plan::of(&spec).thread;
        assert_eq!(params["approvalPolicy"], "untrusted");
        for server in ["x", "y"] {
            assert_eq!(
                params["config"]["mcp_servers"][server]["default_tools_approval_mode"],
                "prompt"
            );
        }
    }

    #[test]
    fn policy_makes_the_project_and_those_above_it_untrusted() {
        let spec = Spec::default().dir("/work/sub");
        let projects = |spec: &Spec| Plan::of(spec).thread["config"]["projects"].clone();
        assert_eq!(projects(&spec), Value::Null);
        let spec = spec.policy(ostler_core::permission::Policy::default());
        let untrusted = json!({"trust_level": "untrusted"});
        let wanted = json!({"/work/sub": untrusted, "/work": untrusted, "/": untrusted});
        assert_eq!(projects(&spec), wanted);
        let spec = spec.project_settings(ostler_core::spec::ProjectSettings::Trusted);
        assert_eq!(projects(&spec), Value::Null);
        // Without a policy, Codex asks as it does in a project that it knows nothing about.
        let ignored = Spec::default()
            .dir("/work/sub")
            .project_settings(ostler_core::spec::ProjectSettings::Ignored);
        assert_eq!(projects(&ignored), wanted);
        assert_eq!(Plan::of(&ignored).thread["approvalPolicy"], "on-request");
    }
}
