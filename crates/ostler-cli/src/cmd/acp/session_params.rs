//! Session parameters from the editor: directory, MCP servers, modes and models. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ostler::{Dialect, Settings, keys};
use serde::{Deserialize, Serialize};

use super::wire::Failure;

/// Parameters of `session/new`, `session/load` and `session/resume`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SessionParams {
    pub(super) cwd: PathBuf,
    pub(super) session_id: Option<String>,
    pub(super) additional_directories: Option<Vec<String>>,
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

fn table(pairs: Option<&Vec<NameValue>>) -> BTreeMap<&str, &str> {
    pairs
        .into_iter()
        .flatten()
        .map(|pair| (&*pair.name, &*pair.value))
        .collect()
}

/// MCP configuration in the format that agents accept.
#[derive(Serialize)]
struct McpConfig<'a> {
    #[serde(rename = "mcpServers")]
    servers: BTreeMap<&'a str, McpServerConfig<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum McpServerConfig<'a> {
    Stdio {
        r#type: &'a str,
        command: &'a str,
        args: &'a [String],
        env: BTreeMap<&'a str, &'a str>,
    },
    Remote {
        r#type: &'a str,
        url: &'a str,
        headers: BTreeMap<&'a str, &'a str>,
    },
}

impl SessionParams {
    /// Validates parameters that do not depend on the agent.
    pub(super) fn check(&self) -> Result<(), Failure> {
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

    /// Adds the parameters to the agent's settings. Returns a warning about those the agent does
    /// not support.
    pub(super) fn add_to(
        &self,
        settings: &mut Settings,
        agent: &dyn Dialect,
    ) -> Result<Option<String>, Failure> {
        let known = agent.settings();
        let takes = |key: &str| known.iter().any(|setting| setting.key == key);
        let directories = self.additional_directories.iter().flatten();
        if takes(keys::ADD_DIR) {
            directories.for_each(|dir| settings.push(keys::ADD_DIR, dir));
        }
        let Some(config) = self.mcp_config()? else {
            return Ok(None);
        };
        if takes(keys::MCP_CONFIG) {
            settings.push(keys::MCP_CONFIG, config);
            return Ok(None);
        }
        let names: Vec<&str> = self
            .mcp_servers
            .iter()
            .flatten()
            .map(|server| &*server.name)
            .collect();
        Ok(Some(format!(
            "warning: the agent {} does not support MCP servers; ignoring {}",
            agent.name(),
            names.join(", ")
        )))
    }

    fn mcp_config(&self) -> Result<Option<String>, Failure> {
        let Some(servers) = self
            .mcp_servers
            .as_ref()
            .filter(|servers| !servers.is_empty())
        else {
            return Ok(None);
        };
        let all = servers
            .iter()
            .map(|server| Ok((&*server.name, server.to_config()?)));
        let servers = all.collect::<Result<_, Failure>>()?;
        Ok(serde_json::to_string(&McpConfig { servers }).ok())
    }
}

impl McpServer {
    fn to_config(&self) -> Result<McpServerConfig<'_>, Failure> {
        match (self.r#type.as_deref(), &self.command, &self.url) {
            (None | Some("stdio"), Some(command), _) => Ok(McpServerConfig::Stdio {
                r#type: "stdio",
                command,
                args: self.args.as_deref().unwrap_or_default(),
                env: table(self.env.as_ref()),
            }),
            (Some(kind @ ("http" | "sse")), _, Some(url)) => Ok(McpServerConfig::Remote {
                r#type: kind,
                url,
                headers: table(self.headers.as_ref()),
            }),
            _ => Err(Failure::params(format!(
                "the MCP server {:?} is neither a command nor an http or sse address",
                self.name
            ))),
        }
    }
}

/// Permission modes of a session, by the agent's own names.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Modes {
    pub(super) current_mode_id: String,
    available_modes: Vec<Mode>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Mode {
    id: &'static str,
    name: &'static str,
}

impl Modes {
    /// Returns the modes this agent can switch between, or `None` if it cannot.
    pub(super) fn of(agent: &dyn Dialect, settings: &Settings) -> Option<Self> {
        let known = agent
            .settings()
            .into_iter()
            .find(|setting| setting.key == keys::PERMISSION_MODE)?;
        let words = Some(known.words)
            .filter(|words| agent.capabilities().set_permission_mode && !words.is_empty())?;
        let default = words
            .iter()
            .find(|word| **word == "default")
            .or_else(|| words.first())?;
        Some(Self {
            current_mode_id: settings
                .last(keys::PERMISSION_MODE)
                .unwrap_or(default)
                .to_owned(),
            available_modes: words
                .iter()
                .map(|word| Mode {
                    id: word,
                    name: word,
                })
                .collect(),
        })
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.available_modes.iter().any(|mode| mode.id == id)
    }
}

/// Configuration option for the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModelOption {
    pub(super) id: &'static str,
    name: &'static str,
    category: &'static str,
    r#type: &'static str,
    pub(super) current_value: String,
    options: Vec<Model>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Model {
    value: String,
    name: String,
}

impl ModelOption {
    /// Returns the models this agent can switch between, or `None` if it cannot.
    pub(super) fn of(agent: &dyn Dialect, settings: &Settings) -> Option<Self> {
        let known = Some(agent.models()).filter(|_| agent.capabilities().set_model)?;
        let current = settings
            .last(keys::MODEL)
            .or_else(|| known.first().copied())?;
        let mut option = Self {
            id: "model",
            name: "Model",
            category: "model",
            r#type: "select",
            current_value: String::new(),
            options: known
                .iter()
                .map(|name| Model {
                    value: (*name).to_owned(),
                    name: (*name).to_owned(),
                })
                .collect(),
        };
        option.select(current);
        Some(option)
    }

    /// Selects a model, adding it to the options if it is new.
    pub(super) fn select(&mut self, model: &str) {
        self.current_value = model.to_owned();
        if !self.options.iter().any(|known| known.value == model) {
            self.options.push(Model {
                value: model.to_owned(),
                name: model.to_owned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use ostler::Agents;
    use serde_json::{Value, json};

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
        let mut settings = Settings::default();
        assert_eq!(session_params.add_to(&mut settings, claude), Ok(None));
        let config: Value = serde_json::from_str(settings.last(keys::MCP_CONFIG).unwrap()).unwrap();
        assert_eq!(
            config,
            json!({"mcpServers": {
                "a": {"type": "stdio", "command": "/bin/a", "args": ["-x"], "env": {"K": "v"}},
                "b": {"type": "http", "url": "http://b", "headers": {"H": "h"}},
                "c": {"type": "sse", "url": "http://c", "headers": {}},
            }})
        );
        assert_eq!(settings.last(keys::ADD_DIR), Some("/d"));
        let mock = Agents::builtin().get("mock").unwrap().dialect();
        let mut settings = Settings::default();
        let warning = session_params.add_to(&mut settings, mock).unwrap().unwrap();
        assert_eq!(
            warning,
            "warning: the agent mock does not support MCP servers; ignoring a, b, c"
        );
        assert_eq!(settings.iter().count(), 0);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let claude = Agents::builtin().get("claude").unwrap().dialect();
        let odd =
            session_params(&json!({"cwd": "/", "mcpServers": [{"name": "x", "type": "http"}]}));
        assert!(
            odd.add_to(&mut Settings::default(), claude)
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
        let mut settings = Settings::default();
        assert_eq!(
            Modes::of(claude, &settings).unwrap().current_mode_id,
            "default"
        );
        assert_eq!(
            ModelOption::of(claude, &settings).unwrap().current_value,
            "default"
        );
        settings.set(keys::PERMISSION_MODE, "plan");
        settings.set(keys::MODEL, "claude-x");
        let (modes, model) = (
            Modes::of(claude, &settings).unwrap(),
            ModelOption::of(claude, &settings).unwrap(),
        );
        assert!(
            modes.current_mode_id == "plan" && modes.has("acceptEdits") && !modes.has("anything")
        );
        assert!(
            model.current_value == "claude-x" && model.options.last().unwrap().value == "claude-x"
        );
        let mock = Agents::builtin().get("mock").unwrap().dialect();
        assert_eq!(
            (Modes::of(mock, &settings), ModelOption::of(mock, &settings)),
            (None, None)
        );
    }
}
