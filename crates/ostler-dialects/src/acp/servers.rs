//! MCP servers, in the words of ACP: those of the caller's setting, and the bridge to its tools.

use ostler_core::spec::{Bridge, Settings, keys};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::mcp::SERVER;

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Server {
    /// The agent starts it.
    Stdio {
        name: String,
        command: String,
        args: Vec<String>,
        env: Vec<Pair>,
    },
    /// The agent reaches it over the network.
    Remote {
        r#type: Reach,
        name: String,
        url: String,
        headers: Vec<Pair>,
    },
}

/// How a server is reached over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Reach {
    Http,
    Sse,
}

impl Reach {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Sse => "sse",
        }
    }
}

/// A variable or a header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Pair {
    name: String,
    value: String,
}

/// Whether a value of the setting can be used.
pub(super) fn check(value: &str) -> Result<(), String> {
    read(value).map(|_| ())
}

/// Every server of a session.
pub(super) fn all(settings: &Settings, bridge: Option<&Bridge>) -> Vec<Server> {
    let configured = settings.get(keys::MCP_CONFIG).unwrap_or_default();
    let mut servers: Vec<Server> = configured
        .iter()
        .filter_map(|value| read(value).ok())
        .flatten()
        .collect();
    servers.extend(bridge.map(|bridge| Server::Stdio {
        name: SERVER.to_owned(),
        command: bridge.program.clone(),
        args: bridge.args.clone(),
        env: Vec::new(),
    }));
    servers
}

/// Parts servers: a file of those that the agent starts, for one that takes them by an argument, and the rest.
pub(super) fn parted(servers: Vec<Server>) -> (Option<String>, Vec<Server>) {
    let (started, rest): (Vec<_>, Vec<_>) = servers
        .into_iter()
        .partition(|it| matches!(it, Server::Stdio { .. }));
    let object = |pairs: Vec<Pair>| {
        pairs
            .into_iter()
            .map(|it| (it.name, it.value.into()))
            .collect::<Map<_, _>>()
    };
    let one = |server| match server {
        Server::Stdio {
            name,
            command,
            args,
            env,
        } => Some((
            name,
            json!({"type": "local", "command": command, "args": args, "env": object(env), "tools": ["*"]}),
        )),
        Server::Remote { .. } => None,
    };
    let started: Map<String, Value> = started.into_iter().filter_map(one).collect();
    (
        (!started.is_empty()).then(|| json!({"mcpServers": started}).to_string()),
        rest,
    )
}

fn read(value: &str) -> Result<Vec<Server>, String> {
    let whole: Value = serde_json::from_str(value).map_err(|_| {
        "expected JSON such as {\"mcpServers\": {…}}: the agent gets servers over the protocol, so give the text of the file, not its path".to_owned()
    })?;
    let Some(servers) = whole.get("mcpServers").and_then(Value::as_object) else {
        return Err("expected an object with \"mcpServers\"".to_owned());
    };
    servers
        .iter()
        .map(|(name, server)| one(name, server))
        .collect()
}

fn one(name: &str, server: &Value) -> Result<Server, String> {
    if name == SERVER {
        return Err(format!(
            "the name {name:?} is taken: it stands for the tools of the caller"
        ));
    }
    let text = |key: &str| server.get(key).and_then(Value::as_str).map(str::to_owned);
    let pairs = |key: &str| pairs(server.get(key).and_then(Value::as_object));
    let name = name.to_owned();
    if let Some(command) = text("command") {
        let args = server
            .get("args")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let args = args.filter_map(Value::as_str).map(str::to_owned).collect();
        return Ok(Server::Stdio {
            name,
            command,
            args,
            env: pairs("env"),
        });
    }
    let Some(url) = text("url") else {
        return Err(format!(
            "the server {name:?} has neither a command nor a url"
        ));
    };
    let r#type = match text("type").as_deref() {
        None | Some("http" | "streamable-http") => Reach::Http,
        Some("sse") => Reach::Sse,
        Some(other) => {
            return Err(format!(
                "the server {name:?} is of the type {other:?}; there are stdio, http and sse"
            ));
        }
    };
    Ok(Server::Remote {
        r#type,
        name,
        url,
        headers: pairs("headers"),
    })
}

fn pairs(object: Option<&Map<String, Value>>) -> Vec<Pair> {
    let all = object.into_iter().flatten();
    all.filter_map(|(name, value)| {
        Some(Pair {
            name: name.clone(),
            value: value.as_str()?.to_owned(),
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_core::raw_json::RawJson;

    #[test]
    fn servers_are_written_as_the_protocol_has_them() {
        let mut settings = Settings::default();
        settings.push(
            keys::MCP_CONFIG,
            r#"{"mcpServers":{"a":{"command":"run","args":["-x"],"env":{"K":"v"}},"b":{"type":"sse","url":"http://h","headers":{"A":"b"}},"c":{"url":"http://i"}}}"#,
        );
        let bridge = Bridge {
            program: "/bin/ostler".into(),
            args: vec!["bridge".into()],
        };
        assert_eq!(
            RawJson::of(&all(&settings, Some(&bridge))).get(),
            concat!(
                r#"[{"name":"a","command":"run","args":["-x"],"env":[{"name":"K","value":"v"}]},"#,
                r#"{"type":"sse","name":"b","url":"http://h","headers":[{"name":"A","value":"b"}]},"#,
                r#"{"type":"http","name":"c","url":"http://i","headers":[]},"#,
                r#"{"name":"ostler","command":"/bin/ostler","args":["bridge"],"env":[]}]"#
            )
        );
        let (file, rest) = parted(all(&settings, Some(&bridge)));
        let file: Value = serde_json::from_str(&file.unwrap()).unwrap();
        assert_eq!(
            file["mcpServers"]["a"],
            json!({"type": "local", "command": "run", "args": ["-x"], "env": {"K": "v"}, "tools": ["*"]})
        );
        assert_eq!(
            (file["mcpServers"].as_object().unwrap().len(), rest.len()),
            (2, 2)
        );
        assert_eq!(parted(Vec::new()), (None, Vec::new()));
        for wrong in [
            "servers.json",
            "[]",
            "{}",
            r#"{"mcpServers":{"a":{}}}"#,
            r#"{"mcpServers":{"ostler":{"command":"x"}}}"#,
            r#"{"mcpServers":{"a":{"url":"x","type":"ws"}}}"#,
        ] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
