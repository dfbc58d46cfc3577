//! Permission question to the editor, and its reply. Pure.

use ostler::permission::PermissionAnswer;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::update::ToolCallUpdate;

/// Parameters of `session/request_permission`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PermissionParams<'a> {
    session_id: &'a str,
    tool_call: ToolCallUpdate,
    options: [PermissionOption; 3],
}

/// An answer that the user can choose.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PermissionOption {
    option_id: &'static str,
    name: &'static str,
    kind: &'static str,
}

const PERMISSION_OPTIONS: [(&str, &str); 3] = [
    ("allow_once", "Allow"),
    ("allow_always", "Allow for the rest of the session"),
    ("reject_once", "Reject"),
];

/// Denial message for the model when the user rejects a call.
const DENIED_BY_USER: &str = "The user does not want this to be done.";

impl<'a> PermissionParams<'a> {
    /// Returns the question about a tool call.
    pub(crate) fn new(session_id: &'a str, tool_call: ToolCallUpdate) -> Self {
        Self {
            session_id,
            tool_call,
            options: PERMISSION_OPTIONS.map(|(id, name)| PermissionOption {
                option_id: id,
                name,
                kind: id,
            }),
        }
    }
}

/// Parses the reply to a question. Anything but an allow option denies.
pub(crate) fn parse_reply(reply: Option<&RawValue>) -> PermissionAnswer {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct PermissionReply {
        outcome: SelectedOption,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct SelectedOption {
        outcome: String,
        option_id: String,
    }
    let reply: PermissionReply = reply
        .and_then(|reply| serde_json::from_str(reply.get()).ok())
        .unwrap_or_default();
    match (&*reply.outcome.outcome, &*reply.outcome.option_id) {
        ("selected", "allow_once") => PermissionAnswer::Allow,
        ("selected", "allow_always") => PermissionAnswer::AllowAlways,
        _ => PermissionAnswer::Deny(DENIED_BY_USER.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_but_an_allow_option_denies() {
        let of = |text: &str| parse_reply(Some(serde_json::from_str(text).unwrap()));
        assert_eq!(
            of(r#"{"outcome":{"outcome":"selected","optionId":"allow_once"}}"#),
            PermissionAnswer::Allow
        );
        assert_eq!(
            of(r#"{"outcome":{"outcome":"selected","optionId":"allow_always"}}"#),
            PermissionAnswer::AllowAlways
        );
        let no = PermissionAnswer::Deny(DENIED_BY_USER.into());
        for other in [
            r#"{"outcome":{"outcome":"selected","optionId":"reject_once"}}"#,
            r#"{"outcome":{"outcome":"selected","optionId":"allow"}}"#,
            r#"{"outcome":{"outcome":"cancelled","optionId":"allow_once"}}"#,
            r#"{"outcome":"selected"}"#,
            "{}",
            "null",
        ] {
            assert_eq!(of(other), no, "{other}");
        }
        assert_eq!(parse_reply(None), no, "an error is no answer");
    }
}
