//! Requests to pi: one JSON object per line, each with an id that the response repeats.

use ostler_core::dialect::Outbox;
use serde::Serialize;

use crate::json_lines;

/// Prefix of a change request's id, followed by the caller's number for the change.
const CHANGE_PREFIX: &str = "ostler-change-";

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Request<'a> {
    GetState,
    Prompt {
        message: &'a str,
    },
    Steer {
        message: &'a str,
    },
    Abort,
    #[serde(rename_all = "camelCase")]
    SetModel {
        provider: &'a str,
        model_id: &'a str,
    },
    ExtensionUiResponse {
        cancelled: bool,
    },
}

#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    #[serde(flatten)]
    request: Request<'a>,
}

/// Requests the state of the session.
pub(super) fn get_state(out: &mut Outbox) {
    write("ostler-state", Request::GetState, out);
}

/// Sends a prompt.
pub(super) fn prompt(message: &str, out: &mut Outbox) {
    write("ostler-prompt", Request::Prompt { message }, out);
}

/// Sends a message for the current turn.
pub(super) fn steer(message: &str, out: &mut Outbox) {
    write("ostler-steer", Request::Steer { message }, out);
}

/// Interrupts the current turn.
pub(super) fn abort(out: &mut Outbox) {
    write("ostler-abort", Request::Abort, out);
}

/// Changes the model.
pub(super) fn set_model(number: u64, model: &ModelChoice<'_>, out: &mut Outbox) {
    let request = Request::SetModel {
        provider: model.provider,
        model_id: model.id,
    };
    write(&format!("{CHANGE_PREFIX}{number}"), request, out);
}

/// Dismisses an extension's dialog, which would otherwise wait forever for an answer.
pub(super) fn dismiss(dialog: &str, out: &mut Outbox) {
    let request = Request::ExtensionUiResponse { cancelled: true };
    write(dialog, request, out);
}

/// A model by provider and name.
#[derive(Debug)]
pub(super) struct ModelChoice<'a> {
    provider: &'a str,
    id: &'a str,
}

impl<'a> ModelChoice<'a> {
    /// Parses `provider/model`. A name without a provider is a model of the current one.
    pub(super) fn parse(name: &'a str, current: Option<&'a str>) -> Option<Self> {
        match name.split_once('/') {
            Some((provider, id)) => Some(Self { provider, id }),
            None => current.map(|provider| Self { provider, id: name }),
        }
    }
}

/// Returns the number of the change that a response answers, from the response's id.
pub(super) fn parse_change_id(id: &str) -> Option<u64> {
    id.strip_prefix(CHANGE_PREFIX)?.parse().ok()
}

fn write(id: &str, request: Request<'_>, out: &mut Outbox) {
    json_lines::send(&Line { id, request }, out);
}

#[cfg(test)]
mod tests {
    use ostler_core::dialect::{Action, FromConversation};

    use super::*;

    fn written(send: impl FnOnce(&mut Outbox)) -> String {
        let mut out = Outbox::default();
        send(&mut out);
        let Some(FromConversation::Do(Action::Write(line))) = out.drain().next() else {
            panic!("nothing was written")
        };
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn requests_are_one_line_each() {
        assert_eq!(
            written(|out| prompt("a\n\u{2028}b", out)),
            "{\"id\":\"ostler-prompt\",\"type\":\"prompt\",\"message\":\"a\\n\u{2028}b\"}\n"
        );
        assert_eq!(
            written(abort),
            "{\"id\":\"ostler-abort\",\"type\":\"abort\"}\n"
        );
        let model = ModelChoice::parse("openrouter/meta/llama", None).unwrap();
        let line = written(|out| set_model(7, &model, out));
        assert_eq!(
            line,
            "{\"id\":\"ostler-change-7\",\"type\":\"set_model\",\"provider\":\"openrouter\",\
             \"modelId\":\"meta/llama\"}\n"
        );
        assert_eq!(parse_change_id("ostler-change-7"), Some(7));
        assert_eq!(
            written(|out| dismiss("uuid", out)),
            "{\"id\":\"uuid\",\"type\":\"extension_ui_response\",\"cancelled\":true}\n"
        );
    }

    #[test]
    fn a_model_without_a_provider_uses_the_current_one() {
        let of = |name, current| ModelChoice::parse(name, current).map(|it| (it.provider, it.id));
        assert_eq!(of("gpt", Some("openai")), Some(("openai", "gpt")));
        assert_eq!(of("gpt", None), None);
        assert_eq!(of("a/b", Some("openai")), Some(("a", "b")));
    }
}
