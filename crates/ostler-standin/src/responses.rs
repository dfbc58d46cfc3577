//! Wire format of OpenAI's Responses API: server-sent events, one JSON response, or an error body.

use serde_json::{Value, json};

use super::answer::{Answer, Block, Failure, Usage};
use super::request::Request;
use super::wire::{Frame, Wire, cut};
use super::{ids, openai};

pub(super) const WIRE: Wire = Wire {
    stream,
    whole,
    error: openai::error,
    error_frame,
};

fn stream(answer: &Answer, request: &Request) -> Vec<Frame> {
    let id = ids::fresh("resp_");
    let started = response(&id, request, "in_progress", &[]);
    let mut writer = Writer::default();
    writer.push("response.created", json!({"response": started}));
    let items = items(answer, request);
    for (index, (item, block)) in items.iter().zip(&answer.blocks).enumerate() {
        writer.item(index, item, block.deltas());
    }
    let (name, status) = ended(answer);
    let mut done = response(&id, request, status, &items);
    done["usage"] = usage(answer.counts());
    if status == "incomplete" {
        done["incomplete_details"] = json!({"reason": reason(answer)});
    }
    writer.push(name, json!({"response": done}));
    writer.frames
}

fn whole(answer: &Answer, request: &Request) -> Value {
    let (_, status) = ended(answer);
    let mut whole = response(
        &ids::fresh("resp_"),
        request,
        status,
        &items(answer, request),
    );
    whole["usage"] = usage(answer.counts());
    whole
}

/// Renders an error within the stream, which has its own final event in this API.
fn error_frame(failure: &Failure) -> Frame {
    let code = failure.code.as_ref().unwrap_or(&failure.kind);
    let response = json!({"id": ids::fresh("resp_"), "object": "response", "status": "failed", "output": [],
        "error": {"code": code, "message": failure.message}, "usage": null});
    Frame::event("response.failed", json!({"response": response}))
}

/// Returns the last event and its status. An answer cut short by a limit or a filter is incomplete.
fn ended(answer: &Answer) -> (&'static str, &'static str) {
    match answer.effective_stop_reason() {
        "max_tokens" | "length" | "refusal" | "content_filter" => {
            ("response.incomplete", "incomplete")
        }
        _ => ("response.completed", "completed"),
    }
}

fn reason(answer: &Answer) -> &'static str {
    match answer.effective_stop_reason() {
        "refusal" | "content_filter" => "content_filter",
        _ => "max_output_tokens",
    }
}

fn response(id: &str, request: &Request, status: &str, output: &[Value]) -> Value {
    json!({"id": id, "object": "response", "created_at": 1_700_000_000, "model": request.model(), "status": status,
        "error": null, "incomplete_details": null, "output": output, "usage": null})
}

/// Renders the complete items, one for each block, for both stream and whole response.
fn items(answer: &Answer, request: &Request) -> Vec<Value> {
    let item = |block: &Block| match block {
        Block::Text { .. } => {
            let part =
                json!({"type": "output_text", "text": block.text(request), "annotations": []});
            json!({"type": "message", "id": ids::fresh("msg_"), "role": "assistant", "status": "completed",
                "content": [part]})
        }
        Block::Thinking { .. } => {
            let part = json!({"type": "summary_text", "text": block.text(request)});
            json!({"type": "reasoning", "id": ids::fresh("rs_"), "summary": [part], "content": null,
                "encrypted_content": "c2VhbGVk"})
        }
        Block::ToolUse { name, .. } => call(name, &block.text(request), request),
    };
    answer.blocks.iter().map(item).collect()
}

/// Renders a call. Tools that take plain text have another item type, and a name can belong to a
/// namespace.
fn call(name: &str, text: &str, request: &Request) -> Value {
    let call_id = ids::fresh("call_");
    if request.takes_text(name) {
        return json!({"type": "custom_tool_call", "id": ids::fresh("ctc_"), "call_id": call_id, "name": name,
            "input": text, "status": "completed"});
    }
    let mut call = json!({"type": "function_call", "id": ids::fresh("fc_"), "call_id": call_id, "name": name,
        "arguments": text, "status": "completed"});
    if let Some((space, own)) = request.namespace(name) {
        call["namespace"] = json!(space);
        call["name"] = json!(own);
    }
    call
}

#[derive(Default)]
struct Writer {
    frames: Vec<Frame>,
}

impl Writer {
    fn frame(&self, name: &str, mut data: Value) -> Frame {
        data["sequence_number"] = json!(self.frames.len());
        Frame::event(name, data)
    }

    fn push(&mut self, name: &str, data: Value) {
        self.frames.push(self.frame(name, data));
    }

    /// Writes an item: its start, its pieces, and the complete item.
    fn item(&mut self, index: usize, item: &Value, count: usize) {
        // The field that is empty at the start and the event of its pieces. If it is a list, also
        // the event of its only part and the name of its index.
        let (field, event, part) = match item["type"].as_str().unwrap_or_default() {
            "message" => (
                "content",
                "response.output_text",
                Some(("response.content_part", "content_index")),
            ),
            "reasoning" => (
                "summary",
                "response.reasoning_summary_text",
                Some(("response.reasoning_summary_part", "summary_index")),
            ),
            "custom_tool_call" => ("input", "response.custom_tool_call_input", None),
            _ => ("arguments", "response.function_call_arguments", None),
        };
        let (whole, last) = match part {
            Some(_) => (&item[field][0]["text"], "text"),
            None => (&item[field], field),
        };
        let mut started = item.clone();
        started[field] = part.map_or_else(|| json!(""), |_| json!([]));
        let started = json!({"output_index": index, "item": started});
        self.push("response.output_item.added", started);
        let mut at = json!({"output_index": index, "item_id": item["id"]});
        if let Some((name, key)) = part {
            at[key] = json!(0);
            let empty = with(&item[field][0], "text", &json!(""));
            self.push(&format!("{name}.added"), with(&at, "part", &empty));
        }
        for piece in cut(whole.as_str().unwrap_or_default(), count) {
            let delta = with(&at, "delta", &json!(piece));
            let frame = self.frame(&format!("{event}.delta"), delta).delta();
            self.frames.push(frame);
        }
        self.push(&format!("{event}.done"), with(&at, last, whole));
        if let Some((name, _)) = part {
            let done = with(&at, "part", &item[field][0]);
            self.push(&format!("{name}.done"), done);
        }
        let done = json!({"output_index": index, "item": item});
        self.push("response.output_item.done", done);
    }
}

fn with(at: &Value, key: &str, value: &Value) -> Value {
    let mut data = at.clone();
    data[key] = value.clone();
    data
}

/// Renders token counts. The input's include the cache, and the output's include thinking.
fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt(),
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_creation},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt() + usage.output,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Answer, Request, stream, whole};

    fn request() -> Request {
        let tools = json!([{"type": "function", "name": "run"}, {"type": "custom", "name": "apply_patch"},
            {"type": "namespace", "name": "mcp__files", "tools": [{"type": "function", "name": "read"}]}]);
        Request {
            method: "POST".to_owned(),
            path: "/v1/responses".to_owned(),
            headers: Vec::new(),
            body: json!({"model": "m", "stream": true, "instructions": "Be kind.", "tools": tools, "input": [
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
                {"type": "function_call", "call_id": "c", "name": "run", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "42"}]}),
        }
    }

    fn events(answer: &Answer) -> Vec<Value> {
        let data = |text: &str| serde_json::from_str(text.split_once("data: ").unwrap().1).unwrap();
        stream(answer, &request())
            .iter()
            .map(|frame| data(&frame.text))
            .collect()
    }

    #[test]
    fn a_stream_has_every_event_in_order() {
        let events = events(
            &Answer::thinking("hm")
                .and_text("Got {tool_result}!")
                .deltas(3),
        );
        let names: Vec<&str> = events
            .iter()
            .map(|event| event["type"].as_str().unwrap())
            .collect();
        assert_eq!(
            (names[0], names[1]),
            ("response.created", "response.output_item.added")
        );
        assert_eq!(names.last(), Some(&"response.completed"));
        let deltas = events
            .iter()
            .filter(|event| event["type"] == "response.output_text.delta");
        let pieces: Vec<&str> = deltas
            .map(|event| event["delta"].as_str().unwrap())
            .collect();
        assert_eq!((pieces.concat().as_str(), pieces.len()), ("Got 42!", 3));
        let done = &events.last().unwrap()["response"];
        assert_eq!(done["output"][0]["summary"][0]["text"], "hm");
        assert_eq!(
            (
                &done["usage"]["input_tokens"],
                &done["usage"]["output_tokens"]
            ),
            (&json!(118), &json!(25))
        );
        assert_eq!(done["usage"]["input_tokens_details"]["cached_tokens"], 11);
    }

    #[test]
    fn calls_match_the_kind_of_their_tool() {
        let answer = Answer::tool("run", json!({"x": 1}))
            .and_tool("apply_patch", json!("*** Begin Patch"))
            .and_tool("mcp__files__read", json!({}));
        let output = &whole(&answer, &request())["output"];
        assert_eq!(
            (&output[0]["type"], &output[0]["arguments"]),
            (&json!("function_call"), &json!(r#"{"x":1}"#))
        );
        assert_eq!(
            (&output[1]["type"], &output[1]["input"]),
            (&json!("custom_tool_call"), &json!("*** Begin Patch"))
        );
        assert_eq!(
            (&output[2]["namespace"], &output[2]["name"]),
            (&json!("mcp__files"), &json!("read"))
        );
    }

    #[test]
    fn an_answer_that_was_cut_short_is_incomplete() {
        let events = events(&Answer::text("half").stop_reason("max_tokens"));
        let last = events.last().unwrap();
        assert_eq!(
            (&last["type"], &last["response"]["status"]),
            (&json!("response.incomplete"), &json!("incomplete"))
        );
        assert_eq!(
            last["response"]["incomplete_details"]["reason"],
            "max_output_tokens"
        );
    }

    #[test]
    fn a_request_is_parsed() {
        let request = request();
        assert!(request.is_model_call() && request.is_responses());
        assert_eq!(request.system_text(), "Be kind.\nBe brief.");
        assert_eq!(
            (request.last_user_text(), request.news()),
            (String::new(), String::new())
        );
        assert_eq!(request.tool_names(), ["run", "apply_patch", "read"]);
        let results = request.last_tool_results();
        assert_eq!(
            (
                results.len(),
                results[0].tool_use_id.as_str(),
                results[0].text.as_str()
            ),
            (1, "c", "42")
        );
    }
}
