//! What agents ask a model beside the task, whether they are told to or not: such calls are no part of a script.

use super::answer::{Answer, Usage};
use super::request::Request;

/// Words of a request for a title of the session, of agents that nothing keeps from making one.
const TITLES: &[&str] = &[
    // claude-agent-acp
    "Write the title in the predominant language of the session",
    // codex-acp
    "Your task is to generate a very short title for a conversation",
];

/// The answer to a call of the model that is none of the script's; none: the script has to know it.
pub(super) fn answer(request: &Request) -> Option<Answer> {
    is_aside(request).then(|| Answer::text(r#"{"title":"a session"}"#).usage(Usage::ASIDE))
}

/// Whether a call of the model is an agent's own.
pub(super) fn is_aside(request: &Request) -> bool {
    if !request.is_model_call() {
        return false;
    }
    let text = request.last_user_text();
    TITLES.iter().any(|words| text.contains(words))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn asks(path: &str, body: Value) -> bool {
        let request = Request {
            method: "POST".into(),
            path: path.into(),
            headers: Vec::new(),
            body,
        };
        answer(&request).is_some()
    }

    #[test]
    fn a_title_is_none_of_the_script_and_a_prompt_is() {
        let claude = |text: &str| json!({"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]});
        let title = "<session>\nPROMPT\n</session>\n\nWrite the title in the predominant language of the session — a";
        assert!(asks("/v1/messages?beta=true", claude(title)));
        assert!(!asks("/v1/messages?beta=true", claude("PROMPT")));
        assert!(!asks("/v1/messages/count_tokens", claude(title)));
        let codex = |text: &str| json!({"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]});
        assert!(asks(
            "/v1/responses",
            codex(
                "Your task is to generate a very short title for a conversation based on\n\nPROMPT"
            )
        ));
        assert!(!asks("/v1/responses", codex("PROMPT")));
    }
}
