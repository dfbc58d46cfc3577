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
        let found = self
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The model asked for.
    #[must_use]
    pub fn model(&self) -> &str {
        self.gemini().map_or_else(
            || self.body["model"].as_str().unwrap_or_default(),
            |(model, _)| model,
        )
    }

    /// Whether the answer is to be streamed.
    #[must_use]
    pub fn wants_stream(&self) -> bool {
        match self.gemini() {
            Some((_, verb)) => verb == "streamGenerateContent",
            None => self.body["stream"].as_bool().unwrap_or(false),
        }
    }

    /// Whether token counts are to come at the end of the stream, as chat-completions servers ask to be asked.
    #[must_use]
    pub fn wants_usage(&self) -> bool {
        self.body["stream_options"]["include_usage"]
            .as_bool()
            .unwrap_or(false)
    }

    /// The names of the tools offered to the model; of a namespace, those of the tools in it.
    #[must_use]
    pub fn tool_names(&self) -> Vec<&str> {
        if self.gemini().is_some() {
            let declared = list(&self.body["tools"])
                .iter()
                .flat_map(|tool| list(&tool["functionDeclarations"]));
            return declared.filter_map(|tool| tool["name"].as_str()).collect();
        }
        let name = |tool: &'_ Value| {
            if tool["function"].is_object() {
                "/function/name"
            } else {
                "/name"
            }
        };
        let flat = list(&self.body["tools"])
            .iter()
            .flat_map(|tool| match list(&tool["tools"]) {
                [] => std::slice::from_ref(tool),
                inner => inner,
            });
        flat.filter_map(|tool| tool.pointer(name(tool))?.as_str())
            .collect()
    }

    /// Whether a tool takes plain text, and not JSON.
    pub(super) fn takes_text(&self, name: &str) -> bool {
        list(&self.body["tools"])
            .iter()
            .any(|tool| tool["type"] == "custom" && tool["name"] == name)
    }

    /// The namespace that a tool belongs to, and its name there.
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

    /// The system prompt, its blocks joined with newlines.
    #[must_use]
    pub fn system_text(&self) -> String {
        if self.gemini().is_some() {
            return texts(&self.body["systemInstruction"]["parts"]).join("\n");
        }
        if !self.is_chat() && !self.is_responses() {
            return texts(&self.body["system"]).join("\n");
        }
        let said = self
            .said()
            .into_iter()
            .filter(|said| said.role == Role::System);
        texts(&self.body["instructions"])
            .into_iter()
            .chain(said.flat_map(|said| said.texts))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// What the user said last, without the reminders the agent adds.
    ///
    /// Empty when the last real user message carries only tool results: a rule for a prompt must not fire again
    /// when its tool call comes back.
    #[must_use]
    pub fn last_user_text(&self) -> String {
        self.last_user_message()
            .map(|said| said.own_words())
            .unwrap_or_default()
    }

    /// Every text sent since the model spoke last, joined with newlines: prompts, reminders and system messages, but not
    /// the system prompt.
    #[must_use]
    pub fn news(&self) -> String {
        let all = self.said();
        let prompts = all
            .iter()
            .take_while(|said| said.role == Role::System)
            .count();
        let fresh = all[prompts..]
            .rsplit(|said| said.role == Role::Assistant)
            .next();
        fresh
            .unwrap_or_default()
            .iter()
            .map(|said| said.texts.join("\n"))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Every tool result in the conversation, oldest first.
    #[must_use]
    pub fn tool_results(&self) -> Vec<ToolResult> {
        self.said()
            .into_iter()
            .flat_map(|said| said.results)
            .collect()
    }

    /// The tool results of the last real user message: what the model is asked to go on from.
    #[must_use]
    pub fn last_tool_results(&self) -> Vec<ToolResult> {
        self.last_user_message()
            .map(|said| said.results)
            .unwrap_or_default()
    }

    /// Whether this asks for a message (and is not a token count, a health check or something unknown).
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

    /// Whether this speaks the Responses API, below whatever prefix.
    #[must_use]
    pub fn is_responses(&self) -> bool {
        self.bare_path().ends_with("/responses")
    }

    /// Whether this speaks chat completions, below whatever prefix.
    #[must_use]
    pub fn is_chat(&self) -> bool {
        self.bare_path().ends_with("/chat/completions")
    }

    /// The model and the verb of a call of Google's API, which writes both into the path, below whatever prefix.
    pub(super) fn gemini(&self) -> Option<(&str, &str)> {
        let (before, name) = self.bare_path().rsplit_once('/')?;
        before.ends_with("/models").then(|| name.rsplit_once(':'))?
    }

    /// The path without its query.
    #[must_use]
    pub fn bare_path(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    // Claude Code appends messages of role `system` and user messages that hold nothing but reminders.
    fn last_user_message(&self) -> Option<Said<'_>> {
        let real = |said: &Said<'_>| {
            said.role == Role::User && (!said.results.is_empty() || !said.own_words().is_empty())
        };
        self.said().into_iter().rev().find(real)
    }

    /// The conversation, told alike for all providers.
    fn said(&self) -> Vec<Said<'_>> {
        if self.gemini().is_some() {
            return list(&self.body["contents"])
                .iter()
                .map(Said::of_content)
                .collect();
        }
        let mut all: Vec<Said<'_>> = Vec::new();
        let mut after_result = false;
        let messages = if self.is_responses() {
            &self.body["input"]
        } else {
            &self.body["messages"]
        };
        if let Value::String(text) = messages {
            return vec![Said {
                role: Role::User,
                texts: vec![text],
                results: Vec::new(),
            }];
        }
        for message in list(messages) {
            let result = single_result(message);
            let is_result = result.is_some();
            match (all.last_mut(), result) {
                // Where each result is a message of its own, those that come together answer one message of the model.
                (Some(said), Some(result)) if after_result => said.results.push(result),
                (_, Some(result)) => all.push(Said {
                    role: Role::User,
                    texts: Vec::new(),
                    results: vec![result],
                }),
                (_, None) => all.push(Said::of(message)),
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

/// One message: its texts, and the tool results in it.
#[derive(Debug)]
struct Said<'a> {
    role: Role,
    texts: Vec<&'a str>,
    results: Vec<ToolResult>,
}

impl<'a> Said<'a> {
    fn of(message: &'a Value) -> Self {
        let role = match message["role"].as_str() {
            Some("assistant") => Role::Assistant,
            Some("user") => Role::User,
            // Items without a role are the model's: calls and thoughts.
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

    /// A message of Google's API; thoughts that are sent back are nobody's words.
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

    /// The texts without the reminders of an agent.
    fn own_words(&self) -> String {
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
            .map(without_the_date)
            .map(without_the_runtime);
        own.collect::<Vec<_>>().join("\n")
    }
}

/// How the texts begin that agents add to a user's words.
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

/// Copilot writes the date in front of what its user said, into the same text.
fn without_the_date(text: &str) -> &str {
    let dated = text
        .strip_prefix("<current_datetime>")
        .and_then(|rest| rest.split_once("</current_datetime>\n\n"));
    dated.map_or(text, |(_, own)| own)
}

/// OpenClaw writes the day and the hour in front of it, and a line about itself behind it.
fn without_the_runtime(text: &str) -> &str {
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
        tool_use_id: block["tool_use_id"].as_str().unwrap_or_default().to_owned(),
        text: texts(&block["content"]).join("\n"),
        is_error: block["is_error"].as_bool().unwrap_or(false),
    }
}

/// A result that is a message of its own.
fn single_result(message: &Value) -> Option<ToolResult> {
    if message["role"] == "tool" {
        return Some(chat_result(message));
    }
    let is_output = message["type"]
        .as_str()
        .is_some_and(|kind| kind.ends_with("_call_output"));
    is_output.then(|| {
        let text = texts(&message["output"]).join("\n");
        // Codex tells the model how a command ended in a line of its own.
        let ended = text
            .split_once("exited with code ")
            .is_some_and(|(_, code)| !code.starts_with('0'));
        let refused = text.starts_with("exec_command failed") || text.starts_with("patch rejected");
        let failed = ended || refused || has_code(&text);
        ToolResult {
            tool_use_id: message["call_id"].as_str().unwrap_or_default().to_owned(),
            text,
            is_error: failed,
        }
    })
}

/// Whether a code stands before the first colon.
fn has_code(text: &str) -> bool {
    let is_code = |word: &str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    text.split_once(": ").is_some_and(|(word, _)| is_code(word))
}

// Chat completions have no mark for an error; that it is one stands in the text, as a code before its first colon or in words.
fn chat_result(message: &Value) -> ToolResult {
    let text = texts(&message["content"]).join("\n");
    let is_error = has_code(&text) || text.starts_with("Permission denied");
    ToolResult {
        tool_use_id: message["tool_call_id"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        text,
        is_error,
    }
}

fn function_result(result: &Value) -> ToolResult {
    let (output, error) = (&result["response"]["output"], &result["response"]["error"]);
    let said = if error.is_null() { output } else { error };
    ToolResult {
        tool_use_id: result["id"].as_str().unwrap_or_default().to_owned(),
        text: said
            .as_str()
            .map_or_else(|| said.to_string(), str::to_owned),
        is_error: !error.is_null(),
    }
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
    fn a_chat_is_understood_as_well() {
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
    fn a_date_in_front_of_the_prompt_is_not_the_prompt() {
        let dated =
            "<current_datetime>2026-11-15T19:33:12.184+00:00</current_datetime>\n\nRead\n\nit";
        assert_eq!(
            chat(&json!([{"role": "user", "content": dated}])).last_user_text(),
            "Read\n\nit"
        );
    }

    #[test]
    fn what_openclaw_writes_around_the_prompt_is_not_the_prompt() {
        let around = "[Mon 2026-11-16 07:33 UTC] Read\n\nit\n\nRuntime: agent=main | session=x";
        let internal =
            "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnone\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>";
        let said =
            json!([{"role": "user", "content": around}, {"role": "user", "content": internal}]);
        assert_eq!(chat(&said).last_user_text(), "Read\n\nit");
    }

    #[test]
    fn results_that_come_together_in_a_chat_hide_the_prompt_before_them() {
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
        let told: Vec<(&str, bool)> = results
            .iter()
            .map(|r| (r.tool_use_id.as_str(), r.is_error))
            .collect();
        assert_eq!(told, [("c1", false), ("c2", true)]);
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
    fn googles_api_is_understood_as_well() {
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
        let told: Vec<(&str, &str, bool)> = results
            .iter()
            .map(|r| (r.tool_use_id.as_str(), r.text.as_str(), r.is_error))
            .collect();
        assert_eq!(told, [("a", "fine", false), ("b", "bad", true)]);
    }
}
