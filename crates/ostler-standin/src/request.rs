//! Recorded requests of an agent to the scripted model, for tests to inspect.

use serde_json::Value;

/// A recorded request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; `Null` if it was empty or not JSON.
    pub body: Value,
}

/// A tool result in a request's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The id of the call.
    pub tool_use_id: String,
    /// Its text, with several text blocks joined by newlines.
    pub text: String,
    /// Whether the agent marked it as an error.
    pub is_error: bool,
}

impl Request {
    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the requested model.
    #[must_use]
    pub fn model(&self) -> &str {
        self.gemini()
            .map_or_else(|| text(&self.body["model"]), |(model, _)| model)
    }

    /// Returns true if the answer should be streamed.
    #[must_use]
    pub fn wants_stream(&self) -> bool {
        match self.gemini() {
            Some((_, verb)) => verb == "streamGenerateContent",
            None => self.body["stream"] == true,
        }
    }

    /// Returns true if the request asks for token counts in the stream (`include_usage`).
    #[must_use]
    pub fn wants_usage(&self) -> bool {
        self.body["stream_options"]["include_usage"] == true
    }

    /// Returns the names of the offered tools, including those inside namespaces.
    #[must_use]
    pub fn tool_names(&self) -> Vec<&str> {
        let inner = if self.gemini().is_some() {
            "functionDeclarations"
        } else {
            "tools"
        };
        let tools = list(&self.body["tools"]).iter();
        let flat = tools.flat_map(|tool| match list(&tool[inner]) {
            [] => std::slice::from_ref(tool),
            inner => inner,
        });
        let name = |tool: &'_ Value| match &tool["function"] {
            Value::Object(_) => "/function/name",
            _ => "/name",
        };
        flat.filter_map(|tool| tool.pointer(name(tool))?.as_str())
            .collect()
    }

    /// Returns true if a tool takes plain text instead of JSON.
    pub(super) fn takes_text(&self, name: &str) -> bool {
        list(&self.body["tools"])
            .iter()
            .any(|tool| tool["type"] == "custom" && tool["name"] == name)
    }

    /// Returns the namespace of a tool, and its name there.
    pub(super) fn namespace(&self, name: &str) -> Option<(&str, &str)> {
        let spaces = list(&self.body["tools"])
            .iter()
            .filter(|tool| tool["type"] == "namespace");
        let mut tools =
            spaces.flat_map(|space| list(&space["tools"]).iter().map(move |tool| (space, tool)));
        tools.find_map(|(space, tool)| {
            let (space, own) = (space["name"].as_str()?, tool["name"].as_str()?);
            (joined(space, own) == name).then_some((space, own))
        })
    }

    /// Returns the system prompt, with its blocks joined by newlines.
    #[must_use]
    pub fn system_text(&self) -> String {
        if self.gemini().is_some() {
            return texts(&self.body["systemInstruction"]["parts"]).join("\n");
        }
        if !self.is_chat() && !self.is_responses() {
            return texts(&self.body["system"]).join("\n");
        }
        let mut all = texts(&self.body["instructions"]);
        let messages = self.messages().into_iter();
        let system = messages.filter(|message| message.role == Role::System);
        all.extend(system.flat_map(|message| message.texts));
        all.join("\n")
    }

    /// Returns the last user text, without the reminders that the agent adds.
    ///
    /// Empty if the last real user message has only tool results: a rule for a prompt must not
    /// match again when the result of its tool call arrives.
    #[must_use]
    pub fn last_user_text(&self) -> String {
        self.last_user_message()
            .map(|message| message.user_text())
            .unwrap_or_default()
    }

    /// Returns all texts since the model's last message, joined by newlines: prompts, reminders and
    /// system messages, but not the system prompt.
    #[must_use]
    pub fn news(&self) -> String {
        let all = self.messages();
        let prompts = all
            .iter()
            .take_while(|message| message.role == Role::System)
            .count();
        let fresh = all[prompts..]
            .rsplit(|message| message.role == Role::Assistant)
            .next()
            .unwrap_or_default();
        let texts: Vec<String> = fresh
            .iter()
            .map(|message| message.texts.join("\n"))
            .collect();
        texts.join("\n")
    }

    /// Returns every tool result in the conversation, oldest first.
    #[must_use]
    pub fn tool_results(&self) -> Vec<ToolResult> {
        self.messages()
            .into_iter()
            .flat_map(|message| message.results)
            .collect()
    }

    /// Returns the tool results of the last real user message.
    #[must_use]
    pub fn last_tool_results(&self) -> Vec<ToolResult> {
        self.last_user_message()
            .map(|message| message.results)
            .unwrap_or_default()
    }

    /// Returns true for a model call, false for a token count, a health check or anything else.
    #[must_use]
    pub fn is_model_call(&self) -> bool {
        let asks_gemini =
            |(_, verb): (&str, &str)| matches!(verb, "generateContent" | "streamGenerateContent");
        let speaks_openai = self.is_chat() || self.is_responses();
        let is_call = self.bare_path() == "/v1/messages"
            || speaks_openai
            || self.gemini().is_some_and(asks_gemini);
        self.method == "POST" && is_call
    }

    /// Returns true for a request of the Responses API, below any path prefix.
    #[must_use]
    pub fn is_responses(&self) -> bool {
        self.bare_path().ends_with("/responses")
    }

    /// Returns true for a request of chat completions, below any path prefix.
    #[must_use]
    pub fn is_chat(&self) -> bool {
        self.bare_path().ends_with("/chat/completions")
    }

    /// Returns the model and the verb of a call of Google's API, which has both in the path, below
    /// any prefix.
    pub(super) fn gemini(&self) -> Option<(&str, &str)> {
        let (before, name) = self.bare_path().rsplit_once('/')?;
        before.ends_with("/models").then(|| name.rsplit_once(':'))?
    }

    /// Returns the path without its query.
    #[must_use]
    pub fn bare_path(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    // Claude Code appends messages of role `system`, and user messages with only reminders.
    fn last_user_message(&self) -> Option<Message<'_>> {
        let real = |message: &Message<'_>| {
            message.role == Role::User
                && (!message.results.is_empty() || !message.user_text().is_empty())
        };
        self.messages().into_iter().rev().find(real)
    }

    /// Returns the conversation in a common form for all providers.
    fn messages(&self) -> Vec<Message<'_>> {
        if self.gemini().is_some() {
            return list(&self.body["contents"])
                .iter()
                .map(Message::of_content)
                .collect();
        }
        let mut all: Vec<Message<'_>> = Vec::new();
        let mut after_result = false;
        let messages = if self.is_responses() {
            &self.body["input"]
        } else {
            &self.body["messages"]
        };
        if let Value::String(text) = messages {
            return vec![Message {
                role: Role::User,
                texts: vec![text],
                results: Vec::new(),
            }];
        }
        for message in list(messages) {
            let result = single_result(message);
            let is_result = result.is_some();
            match (all.last_mut(), result) {
                // If each result is a separate message, consecutive ones answer one model message.
                (Some(last), Some(result)) if after_result => last.results.push(result),
                (_, Some(result)) => all.push(Message {
                    role: Role::User,
                    texts: Vec::new(),
                    results: vec![result],
                }),
                (_, None) => all.push(Message::of(message)),
            }
            after_result = is_result;
        }
        all
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    System,
    User,
    Assistant,
}

/// A message: its texts and tool results.
#[derive(Debug)]
struct Message<'a> {
    role: Role,
    texts: Vec<&'a str>,
    results: Vec<ToolResult>,
}

impl<'a> Message<'a> {
    fn of(message: &'a Value) -> Self {
        let role = match message["role"].as_str() {
            Some("assistant") => Role::Assistant,
            Some("user") => Role::User,
            // Items without a role are calls and thinking of the model.
            None if message["type"] != "message" => Role::Assistant,
            _ => Role::System,
        };
        let results = list(&message["content"])
            .iter()
            .filter(|block| block["type"] == "tool_result");
        Self {
            role,
            texts: texts(&message["content"]),
            results: results.map(block_result).collect(),
        }
    }

    /// Parses a message of Google's API. Thinking that is sent back does not count as text.
    fn of_content(content: &'a Value) -> Self {
        let role = if content["role"] == "model" {
            Role::Assistant
        } else {
            Role::User
        };
        let parts = list(&content["parts"]);
        let texts = parts
            .iter()
            .filter(|part| part["thought"] != true)
            .filter_map(|part| part["text"].as_str());
        let results = parts
            .iter()
            .map(|part| &part["functionResponse"])
            .filter(|result| result.is_object());
        Self {
            role,
            texts: texts.collect(),
            results: results.map(function_result).collect(),
        }
    }

    /// Returns the texts without the additions of an agent.
    fn user_text(&self) -> String {
        let is_reminder = |text: &str| {
            REMINDERS
                .iter()
                .any(|mark| text.trim_start().starts_with(mark))
        };
        let own = self
            .texts
            .iter()
            .copied()
            .filter(|text| !is_reminder(text))
            .map(without_date)
            .map(without_runtime);
        own.collect::<Vec<_>>().join("\n")
    }
}

/// Prefixes of texts that agents add to a user's message.
const REMINDERS: &[&str] = &[
    "<system-reminder>",
    "<session_context>",
    "<environment_context>",
    "<turn_aborted>",
    "# AGENTS.md instructions",
    "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>",
];

fn joined(space: &str, own: &str) -> String {
    format!("{}__{own}", space.trim_end_matches("__"))
}

/// Removes the date that Copilot puts before the user's text.
fn without_date(text: &str) -> &str {
    let dated = text
        .strip_prefix("<current_datetime>")
        .and_then(|rest| rest.split_once("</current_datetime>\n\n"));
    dated.map_or(text, |(_, own)| own)
}

/// Removes the date and time that OpenClaw puts before the user's text, and the line about itself
/// after it.
fn without_runtime(text: &str) -> &str {
    let Some((own, _)) = text.rsplit_once("\n\nRuntime: agent=") else {
        return text;
    };
    let dated = own
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(" UTC] "));
    dated.map_or(own, |(_, own)| own)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text.as_str()],
        other => list(other)
            .iter()
            .filter_map(|block| block["text"].as_str())
            .collect(),
    }
}

fn block_result(block: &Value) -> ToolResult {
    ToolResult {
        tool_use_id: text(&block["tool_use_id"]).to_owned(),
        text: texts(&block["content"]).join("\n"),
        is_error: block["is_error"] == true,
    }
}

/// Parses a message that is a single tool result.
fn single_result(message: &Value) -> Option<ToolResult> {
    if message["role"] == "tool" {
        return Some(chat_result(message));
    }
    text(&message["type"]).ends_with("_call_output").then(|| {
        let output = texts(&message["output"]).join("\n");
        // Codex reports the exit code to the model in a separate line.
        let exit_failed = output
            .split_once("exited with code ")
            .is_some_and(|(_, code)| !code.starts_with('0'));
        let refused = ["exec_command failed", "patch rejected"]
            .iter()
            .any(|words| output.starts_with(words));
        ToolResult {
            tool_use_id: text(&message["call_id"]).to_owned(),
            is_error: exit_failed || refused || has_code(&output),
            text: output,
        }
    })
}

/// Returns true if the text before the first colon is an error code.
fn has_code(text: &str) -> bool {
    let is_code = |word: &str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    text.split_once(": ").is_some_and(|(word, _)| is_code(word))
}

// Chat completions do not mark errors. Only the text shows them, by a code before the first colon
// or by its wording.
fn chat_result(message: &Value) -> ToolResult {
    let content = texts(&message["content"]).join("\n");
    ToolResult {
        tool_use_id: text(&message["tool_call_id"]).to_owned(),
        is_error: has_code(&content) || content.starts_with("Permission denied"),
        text: content,
    }
}

fn function_result(result: &Value) -> ToolResult {
    let (output, error) = (&result["response"]["output"], &result["response"]["error"]);
    let value = if error.is_null() { output } else { error };
    ToolResult {
        tool_use_id: text(&result["id"]).to_owned(),
        text: plain(value),
        is_error: !error.is_null(),
    }
}

/// Returns the text of a string, and the JSON of any other value.
pub(super) fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
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
    fn the_prompt_is_found_despite_reminders_and_a_trailing_system_message() {
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
        assert_eq!(
            (results[0].text.as_str(), results[0].is_error),
            ("no\nway", true)
        );
        assert_eq!(request.tool_results(), results);
    }

    fn chat(messages: &Value) -> Request {
        let tools = json!([{"type": "function", "function": {"name": "read_file"}}]);
        let body = json!({"model": "m", "messages": messages, "tools": tools});
        Request {
            path: "/openai/v1/chat/completions".to_owned(),
            body,
            ..request(&json!([]))
        }
    }

    #[test]
    fn a_chat_request_is_parsed() {
        let system = json!({"role": "developer", "content": "Be brief."});
        let prompt = json!({"role": "user", "content": [{"type": "text", "text": "Read"}, {"type": "text", "text": "it"}]});
        let request = chat(&json!([{"role": "system", "content": "Be kind."}, system, prompt]));
        assert!(request.is_model_call() && request.is_chat());
        assert_eq!(request.last_user_text(), "Read\nit");
        assert_eq!(request.system_text(), "Be kind.\nBe brief.");
        assert_eq!(request.news(), "Read\nit");
        assert_eq!(request.tool_names(), ["read_file"]);
    }

    #[test]
    fn a_date_before_the_prompt_is_not_the_prompt() {
        let dated =
            "<current_datetime>2026-11-15T19:33:12.184+00:00</current_datetime>\n\nRead\n\nit";
        assert_eq!(
            chat(&json!([{"role": "user", "content": dated}])).last_user_text(),
            "Read\n\nit"
        );
    }

    #[test]
    fn additions_of_openclaw_are_not_the_prompt() {
        let around = "[Mon 2026-11-16 07:33 UTC] Read\n\nit\n\nRuntime: agent=main | session=x";
        let internal =
            "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnone\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>";
        let messages =
            json!([{"role": "user", "content": around}, {"role": "user", "content": internal}]);
        assert_eq!(chat(&messages).last_user_text(), "Read\n\nit");
    }

    #[test]
    fn consecutive_chat_results_hide_the_prompt_before_them() {
        let result =
            |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
        let calls = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c1"}, {"id": "c2"}]});
        let old = result("c0", "old");
        let messages = json!([{"role": "system", "content": "s"}, {"role": "user", "content": "go"}, calls, old,
            calls, result("c1", "fine"), result("c2", "file_not_found: no file x")]);
        let request = chat(&messages);
        assert_eq!(
            (request.last_user_text(), request.news()),
            (String::new(), String::new())
        );
        let results = request.last_tool_results();
        let parsed: Vec<(&str, bool)> = results
            .iter()
            .map(|r| (r.tool_use_id.as_str(), r.is_error))
            .collect();
        assert_eq!(parsed, [("c1", false), ("c2", true)]);
        assert_eq!(request.tool_results().len(), 3);
    }

    #[test]
    fn a_new_message_in_a_chat_hides_the_results_before_it() {
        let request = chat(
            &json!([{"role": "user", "content": "go"}, {"role": "assistant", "tool_calls": []},
            {"role": "tool", "tool_call_id": "c", "content": "42"}, {"role": "user", "content": "and now?"}]),
        );
        assert_eq!(request.last_user_text(), "and now?");
        assert!(request.last_tool_results().is_empty());
    }

    fn gemini(contents: &Value) -> Request {
        let tools = json!([{"functionDeclarations": [{"name": "read_file"}, {"name": "glob"}]}]);
        let system = json!({"role": "user", "parts": [{"text": "Be brief."}]});
        let body = json!({"contents": contents, "systemInstruction": system, "tools": tools});
        let path = "/prefix/v1beta/models/gemini-pro:streamGenerateContent?alt=sse".to_owned();
        Request {
            path,
            body,
            ..request(&json!([]))
        }
    }

    #[test]
    fn a_request_of_googles_api_is_parsed() {
        let request = gemini(&json!([
            {"role": "user", "parts": [{"text": "<session_context>\nToday</session_context>"}]},
            {"role": "user", "parts": [{"text": "Read"}, {"text": "it"}]}]));
        assert!(request.is_model_call() && request.wants_stream());
        assert_eq!(
            (request.model(), request.system_text().as_str()),
            ("gemini-pro", "Be brief.")
        );
        assert_eq!(request.last_user_text(), "Read\nit");
        assert_eq!(request.tool_names(), ["read_file", "glob"]);
        let count = Request {
            path: "/v1beta/models/gemini-pro:countTokens".to_owned(),
            ..request
        };
        assert!(!count.is_model_call() && !count.wants_stream());
    }

    #[test]
    fn results_of_googles_api_hide_the_prompt_before_them() {
        let result = |id: &str, response: Value| json!({"functionResponse": {"id": id, "name": "f", "response": response}});
        let request = gemini(&json!([
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [{"text": "hm", "thought": true}, {"functionCall": {"name": "f", "args": {}}}]},
            {"role": "user", "parts": [result("a", json!({"output": "fine"})), result("b", json!({"error": "bad"}))]}]));
        assert_eq!(request.last_user_text(), "");
        let results = request.last_tool_results();
        let parsed: Vec<(&str, &str, bool)> = results
            .iter()
            .map(|r| (r.tool_use_id.as_str(), r.text.as_str(), r.is_error))
            .collect();
        assert_eq!(parsed, [("a", "fine", false), ("b", "bad", true)]);
    }
}
