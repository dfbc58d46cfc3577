//! Protocol checker: every line from the program must round-trip through the official types without
//! loss.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use agent_client_protocol::v1::schema as acp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Methods of pending requests, by id.
#[derive(Clone, Default)]
pub(crate) struct ProtocolChecker(Arc<Mutex<HashMap<String, String>>>);

impl ProtocolChecker {
    /// Records a line from the editor.
    pub(crate) fn record_request(&self, line: &str) {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return;
        };
        if let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) {
            self.0
                .lock()
                .unwrap()
                .insert(id.to_string(), method.to_owned());
        }
    }

    /// Checks a line from the program.
    pub(crate) fn check(&self, line: &str) {
        let message: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        let params = &message["params"];
        match message["method"].as_str() {
            Some("session/update") => assert_round_trips::<acp::SessionNotification>(params),
            Some("session/request_permission") => {
                assert_round_trips::<acp::RequestPermissionRequest>(params);
            }
            Some("$/cancel_request") => {
                assert_round_trips::<acp::CancelRequestNotification>(params);
            }
            Some(method) => panic!("unexpected method {method}"),
            None if message.get("error").is_some() => {
                assert_round_trips::<acp::Error>(&message["error"]);
            }
            None => self.check_result(&message["id"], &message["result"]),
        }
    }

    fn check_result(&self, id: &Value, result: &Value) {
        let method = self.0.lock().unwrap().remove(&id.to_string());
        let method = method.unwrap_or_else(|| panic!("response to an unknown request {id}"));
        match &*method {
            "initialize" => assert_round_trips::<acp::InitializeResponse>(result),
            "authenticate" => assert_round_trips::<acp::AuthenticateResponse>(result),
            "session/new" => assert_round_trips::<acp::NewSessionResponse>(result),
            "session/load" => assert_round_trips::<acp::LoadSessionResponse>(result),
            "session/resume" => assert_round_trips::<acp::ResumeSessionResponse>(result),
            "session/list" => assert_round_trips::<acp::ListSessionsResponse>(result),
            "session/close" => assert_round_trips::<acp::CloseSessionResponse>(result),
            "session/prompt" => assert_round_trips::<acp::PromptResponse>(result),
            "session/set_mode" => assert_round_trips::<acp::SetSessionModeResponse>(result),
            "session/set_config_option" => {
                assert_round_trips::<acp::SetSessionConfigOptionResponse>(result);
            }
            other => panic!("unexpected response to {other}"),
        }
    }
}

/// Checks that a value round-trips through `T`. The official types ignore unknown fields, which
/// would be lost.
fn assert_round_trips<T: DeserializeOwned + Serialize>(ours: &Value) {
    let read: T =
        serde_json::from_value(ours.clone()).unwrap_or_else(|error| panic!("{error}: {ours}"));
    let theirs = serde_json::to_value(&read).unwrap();
    assert_contained(ours, &theirs, ours);
}

fn assert_contained(ours: &Value, theirs: &Value, whole: &Value) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, value) in ours {
                match theirs.get(key) {
                    Some(theirs) => assert_contained(value, theirs, whole),
                    // Default values are omitted.
                    None => assert!(
                        [
                            Value::Null,
                            Value::from("other"),
                            Value::from("pending"),
                            Value::Array(Vec::new())
                        ]
                        .contains(value),
                        "{key} is lost in {whole}"
                    ),
                }
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            assert_eq!(ours.len(), theirs.len(), "items are lost in {whole}");
            ours.iter()
                .zip(theirs)
                .for_each(|(ours, theirs)| assert_contained(ours, theirs, whole));
        }
        _ => assert_eq!(ours, theirs, "{whole}"),
    }
}
