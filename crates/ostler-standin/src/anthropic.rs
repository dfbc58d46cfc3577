//! Wire format of Anthropic's Messages API: server-sent events, one JSON message, or an error body.

use serde_json::{Value, json};

use super::answer::{Answer, Block, Failure, Usage};
use super::ids;
use super::request::Request;
use super::wire::{Frame, Wire, cut};

pub(super) const WIRE: Wire = Wire {
    stream,
    whole,
    error,
    error_frame: |failure| Frame::event("error", error(failure)),
};

fn stream(answer: &Answer, request: &Request) -> Vec<Frame> {
    let usage = answer.counts();
    let start = message(request, &[], Usage { output: 1, ..usage });
    let mut frames = vec![Frame::event("message_start", json!({"message": start}))];
    for (index, block) in answer.blocks.iter().enumerate() {
        frames.extend(block_frames(index, block, request));
    }
    let end = json!({
        "delta": {"stop_reason": answer.effective_stop_reason(), "stop_sequence": null},
        "usage": {"output_tokens": usage.output},
    });
    frames.push(Frame::event("message_delta", end));
    frames.push(Frame::event("message_stop", json!({})));
    frames
}

fn whole(answer: &Answer, request: &Request) -> Value {
    let blocks = answer.blocks.iter().map(|block| content(block, request));
    let mut message = message(request, &blocks.collect::<Vec<_>>(), answer.counts());
    message["stop_reason"] = json!(answer.effective_stop_reason());
    message
}

fn error(failure: &Failure) -> Value {
    json!({
        "type": "error",
        "error": {"type": failure.kind, "message": failure.message},
        "request_id": ids::fresh("req_"),
    })
}

/// Returns the response to a request for a token count.
pub(super) fn token_count() -> Value {
    json!({"input_tokens": Usage::default().input})
}

fn message(request: &Request, content: &[Value], usage: Usage) -> Value {
    json!({
        "id": ids::fresh("msg_"),
        "type": "message",
        "role": "assistant",
        "model": request.model(),
        "content": content,
        "stop_reason": null,
        "stop_sequence": null,
        "usage": {
            "input_tokens": usage.input,
            "cache_creation_input_tokens": usage.cache_creation,
            "cache_read_input_tokens": usage.cache_read,
            "output_tokens": usage.output,
            "service_tier": "standard",
        },
    })
}

/// Renders a complete block, with its id and filled placeholders.
fn content(block: &Block, request: &Request) -> Value {
    let text = block.text(request);
    match block {
        Block::Text { .. } => json!({"type": "text", "text": text}),
        Block::Thinking { .. } => {
            json!({"type": "thinking", "thinking": text, "signature": "c2lnbmVk"})
        }
        Block::ToolUse { name, input } => {
            json!({"type": "tool_use", "id": ids::fresh("toolu_"), "name": name, "input": input})
        }
    }
}

fn block_frames(index: usize, block: &Block, request: &Request) -> Vec<Frame> {
    let content = content(block, request);
    let mut empty = content.clone();
    let pieces = |text: &str| cut(text, block.deltas()).into_iter();
    let text = block.text(request);
    let deltas: Vec<Value> = match block {
        Block::Text { .. } => {
            empty["text"] = json!("");
            pieces(&text)
                .map(|piece| json!({"type": "text_delta", "text": piece}))
                .collect()
        }
        Block::Thinking { .. } => {
            empty["thinking"] = json!("");
            empty["signature"] = json!("");
            let signature = json!({"type": "signature_delta", "signature": content["signature"]});
            pieces(&text)
                .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
                .chain([signature])
                .collect()
        }
        Block::ToolUse { input, .. } => {
            empty["input"] = json!({});
            pieces(&input.to_string())
                .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                .collect()
        }
    };
    let start = json!({"index": index, "content_block": empty});
    let delta = |delta| {
        Frame::event(
            "content_block_delta",
            json!({"index": index, "delta": delta}),
        )
        .delta()
    };
    std::iter::once(Frame::event("content_block_start", start))
        .chain(deltas.into_iter().map(delta))
        .chain([Frame::event("content_block_stop", json!({"index": index}))])
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Answer, Request, stream, whole};
    use crate::Usage;

    fn request() -> Request {
        let messages = json!([{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": "42"}]}]);
        Request {
            method: "POST".to_owned(),
            path: "/v1/messages".to_owned(),
            headers: Vec::new(),
            body: json!({"model": "m", "messages": messages}),
        }
    }

    fn events(answer: &Answer) -> Vec<Value> {
        let parse = |text: &str| {
            let (name, data) = text.trim_end().split_once('\n').unwrap();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(
                Some(name),
                data["type"]
                    .as_str()
                    .map(|t| format!("event: {t}"))
                    .as_deref()
            );
            data
        };
        stream(answer, &request())
            .iter()
            .map(|frame| parse(&frame.text))
            .collect()
    }

    fn kinds(events: &[Value]) -> Vec<&str> {
        let kind = |event: &'_ Value| match event["delta"]["type"].as_str() {
            Some(_) => "/delta/type",
            None => "/type",
        };
        events
            .iter()
            .map(|event| event.pointer(kind(event)).unwrap().as_str().unwrap())
            .collect()
    }

    #[test]
    fn a_stream_has_every_event_in_order() {
        let answer = Answer::thinking("hm")
            .and_text("Got {tool_result}!")
            .deltas(3);
        let events = events(&answer);
        let expected = [
            "message_start",
            "content_block_start",
            "thinking_delta",
            "signature_delta",
            "content_block_stop",
            "content_block_start",
            "text_delta",
            "text_delta",
            "text_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ];
        assert_eq!(kinds(&events), expected);
        let text: String = events
            .iter()
            .filter_map(|e| e["delta"]["text"].as_str())
            .collect();
        assert_eq!(text, "Got 42!");
        assert_eq!(events[0]["message"]["usage"]["output_tokens"], 1);
        assert_eq!(events[10]["delta"]["stop_reason"], "end_turn");
        assert_eq!(events[10]["usage"]["output_tokens"], 25);
    }

    #[test]
    fn a_tool_call_streams_its_input_in_pieces_under_a_fresh_id() {
        let answer = Answer::tool("Bash", json!({"command": "ls"})).and_tool("Bash", json!({}));
        let events = events(&answer);
        let input: String = events
            .iter()
            .filter(|event| event["index"] == 0)
            .filter_map(|event| event["delta"]["partial_json"].as_str())
            .collect();
        assert_eq!(input, r#"{"command":"ls"}"#);
        let starts = events
            .iter()
            .filter(|event| event["type"] == "content_block_start");
        let ids: Vec<&str> = starts
            .filter_map(|e| e["content_block"]["id"].as_str())
            .collect();
        assert!(
            ids.len() == 2 && ids[0] != ids[1] && ids[0].starts_with("toolu_"),
            "{ids:?}"
        );
        assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "tool_use");
    }

    #[test]
    fn a_whole_message_has_the_same_content() {
        let usage = Usage {
            output: 3,
            ..Usage::default()
        };
        let message = whole(
            &Answer::text("no").stop_reason("refusal").usage(usage),
            &request(),
        );
        assert_eq!(message["content"], json!([{"type": "text", "text": "no"}]));
        assert_eq!(message["stop_reason"], "refusal");
        assert_eq!(message["usage"]["output_tokens"], 3);
        assert_eq!(message["usage"]["cache_read_input_tokens"], 11);
    }
}
