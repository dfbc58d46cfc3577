//! Lines of Claude Code's stream-json output, with realistic defaults (see the recordings).

use serde_json::{Value, json};

/// Session id used when the command line names none.
const DEFAULT_SESSION: &str = "00000000-0000-4000-8000-00000000fa4e";
const MODEL: &str = "claude-opus-5-5";

/// Line builder: knows the session id and numbers the messages.
pub(crate) struct Lines {
    pub(crate) session: String,
    uuids: u64,
    messages: u64,
    /// Whether a partial message has been started and not finished.
    streaming: bool,
    last_tool_use: Option<String>,
    turns: u64,
}

impl Lines {
    /// Creates a builder for the session in `--session-id` or `--resume`, given with `=` or as the
    /// next argument.
    pub(crate) fn new(args: &[String]) -> Self {
        let value = |(index, arg): (usize, &String)| {
            let flag = ["--session-id", "--resume"]
                .into_iter()
                .find(|flag| arg.starts_with(flag))?;
            match arg.strip_prefix(flag)?.strip_prefix('=') {
                Some(value) => Some(value.to_owned()),
                None if arg == flag => args.get(index + 1).cloned(),
                None => None,
            }
        };
        let session = args.iter().enumerate().find_map(value);
        Self {
            session: session.unwrap_or_else(|| DEFAULT_SESSION.to_owned()),
            uuids: 0,
            messages: 1,
            streaming: false,
            last_tool_use: None,
            turns: 0,
        }
    }

    pub(crate) fn init(&mut self) -> String {
        let cwd = std::env::current_dir().unwrap_or_default();
        self.stamped(json!({
            "type": "system", "subtype": "init", "cwd": cwd, "tools": ["Bash", "Edit", "Read", "Write"],
            "mcp_servers": [], "model": MODEL, "permissionMode": "default", "slash_commands": [],
            "apiKeySource": "ANTHROPIC_API_KEY", "claude_code_version": "2.1.325", "output_style": "default",
            "agents": [], "skills": [], "plugins": [], "capabilities": ["interrupt_receipt_v1"],
        }))
    }

    /// A finished text block; closes the partial message that deltas opened.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let line = self.assistant(&json!({"type": "text", "text": text}));
        if !self.streaming {
            return line;
        }
        self.streaming = false;
        let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
            "usage": {"output_tokens": 25}});
        let mut lines = line;
        lines += &self.stream_event(&json!({"type": "content_block_stop", "index": 0}));
        lines += &self.stream_event(&end);
        lines += &self.stream_event(&json!({"type": "message_stop"}));
        self.messages += 1;
        lines
    }

    pub(crate) fn thinking(&mut self, text: &str) -> String {
        self.assistant(&json!({"type": "thinking", "thinking": text, "signature": "c2lnbmVk"}))
    }

    /// A text delta; the first one opens a partial message.
    pub(crate) fn delta(&mut self, text: &str) -> String {
        let mut lines = String::new();
        if !self.streaming {
            self.streaming = true;
            let message = self.message(&json!([]));
            lines += &self.stream_event(&json!({"type": "message_start", "message": message}));
            let block = json!({"type": "text", "text": ""});
            let start = json!({"type": "content_block_start", "index": 0, "content_block": block});
            lines += &self.stream_event(&start);
        }
        let delta = json!({"type": "text_delta", "text": text});
        lines
            + &self
                .stream_event(&json!({"type": "content_block_delta", "index": 0, "delta": delta}))
    }

    pub(crate) fn tool_use(&mut self, id: &str, name: &str, input: &Value) -> String {
        self.last_tool_use = Some(id.to_owned());
        self.assistant(&json!({"type": "tool_use", "id": id, "name": name, "input": input}))
    }

    pub(crate) fn tool_result(&mut self, id: &str, text: &str) -> String {
        // A tool result is followed by a new model message.
        self.messages += 1;
        let block =
            json!({"tool_use_id": id, "type": "tool_result", "content": text, "is_error": false});
        self.stamped(json!({
            "type": "user", "message": {"role": "user", "content": [block]}, "parent_tool_use_id": null,
            "tool_use_result": {"stdout": text, "stderr": "", "interrupted": false, "isImage": false},
        }))
    }

    pub(crate) fn result(&mut self, text: &str) -> String {
        self.end_of_turn(json!({
            "subtype": "success", "is_error": false, "result": text, "stop_reason": "end_turn",
            "terminal_reason": "completed", "api_error_status": null,
        }))
    }

    /// A failed result. With subtype `success` it is an API error, as Claude reports it; with any
    /// other subtype the text is in `errors`.
    pub(crate) fn result_error(&mut self, subtype: &str, text: &str) -> String {
        let end = if subtype == "success" {
            json!({"result": text, "terminal_reason": "api_error", "api_error_status": 500})
        } else {
            let reason = subtype.strip_prefix("error_").unwrap_or(subtype);
            json!({"errors": [text], "terminal_reason": reason})
        };
        self.end_of_turn(merged(
            json!({"subtype": subtype, "is_error": true, "stop_reason": null}),
            end,
        ))
    }

    /// The lines that Claude prints after an interrupt.
    pub(crate) fn interrupted(&mut self, request_id: &str) -> String {
        let mut lines = control_success(request_id, &json!({"still_queued": []}));
        let block = json!({"type": "text", "text": "[Request interrupted by user]"});
        lines += &self.stamped(json!({
            "type": "user", "message": {"role": "user", "content": [block]}, "parent_tool_use_id": null,
        }));
        let error = "[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=null";
        lines
            + &self.end_of_turn(json!({
                "subtype": "error_during_execution", "is_error": true, "stop_reason": null, "errors": [error],
                "terminal_reason": "aborted_streaming", "usage": usage(0),
            }))
    }

    pub(crate) fn task_started(&mut self, id: &str) -> String {
        let tool = self.last_tool_use.clone();
        self.stamped(json!({
            "type": "system", "subtype": "task_started", "task_id": id, "tool_use_id": tool,
            "description": "a background task", "is_backgrounded": true, "task_type": "local_bash",
        }))
    }

    pub(crate) fn task_done(&mut self, id: &str) -> String {
        let tool = self.last_tool_use.clone();
        self.stamped(json!({
            "type": "system", "subtype": "task_notification", "task_id": id, "tool_use_id": tool,
            "status": "completed", "output_file": "", "summary": "a background task completed",
        }))
    }

    /// A permission request, about the last tool call if there was one.
    pub(crate) fn can_use_tool(&mut self, id: &str, tool: &str, input: &Value) -> String {
        let tool_use_id = self
            .last_tool_use
            .clone()
            .unwrap_or_else(|| format!("toolu_{id}"));
        let request = json!({
            "subtype": "can_use_tool", "tool_name": tool, "display_name": tool, "input": input,
            "permission_suggestions": [], "tool_use_id": tool_use_id,
        });
        finished(&json!({"type": "control_request", "request_id": id, "request": request}))
    }

    fn assistant(&mut self, block: &Value) -> String {
        let message = self.message(&json!([block]));
        self.stamped(json!({"type": "assistant", "message": message, "parent_tool_use_id": null}))
    }

    fn message(&self, content: &Value) -> Value {
        json!({
            "id": format!("msg_fake{:08}", self.messages), "type": "message", "role": "assistant", "model": MODEL,
            "content": content, "stop_reason": null, "stop_sequence": null, "usage": usage(1),
        })
    }

    fn stream_event(&mut self, event: &Value) -> String {
        self.stamped(json!({"type": "stream_event", "event": event, "parent_tool_use_id": null}))
    }

    fn end_of_turn(&mut self, end: Value) -> String {
        self.messages += 1;
        self.turns += 1;
        self.streaming = false;
        let turns = self.turns;
        let model_usage = json!({MODEL: {
            "inputTokens": 100 * turns, "outputTokens": 25 * turns, "cacheReadInputTokens": 11 * turns,
            "cacheCreationInputTokens": 7 * turns, "webSearchRequests": 0, "costUSD": 0.0009372 * turns as f64,
            "contextWindow": 1_000_000,
        }});
        let common = json!({
            "type": "result", "duration_ms": 120, "duration_api_ms": 80, "ttft_ms": 40, "num_turns": 1,
            "total_cost_usd": 0.0009372 * turns as f64, "usage": usage(25), "modelUsage": model_usage,
            "permission_denials": [],
        });
        self.stamped(merged(common, end))
    }

    fn stamped(&mut self, mut line: Value) -> String {
        self.uuids += 1;
        line["session_id"] = json!(self.session);
        line["uuid"] = json!(format!("00000000-0000-4000-8000-{:012x}", self.uuids));
        finished(&line)
    }
}

/// Response to a control request from Ostler.
pub(crate) fn control_success(request_id: &str, answer: &Value) -> String {
    let response = json!({"subtype": "success", "request_id": request_id, "response": answer});
    finished(&json!({"type": "control_response", "response": response}))
}

fn usage(output: u64) -> Value {
    json!({
        "input_tokens": 100, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 11,
        "output_tokens": output, "service_tier": "standard",
    })
}

fn merged(mut base: Value, more: Value) -> Value {
    if let (Some(base), Value::Object(more)) = (base.as_object_mut(), more) {
        base.extend(more);
    }
    base
}

fn finished(line: &Value) -> String {
    format!("{line}\n")
}
