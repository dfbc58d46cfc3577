//! Parameters of requests to the app-server.

use serde_json::{Value, json};

/// Returns the parameters of `initialize`.
pub(super) fn initialize() -> Value {
    let version = env!("CARGO_PKG_VERSION");
    json!({
        "clientInfo": {"name": "ostler", "title": "Ostler", "version": version},
        "capabilities": {"experimentalApi": true},
    })
}

/// Returns the input of a turn.
pub(super) fn input(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

/// Returns the parameters of `turn/steer`.
pub(super) fn steer(thread_id: &str, turn_id: &str, message: &str) -> Value {
    json!({"threadId": thread_id, "expectedTurnId": turn_id, "input": input(message)})
}

/// Returns the parameters of `turn/interrupt`.
pub(super) fn interrupt(thread_id: &str, turn_id: &str) -> Value {
    json!({"threadId": thread_id, "turnId": turn_id})
}

/// Returns the parameters of the request that terminates running commands.
pub(super) fn clean_terminals(thread_id: &str) -> Value {
    json!({"threadId": thread_id})
}

/// Returns the sandbox policy of a permission mode, or `None` for an unknown mode.
pub(super) fn sandbox_policy(mode: &str, roots: &[String]) -> Option<Value> {
    Some(match mode {
        "read-only" => json!({"type": "readOnly"}),
        "workspace-write" if roots.is_empty() => json!({"type": "workspaceWrite"}),
        "workspace-write" => json!({"type": "workspaceWrite", "writableRoots": roots}),
        "danger-full-access" => json!({"type": "dangerFullAccess"}),
        _ => return None,
    })
}
