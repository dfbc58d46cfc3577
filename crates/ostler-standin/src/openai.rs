//! Wire format of OpenAI's chat completions: chunks of a stream, one JSON message, or an error
//! body.

use serde_json::{Value, json};

use super::answer::{Answer, Block, Failure, Usage};
use super::chat_calls::{self, Call};
use super::ids;
use super::request::Request;
use super::server_style::{Framing, Reasoning, Shape, Tokens};
use super::wire::{Frame, Wire, cut, filled};

pub(super) const WIRE: Wire = Wire {
    stream,
    whole,
    error,
    error_frame,
};

/// Creation time of every answer: constant, since tests do not read the clock.
const CREATED: u64 = 1_700_000_000;

fn stream(answer: &Answer, request: &Request) -> Vec<Frame> {
    let writer = Writer::new(answer, request);
    let mut frames = vec![writer.frame(&json!({"role": "assistant", "content": ""}), &Value::Null)];
    for delta in deltas(answer, request) {
        frames.push(Frame {
            is_delta: true,
            ..writer.frame(&delta, &Value::Null)
        });
    }
    let calls = chat_calls::deltas(&calls(answer), answer.manner.shape);
    let mut last = json!({});
    for delta in calls {
        if answer.manner.shape == Shape::WithTheEnd {
            last = json!({"tool_calls": delta});
        } else {
            frames.push(Frame {
                is_delta: true,
                ..writer.frame(&json!({"tool_calls": delta}), &Value::Null)
            });
        }
    }
    frames.push(writer.frame(&last, &json!(finish_reason(answer))));
    if answer.manner.tokens == Tokens::AsAsked && request.wants_usage() {
        let mut chunk = writer.chunk(&[]);
        chunk["usage"] = usage(answer.counts());
        frames.push(Frame::data(&chunk.to_string()));
    }
    if answer.manner.framing != Framing::WithoutDone {
        frames.push(Frame::data("[DONE]"));
    }
    frames
}

fn whole(answer: &Answer, request: &Request) -> Value {
    let text = |wanted: fn(&Block) -> Option<&str>| -> Option<String> {
        let texts: Vec<String> = answer
            .blocks
            .iter()
            .filter_map(wanted)
            .map(|text| filled(text, request))
            .collect();
        (!texts.is_empty()).then(|| texts.concat())
    };
    let mut message = json!({"role": "assistant", "content": text(text_of)});
    if let Some(thinking) = text(thinking_of) {
        for field in fields(answer.manner.reasoning) {
            message[*field] = json!(thinking);
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

fn error(failure: &Failure) -> Value {
    json!({"error": {"message": failure.message, "type": failure.kind, "param": null, "code": failure.code}})
}

fn error_frame(failure: &Failure) -> Frame {
    Frame::data(&error(failure).to_string())
}

/// Returns the response to a request for the list of models.
pub(super) fn models(names: &[String]) -> Value {
    let model = |name| json!({"id": name, "object": "model", "created": CREATED, "owned_by": "the testkit"});
    json!({"object": "list", "data": names.iter().map(model).collect::<Vec<_>>()})
}

/// Writer of the chunks of one answer.
struct Writer<'a> {
    id: String,
    model: &'a str,
    usage: Usage,
    tokens: Tokens,
    wants_usage: bool,
}

impl<'a> Writer<'a> {
    fn new(answer: &Answer, request: &'a Request) -> Self {
        Self {
            id: ids::fresh("chatcmpl-"),
            model: request.model(),
            usage: answer.counts(),
            tokens: answer.manner.tokens,
            wants_usage: request.wants_usage(),
        }
    }

    fn frame(&self, delta: &Value, finish_reason: &Value) -> Frame {
        let choice =
            json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason});
        let mut chunk = self.chunk(&[choice]);
        let is_last = !finish_reason.is_null();
        match self.tokens {
            Tokens::InEveryChunk => {
                let output = if is_last { self.usage.output } else { 1 };
                let reasoning = if is_last { self.usage.reasoning } else { 0 };
                chunk["usage"] = usage(Usage {
                    output,
                    reasoning,
                    ..self.usage
                });
            }
            Tokens::InTheLastChoice if is_last => chunk["usage"] = usage(self.usage),
            Tokens::AsAsked if self.wants_usage => chunk["usage"] = Value::Null,
            _ => {}
        }
        Frame::data(&chunk.to_string())
    }

    fn chunk(&self, choices: &[Value]) -> Value {
        json!({"id": self.id, "object": "chat.completion.chunk", "created": CREATED, "model": self.model,
            "system_fingerprint": null, "choices": choices})
    }
}

/// Returns the deltas of text and thinking, in order.
fn deltas(answer: &Answer, request: &Request) -> Vec<Value> {
    let mut deltas = Vec::new();
    for block in &answer.blocks {
        match block {
            Block::Text {
                text,
                deltas: count,
            } => {
                deltas.extend(
                    cut(&filled(text, request), *count)
                        .iter()
                        .map(|piece| json!({"content": piece})),
                );
            }
            Block::Thinking {
                thinking,
                deltas: count,
            } => {
                for piece in cut(&filled(thinking, request), *count) {
                    let fields = fields(answer.manner.reasoning).iter();
                    deltas.push(
                        fields
                            .map(|field| ((*field).to_owned(), json!(piece)))
                            .collect(),
                    );
                }
            }
            Block::ToolUse { .. } => {}
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

fn text_of(block: &Block) -> Option<&str> {
    match block {
        Block::Text { text, .. } => Some(text),
        _ => None,
    }
}

fn thinking_of(block: &Block) -> Option<&str> {
    match block {
        Block::Thinking { thinking, .. } => Some(thinking),
        _ => None,
    }
}

fn fields(reasoning: Reasoning) -> &'static [&'static str] {
    match reasoning {
        Reasoning::Content => &["reasoning_content"],
        Reasoning::Plain => &["reasoning"],
        Reasoning::Both => &["reasoning_content", "reasoning"],
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
    let prompt = usage.input + usage.cache_read + usage.cache_creation;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
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
