//! Parameters of a session for the app-server, derived from the spec.

use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Attendance, Denials, Spec, ToolOffer, keys};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::settings::{APPROVAL, EFFORT, EPHEMERAL};

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
    pub(super) resume: Option<String>,
    fork: bool,
    overrides: Overrides,
    new_thread: NewThread,
}

/// Parameters of a thread that is started, resumed or forked.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Overrides {
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_policy: Option<String>,
    /// Sends approval requests to Ostler, instead of having a model of Codex decide.
    approvals_reviewer: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    base_instructions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    developer_instructions: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    config: Map<String, Value>,
}

/// Parameters of a new thread only. A resumed thread has the tools that it was started with.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NewThread {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ephemeral: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dynamic_tools: Vec<Tool>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    r#type: &'static str,
    name: String,
    description: String,
    input_schema: RawJson,
}

impl Tool {
    fn new(offer: &ToolOffer) -> Self {
        let (name, description) = (offer.name.clone(), offer.description.clone());
        Self {
            r#type: "function",
            name,
            description,
            input_schema: crate::mcp::adapt(&offer.parameters),
        }
    }
}

impl Plan {
    pub(super) fn of(spec: &Spec) -> Self {
        let settings = &spec.settings;
        let setting = |key: &str| settings.last(key).map(str::to_owned);
        let dir = spec.dir.as_ref().map(|dir| dir.display().to_string());
        let policy = spec.policy.is_some();
        Self {
            denials: spec.denials,
            policy,
            attended: policy || spec.attendance == Attendance::Attended,
            partial: settings.last(keys::INCLUDE_PARTIAL) != Some("false"),
            schema: settings
                .last(keys::JSON_SCHEMA)
                .and_then(|schema| RawJson::parse(schema).ok()),
            resume: setting(keys::RESUME),
            fork: settings.is_on(keys::FORK),
            overrides: Overrides {
                cwd: dir.clone(),
                model: setting(keys::MODEL),
                sandbox: setting(keys::PERMISSION_MODE),
                approval_policy: if policy {
                    Some("untrusted".to_owned())
                } else {
                    setting(APPROVAL)
                },
                approvals_reviewer: "user",
                base_instructions: setting(keys::SYSTEM_PROMPT),
                developer_instructions: setting(keys::APPEND_SYSTEM_PROMPT),
                config: config(spec, dir.as_deref()),
            },
            new_thread: NewThread {
                ephemeral: settings.is_on(EPHEMERAL),
                dynamic_tools: spec.tools.iter().map(Tool::new).collect(),
            },
            dir,
        }
    }

    /// Returns the request that opens the thread, and its parameters.
    pub(super) fn thread(&self) -> (&'static str, RawJson) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct ExistingThread<'a> {
            thread_id: &'a str,
            exclude_turns: bool,
            #[serde(flatten)]
            overrides: &'a Overrides,
        }
        #[derive(Serialize)]
        struct StartThread<'a> {
            #[serde(flatten)]
            overrides: &'a Overrides,
            #[serde(flatten)]
            new_thread: &'a NewThread,
        }
        match &self.resume {
            None => (
                "thread/start",
                RawJson::of(&StartThread {
                    overrides: &self.overrides,
                    new_thread: &self.new_thread,
                }),
            ),
            Some(thread_id) => {
                let existing = ExistingThread {
                    thread_id,
                    exclude_turns: true,
                    overrides: &self.overrides,
                };
                (
                    if self.fork {
                        "thread/fork"
                    } else {
                        "thread/resume"
                    },
                    RawJson::of(&existing),
                )
            }
        }
    }
}

/// Returns overrides of config.toml that have no parameters of their own. They are sent over stdin,
/// where no other user can read them.
fn config(spec: &Spec, dir: Option<&str>) -> Map<String, Value> {
    let mut config = Map::new();
    if let Some(effort) = spec.settings.last(EFFORT) {
        config.insert("model_reasoning_effort".into(), json!(effort));
    }
    let roots = roots(spec, dir);
    if !roots.is_empty() {
        config.insert(
            "sandbox_workspace_write".into(),
            json!({ "writable_roots": roots }),
        );
    }
    let mut all = Map::new();
    for value in spec.settings.get(keys::MCP_CONFIG).unwrap_or_default() {
        all.extend(servers(value).unwrap_or_default());
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
    let absolute = |path: &String| match dir {
        Some(dir) if !path.starts_with('/') => format!("{}/{path}", dir.trim_end_matches('/')),
        _ => path.clone(),
    };
    spec.settings
        .get(keys::ADD_DIR)
        .unwrap_or_default()
        .iter()
        .map(absolute)
        .collect()
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

/// Parses MCP servers in the usual format.
///
/// # Errors
/// Returns what is wrong with the text.
pub(super) fn servers(value: &str) -> Result<Map<String, Value>, String> {
    const EXPECTED: &str =
        "expected JSON such as {\"mcpServers\": {\"files\": {\"command\": \"…\", \"args\": []}}}";
    let read: Value = serde_json::from_str(value).map_err(|_| EXPECTED.to_owned())?;
    let Some(Value::Object(servers)) = read.get("mcpServers") else {
        return Err(EXPECTED.into());
    };
    let server = |(name, server): (&String, &Value)| {
        let fields = server.as_object().ok_or(EXPECTED)?;
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
        let mut spec = Spec {
            dir: Some("/work".into()),
            ..Spec::default()
        };
        settings
            .iter()
            .for_each(|(key, value)| spec.settings.push(key, *value));
        spec
    }

    fn request(settings: &[(&str, &str)]) -> (&'static str, Value) {
        let (method, params) = Plan::of(&spec(settings)).thread();
        (method, serde_json::from_str(params.get()).unwrap())
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
        let (_, params) = Plan::of(&spec).thread();
        assert!(
            params.get().contains(r#""approvalPolicy":"untrusted""#),
            "{params:?}"
        );
        let params: Value = serde_json::from_str(params.get()).unwrap();
        for server in ["x", "y"] {
            assert_eq!(
                params["config"]["mcp_servers"][server]["default_tools_approval_mode"],
                "prompt"
            );
        }
    }
}
