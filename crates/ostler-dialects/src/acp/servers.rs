//! MCP servers of a session, as ACP describes them: the configured ones, and the bridge to the
//! caller's tools.

use ostler_core::dialect::Launching;
use ostler_core::spec::{InvalidValue, keys};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::mcp::SERVER;

/// An MCP server.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum McpServer {
    /// A server that the agent starts.
    Stdio {
        name: String,
        command: String,
        args: Vec<String>,
        env: Vec<NameValue>,
    },
    /// A server that the agent connects to over the network.
    Remote {
        r#type: RemoteTransport,
        name: String,
        url: String,
        headers: Vec<NameValue>,
    },
}

/// Transport of a remote server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RemoteTransport {
    Http,
    Sse,
}

impl RemoteTransport {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Sse => "sse",
        }
    }
}

/// An environment variable or a header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct NameValue {
    name: String,
    value: String,
}

/// Why a value of the setting is invalid.
#[derive(Debug, PartialEq, thiserror::Error)]
enum ServersError {
    #[error(
        "expected JSON such as {{\"mcpServers\": {{…}}}}; give the text of the file, not its path, \
         because servers are sent over the protocol"
    )]
    NotJson,
    #[error("expected an object with \"mcpServers\"")]
    NoServers,
    #[error("the server name {0:?} is reserved for the caller's tools")]
    Reserved(String),
    #[error("server {0:?} has neither a command nor a url")]
    NoCommand(String),
    #[error("server {name:?} has the unknown type {kind:?}; expected stdio, http or sse")]
    UnknownType { name: String, kind: String },
}

/// Checks a value of the setting.
pub(super) fn check(value: &str) -> Result<(), InvalidValue> {
    parse(value).map_or_else(|why| Err(InvalidValue::from_error(&why)), |_| Ok(()))
}

/// Returns every server of a session.
pub(super) fn all(launching: &Launching<'_>) -> Vec<McpServer> {
    let configured = launching.spec.values(keys::MCP_CONFIG).unwrap_or_default();
    let mut servers: Vec<McpServer> = configured
        .iter()
        .filter_map(|value| parse(value).ok())
        .flatten()
        .collect();
    servers.extend(launching.bridge.map(|bridge| McpServer::Stdio {
        name: SERVER.to_owned(),
        command: bridge.program.clone(),
        args: bridge.args.clone(),
        env: Vec::new(),
    }));
    servers
}

/// Splits off the servers that the agent starts, as the text of a file for agents that take them by
/// an argument. Returns that text and the remaining servers.
pub(super) fn split_stdio(servers: Vec<McpServer>) -> (Option<String>, Vec<McpServer>) {
    let (started, rest): (Vec<_>, Vec<_>) = servers
        .into_iter()
        .partition(|it| matches!(it, McpServer::Stdio { .. }));
    let object = |pairs: Vec<NameValue>| {
        pairs
            .into_iter()
            .map(|it| (it.name, it.value.into()))
            .collect::<Map<_, _>>()
    };
    let entry = |server| match server {
        McpServer::Stdio {
            name,
            command,
            args,
            env,
        } => Some((
            name,
            json!({"type": "local", "command": command, "args": args, "env": object(env), "tools": ["*"]}),
        )),
        McpServer::Remote { .. } => None,
    };
    let started: Map<String, Value> = started.into_iter().filter_map(entry).collect();
    (
        (!started.is_empty()).then(|| json!({"mcpServers": started}).to_string()),
        rest,
    )
}

fn parse(value: &str) -> Result<Vec<McpServer>, ServersError> {
    let whole: Value = serde_json::from_str(value).map_err(|_| ServersError::NotJson)?;
    let servers = whole.get("mcpServers").and_then(Value::as_object);
    servers
        .ok_or(ServersError::NoServers)?
        .iter()
        .map(|(name, server)| parse_server(name, server))
        .collect()
}

fn parse_server(name: &str, server: &Value) -> Result<McpServer, ServersError> {
    if name == SERVER {
        return Err(ServersError::Reserved(name.to_owned()));
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
        return Ok(McpServer::Stdio {
            name,
            command,
            args,
            env: pairs("env"),
        });
    }
    let Some(url) = text("url") else {
        return Err(ServersError::NoCommand(name));
    };
    let r#type = match text("type").as_deref() {
        None | Some("http" | "streamable-http") => RemoteTransport::Http,
        Some("sse") => RemoteTransport::Sse,
        Some(other) => {
            let kind = other.to_owned();
            return Err(ServersError::UnknownType { name, kind });
        }
    };
    Ok(McpServer::Remote {
        r#type,
        name,
        url,
        headers: pairs("headers"),
    })
}

fn pairs(object: Option<&Map<String, Value>>) -> Vec<NameValue> {
    let all = object.into_iter().flatten();
    all.filter_map(|(name, value)| {
        Some(NameValue {
            name: name.clone(),
            value: value.as_str()?.to_owned(),
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_core::dialect::Bridge;
    use ostler_core::raw_json::RawJson;
    use ostler_core::spec::Spec;

    #[test]
    fn servers_are_serialized_as_acp_expects() {
        let mut spec = Spec::default();
        let servers = [
            r#"{"mcpServers":{"a":{"command":"run","args":["-x"],"env":{"K":"v"}},"b":{"type":"sse","url":"http://h","headers":{"A":"b"}},"c":{"url":"http://i"}}}"#,
        ];
        spec.set(keys::MCP_CONFIG, servers).unwrap();
        let bridge = Bridge {
            program: "/bin/ostler".into(),
            args: vec!["bridge".into()],
        };
        let launching = Launching {
            bridge: Some(&bridge),
            ..Launching::new(&spec)
        };
        assert_eq!(
            RawJson::of(&all(&launching)).get(),
            concat!(
                r#"[{"name":"a","command":"run","args":["-x"],"env":[{"name":"K","value":"v"}]},"#,
                r#"{"type":"sse","name":"b","url":"http://h","headers":[{"name":"A","value":"b"}]},"#,
                r#"{"type":"http","name":"c","url":"http://i","headers":[]},"#,
                r#"{"name":"ostler","command":"/bin/ostler","args":["bridge"],"env":[]}]"#
            )
        );
        let (file, rest) = split_stdio(all(&launching));
        let file: Value = serde_json::from_str(&file.unwrap()).unwrap();
        assert_eq!(
            file["mcpServers"]["a"],
            json!({"type": "local", "command": "run", "args": ["-x"], "env": {"K": "v"}, "tools": ["*"]})
        );
        assert_eq!(
            (file["mcpServers"].as_object().unwrap().len(), rest.len()),
            (2, 2)
        );
        assert_eq!(split_stdio(Vec::new()), (None, Vec::new()));
    }

    #[test]
    fn invalid_servers_have_a_reason() {
        let name = || "a".to_owned();
        let kind = "ws".to_owned();
        for (wrong, why) in [
            ("servers.json", ServersError::NotJson),
            ("[]", ServersError::NoServers),
            ("{}", ServersError::NoServers),
            (
                r#"{"mcpServers":{"a":{}}}"#,
                ServersError::NoCommand(name()),
            ),
            (
                r#"{"mcpServers":{"ostler":{"command":"x"}}}"#,
                ServersError::Reserved(SERVER.to_owned()),
            ),
            (
                r#"{"mcpServers":{"a":{"url":"x","type":"ws"}}}"#,
                ServersError::UnknownType { name: name(), kind },
            ),
        ] {
            assert_eq!(check(wrong), Err(InvalidValue::from_error(&why)));
            assert_eq!(parse(wrong), Err(why), "{wrong}");
        }
    }
}
