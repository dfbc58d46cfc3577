//! Whether what the program prints is what the protocol says: read by the official types, and nothing of it lost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use agent_client_protocol::v1::schema as acp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What was asked, by the ids of the requests.
#[derive(Clone, Default)]
pub(crate) struct Checker(Arc<Mutex<HashMap<String, String>>>);

impl Checker {
    /// The editor says something.
    pub(crate) fn asks(&self, line: &str) {
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

    /// The program says something.
    pub(crate) fn check(&self, line: &str) {
        let message: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        let params = &message["params"];
        match message["method"].as_str() {
            Some("session/update") => same::<acp::SessionNotification>(params),
            Some("session/request_permission") => same::<acp::RequestPermissionRequest>(params),
            Some("$/cancel_request") => same::<acp::CancelRequestNotification>(params),
            Some(method) => panic!("the program sent {method}"),
            None if message.get("error").is_some() => same::<acp::Error>(&message["error"]),
            None => self.check_result(&message["id"], &message["result"]),
        }
    }

    fn check_result(&self, id: &Value, result: &Value) {
        let method = self.0.lock().unwrap().remove(&id.to_string());
        let method = method.unwrap_or_else(|| panic!("nobody asked {id}"));
        match &*method {
            "initialize" => same::<acp::InitializeResponse>(result),
            "authenticate" => same::<acp::AuthenticateResponse>(result),
            "session/new" => same::<acp::NewSessionResponse>(result),
            "session/load" => same::<acp::LoadSessionResponse>(result),
            "session/resume" => same::<acp::ResumeSessionResponse>(result),
            "session/list" => same::<acp::ListSessionsResponse>(result),
            "session/close" => same::<acp::CloseSessionResponse>(result),
            "session/prompt" => same::<acp::PromptResponse>(result),
            "session/set_mode" => same::<acp::SetSessionModeResponse>(result),
            "session/set_config_option" => same::<acp::SetSessionConfigOptionResponse>(result),
            other => panic!("the program answered {other}"),
        }
    }
}

/// The official types pass over what they do not know: what is written again must hold all that was read.
fn same<T: DeserializeOwned + Serialize>(ours: &Value) {
    let read: T =
        serde_json::from_value(ours.clone()).unwrap_or_else(|error| panic!("{error}: {ours}"));
    let theirs = serde_json::to_value(&read).unwrap();
    held(ours, &theirs, ours);
}

fn held(ours: &Value, theirs: &Value, whole: &Value) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, value) in ours {
                match theirs.get(key) {
                    Some(theirs) => held(value, theirs, whole),
                    // What is usual is left out.
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
            assert_eq!(ours.len(), theirs.len(), "something is lost in {whole}");
            ours.iter()
                .zip(theirs)
                .for_each(|(ours, theirs)| held(ours, theirs, whole));
        }
        _ => assert_eq!(ours, theirs, "{whole}"),
    }
}
