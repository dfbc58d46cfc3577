//! The parameters of what Ostler asks of the app-server.

use ostler_core::raw_json::RawJson;
use serde::Serialize;

/// The greeting.
pub(super) fn hello() -> RawJson {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Hello {
        client_info: Client,
        capabilities: Able,
    }
    #[derive(Serialize)]
    struct Client {
        name: &'static str,
        title: &'static str,
        version: &'static str,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Able {
        /// Tools of the caller's are a part of it.
        experimental_api: bool,
    }
    let client_info = Client {
        name: "ostler",
        title: "Ostler",
        version: env!("CARGO_PKG_VERSION"),
    };
    RawJson::of(&Hello {
        client_info,
        capabilities: Able {
            experimental_api: true,
        },
    })
}

/// A turn that is to begin.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnStart<'a> {
    pub(super) thread_id: &'a str,
    pub(super) input: [Text<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sandbox_policy: Option<Sandbox>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_schema: Option<&'a RawJson>,
}

/// Words of the user's.
#[derive(Serialize)]
pub(super) struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

impl<'a> Text<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            r#type: "text",
            text,
        }
    }
}

/// A message for the turn under way.
pub(super) fn steer(thread_id: &str, expected_turn_id: &str, message: &str) -> RawJson {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        thread_id: &'a str,
        expected_turn_id: &'a str,
        input: [Text<'a>; 1],
    }
    RawJson::of(&Params {
        thread_id,
        expected_turn_id,
        input: [Text::new(message)],
    })
}

/// The end of the turn under way.
pub(super) fn interrupt(thread_id: &str, turn_id: &str) -> RawJson {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        thread_id: &'a str,
        turn_id: &'a str,
    }
    RawJson::of(&Params { thread_id, turn_id })
}

/// The end of the commands that still run.
pub(super) fn clean(thread_id: &str) -> RawJson {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        thread_id: &'a str,
    }
    RawJson::of(&Params { thread_id })
}

/// A sandbox that is chosen in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sandbox {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    writable_roots: Vec<String>,
}

impl Sandbox {
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
