//! Side calls: requests that agents send to a model besides the task, which no script answers.

use super::answer::{Answer, Usage};
use super::request::Request;

/// Texts in requests for a session title, for agents that cannot be configured not to ask.
const TITLES: &[&str] = &[
    // claude-agent-acp
    "Write the title in the predominant language of the session",
    // codex-acp
    "Your task is to generate a very short title for a conversation",
];

/// Returns the answer to a side call, or `None` if the script has to answer the request.
pub(super) fn answer(request: &Request) -> Option<Answer> {
    is_side_call(request).then(|| Answer::text(r#"{"title":"a session"}"#).usage(Usage::SIDE_CALL))
}

/// Returns true if the request is a side call of the agent.
pub(super) fn is_side_call(request: &Request) -> bool {
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

    fn is_answered(path: &str, body: Value) -> bool {
        let request = Request {
            method: "POST".into(),
            path: path.into(),
            headers: Vec::new(),
            body,
        };
        answer(&request).is_some()
    }

    #[test]
    fn a_title_request_is_a_side_call_and_a_prompt_is_not() {
        let claude = |text: &str| json!({"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]});
        let title = "<session>\nPROMPT\n</session>\n\nWrite the title in the predominant language of the session — a";
        assert!(is_answered("/v1/messages?beta=true", claude(title)));
        assert!(!is_answered("/v1/messages?beta=true", claude("PROMPT")));
        assert!(!is_answered("/v1/messages/count_tokens", claude(title)));
        let codex = |text: &str| json!({"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]});
        assert!(is_answered(
            "/v1/responses",
            codex(
                "Your task is to generate a very short title for a conversation based on\n\nPROMPT"
            )
        ));
        assert!(!is_answered("/v1/responses", codex("PROMPT")));
    }
}
