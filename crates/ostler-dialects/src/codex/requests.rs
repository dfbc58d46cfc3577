//! Parameters of requests to the app-server.

use ostler_core::raw_json::RawJson;
use serde::Serialize;

/// Returns the parameters of `initialize`.
pub(super) fn initialize() -> RawJson {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct InitializeParams {
        client_info: ClientInfo,
        capabilities: Capabilities,
    }
    #[derive(Serialize)]
    struct ClientInfo {
        name: &'static str,
        title: &'static str,
        version: &'static str,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Capabilities {
        /// Required for the caller's tools.
        experimental_api: bool,
    }
    let client_info = ClientInfo {
        name: "ostler",
        title: "Ostler",
        version: env!("CARGO_PKG_VERSION"),
    };
    RawJson::of(&InitializeParams {
        client_info,
        capabilities: Capabilities {
            experimental_api: true,
        },
    })
}

/// Parameters of `turn/start`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnStart<'a> {
    pub(super) thread_id: &'a str,
    pub(super) input: [TextInput<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sandbox_policy: Option<SandboxSetting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_schema: Option<&'a RawJson>,
}

/// A text input of the user.
#[derive(Serialize)]
pub(super) struct TextInput<'a> {
    r#type: &'static str,
    text: &'a str,
}

impl<'a> TextInput<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            r#type: "text",
            text,
        }
    }
}

/// Returns the parameters of `turn/steer`.
pub(super) fn steer(thread_id: &str, expected_turn_id: &str, message: &str) -> RawJson {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        thread_id: &'a str,
        expected_turn_id: &'a str,
        input: [TextInput<'a>; 1],
    }
    RawJson::of(&Params {
        thread_id,
        expected_turn_id,
        input: [TextInput::new(message)],
    })
}

/// Returns the parameters of `turn/interrupt`.
pub(super) fn interrupt(thread_id: &str, turn_id: &str) -> RawJson {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        thread_id: &'a str,
        turn_id: &'a str,
    }
    RawJson::of(&Params { thread_id, turn_id })
}

/// Returns the parameters of the request that terminates running commands.
pub(super) fn clean_terminals(thread_id: &str) -> RawJson {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        thread_id: &'a str,
    }
    RawJson::of(&Params { thread_id })
}

/// A sandbox selected during a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SandboxSetting {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    writable_roots: Vec<String>,
}

impl SandboxSetting {
    pub(super) fn of(mode: &str, roots: &[String]) -> Option<Self> {
        let (r#type, writable_roots) = match mode {
            "read-only" => ("readOnly", Vec::new()),
            "workspace-write" => ("workspaceWrite", roots.to_vec()),
            "danger-full-access" => ("dangerFullAccess", Vec::new()),
            _ => return None,
        };
        Some(Self {
            r#type,
            writable_roots,
        })
    }
}
