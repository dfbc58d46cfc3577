//! What an agent sent to the scripted model, kept for the test to look at.

use serde_json::Value;

/// One recorded request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; `Null` when it was empty or no JSON.
    pub body: Value,
}

/// One tool result found in a request's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// Which call it answers.
    pub tool_use_id: String,
    /// Its text; several text blocks are joined with newlines.
    pub text: String,
    /// Whether the agent called it an error.
    pub is_error: bool,
}

impl Request {
    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The model asked for.
    #[must_use]
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// Whether the answer is to be streamed.
    #[must_use]
    pub fn wants_stream(&self) -> bool {
        self.body["stream"].as_bool().unwrap_or(false)
    }

    /// The names of the tools offered to the model.
    #[must_use]
    pub fn tool_names(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
    }

    /// The system prompt, its blocks joined with newlines.
    #[must_use]
    pub fn system_text(&self) -> String {
        joined_text(&self.body["system"], |_| true)
    }

    /// What the user said last, without the reminders the agent adds.
    ///
    /// Empty when the last real user message carries only tool results: a rule for a prompt must not fire again
    /// when its tool call comes back.
    #[must_use]
    pub fn last_user_text(&self) -> String {
        self.last_user_message()
            .map(|message| joined_text(&message["content"], |text| !is_reminder(text)))
            .unwrap_or_default()
    }

    /// Every text sent since the model spoke last, joined with newlines: prompts, reminders and system messages.
    #[must_use]
    pub fn news(&self) -> String {
        let fresh = self.messages().rsplit(|message| message["role"] == "assistant").next();
        let texts = fresh.unwrap_or_default().iter();
        texts.map(|message| joined_text(&message["content"], |_| true)).collect::<Vec<_>>().join("\n")
    }

    /// Every tool result in the conversation, oldest first.
    #[must_use]
    pub fn tool_results(&self) -> Vec<ToolResult> {
        self.messages().iter().flat_map(tool_results_of).collect()
    }

    /// The tool results of the last real user message: what the model is asked to go on from.
    #[must_use]
    pub fn last_tool_results(&self) -> Vec<ToolResult> {
        self.last_user_message().map(tool_results_of).unwrap_or_default()
    }

    /// Whether this asks for a message (and is not a token count, a health check or something unknown).
    #[must_use]
    pub fn is_model_call(&self) -> bool {
        self.method == "POST" && self.bare_path() == "/v1/messages"
    }

    /// The path without its query.
    #[must_use]
    pub fn bare_path(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    // Claude Code appends messages of role `system` and user messages that hold nothing but reminders.
    fn last_user_message(&self) -> Option<&Value> {
        let real = |message: &&Value| {
            message["role"] == "user"
                && (!tool_results_of(message).is_empty()
                    || !joined_text(&message["content"], |text| !is_reminder(text)).is_empty())
        };
        self.messages().iter().rev().find(real)
    }
}

fn is_reminder(text: &str) -> bool {
    text.trim_start().starts_with("<system-reminder>")
}

fn joined_text(content: &Value, keep: impl Fn(&str) -> bool) -> String {
    let texts: Vec<&str> = match content {
        Value::String(text) => vec![text.as_str()],
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => Vec::new(),
    };
    texts.into_iter().filter(|text| keep(text)).collect::<Vec<_>>().join("\n")
}

fn tool_results_of(message: &Value) -> Vec<ToolResult> {
    let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let results = blocks.iter().filter(|block| block["type"] == "tool_result");
    results
        .map(|block| ToolResult {
            tool_use_id: block["tool_use_id"].as_str().unwrap_or_default().to_owned(),
            text: joined_text(&block["content"], |_| true),
            is_error: block["is_error"].as_bool().unwrap_or(false),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Request;

    fn request(messages: &Value) -> Request {
        Request {
            method: "POST".to_owned(),
            path: "/v1/messages?beta=true".to_owned(),
            headers: vec![("x-api-key".to_owned(), "k".to_owned())],
            body: json!({"model": "m", "messages": messages}),
        }
    }

    #[test]
    fn the_prompt_is_found_behind_reminders_and_a_trailing_system_message() {
        let request = request(&json!([
            {"role": "user", "content": [
                {"type": "text", "text": "<system-reminder>today</system-reminder>"},
                {"type": "text", "text": "Say hello"}]},
            {"role": "user", "content": "<system-reminder>more</system-reminder>"},
            {"role": "system", "content": "cwd is /workspace"}]));
        assert_eq!(request.last_user_text(), "Say hello");
        assert!(request.news().contains("more") && request.news().contains("cwd is"));
        assert!(request.is_model_call());
        assert_eq!(request.header("X-Api-Key"), Some("k"));
    }

    #[test]
    fn a_tool_result_hides_the_prompt_before_it() {
        let request = request(&json!([
            {"role": "user", "content": "run it"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": true,
                "content": [{"type": "text", "text": "no"}, {"type": "text", "text": "way"}]}]}]));
        assert_eq!(request.last_user_text(), "");
        let results = request.last_tool_results();
        assert_eq!(results.len(), 1);
        assert_eq!((results[0].text.as_str(), results[0].is_error), ("no\nway", true));
        assert_eq!(request.tool_results(), results);
    }
}
