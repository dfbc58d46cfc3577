//! Wire format of Google's Gemini API: a stream of responses, one response, or an error body.

use serde_json::{Value, json};

use super::answer::{Answer, Block, Failure, Usage};
use super::ids;
use super::request::Request;
use super::wire::{Frame, Wire, cut};

pub(super) const WIRE: Wire = Wire {
    stream,
    whole,
    error,
    error_frame: |failure| Frame::data(error(failure)),
};

fn stream(answer: &Answer, request: &Request) -> Vec<Frame> {
    let id = ids::fresh("");
    let parts = parts(answer, request).into_iter();
    let frame = |part| Frame::data(response(&id, request, &[part])).delta();
    // The last part is empty, as the provider sends it after thinking or a call.
    let last = ended(response(&id, request, &[json!({"text": ""})]), answer);
    parts.map(frame).chain([Frame::data(last)]).collect()
}

fn whole(answer: &Answer, request: &Request) -> Value {
    let response = response(&ids::fresh(""), request, &parts(answer, request));
    ended(response, answer)
}

fn error(failure: &Failure) -> Value {
    let mut error =
        json!({"code": failure.status, "message": failure.message, "status": failure.kind});
    if let Some(code) = &failure.code {
        let info = "type.googleapis.com/google.rpc.ErrorInfo";
        error["details"] = json!([{"@type": info, "reason": code, "domain": "googleapis.com"}]);
    }
    json!({"error": error})
}

/// Returns the response to a request for a token count.
pub(super) fn token_count() -> Value {
    json!({"totalTokens": Usage::default().input})
}

/// Returns the response to a request for embeddings: a meaningless vector for each content.
pub(super) fn embeddings(request: &Request) -> Value {
    let vector = json!({"values": [0.0, 1.0]});
    let count = request.body["requests"].as_array().map_or(1, Vec::len);
    json!({"embedding": vector, "embeddings": vec![vector; count]})
}

fn response(id: &str, request: &Request, parts: &[Value]) -> Value {
    let candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
    json!({"responseId": id, "modelVersion": request.model(), "candidates": [candidate]})
}

/// Adds the finish reason and the token counts.
fn ended(mut response: Value, answer: &Answer) -> Value {
    response["candidates"][0]["finishReason"] = json!(finish_reason(answer));
    response["usageMetadata"] = usage(answer.counts());
    response
}

/// Renders the parts of the answer, each as one delta. This provider sends a call as a whole.
fn parts(answer: &Answer, request: &Request) -> Vec<Value> {
    let parts = |block: &Block| {
        let pieces = cut(&block.text(request), block.deltas()).into_iter();
        match block {
            Block::Text { .. } => pieces.map(|piece| json!({"text": piece})).collect(),
            Block::Thinking { .. } => pieces
                .map(|piece| json!({"text": piece, "thought": true}))
                .collect(),
            // Without an id, like the real service.
            Block::ToolUse { name, input } => vec![json!({
                "functionCall": {"name": name, "args": input}, "thoughtSignature": "c2lnbmVk",
            })],
        }
    };
    answer.blocks.iter().flat_map(parts).collect()
}

/// Translates the script's stop reasons to this provider's, which has none for a call. Others are
/// sent as is.
fn finish_reason(answer: &Answer) -> &str {
    match answer.effective_stop_reason() {
        "end_turn" | "tool_use" => "STOP",
        "max_tokens" => "MAX_TOKENS",
        "refusal" => "SAFETY",
        other => other,
    }
}

/// Renders token counts. The prompt's include the cache, but the output's do not include thinking.
fn usage(usage: Usage) -> Value {
    json!({
        "promptTokenCount": usage.prompt(),
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output.saturating_sub(usage.reasoning),
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.prompt() + usage.output,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Answer, Request, error, stream, whole};

    fn request() -> Request {
        Request {
            method: "POST".to_owned(),
            path: "/v1beta/models/gemini-x:streamGenerateContent?alt=sse".to_owned(),
            headers: Vec::new(),
            body: json!({"contents": [{"role": "user", "parts": [
                {"functionResponse": {"id": "c", "name": "read", "response": {"output": "42"}}}]}]}),
        }
    }

    fn responses(answer: &Answer) -> Vec<Value> {
        let frames = stream(answer, &request());
        let data = frames
            .iter()
            .map(|frame| frame.text.strip_prefix("data: ").unwrap().trim_end());
        data.map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }

    #[test]
    fn a_stream_has_every_part_in_order_and_ends_with_the_reason_and_the_tokens() {
        let answer = Answer::thinking("hm")
            .and_text("Got {tool_result}!")
            .deltas(3)
            .and_tool("read", json!({"x": 1}));
        let responses = responses(&answer);
        let parts: Vec<&Value> = responses
            .iter()
            .map(|one| &one["candidates"][0]["content"]["parts"][0])
            .collect();
        assert_eq!(parts[0], &json!({"text": "hm", "thought": true}));
        let text: String = parts[1..4]
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect();
        assert_eq!((text.as_str(), responses.len()), ("Got 42!", 6));
        assert_eq!(parts[4]["functionCall"]["args"], json!({"x": 1}));
        assert!(
            responses[..5]
                .iter()
                .all(|one| one["candidates"][0].get("finishReason").is_none())
        );
        assert_eq!(responses[5]["candidates"][0]["finishReason"], "STOP");
        let expected = json!({"promptTokenCount": 118, "cachedContentTokenCount": 11, "candidatesTokenCount": 21,
            "thoughtsTokenCount": 4, "totalTokenCount": 143});
        assert_eq!(responses[5]["usageMetadata"], expected);
        assert!(
            responses
                .iter()
                .all(|one| one["modelVersion"] == "gemini-x")
        );
    }

    #[test]
    fn a_whole_response_has_the_same_content() {
        let answer = Answer::text("a")
            .and_tool("read", json!({}))
            .stop_reason("max_tokens");
        let whole = whole(&answer, &request());
        let candidate = &whole["candidates"][0];
        assert_eq!(candidate["content"]["parts"].as_array().unwrap().len(), 2);
        assert_eq!(
            (
                &candidate["finishReason"],
                &whole["usageMetadata"]["totalTokenCount"]
            ),
            (&json!("MAX_TOKENS"), &json!(143))
        );
    }

    #[test]
    fn an_error_has_a_code_a_status_and_a_reason() {
        let failure = Answer::error(400, "INVALID_ARGUMENT", "API key not valid.")
            .code("API_KEY_INVALID")
            .error
            .unwrap();
        let error = &error(&failure)["error"];
        assert_eq!(
            (&error["code"], &error["status"]),
            (&json!(400), &json!("INVALID_ARGUMENT"))
        );
        assert_eq!(error["details"][0]["reason"], "API_KEY_INVALID");
    }
}
