//! Wire format of OpenAI's chat completions: chunks of a stream, one JSON message, or an error
//! body.

use serde_json::{Value, json};

use super::answer::{Answer, Block, Failure, Usage};
use super::chat_calls::{self, Call};
use super::ids;
use super::request::Request;
use super::server_style::{Framing, Reasoning, Shape, Tokens};
use super::wire::{Frame, Wire, cut};

pub(super) const WIRE: Wire = Wire {
    stream,
    whole,
    error,
    error_frame: |failure| Frame::data(error(failure)),
};

/// Creation time of every answer: constant, since tests do not read the clock.
const CREATED: u64 = 1_700_000_000;

fn stream(answer: &Answer, request: &Request) -> Vec<Frame> {
    let writer = Writer {
        id: ids::fresh("chatcmpl-"),
        answer,
        request,
    };
    let frame = |delta| writer.frame(&delta, None);
    let mut frames = vec![frame(json!({"role": "assistant", "content": ""}))];
    let deltas = deltas(answer, request).into_iter();
    frames.extend(deltas.map(|delta| frame(delta).delta()));
    let mut last = json!({});
    for calls in chat_calls::deltas(&calls(answer), answer.manner.shape) {
        let delta = json!({"tool_calls": calls});
        if answer.manner.shape == Shape::WithTheEnd {
            last = delta;
        } else {
            frames.push(frame(delta).delta());
        }
    }
    frames.push(writer.frame(&last, Some(finish_reason(answer))));
    if answer.manner.tokens == Tokens::AsAsked && request.wants_usage() {
        let mut chunk = writer.chunk(&[]);
        chunk["usage"] = usage(answer.counts());
        frames.push(Frame::data(chunk));
    }
    if answer.manner.framing != Framing::WithoutDone {
        frames.push(Frame::data("[DONE]"));
    }
    frames
}

fn whole(answer: &Answer, request: &Request) -> Value {
    let mut message = json!({"role": "assistant", "content": null});
    for block in &answer.blocks {
        for field in fields(block, answer.manner.reasoning) {
            let before = message[*field].as_str().unwrap_or_default();
            message[*field] = json!(format!("{before}{}", block.text(request)));
        }
    }
    let calls = calls(answer);
    if !calls.is_empty() {
        let mut calls = chat_calls::whole(&calls, answer.manner.shape);
        // A whole message has no index: the position in the list is the index.
        calls
            .iter_mut()
            .filter_map(Value::as_object_mut)
            .for_each(|call| drop(call.remove("index")));
        message["tool_calls"] = json!(calls);
    }
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(answer)});
    let mut whole = json!({"id": ids::fresh("chatcmpl-"), "object": "chat.completion", "created": CREATED,
        "model": request.model(), "choices": [choice]});
    if answer.manner.tokens != Tokens::Never {
        whole["usage"] = usage(answer.counts());
    }
    whole
}

pub(super) fn error(failure: &Failure) -> Value {
    json!({"error": {"message": failure.message, "type": failure.kind, "param": null, "code": failure.code}})
}

/// Returns the response to a request for the list of models.
pub(super) fn models(names: &[String]) -> Value {
    let model = |name| json!({"id": name, "object": "model", "created": CREATED, "owned_by": "the testkit"});
    json!({"object": "list", "data": names.iter().map(model).collect::<Vec<_>>()})
}

/// Writer of the chunks of one answer.
struct Writer<'a> {
    id: String,
    answer: &'a Answer,
    request: &'a Request,
}

impl Writer<'_> {
    fn frame(&self, delta: &Value, finish_reason: Option<&str>) -> Frame {
        let choice =
            json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason});
        let mut chunk = self.chunk(&[choice]);
        let counts = self.answer.counts();
        match (self.answer.manner.tokens, finish_reason) {
            (Tokens::InEveryChunk, None) => {
                let (output, reasoning) = (1, 0);
                chunk["usage"] = usage(Usage {
                    output,
                    reasoning,
                    ..counts
                });
            }
            (Tokens::InEveryChunk | Tokens::InTheLastChoice, Some(_)) => {
                chunk["usage"] = usage(counts);
            }
            (Tokens::AsAsked, _) if self.request.wants_usage() => chunk["usage"] = Value::Null,
            _ => {}
        }
        Frame::data(chunk)
    }

    fn chunk(&self, choices: &[Value]) -> Value {
        json!({"id": self.id, "object": "chat.completion.chunk", "created": CREATED, "model": self.request.model(),
            "system_fingerprint": null, "choices": choices})
    }
}

/// Returns the deltas of text and thinking, in order.
fn deltas(answer: &Answer, request: &Request) -> Vec<Value> {
    let mut deltas = Vec::new();
    for block in answer.blocks.iter().filter(|block| !block.is_call()) {
        let fields = fields(block, answer.manner.reasoning).iter();
        for piece in cut(&block.text(request), block.deltas()) {
            let field = |field: &&str| ((*field).to_owned(), json!(piece));
            deltas.push(fields.clone().map(field).collect());
        }
    }
    deltas
}

fn calls(answer: &Answer) -> Vec<Call> {
    let call = |block: &Block| match block {
        Block::ToolUse { name, input } => Some(Call {
            id: ids::fresh("call_"),
            name: name.clone(),
            input: input.clone(),
        }),
        _ => None,
    };
    answer.blocks.iter().filter_map(call).collect()
}

/// Returns the fields that hold the text of a block.
fn fields(block: &Block, reasoning: Reasoning) -> &'static [&'static str] {
    match (block, reasoning) {
        (Block::Text { .. }, _) => &["content"],
        (Block::ToolUse { .. }, _) => &[],
        (_, Reasoning::Content) => &["reasoning_content"],
        (_, Reasoning::Plain) => &["reasoning"],
        (_, Reasoning::Both) => &["reasoning_content", "reasoning"],
    }
}

/// Translates the script's stop reasons to this provider's. Others are sent as is, even if wrong.
fn finish_reason(answer: &Answer) -> &str {
    match answer.effective_stop_reason() {
        "end_turn" => "stop",
        "tool_use" => "tool_calls",
        "max_tokens" => "length",
        "refusal" => "content_filter",
        other => other,
    }
}

/// Renders token counts. The prompt's include the cache, and the output's include thinking.
fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt(),
        "completion_tokens": usage.output,
        "total_tokens": usage.prompt() + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Answer, Request, Shape, Tokens, stream, whole};
    use crate::{Framing, Reasoning};

    fn request() -> Request {
        Request {
            method: "POST".to_owned(),
            path: "/v1/chat/completions".to_owned(),
            headers: Vec::new(),
            body: json!({"model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": [
                {"role": "assistant", "tool_calls": []}, {"role": "tool", "tool_call_id": "c", "content": "42"}]}),
        }
    }

    fn chunks(answer: &Answer) -> Vec<Value> {
        let frames = stream(answer, &request());
        let data = frames
            .iter()
            .map(|frame| frame.text.strip_prefix("data: ").unwrap().trim_end());
        data.map(|data| serde_json::from_str(data).unwrap_or(json!(data)))
            .collect()
    }

    #[test]
    fn a_stream_has_every_chunk_in_order() {
        let answer = Answer::thinking("hm")
            .and_text("Got {tool_result}!")
            .deltas(3);
        let chunks = chunks(&answer);
        let deltas: Vec<&Value> = chunks
            .iter()
            .map(|chunk| &chunk["choices"][0]["delta"])
            .collect();
        assert_eq!(deltas[0], &json!({"role": "assistant", "content": ""}));
        assert_eq!(deltas[1], &json!({"reasoning_content": "hm"}));
        let text: String = deltas
            .iter()
            .filter_map(|delta| delta["content"].as_str())
            .collect();
        assert_eq!((text.as_str(), chunks.len()), ("Got 42!", 8));
        assert_eq!(chunks[5]["choices"][0]["finish_reason"], "stop");
        assert_eq!(
            (&chunks[6]["choices"], &chunks[7]),
            (&json!([]), &json!("[DONE]"))
        );
        let usage = &chunks[6]["usage"];
        assert_eq!(
            (&usage["prompt_tokens"], &usage["completion_tokens"]),
            (&json!(118), &json!(25))
        );
        assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 11);
    }

    #[test]
    fn token_counts_are_where_the_style_puts_them() {
        let counted = |tokens: Tokens| -> Vec<u64> {
            let chunks = chunks(&Answer::text("x").manner(tokens));
            let count = |chunk: &Value| chunk["usage"]["completion_tokens"].as_u64();
            chunks
                .iter()
                .take(chunks.len() - 1)
                .map(|chunk| count(chunk).unwrap_or(0))
                .collect()
        };
        assert_eq!(counted(Tokens::AsAsked), [0, 0, 0, 25]);
        assert_eq!(counted(Tokens::Never), [0, 0, 0]);
        assert_eq!(counted(Tokens::InEveryChunk), [1, 1, 25]);
        assert_eq!(counted(Tokens::InTheLastChoice), [0, 0, 25]);
    }

    #[test]
    fn calls_can_come_with_the_end_and_finish_reasons_can_be_wrong() {
        let answer = Answer::tool("a", json!({}))
            .stop_reason("stop")
            .manner(Shape::WithTheEnd);
        let chunks = chunks(&answer);
        let choice = &chunks[1]["choices"][0];
        assert_eq!(
            (
                &choice["delta"]["tool_calls"][0]["function"]["name"],
                &choice["finish_reason"]
            ),
            (&json!("a"), &json!("stop"))
        );
    }

    #[test]
    fn a_stream_can_lack_its_end() {
        assert_ne!(
            chunks(&Answer::text("x").manner(Framing::WithoutDone)).last(),
            Some(&json!("[DONE]"))
        );
    }

    #[test]
    fn a_whole_message_has_the_same_content() {
        let answer = Answer::thinking("hm")
            .and_text("no")
            .and_tool("a", json!({"x": 1}))
            .manner(Reasoning::Both);
        let message = whole(&answer.stop_reason("refusal"), &request());
        let choice = &message["choices"][0];
        assert_eq!(
            (&choice["message"]["content"], &choice["finish_reason"]),
            (&json!("no"), &json!("content_filter"))
        );
        assert_eq!(
            (
                &choice["message"]["reasoning"],
                &choice["message"]["reasoning_content"]
            ),
            (&json!("hm"), &json!("hm"))
        );
        let call = &choice["message"]["tool_calls"][0];
        assert_eq!(
            (&call["function"]["arguments"], call.get("index")),
            (&json!(r#"{"x":1}"#), None)
        );
        assert_eq!(message["usage"]["total_tokens"], 143);
    }
}
