//! Session parameters from the editor: directory, MCP servers, modes and models. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ostler::Spec;
use ostler::dialect::Dialect;
use ostler::spec::keys;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::wire::Failure;

/// Parameters of `session/new`, `session/load` and `session/resume`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct SessionParams {
    pub(crate) cwd: PathBuf,
    pub(crate) session_id: Option<String>,
    pub(crate) additional_directories: Option<Vec<String>>,
    mcp_servers: Option<Vec<McpServer>>,
}

/// An MCP server as the protocol describes it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct McpServer {
    name: String,
    r#type: Option<String>,
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<Vec<NameValue>>,
    url: Option<String>,
    headers: Option<Vec<NameValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NameValue {
    name: String,
    value: String,
}

fn table(pairs: &Option<Vec<NameValue>>) -> BTreeMap<&str, &str> {
    let pairs = pairs.iter().flatten();
    pairs.map(|pair| (&*pair.name, &*pair.value)).collect()
}

impl SessionParams {
    /// Validates parameters that do not depend on the agent.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let dir = self.cwd.display();
        if !self.cwd.is_absolute() {
            return Err(Failure::params(format!(
                "cwd {dir:?} is not an absolute path"
            )));
        }
        if !self.cwd.is_dir() {
            return Err(Failure::params(format!("cwd {dir} is not a directory")));
        }
        Ok(())
    }

    /// Adds the parameters to the spec. Returns a warning about those the agent does
    /// not support.
    pub(crate) fn add_to(
        &self,
        spec: &mut Spec,
        agent: &dyn Dialect,
    ) -> Result<Option<String>, Failure> {
        let about = agent.about();
        let directories = self.additional_directories.iter().flatten();
        if about.accepts(keys::ADD_DIR) {
            spec.add_dirs.extend(directories.map(PathBuf::from));
        }
        let Some(config) = self.mcp_config()? else {
            return Ok(None);
        };
        if about.accepts(keys::MCP_CONFIG) {
            spec.push(keys::MCP_CONFIG, config)
                .map_err(Failure::params)?;
            return Ok(None);
        }
        let servers = self.mcp_servers.iter().flatten();
        let names: Vec<&str> = servers.map(|server| &*server.name).collect();
        Ok(Some(format!(
            "warning: the agent {} does not support MCP servers; ignoring {}",
            about.name,
            names.join(", ")
        )))
    }

    /// Returns the MCP servers in the format that agents accept, if there are any.
    fn mcp_config(&self) -> Result<Option<String>, Failure> {
        let servers = self.mcp_servers.iter().flatten();
        let servers = servers.map(|server| Ok((&*server.name, server.to_config()?)));
        let servers: BTreeMap<&str, Value> = servers.collect::<Result<_, Failure>>()?;
        Ok((!servers.is_empty()).then(|| json!({"mcpServers": servers}).to_string()))
    }
}

impl McpServer {
    fn to_config(&self) -> Result<Value, Failure> {
        match (self.r#type.as_deref(), &self.command, &self.url) {
            (None | Some("stdio"), Some(command), _) => {
                let args = self.args.as_deref().unwrap_or_default();
                Ok(json!({
                    "type": "stdio", "command": command, "args": args, "env": table(&self.env),
                }))
            }
            (Some(kind @ ("http" | "sse")), _, Some(url)) => {
                Ok(json!({"type": kind, "url": url, "headers": table(&self.headers)}))
            }
            _ => Err(Failure::params(format!(
                "the MCP server {:?} is neither a command nor an http or sse address",
                self.name
            ))),
        }
    }
}

/// Permission modes of a session, by the agent's own names.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Modes {
    pub(crate) current_mode_id: String,
    available_modes: Vec<Mode>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Mode {
    id: &'static str,
    name: &'static str,
}

impl Modes {
    /// Returns the modes this agent can switch between, or `None` if it cannot.
    pub(crate) fn of(agent: &dyn Dialect, spec: &Spec) -> Option<Self> {
        let known = agent
            .about()
            .settings
            .iter()
            .find(|setting| setting.key == keys::PERMISSION_MODE)?;
        let words =
            Some(known.words()).filter(|_| agent.about().capabilities.set_permission_mode)?;
        let mut names = words.iter();
        let default = names.find(|word| **word == "default").or(words.first())?;
        let mode = |word: &&'static str| Mode {
            id: word,
            name: word,
        };
        Some(Self {
            current_mode_id: spec
                .permission_mode
                .as_deref()
                .unwrap_or(default)
                .to_owned(),
            available_modes: words.iter().map(mode).collect(),
        })
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.available_modes.iter().any(|mode| mode.id == id)
    }
}

/// Configuration option for the model.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelOption {
    pub(crate) id: &'static str,
    name: &'static str,
    category: &'static str,
    r#type: &'static str,
    pub(crate) current_value: String,
    options: Vec<Model>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Model {
    value: String,
    name: String,
}

impl Model {
    fn named(name: &str) -> Self {
        Self {
            value: name.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl ModelOption {
    /// Returns the models this agent can switch between, or `None` if it cannot.
    pub(crate) fn of(agent: &dyn Dialect, spec: &Spec) -> Option<Self> {
        let known = Some(agent.about().models).filter(|_| agent.about().capabilities.set_model)?;
        let current = spec.model.as_deref().or_else(|| known.first().copied())?;
        let mut option = Self {
            id: "model",
            name: "Model",
            category: "model",
            r#type: "select",
            current_value: String::new(),
            options: known.iter().map(|name| Model::named(name)).collect(),
        };
        option.select(current);
        Some(option)
    }

    /// Selects a model, adding it to the options if it is new.
    pub(crate) fn select(&mut self, model: &str) {
        self.current_value = model.to_owned();
        if !self.options.iter().any(|known| known.value == model) {
            self.options.push(Model::named(model));
        }
    }
}

#[cfg(test)]
mod tests {
    use ostler::Agents;

    use super::*;

    fn session_params(params: &Value) -> SessionParams {
        serde_json::from_value(params.clone()).unwrap()
    }

    #[test]
    fn mcp_servers_become_a_configuration() {
        let servers = json!([
            {"name": "a", "command": "/bin/a", "args": ["-x"], "env": [{"name": "K", "value": "v"}]},
            {"type": "http", "name": "b", "url": "http://b", "headers": [{"name": "H", "value": "h"}]},
            {"type": "sse", "name": "c", "url": "http://c", "headers": []},
        ]);
        let session_params = session_params(
            &json!({"cwd": "/", "mcpServers": servers, "additionalDirectories": ["/d"]}),
        );
        let claude = Agents::builtin().get("claude").unwrap().dialect();
        let mut spec = Spec::default();
        assert_eq!(session_params.add_to(&mut spec, claude), Ok(None));
        let config: Value = serde_json::from_str(&spec.value(keys::MCP_CONFIG).unwrap()).unwrap();
        assert_eq!(
            config,
            json!({"mcpServers": {
                "a": {"type": "stdio", "command": "/bin/a", "args": ["-x"], "env": {"K": "v"}},
                "b": {"type": "http", "url": "http://b", "headers": {"H": "h"}},
                "c": {"type": "sse", "url": "http://c", "headers": {}},
            }})
        );
        assert_eq!(spec.add_dirs, [PathBuf::from("/d")]);
        let mock = Agents::builtin().get("mock").unwrap().dialect();
        let mut spec = Spec::default();
        let warning = session_params.add_to(&mut spec, mock).unwrap().unwrap();
        assert_eq!(
            warning,
            "warning: the agent mock does not support MCP servers; ignoring a, b, c"
        );
        assert_eq!(spec.to_settings().iter().count(), 0);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let claude = Agents::builtin().get("claude").unwrap().dialect();
        let odd =
            session_params(&json!({"cwd": "/", "mcpServers": [{"name": "x", "type": "http"}]}));
        assert!(
            odd.add_to(&mut Spec::default(), claude)
                .unwrap_err()
                .message
                .contains("\"x\"")
        );
        for (cwd, part) in [
            ("", "absolute"),
            ("a/b", "absolute"),
            ("/nowhere/at/all", "not a directory"),
        ] {
            assert!(
                session_params(&json!({"cwd": cwd, "mcpServers": null}))
                    .check()
                    .unwrap_err()
                    .message
                    .contains(part)
            );
        }
        assert_eq!(session_params(&json!({"cwd": "/"})).check(), Ok(()));
    }

    #[test]
    fn modes_and_models_come_from_the_agent() {
        let claude = Agents::builtin().get("claude").unwrap().dialect();
        let mut spec = Spec::default();
        assert_eq!(Modes::of(claude, &spec).unwrap().current_mode_id, "default");
        assert_eq!(
            ModelOption::of(claude, &spec).unwrap().current_value,
            "default"
        );
        spec = spec.permission_mode("plan").model("claude-x");
        let (modes, model) = (
            Modes::of(claude, &spec).unwrap(),
            ModelOption::of(claude, &spec).unwrap(),
        );
        assert!(
            modes.current_mode_id == "plan" && modes.has("acceptEdits") && !modes.has("anything")
        );
        assert!(
            model.current_value == "claude-x" && model.options.last().unwrap().value == "claude-x"
        );
        let mock = Agents::builtin().get("mock").unwrap().dialect();
        assert_eq!(
            (Modes::of(mock, &spec), ModelOption::of(mock, &spec)),
            (None, None)
        );
    }
}
